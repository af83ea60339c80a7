/* The reader's inside: where in a line it is, and the operation that it gathers.
 *
 *     line { id, program {               places: LINE, PROGRAM
 *         streams { s0 { dev, kind } }           STREAMS, STREAM
 *         buffers { A: kind }                    BUFFERS
 *         comms { c [rank, ...] }                COMMS, RANKS
 *         ops [ { op, stream, ...                OPS, OP
 *                 reads [..], writes [..]        READS, WRITES
 *                 devs [..], body [[..]] } ]     DEVS, BODY, STEP
 *     } }
 *
 * A field may stand before what decides its meaning (`op` last in an operation, `streams` behind
 * `ops`), so an operation's fields are gathered as texts and interned when it ends, and what needs
 * the whole program is judged when that ends. Threads: as the reader. */
#ifndef ORR_HAZARDS_STREAM_PROGRAM_READ_INTERNAL_H
#define ORR_HAZARDS_STREAM_PROGRAM_READ_INTERNAL_H

#include "hazards/json_events.h"
#include "hazards/stream_op_fields.h"
#include "hazards/stream_program_read.h"
#include "hazards/stream_program_rules.h"

enum orr__place {
    ORR__AT_LINE,
    ORR__AT_PROGRAM,
    ORR__AT_STREAMS,
    ORR__AT_STREAM,
    ORR__AT_BUFFERS,
    ORR__AT_COMMS,
    ORR__AT_RANKS,
    ORR__AT_OPS,
    ORR__AT_OP,
    ORR__AT_READS,
    ORR__AT_WRITES,
    ORR__AT_DEVS,
    ORR__AT_BODY,
    ORR__AT_STEP
};
enum { ORR__PLACES_MAX = 8, ORR__STEP_WORDS = 2 };

/* Fields of one operation as they were read. */
struct orr__gathered_op {
    uint32_t seen, wrong;      /* bits of fields: with a value; with one of a wrong type */
    size_t texts[ORR__FIELDS]; /* where in `text`; numbers and ranks in canonical form */
    struct orr__builder text;
    uint32_t device;
    bool is_ignored;
    struct orr_stream_access *accesses[2]; /* reads, writes */
    size_t *bounds[2]; /* two for each access: where in `text` a bound beyond 64 bits is, or 0 */
    uint32_t *devices;
    struct orr_stream_step *steps;
    size_t access_capacity[2], bound_capacity[2], device_capacity, step_capacity;
    uint32_t access_count[2], device_count, step_count;
    uint32_t wrong_item; /* first malformed item of reads or writes ... */
    size_t wrong_text;   /* ... in `text` */
    uint32_t step_words; /* of the step at hand */
    size_t step_texts[ORR__STEP_WORDS];
    bool has_unknown_step;
    size_t unknown_step; /* in `text` */
};

/* Bounds of ranges beyond 64 bits, as texts, and where they stand. */
struct orr__bound_use {
    uint32_t access, text; /* number of an access; number in `texts` */
    bool is_hi;
};

struct orr__bounds {
    struct orr__name_table texts;
    struct orr__bound_use *uses;
    size_t capacity;
    uint32_t count;
};

struct orr_stream_program_reader {
    const struct orr_memory *memory;
    struct orr__json json;
    enum orr__place places[ORR__PLACES_MAX];
    uint32_t place_count; /* 0: before the document */
    size_t skipped;       /* open maps and arrays in a value that nobody reads */
    bool has_text;
    bool failed;                 /* out of memory */
    struct orr_error error;      /* of values, the first */
    struct orr_error json_error; /* of the line as JSON */
    struct orr_stream_program_line line;
    int field;                     /* of the map at hand: a field's number, -1: none that we know */
    uint32_t name;                 /* of the map at hand: a name's number */
    struct orr_stream_info stream; /* gathered, and which of its fields: 1 dev, 2 kind */
    unsigned stream_seen;
    uint32_t stream_name;
    uint32_t *ranks;
    size_t rank_capacity;
    uint32_t rank_count, comm_name;
    struct orr__gathered_op op;
    struct orr__program_facts facts;
    struct orr__declared buffers;
    uint32_t buffer_lists; /* how often `buffers` was given */
    struct orr__bounds bounds;
};

/* Sets the reader's error unless it has one; false: out of memory (never from here). */
void orr__reader_wrong(struct orr_stream_program_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Opens `place` for a value of that kind; null is as good as absent; else says what is wrong. */
void orr__reader_expect(struct orr_stream_program_reader *reader,
                        const struct orr__json_value *value, enum orr__json_kind kind,
                        enum orr__place place, const char *what);
/* The index of a text in a list that NULL ends, -1: it is not there. */
int orr__reader_find_word(const char *const *words, const char *text);

/* A key, a value, the end of a map or array in the program's places, which are those from PROGRAM
 * to RANKS. False: out of memory. */
bool orr__reader_program_key(struct orr_stream_program_reader *reader, enum orr__place place,
                             const char *text);
bool orr__reader_program_value(struct orr_stream_program_reader *reader, enum orr__place place,
                               const struct orr__json_value *value);
bool orr__reader_program_end(struct orr_stream_program_reader *reader, enum orr__place place);

/* An operation begins; a value of it; it is complete. False: out of memory. */
void orr__reader_op_begin(struct orr_stream_program_reader *reader);
bool orr__reader_op_field(struct orr_stream_program_reader *reader,
                          const struct orr__json_value *value);
bool orr__reader_op_end(struct orr_stream_program_reader *reader);
/* A value in an operation's array; the end of a step. */
bool orr__reader_op_access(struct orr_stream_program_reader *reader, bool is_write,
                           const struct orr__json_value *value);
bool orr__reader_op_device(struct orr_stream_program_reader *reader,
                           const struct orr__json_value *value);
bool orr__reader_op_word(struct orr_stream_program_reader *reader,
                         const struct orr__json_value *value);
bool orr__reader_op_step(struct orr_stream_program_reader *reader);
void orr__reader_op_clear(struct orr_stream_program_reader *reader);

/* The bound `text` of access `access` of the program. False: out of memory. */
bool orr__reader_bounds_add(struct orr_stream_program_reader *reader, uint32_t access, bool is_hi,
                            const char *text);
/* The program's operations are given anew, or are those of another program. */
void orr__reader_bounds_forget(struct orr_stream_program_reader *reader);
/* Gives bounds beyond 64 bits numbers that compare like them. */
enum orr_status orr__reader_bounds_resolve(struct orr_stream_program_reader *reader) ORR_MUST_CHECK;
void orr__reader_bounds_clear(struct orr_stream_program_reader *reader);

/* Where the value at hand goes: opens a map or array, or passes over it. */
void orr__reader_open(struct orr_stream_program_reader *reader, enum orr__place place);

/* A JSON number as an integer from 0 to max; false if it is none, or without memory (then the
 * reader has failed). */
bool orr__reader_integer(struct orr_stream_program_reader *reader, const char *text, uint64_t max,
                         uint64_t *out_value);

#endif
