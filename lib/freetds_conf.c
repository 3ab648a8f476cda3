/* freetds_conf.c: whether FreeTDS is going to demand encryption. CT-Library cannot be told to, only its configuration
 * file can; so the file is read here as FreeTDS reads it (src/tds/config.c of version 1.3): the same files in the same
 * order, [global] first, then the server's section, until a file has that section. */
#include <ctype.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "sqlserver.h"

#define SYSTEM_FILE "/etc/freetds/freetds.conf"

/* A line as FreeTDS understands it: blanks squeezed, what is behind ; or # left out. False: nothing on it. */
static bool split(char *line, char **option, char **value)
{
    char *from = line, *to = line;
    while (isspace((unsigned char)*from))
        from++;
    if (!*from || *from == ';' || *from == '#')
        return false;
    for (char before = 0; *from && *from != '='; before = *from++) {
        if (isspace((unsigned char)*from))
            continue;
        if (isspace((unsigned char)before) && to > line)
            *to++ = ' ';
        *to++ = (char)tolower((unsigned char)*from);
    }
    if (*from)
        from++;
    bool any = to > line;
    *to = 0;
    *option = line;
    while (isspace((unsigned char)*from))
        from++;
    char *end = from + strcspn(from, ";#");
    while (end > from && isspace((unsigned char)end[-1]))
        end--;
    *end = 0;
    *value = from;
    return any;
}

/* Reads one section. Returns whether it is there; *required follows its `encryption` where it has one. */
static bool read_section(FILE *file, const char *section, bool *required)
{
    char line[256];
    bool found = false, inside = false;
    rewind(file);
    while (fgets(line, sizeof line, file)) {
        char *option, *value;
        if (!split(line, &option, &value))
            continue;
        if (option[0] == '[') {
            option[strcspn(option, "]")] = 0;
            inside = strcasecmp(section, option + 1) == 0;
            found = found || inside;
        } else if (inside && strcmp(option, "encryption") == 0) {
            *required = strcasecmp(value, "require") == 0;
        }
    }
    return found;
}

/* What is asked, and what has been seen. */
typedef struct search {
    char *where;                /* the file with the section, or the first that could be read */
    size_t size;
    bool required, any;         /* any: one could be read */
} search;

/* Whether the file has the section. */
static bool read_file(const char *path, const char *section, search *to)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    read_section(file, "global", &to->required);
    bool found = read_section(file, section, &to->required);
    fclose(file);
    if (found || !to->any)
        snprintf(to->where, to->size, "%s", path);
    to->any = true;
    return found;
}

/* From the user's entry in passwd(5): FreeTDS does not look at $HOME. */
static bool home_file(char *path, size_t size)
{
    struct passwd entry, *found = NULL;
    char buffer[1024];
    return getpwuid_r(getuid(), &entry, buffer, sizeof buffer, &found) == 0 && found
           && snprintf(path, size, "%s/.freetds.conf", found->pw_dir) < (int)size;
}

static bool read_files(const char *section, search *to)
{
    char path[4096];
    const char *given = getenv("FREETDSCONF"), *root = getenv("FREETDS");
    if (given && read_file(given, section, to))
        return true;
    if (root && snprintf(path, sizeof path, "%s/etc/freetds.conf", root) < (int)sizeof path
        && read_file(path, section, to))
        return true;
    if (home_file(path, sizeof path) && read_file(path, section, to))
        return true;
    return read_file(SYSTEM_FILE, section, to);
}

/* What FreeTDS looks for when no section has the whole name: "host" for host:port and host\instance, the address alone
 * for [v6]:port. False: there is nothing else in the name. */
static bool host_of(const char *server, char *host, size_t size)
{
    bool quoted = server[0] == '[' && strstr(server, "]:");
    const char *end = quoted ? strstr(server, "]:") : server[0] == '[' ? NULL : strrchr(server, ':');
    if (!end || end == server)
        end = strrchr(server, '\\');
    if (!end || end == server)
        return false;
    server += quoted;
    return snprintf(host, size, "%.*s", (int)(end - server), server) < (int)size;
}

bool rq_freetds_demands_encryption(const char *server, char *where, size_t size)
{
    search to = { .where = where, .size = size };
    char host[1100];
    snprintf(where, size, "%s", SYSTEM_FILE);
    if (!read_files(server, &to) && host_of(server, host, sizeof host))
        read_files(host, &to);
    return to.required;
}
