#include "trace/recovery_vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECTOR_BYTES = 512 };

/* A file mapped privately: the kernel copies pages that are written, the rest is the file. */
struct mapped_file {
    sqlite3_file base;
    unsigned char *bytes; /* NULL: an empty file */
    size_t mapped, size;  /* size: what SQLite has truncated it to */
};

static struct mapped_file *mapped(sqlite3_file *file) {
    return (struct mapped_file *)file;
}

static int file_close(sqlite3_file *file) {
    if (mapped(file)->bytes)
        munmap(mapped(file)->bytes, mapped(file)->mapped);
    mapped(file)->bytes = NULL;
    return SQLITE_OK;
}

static int file_read(sqlite3_file *file, void *buffer, int amount, sqlite3_int64 offset) {
    size_t size = mapped(file)->size, wanted = (size_t)amount;
    size_t there = (uint64_t)offset < size ? size - (size_t)offset : 0;
    size_t count = there < wanted ? there : wanted;
    if (count > 0)
        memcpy(buffer, mapped(file)->bytes + offset, count);
    memset((char *)buffer + count, 0, wanted - count);
    return count == wanted ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

/* A recovery puts old content back, it never makes a file longer. */
static int file_write(sqlite3_file *file, const void *buffer, int amount, sqlite3_int64 offset) {
    size_t end = (size_t)offset + (size_t)amount;
    if (end > mapped(file)->mapped)
        return SQLITE_FULL;
    memcpy(mapped(file)->bytes + offset, buffer, (size_t)amount);
    if (end > mapped(file)->size)
        mapped(file)->size = end;
    return SQLITE_OK;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size) {
    if ((uint64_t)size < mapped(file)->size)
        mapped(file)->size = (size_t)size;
    return SQLITE_OK;
}

static int file_size(sqlite3_file *file, sqlite3_int64 *out_size) {
    *out_size = (sqlite3_int64)mapped(file)->size;
    return SQLITE_OK;
}

static int file_sync(sqlite3_file *file, int flags) {
    (void)file;
    (void)flags;
    return SQLITE_OK;
}

static int file_lock(sqlite3_file *file, int level) {
    (void)file;
    (void)level;
    return SQLITE_OK;
}

static int file_check_reserved(sqlite3_file *file, int *out_reserved) {
    (void)file;
    *out_reserved = 0;
    return SQLITE_OK;
}

static int file_control(sqlite3_file *file, int operation, void *argument) {
    (void)file;
    (void)operation;
    (void)argument;
    return SQLITE_NOTFOUND;
}

static int file_sector_size(sqlite3_file *file) {
    (void)file;
    return SECTOR_BYTES;
}

static int file_characteristics(sqlite3_file *file) {
    (void)file;
    return 0;
}

static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_lock,
    .xCheckReservedLock = file_check_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector_size,
    .xDeviceCharacteristics = file_characteristics,
};

static int map_file(struct mapped_file *file, int descriptor) {
    struct stat info;
    if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode))
        return SQLITE_CANTOPEN;
    file->mapped = file->size = (size_t)info.st_size;
    if (file->size == 0)
        return SQLITE_OK;
    int flags = MAP_PRIVATE | MAP_NORESERVE;
    void *bytes = mmap(NULL, file->size, PROT_READ | PROT_WRITE, flags, descriptor, 0);
    if (bytes == MAP_FAILED)
        return errno == ENOMEM ? SQLITE_NOMEM : SQLITE_IOERR_MMAP;
    file->bytes = bytes;
    return SQLITE_OK;
}

/* Only the database and its journal are asked for: temporary tables are in memory. */
static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                    int *out_flags) {
    (void)vfs;
    memset(file, 0, sizeof(struct mapped_file));
    if (!name || !(flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_MAIN_JOURNAL)))
        return SQLITE_CANTOPEN;
    int descriptor = open(name, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return SQLITE_CANTOPEN;
    int code = map_file(mapped(file), descriptor);
    close(descriptor);
    if (code != SQLITE_OK)
        return code;
    file->pMethods = &methods;
    if (out_flags)
        *out_flags = flags;
    return SQLITE_OK;
}

static bool is_journal(const char *name) {
    static const char suffix[] = "-journal";
    size_t length = strlen(name), suffix_length = sizeof suffix - 1;
    return length > suffix_length && strcmp(name + length - suffix_length, suffix) == 0;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync_folder) {
    (void)sync_folder;
    if (is_journal(name))
        ((struct orr__recovery_vfs *)vfs)->journal_deleted = true;
    return SQLITE_OK;
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *out_result) {
    (void)flags;
    bool deleted = ((struct orr__recovery_vfs *)vfs)->journal_deleted;
    *out_result = is_journal(name) && !deleted && access(name, R_OK) == 0;
    return SQLITE_OK;
}

int orr__recovery_vfs_register(struct orr__recovery_vfs *vfs) {
    sqlite3_vfs *system = sqlite3_vfs_find(NULL);
    if (!system)
        return SQLITE_ERROR;
    *vfs = (struct orr__recovery_vfs){.base = *system};
    snprintf(vfs->name, sizeof vfs->name, "orrery-recovery-%p", (void *)vfs);
    vfs->base.zName = vfs->name;
    vfs->base.pNext = NULL;
    vfs->base.szOsFile = sizeof(struct mapped_file);
    vfs->base.xOpen = vfs_open;
    vfs->base.xDelete = vfs_delete;
    vfs->base.xAccess = vfs_access;
    return sqlite3_vfs_register(&vfs->base, 0);
}

void orr__recovery_vfs_unregister(struct orr__recovery_vfs *vfs) {
    sqlite3_vfs_unregister(&vfs->base);
}
