/* service.h: the whole: its options, and the threads that talk to the database. Each has a connection of its own.
 *
 *   the HTTP thread   reads requests and sends answers; never waits for anything
 *   a clerk a queue   what is quick: hand-outs from the cache, and calls on single jobs (clerk.h)
 *   the reader        what may take a while: counts, lists, figures (reader.h)
 *   the scan          looks at the output files, then ends run-out leases (scan.h)
 *   main              signals, and clients that take too long
 */
#ifndef CONTROLLER_SERVICE_H
#define CONTROLLER_SERVICE_H

#include <renderq.h>

#include "clerk.h"
#include "settings.h"
#include "outputs.h"
#include "reader.h"
#include "scan.h"

/* How claims of such a service begin their worker's name. */
#define SERVICE_WORKER "renderq-controller "

typedef struct service {
    settings o;
    outputs outputs;
    clerk clerks[QUEUES_MAX];           /* o.n_queues of them, in the order of o.queues */
    reader reader;
    scan scan;
    char form_token[33];
    bool stopping;                      /* atomic: new requests are answered 503 */
} service;

/* Opens a handle as the command line says, for one of the threads. */
renderq_status service_open(const service *s, int command_s, renderq **h);

/* Where a job's output URL leads; see outputs_check(). */
bool service_output_fits(const service *s, const char *url, char *why, size_t size);

#endif
