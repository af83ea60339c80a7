/* An observer that writes down what it is told, a line a call, for tests to compare.
 *
 *     struct told told;
 *     told_init(&told);
 *     config.observer = &told.observer;
 *     ...
 *     assert_string_equal(told.text, "stream 0 compute of device 0\n...");
 *     told_free(&told);
 *
 * Lines:
 *     host 0 'host'
 *     stream 0 'compute' device 0 nb
 *     buffer 1 'a' at 0:0+256 cmd 1 stream 0 host 0 after 1:3
 *     free 1 cmd 9 host 0
 *     record_stream 1 stream 1
 *     kernel 3 'k' host 0 stream 0:1 r1[0:16] w2[0:16] waits 1:2 comm 0 rank 1 seq 0 of 2 broadcast
 *     observed host 0 0:3 1:2
 *     posted host 0 message 1
 *     taken host 1 message 1
 *
 * Threads: one. */
#ifndef ORR_TESTS_TOLD_H
#define ORR_TESTS_TOLD_H

#include "runtime/observer.h"

struct told {
    struct orr_observer observer;
    char *text;
    size_t length, capacity;
    size_t begin; /* of what told_new looks at */
};

void told_init(struct told *told);
void told_free(struct told *told);
/* What was told since the last call, or since the beginning. Borrowed until something is told. */
const char *told_new(struct told *told);

#endif
