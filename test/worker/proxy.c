/* proxy.c: a TCP link that can be cut. See proxy.h. */
#include "proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static proxy_state state_of(const proxy *p)
{
    return __atomic_load_n(&p->state, __ATOMIC_SEQ_CST);
}

static void shut(int link[2])
{
    for (int side = 0; side < 2; side++) {
        if (link[side] >= 0)
            close(link[side]);
        link[side] = -1;
    }
}

static int connect_to(int port)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static void take_new(proxy *p)
{
    int client = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC), on = 1, i = 0;
    if (client < 0)
        return;
    while (i < PROXY_LINKS && p->links[i][0] >= 0)
        i++;
    int server = i < PROXY_LINKS && state_of(p) == PROXY_PASSES ? connect_to(p->to_port) : -1;
    if (server < 0) {
        close(client);
        return;
    }
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    p->links[i][0] = client;
    p->links[i][1] = server;
}

static void pass(int link[2], int side)
{
    char bytes[65536];
    ssize_t len = read(link[side], bytes, sizeof bytes), sent = 0;
    while (len > 0 && sent < len) {
        ssize_t n = send(link[!side], bytes + sent, (size_t)(len - sent), MSG_NOSIGNAL);
        if (n <= 0)
            break;
        sent += n;
    }
    if (len <= 0 || sent < len)
        shut(link);
}

static void *run(void *arg)
{
    proxy *p = arg;
    while (state_of(p) != PROXY_ENDS) {
        struct pollfd fds[2 + 2 * PROXY_LINKS];
        bool passes = state_of(p) == PROXY_PASSES || state_of(p) == PROXY_CUTS_REPLIES;
        fds[0] = (struct pollfd){ .fd = p->wake[0], .events = POLLIN };
        fds[1] = (struct pollfd){ .fd = state_of(p) == PROXY_HANGS ? -1 : p->listener, .events = POLLIN };
        for (int i = 0; i < 2 * PROXY_LINKS; i++)
            fds[2 + i] = (struct pollfd){ .fd = passes ? p->links[i / 2][i % 2] : -1, .events = POLLIN };
        if (poll(fds, sizeof fds / sizeof fds[0], -1) <= 0)
            continue;
        if (fds[0].revents) {
            char byte;
            if (read(p->wake[0], &byte, 1) < 0)
                break;
            for (int i = 0; i < PROXY_LINKS && state_of(p) == PROXY_CUT; i++)
                shut(p->links[i]);
            while (write(p->heard[1], "", 1) != 1)
                continue;
            continue;
        }
        for (int i = 0; i < 2 * PROXY_LINKS; i++)
            if (!fds[2 + i].revents || p->links[i / 2][i % 2] != fds[2 + i].fd)
                continue;
            else if (i % 2 == 1 && state_of(p) == PROXY_CUTS_REPLIES)
                shut(p->links[i / 2]);
            else
                pass(p->links[i / 2], i % 2);
        if (fds[1].revents)
            take_new(p);
    }
    for (int i = 0; i < PROXY_LINKS; i++)
        shut(p->links[i]);
    return NULL;
}

bool proxy_start(proxy *p, int to_port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof at;
    memset(p, 0, sizeof *p);
    memset(p->links, -1, sizeof p->links);
    p->to_port = to_port;
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (p->listener < 0 || bind(p->listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(p->listener, 16) != 0
        || getsockname(p->listener, (struct sockaddr *)&at, &size) != 0 || pipe(p->wake) != 0 || pipe(p->heard) != 0)
        return false;
    p->port = ntohs(at.sin_port);
    return pthread_create(&p->thread, NULL, run, p) == 0;
}

static void tell(proxy *p, proxy_state state)
{
    __atomic_store_n(&p->state, state, __ATOMIC_SEQ_CST);
    while (write(p->wake[1], "", 1) != 1)
        continue;
}

void proxy_set(proxy *p, proxy_state state)
{
    char byte;
    tell(p, state);
    while (read(p->heard[0], &byte, 1) != 1)
        continue;
}

void proxy_end(proxy *p)
{
    tell(p, PROXY_ENDS);
    pthread_join(p->thread, NULL);
    close(p->listener);
    for (int i = 0; i < 2; i++) {
        close(p->wake[i]);
        close(p->heard[i]);
    }
}
