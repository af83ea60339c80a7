/* The formatter and the output behind it: numbers, texts, files that appear when they are whole. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <locale.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/trace_support.h"
#include "trace/json_writer.h"

/* What was written, as a text. */
struct written {
    char folder[PATH_MAX], path[PATH_MAX];
    struct orr_memory memory;
    struct orr_output *output;
    struct orr_json_writer writer;
    char buffer[ORR_JSON_BUFFER_MIN];
    char text[1 << 16];
};

static struct written state;

static struct orr_json_writer *begin(void) {
    struct orr_error error = {0};
    state.memory = orr_memory_system();
    trace_folder_create(state.folder);
    trace_path(state.path, state.folder, "out.json");
    assert_int_equal(orr_output_create(state.path, &state.memory, &state.output, &error), ORR_OK);
    orr_json_start(&state.writer, state.output, state.buffer, sizeof state.buffer);
    return &state.writer;
}

static const char *end(void) {
    struct orr_error error = {0};
    size_t size;
    uint64_t written = orr_json_size(&state.writer);
    orr_json_flush(&state.writer);
    assert_int_equal(orr_output_finish(&state.output, &error), ORR_OK);
    unsigned char *bytes = trace_read_file(state.path, &size);
    assert_true(size < sizeof state.text && size == written);
    memcpy(state.text, bytes, size);
    state.text[size] = '\0';
    free(bytes);
    trace_folder_remove(state.folder);
    return state.text;
}

static const char *text_of(const char *text) {
    orr_json_text(begin(), text);
    return end();
}

static const char *double_of(double value) {
    orr_json_double(begin(), value);
    return end();
}

static void times_have_three_decimals_always(void **unused) {
    static const struct {
        int64_t ns;
        const char *text;
    } cases[] = {{0, "0.000"},
                 {1, "0.001"},
                 {999, "0.999"},
                 {1000, "1.000"},
                 {26007, "26.007"},
                 {1000000, "1000.000"},
                 {(INT64_C(1) << 52) - 1, "4503599627370.495"}};
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];
        *orr_json_put_time(text, cases[i].ns) = '\0';
        assert_string_equal(text, cases[i].text);
    }
}

static void integers_are_what_printf_prints(void **unused) {
    uint64_t random = trace_seed() * 2 + 1;
    (void)unused;
    for (int i = 0; i < 20000; i++) {
        uint64_t value = trace_random(&random) >> (i % 64);
        char text[48], expected[64];
        *orr_json_put_u64(text, value) = '\0';
        snprintf(expected, sizeof expected, "%" PRIu64, value);
        assert_string_equal(text, expected);
        value &= (UINT64_C(1) << 62) - 1;
        *orr_json_put_time(text, (int64_t)value) = '\0';
        snprintf(expected, sizeof expected, "%" PRIu64 ".%03" PRIu64, value / 1000, value % 1000);
        assert_string_equal(text, expected);
    }
}

static void integers_beyond_int64_are_texts(void **unused) {
    (void)unused;
    orr_json_u64(begin(), INT64_MAX);
    assert_string_equal(end(), "9223372036854775807");
    orr_json_u64(begin(), (uint64_t)INT64_MAX + 1);
    assert_string_equal(end(), "\"9223372036854775808\"");
    orr_json_u64(begin(), UINT64_MAX);
    assert_string_equal(end(), "\"18446744073709551615\"");
    orr_json_i64(begin(), INT64_MIN);
    assert_string_equal(end(), "-9223372036854775808");
}

static void doubles_are_integers_or_have_sixteen_decimals(void **unused) {
    (void)unused;
    assert_string_equal(double_of(0.0), "0");
    assert_string_equal(double_of(-0.0), "0");
    assert_string_equal(double_of(-3), "-3");
    assert_string_equal(double_of(9007199254740991.0), "9007199254740991");
    assert_string_equal(double_of(9007199254740992.0), "9.0071992547409920e+15");
    assert_string_equal(double_of(1.5), "1.5000000000000000e+00");
    assert_string_equal(double_of(0.00012345678901234567), "1.2345678901234567e-04");
    assert_string_equal(double_of(-1e300), "-1.0000000000000001e+300");
    assert_string_equal(double_of(5e-324), "4.9406564584124654e-324");
}

