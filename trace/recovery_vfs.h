/* Internal to trace/: reading a database that a killed run left, without changing it.
 *
 * Such a file has a journal beside it that takes the unfinished transaction back, and SQLite wants
 * to do that in the file. Through this VFS (SQLite's layer of file operations) it does it in
 * memory: file and journal are mapped privately, what is written stays in this process, and a
 * deleted journal is only forgotten. So traces on read-only media and other people's traces can be
 * read.
 *
 *     struct orr__recovery_vfs vfs;
 *     orr__recovery_vfs_register(&vfs);
 *     sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, vfs.name);
 *     ...
 *     sqlite3_close(db);
 *     orr__recovery_vfs_unregister(&vfs);
 *
 * Caveat: there are no locks. Use it only after SQLite has said that no process has the file open
 * for writing (SQLITE_READONLY_ROLLBACK). Whoever shortens the file meanwhile ends this process.
 *
 * Threads: a VFS and the one connection through it belong to one thread. */
#ifndef ORR_TRACE_RECOVERY_VFS_H
#define ORR_TRACE_RECOVERY_VFS_H

#include <sqlite3.h>
#include <stdbool.h>

struct orr__recovery_vfs {
    sqlite3_vfs base;
    char name[40];        /* for sqlite3_open_v2, unique within the process */
    bool journal_deleted; /* the VFS's business */
};

/* Registers the VFS; it may not move until it is unregistered. An SQLite result code. */
int orr__recovery_vfs_register(struct orr__recovery_vfs *vfs);

/* After the connection has been closed. */
void orr__recovery_vfs_unregister(struct orr__recovery_vfs *vfs);

#endif
