/* outputs.c: output URLs as files under one folder. See outputs.h. */
#include "outputs.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"

bool outputs_open(outputs *o, const char *folder, char *why, size_t size)
{
    *o = (outputs){ .fd = -1 };
    if (!folder)
        return true;
    o->fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    o->real = realpath(folder, NULL);
    if (o->fd < 0 || !o->real) {
        snprintf(why, size, "the outputs folder %s cannot be used: %s", folder, strerror(errno));
        return false;
    }
    o->given = must_copy(folder);
    for (size_t len = strlen(o->given); len > 1 && o->given[len - 1] == '/'; len--)
        o->given[len - 1] = 0;
    return true;
}

void outputs_close(outputs *o)
{
    if (o->fd >= 0)
        close(o->fd);
    free(o->given);
    free(o->real);
}

/* ---- from a URL to a path below the folder ---- */

static bool refuse(char *why, size_t size, const char *text)
{
    snprintf(why, size, "%s", text);
    return false;
}

/* Percent-decoding, in place. */
static bool decode(char *text)
{
    char *out = text;
    for (const char *at = text; *at; at++) {
        char pair[3] = "";
        if (*at == '%') {
            if (!isxdigit((unsigned char)at[1]) || !isxdigit((unsigned char)at[2]))
                return false;
            memcpy(pair, at + 1, 2);
            *out = (char)strtoul(pair, NULL, 16);
            if (!*out++)
                return false;
            at += 2;
        } else {
            *out++ = *at;
        }
    }
    *out = 0;
    return true;
}

/* Whether a URL names something that is no file of this machine: https://..., s3://..., file://other/... */
static bool is_elsewhere(const char *url)
{
    size_t scheme = strspn(url, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");
    if (scheme < 2 || strncmp(url + scheme, "://", 3) != 0 || !isalpha((unsigned char)url[0]))
        return false;
    const char *host = url + scheme + 3;
    bool here = *host == '/' || strncasecmp(host, "localhost/", 10) == 0;
    return scheme != 4 || strncasecmp(url, "file", 4) != 0 || !here;
}

/* The path as the URL gives it, absolute or relative, in `path`. */
static bool take_path(const char *url, char *path, char *why, size_t size)
{
    bool is_url = strncasecmp(url, "file:", 5) == 0;
    const char *from = is_url ? url + 5 : url;
    if (is_url && strncmp(from, "//", 2) == 0)
        from += 2 + strcspn(from + 2, "/");
    if (strlen(from) >= PATH_MAX)
        return refuse(why, size, "output_url is longer than any path");
    memcpy(path, from, strlen(from) + 1);
    if (is_url && !decode(path))
        return refuse(why, size, "output_url has a % without two hexadecimal digits behind it");
    return true;
}

static const char *below(const char *path, const char *folder)
{
    size_t len = strlen(folder);
    if (strcmp(folder, "/") == 0)
        return path[0] == '/' ? path + 1 : NULL;
    return strncmp(path, folder, len) == 0 && path[len] == '/' ? path + len + 1 : NULL;
}

/* Makes *path one below the folder. */
static bool make_relative(const outputs *o, char **path, char *why, size_t size)
{
    if (**path == '/') {
        const char *rest = below(*path, o->real);
        if (!rest)
            rest = below(*path, o->given);
        if (!rest) {
            snprintf(why, size, "output_url is a path outside the outputs folder %s", o->real);
            return false;
        }
        *path += rest - *path;
    }
    for (const char *at = *path; *at; at += strcspn(at, "/"), at += strspn(at, "/"))
        if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || at[2] == 0))
            return refuse(why, size, "output_url has .. in its path: it has to stay in the outputs folder");
    size_t len = strlen(*path);
    const char *last = strrchr(*path, '/') ? strrchr(*path, '/') + 1 : *path;
    if (len == 0 || *last == 0 || strcmp(last, ".") == 0)
        return refuse(why, size, "output_url names no file");
    return true;
}

/* ---- the walk ---- */

/* The folder that the path's last part is in; -1: it is not there, or a link is in the way (*link). */
static int walk(const outputs *o, char *path, const char **last, bool *link)
{
    int at = fcntl(o->fd, F_DUPFD_CLOEXEC, 0);
    *link = false;
    char *part = path + strspn(path, "/"), *slash;
    while (at >= 0 && (slash = strchr(part, '/')) != NULL) {
        *slash = 0;
        int next = openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;
        *link = next < 0 && fstatat(at, part, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
        close(at);
        at = next;
        part = slash + 1 + strspn(slash + 1, "/");
    }
    *last = part;
    return at;
}

static bool stat_last(int at, const char *last, struct stat *st, bool *link)
{
    bool there = at >= 0 && fstatat(at, last, st, AT_SYMLINK_NOFOLLOW) == 0;
    *link = *link || (there && S_ISLNK(st->st_mode));
    return there;
}

typedef struct found {
    bool there, broken;
    struct stat st;
} found;

/* An error that says that nothing is there. */
static bool is_absence(int number)
{
    return number == ENOENT || number == ENOTDIR || number == ELOOP || number == ENAMETOOLONG;
}

static output_kind resolve(const outputs *o, const char *url, char *why, size_t size, found *f)
{
    char room[PATH_MAX], *path = room;
    const char *last;
    bool link;
    f->there = f->broken = false;
    if (o->fd < 0 || is_elsewhere(url))
        return OUTPUT_ELSEWHERE;
    if (!take_path(url, path, why, size) || !make_relative(o, &path, why, size))
        return OUTPUT_REFUSED;
    int at = walk(o, path, &last, &link);
    f->there = stat_last(at, last, &f->st, &link);
    f->broken = !f->there && !is_absence(errno);
    if (at >= 0)
        close(at);
    if (link) {
        refuse(why, size, "output_url leads through a symbolic link, and links are not followed");
        return OUTPUT_REFUSED;
    }
    return OUTPUT_FILE;
}

output_kind outputs_check(const outputs *o, const char *url, char *why, size_t size)
{
    found f;
    return resolve(o, url, why, size, &f);
}

output_found outputs_look(const outputs *o, const char *url, output_look *look)
{
    char why[256];
    found f;
    if (resolve(o, url, why, sizeof why, &f) != OUTPUT_FILE)
        return LOOK_NOTHING;
    if (f.broken)
        return LOOK_BROKEN;
    if (!f.there || !S_ISREG(f.st.st_mode) || f.st.st_size == 0)
        return LOOK_NOTHING;
    *look = (output_look){ .size = f.st.st_size, .mtime_s = f.st.st_mtim.tv_sec, .mtime_ns = f.st.st_mtim.tv_nsec,
                           .inode = f.st.st_ino };
    return LOOK_FILE;
}