static void doubles_read_back_as_themselves(void **unused) {
    uint64_t random = trace_seed() * 2 + 1;
    (void)unused;
    orr_json_text(begin(), "");
    for (int i = 0; i < 1000; i++) {
        uint64_t bits = trace_random(&random);
        double value;
        memcpy(&value, &bits, sizeof value);
        orr_json_double(&state.writer, value - value == 0 ? value : 1);
        ORR_JSON_LITERAL(&state.writer, " ");
    }
    const char *at = end();
    random = trace_seed() * 2 + 1;
    for (int i = 0; i < 1000; i++) {
        uint64_t bits = trace_random(&random);
        double value;
        char *after;
        memcpy(&value, &bits, sizeof value);
        value = value - value == 0 ? value : 1;
        double back = strtod(at, &after);
        assert_true(memcmp(&back, &value, sizeof value) == 0);
        at = after + 1;
    }
}

static void the_locale_does_not_change_numbers(void **unused) {
    static const char *const commas[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "C.UTF-8"};
    (void)unused;
    bool comma = false;
    for (size_t i = 0; i < sizeof commas / sizeof *commas && !comma; i++) {
        comma = setlocale(LC_NUMERIC, commas[i]) && localeconv()->decimal_point[0] == ',';
    }
    const char *text = double_of(1.5);
    setlocale(LC_NUMERIC, "C");
    assert_string_equal(text, "1.5000000000000000e+00");
    if (!comma) {
        print_message("skip: no locale with a decimal comma is installed\n");
        skip();
    }
}

static void texts_escape_only_what_json_demands(void **unused) {
    (void)unused;
    assert_string_equal(text_of("plain text, / and \x7f"), "plain text, / and \x7f");
    assert_string_equal(text_of("say \"hi\" \\ there"), "say \\\"hi\\\" \\\\ there");
    assert_string_equal(text_of("\x01\t\n\x1f"), "\\u0001\\u0009\\u000a\\u001f");
    assert_string_equal(text_of("h\xc3\xa9 \xe2\x86\x92 \xf0\x9f\x94\xa5"),
                        "h\xc3\xa9 \xe2\x86\x92 \xf0\x9f\x94\xa5");
}

static void what_is_not_utf8_becomes_the_replacement_character(void **unused) {
#define FFFD "\xef\xbf\xbd"
    (void)unused;
    assert_string_equal(text_of("a\xff\xfe z"), "a" FFFD FFFD " z");
    assert_string_equal(text_of("cut \xe2\x82"), "cut " FFFD);
    assert_string_equal(text_of("cut \xf0\x9f\x94."), "cut " FFFD ".");
    assert_string_equal(text_of("\xed\xa0\x80"), FFFD FFFD FFFD); /* a surrogate */
    assert_string_equal(text_of("\xc0\x80"), FFFD FFFD);          /* U+0000, too long */
    assert_string_equal(text_of("\xf4\x90\x80\x80"), FFFD FFFD FFFD FFFD);
    assert_string_equal(text_of("\xf4\x8f\xbf\xbf"), "\xf4\x8f\xbf\xbf");
    assert_string_equal(text_of("\xe2\x82\"\xac"), FFFD "\\\"" FFFD);
}

