/* Fault plans: "function:nth:code[!],...". */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "sim/fake_devices/cuda/fake_internal.h"

static const char *const kernel_names[ORR__K_COUNT] = {
#define KERNEL_NAME(family, kernel, type) #kernel,
    ORR__CUDA_KERNEL_LIST(KERNEL_NAME)
#undef KERNEL_NAME
};

static bool is_word(const char *text, size_t length, const char *word) {
    return strlen(word) == length && strncmp(text, word, length) == 0;
}

static bool find(const char *text, size_t length, uint32_t *out_function) {
    for (uint32_t i = 0; i < ORR__FAKE_FUNCTION_COUNT + ORR__K_COUNT; i++) {
        bool found = i < ORR__FAKE_FUNCTION_COUNT
                         ? is_word(text, length, orr__fake_function_text(i)) ||
                               is_word(text, length, orr__fake_function_symbol(i))
                         : is_word(text, length, kernel_names[i - ORR__FAKE_FUNCTION_COUNT]);
        if (found) {
            *out_function = i;
            return true;
        }
    }
    return false;
}

/* A number from 1 on; moves *text behind it. */
static bool take_number(const char **text, uint64_t *out_number) {
    if (!isdigit((unsigned char)**text)) {
        return false;
    }
    char *end;
    *out_number = strtoull(*text, &end, 10);
    *text = end;
    return *out_number > 0 && *out_number <= INT32_MAX;
}

static enum orr_status parse_one(const char **text, struct orr__fake_fault *fault,
                                 struct orr_error *error) {
    const char *begin = *text;
    size_t length = strcspn(begin, ":,");
    uint64_t code = 0;
    *fault = (struct orr__fake_fault){0};
    if (!find(begin, length, &fault->function)) {
        return orr_error_set(error, ORR_INVALID, "fault plan: no function or kernel '%.*s'",
                             (int)length, begin);
    }
    *text = begin + length;
    bool good = *(*text)++ == ':' && take_number(text, &fault->nth) && *(*text)++ == ':' &&
                take_number(text, &code);
    if (!good || strchr("!,", **text) == NULL) {
        return orr_error_set(error, ORR_INVALID,
                             "fault plan: expected function:nth:code[!], nth and code from 1, at "
                             "'%s'",
                             begin);
    }
    fault->code = (int)code;
    fault->sticky = **text == '!';
    *text += fault->sticky;
    return ORR_OK;
}

enum orr_status orr__fake_faults_parse(const char *text, struct orr__fake_fault *out_faults,
                                       uint32_t *out_count, struct orr_error *error) {
    *out_count = 0;
    while (text && *text) {
        if (*out_count == ORR__FAKE_FAULTS_MAX) {
            return orr_error_set(error, ORR_INVALID, "fault plan: more than %d faults",
                                 ORR__FAKE_FAULTS_MAX);
        }
        enum orr_status status = parse_one(&text, &out_faults[*out_count], error);
        if (status != ORR_OK) {
            return status;
        }
        ++*out_count;
        if (*text == ',') {
            text++;
        } else if (*text) {
            return orr_error_set(error, ORR_INVALID, "fault plan: expected ',' at '%s'", text);
        }
    }
    return ORR_OK;
}
