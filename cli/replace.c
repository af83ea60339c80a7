#include "cli/replace.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { HEAD_BYTES = 512 };

enum orr_status orr_replace_check(const char *path, const char *mark, const char *what,
                                  struct orr_error *error) {
    struct stat about;
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size == 0)
        return ORR_OK;
    char head[HEAD_BYTES + 1] = "";
    FILE *file = fopen(path, "rb");
    if (!file)
        return orr_error_set(error, ORR_IO, "%s: %s", path, strerror(errno));
    head[fread(head, 1, HEAD_BYTES, file)] = '\0';
    fclose(file);
    if (strstr(head, mark))
        return ORR_OK;
    return orr_error_set(error, ORR_IO, "%s: it exists, and is no %s; it is not replaced", path,
                         what);
}