/* A slow and simple reading of the same rules. */
static void append_expected(char *out, const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    while (*at) {
        static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
        unsigned length = *at < 0x80 ? 1 : *at >= 0xf0 ? 4 : *at >= 0xe0 ? 3 : 2, good = 1;
        uint32_t code = length == 1 ? *at : *at & (0x7fu >> length);
        bool valid = *at < 0x80 || (*at >= 0xc2 && *at <= 0xf4);
        while (valid && good < length && (at[good] & 0xc0) == 0x80) {
            /* The part so far must be the start of some valid sequence. */
            uint32_t next = code << 6 | (at[good] & 0x3fu);
            uint32_t low = next << 6 * (length - good - 1);
            uint32_t high = low | ((1u << 6 * (length - good - 1)) - 1);
            if (high < least[length] || low > 0x10ffff || (low >= 0xd800 && high <= 0xdfff)) {
                break;
            }
            code = next;
            good++;
        }
        if (*at == '"' || *at == '\\') {
            out += sprintf(out, "\\%c", *at);
        } else if (*at < 0x20) {
            out += sprintf(out, "\\u%04x", *at);
        } else if (good == length && valid) {
            out += sprintf(out, "%.*s", (int)length, (const char *)at);
        } else {
            out += sprintf(out, FFFD);
        }
        at += good;
    }
    *out = '\0';
}

static void random_bytes_come_out_as_a_simple_reading_says(void **unused) {
    uint64_t random = trace_seed() * 2 + 1;
    (void)unused;
    static const unsigned char frequent[] = {0xed, 0xa0, 0x80, 0xe2, 0x82, 0xac, 0xf0, 0x9f,
                                             0x94, 0xf4, 0x8f, 0xc3, 0xbf, '"',  '\\', '\n'};
    for (int i = 0; i < 3000; i++) {
        char text[40] = "", expected[400];
        size_t length = trace_random(&random) % sizeof text;
        for (size_t j = 0; j + 1 < length; j++) {
            uint64_t bits = trace_random(&random);
            text[j] = (char)(bits % 3 == 0   ? frequent[bits / 3 % sizeof frequent]
                             : bits % 3 == 1 ? 1 + bits / 3 % 255
                                             : 'a' + bits / 3 % 26);
        }
        append_expected(expected, text);
        assert_string_equal(text_of(text), expected);
    }
}

static void texts_compare_as_they_are_written(void **unused) {
    (void)unused;
    assert_int_equal(orr_json_text_compare("", ""), 0);
    assert_int_equal(orr_json_text_compare("a\xff", "a\xfe"), 0);
    assert_int_equal(orr_json_text_compare("a\xff", "a" FFFD), 0);
    assert_true(orr_json_text_compare("a", "b") < 0);
    assert_true(orr_json_text_compare("ab", "a") > 0);
    assert_true(orr_json_text_compare("", "a") < 0);
    assert_true(orr_json_text_compare("\xc3\xa9", "z") > 0);
    assert_true(orr_json_text_compare("\xff", "") > 0);
}

static void long_texts_pass_through_a_small_buffer(void **unused) {
    char text[5000];
    (void)unused;
    for (size_t i = 0; i + 1 < sizeof text; i++) {
        text[i] = (char)('a' + i % 26);
    }
    text[sizeof text - 1] = '\0';
    orr_json_text(begin(), text);
    for (int i = 0; i < 500; i++) {
        orr_json_u64(&state.writer, 12345678);
    }
    const char *written = end();
    assert_int_equal(strlen(written), 4999 + 500 * 8);
    assert_memory_equal(written, text, 4999);
    assert_string_equal(written + 4999 + 499 * 8, "12345678");
}

/* ---------------------------------------------------------------------------------------------- */
/* Output */

static size_t count_files(const char *folder) {
    DIR *directory = opendir(folder);
    size_t count = 0;
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));) {
        count += entry->d_name[0] != '.';
    }
    closedir(directory);
    return count;
}

static enum orr_status write_text(const char *path, const char *text, struct orr_error *error) {
    struct orr_memory memory = orr_memory_system();
    struct orr_output *output;
    enum orr_status status = orr_output_create(path, &memory, &output, error);
    if (status != ORR_OK) {
        return status;
    }
    orr_output_write(output, text, strlen(text));
    return orr_output_finish(&output, error);
}

static void assert_file(const char *path, const char *text) {
    size_t size;
    unsigned char *bytes = trace_read_file(path, &size);
    assert_int_equal(size, strlen(text));
    assert_memory_equal(bytes, text, size);
    free(bytes);
}

