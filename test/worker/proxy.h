/* proxy.h: a TCP link that can be cut. */
#ifndef TEST_WORKER_PROXY_H
#define TEST_WORKER_PROXY_H

#include <pthread.h>
#include <stdbool.h>

typedef enum proxy_state {
    PROXY_PASSES,
    PROXY_CUT,          /* every link is closed, and new ones at once */
    PROXY_HANGS,        /* links stay, and nothing passes */
    PROXY_CUTS_REPLIES, /* a request passes, and its reply ends the link; new ones are closed at once */
    PROXY_ENDS
} proxy_state;

#define PROXY_LINKS 16

typedef struct proxy {
    int listener, port, to_port;
    int wake[2], heard[2];  /* pipes: to the thread, and what it answers once a state is in force */
    proxy_state state;  /* atomic */
    pthread_t thread;
    int links[PROXY_LINKS][2];  /* client, server; -1: free */
} proxy;

/* Between a port of its own and one of this machine. False: errno. */
bool proxy_start(proxy *p, int to_port);
/* From when it returns on. */
void proxy_set(proxy *p, proxy_state state);
void proxy_end(proxy *p);

#endif
