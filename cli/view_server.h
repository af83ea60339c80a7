/* One file, served over HTTP to one page: what Perfetto UI needs to open a trace by its address.
 *
 * Bound to 127.0.0.1 only. Answers GET, HEAD and OPTIONS of /NAME to the origin
 * https://ui.perfetto.dev, or to who names none and is no page of another site; the Host header
 * must name the loopback, so that a foreign name that resolves to it (DNS rebinding) gets nothing.
 * Everything else is 403, 404 or 405. Ends once the file was fetched whole (and others that are
 * fetching it are done), or on SIGINT, SIGTERM or SIGHUP.
 *
 *     struct orr_view_server *server;
 *     if (orr_view_server_create(9001, &memory, &server, &error) != ORR_OK) ...   // holds the port
 *     status = orr_view_server_run(server, fd, size, "run.json", &error);
 *     orr_view_server_destroy(&server);
 *
 * Threads: one, and one server at a time: from create to destroy those signals are the server's,
 * and are held back until run looks. */
#ifndef ORR_CLI_VIEW_SERVER_H
#define ORR_CLI_VIEW_SERVER_H

#include <stdint.h>

#include "runtime/error.h"
#include "runtime/memory.h"

#define ORR_VIEW_ORIGIN "https://ui.perfetto.dev"

struct orr_view_server;

/* Binds the port. ORR_UNAVAILABLE if it is taken, with port and reason; ORR_NO_MEMORY. */
enum orr_status orr_view_server_create(uint16_t port, const struct orr_memory *memory,
                                       struct orr_view_server **out_server,
                                       struct orr_error *error) ORR_MUST_CHECK;

/* Has one of the signals come since create? */
int orr_view_server_stopped(struct orr_view_server *server);

/* Serves the `size` bytes of `fd` as /`name` (letters, digits, `.`, `_`, `-`) until the end. `fd`
 * belongs to the server from then on, whatever is returned. *out_fetched: it was fetched whole.
 * ORR_IO with the reason if the server cannot run; ORR_NO_MEMORY. Blocks. */
enum orr_status orr_view_server_run(struct orr_view_server *server, int fd, uint64_t size,
                                    const char *name, int *out_fetched,
                                    struct orr_error *error) ORR_MUST_CHECK;

/* Closes everything, gives the signals back, frees and nulls; accepts NULL. */
void orr_view_server_destroy(struct orr_view_server **server);

#endif