static void a_file_appears_when_it_is_whole(void **unused) {
    char folder[PATH_MAX], path[PATH_MAX];
    struct orr_memory memory = orr_memory_system();
    struct orr_output *output;
    struct orr_error error = {0};
    (void)unused;
    trace_folder_create(folder);
    trace_path(path, folder, "a.json");
    assert_int_equal(write_text(path, "first", &error), ORR_OK);
    assert_int_equal(orr_output_create(path, &memory, &output, &error), ORR_OK);
    orr_output_write(output, "second", 6);
    assert_file(path, "first");
    assert_int_equal(orr_output_finish(&output, &error), ORR_OK);
    assert_null(output);
    assert_file(path, "second");
    assert_int_equal(count_files(folder), 1);
    assert_int_equal(orr_output_create(path, &memory, &output, &error), ORR_OK);
    orr_output_write(output, "third", 5);
    orr_output_discard(&output);
    assert_null(output);
    assert_file(path, "second");
    assert_int_equal(count_files(folder), 1);
    trace_folder_remove(folder);
}

static void a_file_left_by_a_killed_run_is_not_in_the_way(void **unused) {
    char folder[PATH_MAX], path[PATH_MAX], part[PATH_MAX];
    struct orr_error error = {0};
    (void)unused;
    trace_folder_create(folder);
    trace_path(path, folder, "a.json");
    trace_write_file(trace_path(part, folder, "a.json.part"), "left", 4);
    assert_int_equal(write_text(path, "whole", &error), ORR_OK);
    assert_file(path, "whole");
    assert_file(part, "left");
    assert_int_equal(count_files(folder), 2);
    trace_folder_remove(folder);
}

