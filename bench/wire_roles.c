/* wire_roles.c: what this program does as another process over the wire: the work that is counted. */
#include "wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HANDLES_MAX 1000

static void enqueue_ours(const char *url, size_t n)
{
    renderq *h = ours_open_url(url);
    ours_enqueue(h, n, 1);
    renderq_close(h);
}

static void claim_ours(const char *url, size_t n)
{
    renderq *h = ours_open_url(url);
    ours_claim(h, n, NULL);
    renderq_close(h);
}

static void enqueue_bare(const char *url, size_t n)
{
    wire_bare *b = wire_bare_open(url);
    wire_bare_enqueue(b, n);
    wire_bare_close(b);
}

static void claim_bare(const char *url, size_t n)
{
    wire_bare *b = wire_bare_open(url);
    wire_bare_claim(b, n);
    wire_bare_close(b);
}

/* Its share of the memory: pages that others have too count in part. */
static long memory_kb(void)
{
    char line[256];
    long kb = 0;
    FILE *maps = fopen("/proc/self/smaps_rollup", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (strncmp(line, "Pss:", 4) == 0)
            kb = strtol(line + 4, NULL, 10);
    if (maps)
        fclose(maps);
    if (kb == 0)
        die("/proc/self/smaps_rollup does not tell the memory of this process");
    return kb;
}

/* Handles that have claimed a job each and are idle; prints what they take, in kB. */
static void hold_ours(const char *url, size_t n)
{
    renderq *handles[HANDLES_MAX];
    long before_kb = memory_kb();
    for (size_t i = 0; i < n && i < HANDLES_MAX; i++) {
        handles[i] = ours_open_url(url);
        ours_claim(handles[i], 1, NULL);
    }
    printf("%ld\n", memory_kb() - before_kb);
    for (size_t i = 0; i < n && i < HANDLES_MAX; i++)
        renderq_close(handles[i]);
}

static void hold_bare(const char *url, size_t n)
{
    wire_bare *connections[HANDLES_MAX];
    long before_kb = memory_kb();
    for (size_t i = 0; i < n && i < HANDLES_MAX; i++) {
        connections[i] = wire_bare_open(url);
        wire_bare_claim(connections[i], 1);
    }
    printf("%ld\n", memory_kb() - before_kb);
    for (size_t i = 0; i < n && i < HANDLES_MAX; i++)
        wire_bare_close(connections[i]);
}

static const struct {
    const char *name;
    void (*run)(const char *url, size_t n);
} works[] = {
    { "enqueue-ours", enqueue_ours }, { "enqueue-bare", enqueue_bare }, { "claim-ours", claim_ours },
    { "claim-bare", claim_bare },     { "hold-ours", hold_ours },       { "hold-bare", hold_bare },
};

/* "WORK N URL" */
void role_wire(const char *task)
{
    char name[32], url[600];
    size_t n;
    if (sscanf(task, "%31s %zu %599s", name, &n, url) != 3)
        die("%s: no such task", task);
    for (size_t i = 0; i < sizeof works / sizeof works[0]; i++)
        if (strcmp(works[i].name, name) == 0)
            works[i].run(url, n);
}
