/* owner.c: the lock beside an SQLite file. See owner.h. The kernel drops it with the process, however that ends; the
 * file stays, since a lock on a file that is being removed protects nothing. */
#include "owner.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <unistd.h>

#define SUFFIX ".controller-lock"
#define LINKS_MAX 40

/* The URL's path, decoded. */
static bool take_path(const char *url, char *path, size_t size)
{
    size_t n = 0;
    for (const char *at = url + strlen("sqlite:"); *at && *at != '?'; at++) {
        char pair[3] = "", c = *at;
        if (c == '%' && isxdigit((unsigned char)at[1]) && isxdigit((unsigned char)at[2])) {
            memcpy(pair, at + 1, 2);
            c = (char)strtoul(pair, NULL, 16);
            at += 2;
        }
        if (n + 1 >= size)
            return false;
        path[n++] = c;
    }
    path[n] = 0;
    return n > 0;
}

/* What stands in front of the name: "" or everything up to the last slash. */
static int folder_len(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash - path) + 1 : 0;
}

/* Where a link leads, if `path` (PATH_MAX) is one. */
static bool follow(char *path)
{
    char target[PATH_MAX], from[PATH_MAX];
    ssize_t len = readlink(path, target, sizeof target - 1);
    if (len < 0)
        return false;
    target[len] = 0;
    memcpy(from, path, sizeof from);
    int n = snprintf(path, PATH_MAX, "%.*s%s", target[0] == '/' ? 0 : folder_len(from), from, target);
    return n < PATH_MAX;
}

/* The same file by any name has the same lock: links are resolved, of the file if it is there, else of where it would be
 * made, which a link may lead to. */
static bool lock_path(const char *path, char *out, size_t size)
{
    char at[PATH_MAX], folder[PATH_MAX], *real;
    snprintf(at, sizeof at, "%s", path);
    for (int links = 0; !(real = realpath(at, NULL)) && links < LINKS_MAX && follow(at); links++)
        ;
    if (real) {
        snprintf(out, size, "%s" SUFFIX, real);
        free(real);
        return true;
    }
    snprintf(folder, sizeof folder, "%.*s", folder_len(at) ? folder_len(at) : 1, folder_len(at) ? at : ".");
    real = realpath(folder, NULL);
    if (!real)
        return false;
    snprintf(out, size, "%s/%s" SUFFIX, real, at + folder_len(at));
    free(real);
    return true;
}

bool owner_take(const char *url, char *why, size_t size)
{
    char path[PATH_MAX], lock[PATH_MAX + sizeof SUFFIX], pid[32] = "";
    if (strncasecmp(url, "sqlite:", 7) != 0)
        return true;
    if (!take_path(url, path, sizeof path))
        return true;                    /* the library will say what is wrong with it */
    if (!lock_path(path, lock, sizeof lock)) {
        snprintf(why, size, "the folder of %s cannot be found: %s", path, strerror(errno));
        return false;
    }
    int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) {
        snprintf(why, size, "the lock file %s cannot be opened: %s", lock, strerror(errno));
        return false;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        ssize_t len = read(fd, pid, sizeof pid - 1);
        pid[len > 0 ? len : 0] = 0;
        pid[strcspn(pid, "\n")] = 0;
        snprintf(why, size, "another renderq-controller%s%s owns %s: one process owns an SQLite file; stop that one, "
                 "or give this one a file of its own", *pid ? ", process " : "", pid, path);
        close(fd);
        return false;
    }
    int len = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    bool written = ftruncate(fd, 0) == 0 && write(fd, pid, (size_t)len) == len;
    (void)written;                      /* the number is only for the text above */
    return true;                        /* fd stays open: the lock lives as long as the process */
}
