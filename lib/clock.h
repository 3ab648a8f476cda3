/* clock.h: this machine's clocks. The database's clock is in the statements. */
#ifndef RQ_CLOCK_H
#define RQ_CLOCK_H

#include <stdint.h>

/* Milliseconds that only go forward and go on while the machine sleeps, as a lease does. */
int64_t rq_clock_ms(void);

/* Milliseconds since 1970: for the order of new ids alone, never for a lease. */
uint64_t rq_clock_unix_ms(void);

#endif
