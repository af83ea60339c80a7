/* Status codes: what a fallible function of Orrery returns.
 *
 * A code exists only if a caller would act differently on it; everything else belongs in the text
 * of struct orr_error. Three kinds of failure are never mixed: a programmer's error is an assert,
 * an operating error is a status, and a device error is a status on the point of the command, a
 * record, and poison for whoever waits for it.
 *
 * Threads: pure functions, callable from any thread. */
#ifndef ORR_RUNTIME_STATUS_H
#define ORR_RUNTIME_STATUS_H

/* X(name, text) */
#define ORR_STATUS_LIST(X)                                                                         \
    X(OK, "ok")                                                                                    \
    X(NOT_READY, "not ready yet")                                                                  \
    X(FULL, "the stream's launch queue is full")                                                   \
    X(BLOCKED, "another host has to run first")                                                    \
    X(INVALID, "invalid input")                                                                    \
    X(NO_MEMORY, "out of host memory")                                                             \
    X(DEVICE_MEMORY, "out of device memory")                                                       \
    X(DEVICE_FAILED, "a device operation failed")                                                  \
    X(IO, "input or output failed")                                                                \
    X(UNSUPPORTED, "not supported")                                                                \
    X(UNAVAILABLE, "target unavailable")

enum orr_status {
#define ORR_STATUS_ENUM(name, text) ORR_##name,
    ORR_STATUS_LIST(ORR_STATUS_ENUM)
#undef ORR_STATUS_ENUM
        ORR_STATUS_COUNT
};

#define ORR_MUST_CHECK __attribute__((warn_unused_result))

/* A short text for a status ("out of device memory"); never NULL, static storage. */
const char *orr_status_text(enum orr_status status);

#endif