static void a_symbolic_link_is_followed_and_stays(void **unused) {
    char folder[PATH_MAX], path[PATH_MAX], link[PATH_MAX];
    struct stat status;
    struct orr_error error = {0};
    (void)unused;
    trace_folder_create(folder);
    trace_write_file(trace_path(path, folder, "real.json"), "old", 3);
    assert_int_equal(symlink("real.json", trace_path(link, folder, "link.json")), 0);
    assert_int_equal(write_text(link, "new", &error), ORR_OK);
    assert_file(path, "new");
    assert_int_equal(lstat(link, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    trace_folder_remove(folder);
}

static void what_is_no_file_is_written_not_replaced(void **unused) {
    struct stat status;
    struct orr_error error = {0};
    (void)unused;
    assert_int_equal(write_text("/dev/null", "gone", &error), ORR_OK);
    assert_int_equal(stat("/dev/null", &status), 0);
    assert_true(S_ISCHR(status.st_mode));
    if (stat("/dev/full", &status) != 0) {
        print_message("skip: no /dev/full\n");
        skip();
    }
    assert_int_equal(write_text("/dev/full", "no room", &error), ORR_IO);
    assert_string_equal(error.text, "/dev/full: can't write: No space left on device");
}

static void failures_name_the_path_and_the_reason(void **unused) {
    char folder[PATH_MAX], path[PATH_MAX], expected[2 * PATH_MAX];
    struct orr_error error = {0};
    (void)unused;
    trace_folder_create(folder);
    assert_int_equal(write_text(folder, "x", &error), ORR_IO);
    snprintf(expected, sizeof expected, "%s: can't write: Is a directory", folder);
    assert_string_equal(error.text, expected);
    orr_error_clear(&error);
    assert_int_equal(write_text(trace_path(path, folder, "no/such.json"), "x", &error), ORR_IO);
    snprintf(expected, sizeof expected, "%s: can't write: No such file or directory", path);
    assert_string_equal(error.text, expected);
    orr_error_clear(&error);
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_int_equal(write_text(path, "x", &error), ORR_IO);
    assert_int_equal(count_files(folder), 0);
    trace_folder_remove(folder);
}

/* In a process of its own, because the limit can't be lifted again. */
static int write_beyond_the_limit(const char *path) {
    struct rlimit limit = {.rlim_cur = 1 << 16, .rlim_max = 1 << 16};
    struct orr_memory memory = orr_memory_system();
    struct orr_output *output;
    struct orr_error error = {0};
    static char bytes[1 << 12];
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0 ||
        orr_output_create(path, &memory, &output, &error) != ORR_OK) {
        return 1;
    }
    for (int i = 0; i < 32; i++) {
        orr_output_write(output, bytes, sizeof bytes);
    }
    if (!orr_output_failed(output)) {
        return 2;
    }
    return orr_output_finish(&output, &error) == ORR_IO && strstr(error.text, path) &&
                   strstr(error.text, strerror(EFBIG))
               ? 0
               : 3;
}

static void a_short_write_leaves_nothing_behind(void **unused) {
    char folder[PATH_MAX], path[PATH_MAX];
    int status;
    (void)unused;
    trace_folder_create(folder);
    trace_write_file(trace_path(path, folder, "a.json"), "earlier", 7);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(write_beyond_the_limit(path));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_file(path, "earlier");
    assert_int_equal(count_files(folder), 1);
    trace_folder_remove(folder);
}

static void compressed_files_carry_no_name_and_no_time(void **unused) {
    char folder[PATH_MAX], path[PATH_MAX], back[16] = "";
    struct orr_error error = {0};
    size_t size;
    (void)unused;
    trace_folder_create(folder);
    trace_path(path, folder, "a.json.gz");
    assert_int_equal(write_text(path, "hello hello", &error), ORR_OK);
    unsigned char *bytes = trace_read_file(path, &size);
    static const unsigned char header[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff};
    assert_true(size > sizeof header);
    assert_memory_equal(bytes, header, sizeof header);
    free(bytes);
    gzFile file = gzopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(gzread(file, back, sizeof back - 1), 11);
    assert_string_equal(back, "hello hello");
    gzclose(file);
    trace_folder_remove(folder);
}

static void missing_memory_leaves_nothing_behind(void **unused) {
    char folder[PATH_MAX], path[PATH_MAX];
    (void)unused;
    trace_folder_create(folder);
    trace_path(path, folder, "a.json.gz");
    enum orr_status status = ORR_NO_MEMORY;
    for (size_t nth = 1; status != ORR_OK; nth++) {
        struct trace_memory memory;
        struct orr_error error = {0};
        struct orr_output *output;
        trace_memory_init(&memory, nth);
        status = orr_output_create(path, &memory.table, &output, &error);
        if (status != ORR_OK) {
            assert_int_equal(status, ORR_NO_MEMORY);
            assert_null(output);
        } else {
            assert_true(nth > 3);
            orr_output_discard(&output);
        }
        assert_int_equal(memory.live, 0);
        assert_int_equal(count_files(folder), 0);
    }
    trace_folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_have_three_decimals_always),
        cmocka_unit_test(integers_are_what_printf_prints),
        cmocka_unit_test(integers_beyond_int64_are_texts),
        cmocka_unit_test(doubles_are_integers_or_have_sixteen_decimals),
        cmocka_unit_test(doubles_read_back_as_themselves),
        cmocka_unit_test(the_locale_does_not_change_numbers),
        cmocka_unit_test(texts_escape_only_what_json_demands),
        cmocka_unit_test(what_is_not_utf8_becomes_the_replacement_character),
        cmocka_unit_test(random_bytes_come_out_as_a_simple_reading_says),
        cmocka_unit_test(texts_compare_as_they_are_written),
        cmocka_unit_test(long_texts_pass_through_a_small_buffer),
        cmocka_unit_test(a_file_appears_when_it_is_whole),
        cmocka_unit_test(a_file_left_by_a_killed_run_is_not_in_the_way),
        cmocka_unit_test(a_symbolic_link_is_followed_and_stays),
        cmocka_unit_test(what_is_no_file_is_written_not_replaced),
        cmocka_unit_test(failures_name_the_path_and_the_reason),
        cmocka_unit_test(a_short_write_leaves_nothing_behind),
        cmocka_unit_test(compressed_files_carry_no_name_and_no_time),
        cmocka_unit_test(missing_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("json_writer", tests, NULL, NULL);
}
