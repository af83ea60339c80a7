#include "cli/view_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* A client that moves nothing for so long is dropped; one that is merely slow is not. */
enum { IDLE_SECONDS = 120, CONNECTIONS = 32, BACKLOG = 16 };

struct orr_view_server {
    const struct orr_memory *memory;
    uint16_t port;
    int listener, signals; /* signals: an eventfd, readable once one has come */
    struct sigaction before[3];
    int watching; /* `before` holds what is to be restored */
    const char *name;
    struct MHD_Daemon *daemon;
    struct MHD_Response *file;
    unsigned transfers; /* of the file, going on */
    int fetched;
};

/* ------------------------------------------------------------------------------------------------
 * Signals
 *
 * A handler, not a mask with signalfd: other threads of the process (those of OpenBLAS) do not
 * share a mask, and would be killed by what they do not block. A handler gets no argument, so the
 * file that it writes to is the one thing here that a function cannot be passed. */

static const int stop_signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { STOP_SIGNALS = sizeof stop_signals / sizeof *stop_signals };

static volatile sig_atomic_t stop_file = -1;

static void on_signal(int number) {
    int kept = errno;
    uint64_t one = 1;
    (void)number;
    if (write((int)stop_file, &one, sizeof one) < 0) {
        /* Full: it is readable already. */
    }
    errno = kept;
}

static enum orr_status watch_signals(struct orr_view_server *server, struct orr_error *error) {
    server->signals = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->signals < 0)
        return orr_error_set(error, ORR_IO, "signals cannot be watched: %s", strerror(errno));
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    stop_file = server->signals;
    for (int i = 0; i < STOP_SIGNALS; i++)
        sigaction(stop_signals[i], &action, &server->before[i]);
    server->watching = 1;
    return ORR_OK;
}

static void unwatch_signals(struct orr_view_server *server) {
    for (int i = 0; server->watching && i < STOP_SIGNALS; i++)
        sigaction(stop_signals[i], &server->before[i], NULL);
    stop_file = -1;
    if (server->signals >= 0)
        close(server->signals);
}

/* ------------------------------------------------------------------------------------------------
 * Who may ask */

static const char *header(struct MHD_Connection *connection, const char *name) {
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static int is_our_host(const struct orr_view_server *server, const char *host) {
    char own[64];
    static const char *const names[] = {"127.0.0.1", "localhost"};
    for (size_t i = 0; host && i < sizeof names / sizeof *names; i++) {
        snprintf(own, sizeof own, "%s:%u", names[i], (unsigned)server->port);
        if (strcmp(host, own) == 0)
            return 1;
    }
    return 0;
}

/* A page of another site either says its origin or, where it must not read the answer anyway, that
 * it is another site. */
static int may_ask(struct MHD_Connection *connection) {
    const char *origin = header(connection, "Origin");
    const char *site = header(connection, "Sec-Fetch-Site");
    if (origin)
        return strcmp(origin, ORR_VIEW_ORIGIN) == 0;
    return !site || strcmp(site, "none") == 0 || strcmp(site, "same-origin") == 0;
}

/* ------------------------------------------------------------------------------------------------
 * Answers */

/* Every answer ends its connection, so that what follows a request is never read as another one. */
static int add_headers(struct MHD_Response *response, int allowed) {
    int added =
        MHD_add_response_header(response, "Vary", "Origin") == MHD_YES &&
        MHD_add_response_header(response, "Connection", "close") == MHD_YES &&
        MHD_add_response_header(response, "Cache-Control", "no-store") == MHD_YES &&
        MHD_add_response_header(response, "X-Content-Type-Options", "nosniff") == MHD_YES &&
        MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin") == MHD_YES;
    if (added && allowed)
        added = MHD_add_response_header(response, "Access-Control-Allow-Origin", ORR_VIEW_ORIGIN) ==
                MHD_YES;
    return added;
}

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned code, const char *text,
                              const char *name, const char *value) {
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY);
    if (!response)
        return MHD_NO;
    enum MHD_Result result = MHD_NO;
    if (add_headers(response, 0) &&
        (!name || MHD_add_response_header(response, name, value) == MHD_YES))
        result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

/* A browser asks first whether a page of the network may reach the loopback. */
static enum MHD_Result answer_preflight(struct MHD_Connection *connection) {
    struct MHD_Response *response = MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
    if (!response)
        return MHD_NO;
    int added = add_headers(response, 1) &&
                MHD_add_response_header(response, "Access-Control-Allow-Methods",
                                        "GET, HEAD, OPTIONS") == MHD_YES;
    if (added && header(connection, "Access-Control-Request-Private-Network"))
        added = MHD_add_response_header(response, "Access-Control-Allow-Private-Network", "true") ==
                MHD_YES;
    enum MHD_Result result =
        added ? MHD_queue_response(connection, MHD_HTTP_NO_CONTENT, response) : MHD_NO;
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload_data,
                                  size_t *upload_data_size, void **request) {
    struct orr_view_server *server = context;
    (void)version;
    (void)upload_data;
    (void)upload_data_size;
    if (!is_our_host(server, header(connection, "Host")))
        return answer(connection, MHD_HTTP_FORBIDDEN, "unknown host\n", NULL, NULL);
    if (!may_ask(connection))
        return answer(connection, MHD_HTTP_FORBIDDEN, "not for this origin\n", NULL, NULL);
    if (url[0] != '/' || strcmp(url + 1, server->name) != 0)
        return answer(connection, MHD_HTTP_NOT_FOUND, "no such file\n", NULL, NULL);
    if (strcmp(method, "OPTIONS") == 0)
        return answer_preflight(connection);
    int is_get = strcmp(method, "GET") == 0;
    if (!is_get && strcmp(method, "HEAD") != 0)
        return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET, HEAD and OPTIONS\n",
                      "Allow", "GET, HEAD, OPTIONS");
    enum MHD_Result result = MHD_queue_response(connection, MHD_HTTP_OK, server->file);
    if (result == MHD_YES && is_get) {
        *request = server; /* marks it for on_completed */
        server->transfers++;
    }
    return result;
}

