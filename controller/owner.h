/* owner.h: one service owns an SQLite file. */
#ifndef CONTROLLER_OWNER_H
#define CONTROLLER_OWNER_H

#include <stdbool.h>
#include <stddef.h>

/* For an SQLite URL, takes PATH.controller-lock, which stays locked until the process ends. False: `why` says who has
 * it, or what is wrong. */
bool owner_take(const char *url, char *why, size_t size);

#endif
