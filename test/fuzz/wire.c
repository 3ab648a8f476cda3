/* wire.c: see wire.h. CT-Library is a shared library, so the functions of this file that libc has too are the ones
 * that it calls: its connections end here, and names of servers need no DNS. */
#include "wire.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"

static struct {
    const wire_text *texts;
    size_t n;
    int ends[WIRE_CONNECTIONS];     /* ours */
    size_t connections;
} wire;

void wire_begin(const wire_text *texts, size_t n)
{
    wire.texts = texts;
    wire.n = n;
    wire.connections = 0;
}

size_t wire_connections(void)
{
    return wire.connections;
}

size_t wire_heard(size_t connection, uint8_t *out, size_t size)
{
    size_t len = 0;
    ssize_t got = 1;
    while (len < size && got > 0) {
        got = recv(wire.ends[connection], out + len, size - len, MSG_DONTWAIT);
        len += got > 0 ? (size_t)got : 0;
    }
    return len;
}

void wire_end(void)
{
    uint8_t rest[4096];
    while (wire.connections > 0) {
        int end = wire.ends[--wire.connections];
        ssize_t got;
        while ((got = recv(end, rest, sizeof rest, MSG_DONTWAIT)) > 0)
            continue;
        HOLDS(got == 0 || errno == ECONNRESET);
        close(end);
    }
    wire.n = 0;
}

/* ---- what CT-Library calls ---- */

/* Puts one end of a new pair in the place of `fd`, and returns the other. */
static int pair_with(int fd)
{
    int ends[2], room = 4 * WIRE_MAX;
    HOLDS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    HOLDS(setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room) == 0);
    HOLDS(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room) == 0);
    HOLDS(dup2(ends[0], fd) == fd);
    close(ends[0]);
    HOLDS(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    return ends[1];
}

int connect(int fd, __CONST_SOCKADDR_ARG address, socklen_t len)
{
    (void)address, (void)len;
    HOLDS(wire.connections < WIRE_CONNECTIONS);     /* nobody tries that often */
    size_t number = wire.connections++;
    wire.ends[number] = pair_with(fd);
    if (number < wire.n) {
        size_t size = wire.texts[number].len < WIRE_MAX ? wire.texts[number].len : WIRE_MAX;
        HOLDS(send(wire.ends[number], wire.texts[number].bytes, size, MSG_DONTWAIT) == (ssize_t)size);
    }
    HOLDS(shutdown(wire.ends[number], SHUT_WR) == 0);
    return 0;
}

/* Every name is one of a server. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    (void)name, (void)hints;
    if (!real) {
        void *found = dlsym(RTLD_NEXT, "getaddrinfo");
        HOLDS(found);
        memcpy(&real, &found, sizeof real);
    }
    struct addrinfo wanted = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST };
    return real("127.0.0.1", service, &wanted, out);
}