static void on_completed(void *context, struct MHD_Connection *connection, void **request,
                         enum MHD_RequestTerminationCode how) {
    struct orr_view_server *server = context;
    (void)connection;
    if (*request != server)
        return;
    *request = NULL;
    server->transfers--;
    server->fetched |= how == MHD_REQUEST_TERMINATED_COMPLETED_OK;
}

/* ------------------------------------------------------------------------------------------------
 * Life */

static enum orr_status bind_port(struct orr_view_server *server, struct orr_error *error) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(server->port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* What an earlier run left in TIME_WAIT does not count as taken. */
    if (server->listener < 0 ||
        setsockopt(server->listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) != 0 ||
        bind(server->listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(server->listener, BACKLOG) != 0)
        return orr_error_set(
            error, ORR_UNAVAILABLE,
            "port %u of 127.0.0.1: %s; Perfetto UI takes traces from this one only",
            (unsigned)server->port, strerror(errno));
    return ORR_OK;
}

enum orr_status orr_view_server_create(uint16_t port, const struct orr_memory *memory,
                                       struct orr_view_server **out_server,
                                       struct orr_error *error) {
    *out_server = NULL;
    struct orr_view_server *server = orr_memory_alloc(memory, sizeof *server);
    if (!server)
        return orr_error_set(error, ORR_NO_MEMORY, "out of host memory for the server");
    server->memory = memory;
    server->port = port;
    server->listener = server->signals = -1;
    enum orr_status status = bind_port(server, error);
    if (status == ORR_OK)
        status = watch_signals(server, error);
    if (status != ORR_OK)
        orr_view_server_destroy(&server);
    *out_server = server;
    return status;
}

int orr_view_server_stopped(struct orr_view_server *server) {
    struct pollfd watched = {.fd = server->signals, .events = POLLIN};
    return poll(&watched, 1, 0) == 1;
}

static enum orr_status start(struct orr_view_server *server, int fd, uint64_t size,
                             struct orr_error *error) {
    server->file = MHD_create_response_from_fd64(size, fd);
    if (!server->file) {
        close(fd);
        return orr_error_set(error, ORR_NO_MEMORY, "out of host memory for the answer");
    }
    if (!add_headers(server->file, 1) ||
        MHD_add_response_header(server->file, "Content-Type", "application/json") != MHD_YES ||
        MHD_add_response_header(server->file, "Accept-Ranges", "none") != MHD_YES)
        return orr_error_set(error, ORR_NO_MEMORY, "out of host memory for the answer");
    server->daemon =
        MHD_start_daemon(MHD_USE_EPOLL, server->port, NULL, NULL, on_request, server,
                         MHD_OPTION_LISTEN_SOCKET, server->listener, MHD_OPTION_NOTIFY_COMPLETED,
                         on_completed, server, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS, MHD_OPTION_END);
    if (!server->daemon)
        return orr_error_set(error, ORR_IO, "the HTTP server does not start: %s", strerror(errno));
    server->listener = -1; /* the daemon's */
    return ORR_OK;
}

/* Stops accepting; what is being fetched goes on. */
static void quiesce(struct orr_view_server *server) {
    int listener = MHD_quiesce_daemon(server->daemon);
    if (listener >= 0)
        close(listener);
}

static enum orr_status serve(struct orr_view_server *server, struct orr_error *error) {
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct pollfd watched[] = {{.fd = info ? info->epoll_fd : -1, .events = POLLIN},
                               {.fd = server->signals, .events = POLLIN}};
    for (int quiet = 0; !quiet || server->transfers > 0;) {
        MHD_UNSIGNED_LONG_LONG wait_ms;
        int timeout = -1;
        if (MHD_get_timeout(server->daemon, &wait_ms) == MHD_YES)
            timeout = wait_ms < 60000 ? (int)wait_ms : 60000;
        if (poll(watched, 2, timeout) < 0 && errno != EINTR)
            return orr_error_set(error, ORR_IO, "the HTTP server: %s", strerror(errno));
        if (watched[1].revents != 0)
            return ORR_OK;
        if (MHD_run(server->daemon) != MHD_YES)
            return orr_error_set(error, ORR_IO, "the HTTP server failed");
        if (server->fetched && !quiet) {
            quiesce(server);
            quiet = 1;
        }
    }
    return ORR_OK;
}

enum orr_status orr_view_server_run(struct orr_view_server *server, int fd, uint64_t size,
                                    const char *name, int *out_fetched, struct orr_error *error) {
    server->name = name;
    enum orr_status status = start(server, fd, size, error);
    if (status == ORR_OK)
        status = serve(server, error);
    *out_fetched = server->fetched;
    return status;
}

void orr_view_server_destroy(struct orr_view_server **server) {
    struct orr_view_server *s = *server;
    if (!s)
        return;
    if (s->daemon)
        MHD_stop_daemon(s->daemon);
    if (s->file)
        MHD_destroy_response(s->file);
    if (s->listener >= 0)
        close(s->listener);
    unwatch_signals(s);
    orr_memory_free(s->memory, s);
    *server = NULL;
}
