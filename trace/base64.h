/* Internal to trace/: bytes as text, RFC 4648 with padding.
 *
 * Threads: pure functions. */
#ifndef ORR_TRACE_BASE64_H
#define ORR_TRACE_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* The text of `size` bytes: 4 characters for each 3, padded. Not terminated; returns the length. */
size_t orr__base64_encode(const unsigned char *bytes, size_t size, char *out_text);

/* The bytes of a text: 3 for each 4 characters at most. False for what is no such text. */
bool orr__base64_decode(const char *text, size_t length, unsigned char *out_bytes,
                        size_t *out_size);

#endif
