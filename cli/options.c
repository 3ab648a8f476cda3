/* options.c: the command line taken apart: options of all commands and of one, numbers, durations, IDs. */
#include "cli.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- getopt ---- */

static const struct option common_options[] = {
    { "db", required_argument, NULL, 'd' },
    { "queue", required_argument, NULL, 'q' },
    { "password-file", required_argument, NULL, 'P' },
    { "json", no_argument, NULL, 'J' },
    { "help", no_argument, NULL, 'h' },
};

#define COMMON_SHORTS "d:q:jh"
#define COMMON        (sizeof common_options / sizeof common_options[0])

static bool take_common(cli *c, int option)
{
    switch (option) {
    case 'd': c->url = optarg; return true;
    case 'q': c->queue = optarg; return true;
    case 'P': c->password_file = optarg; return true;
    case 'j':
    case 'J': c->json = true; return true;
    case 'h': c->help = true; return true;
    default: return false;
    }
}

/* getopt's own texts would name neither the command nor where to read on. An option's value is never shown: it may
 * be a URL. */
static void complain_option(cli *c, char **argv, bool missing)
{
    c->help = false;
    const char *word = argv[optind - 1];
    int name_len = (int)strcspn(word, "=");
    bool is_long = strncmp(word, "--", 2) == 0;
    if (missing && is_long)
        wrong_usage(c, "%.*s wants a value", name_len, word);
    else if (missing)
        wrong_usage(c, "-%c wants a value", optopt);
    else if (is_long && word[name_len] == '=' && optopt)
        wrong_usage(c, "%.*s takes no value", name_len, word);
    else if (optopt && optopt < 128 && isprint(optopt) && !(is_long && strchr(COMMON_SHORTS "PJ", optopt)))
        wrong_usage(c, "there is no option -%c", optopt);
    else
        wrong_usage(c, "there is no option %.*s, or it could be several", name_len, word);
}

int next_option(cli *c, int argc, char **argv, const char *shorts, const struct option *longs)
{
    struct option all[OPTIONS_MAX + COMMON + 1];
    char all_shorts[64];
    size_t own = 0;
    while (longs && longs[own].name)
        own++;
    if (own > OPTIONS_MAX)
        abort();
    if (own > 0)
        memcpy(all, longs, own * sizeof all[0]);
    memcpy(all + own, common_options, sizeof common_options);
    all[own + COMMON] = (struct option){ NULL, 0, NULL, 0 };
    snprintf(all_shorts, sizeof all_shorts, "%s" COMMON_SHORTS, shorts);
    opterr = 0;
    for (;;) {
        optopt = 0;
        int option = getopt_long(argc, argv, all_shorts, all, NULL);
        if (option == '?' || option == ':') {
            complain_option(c, argv, option == ':');
            return OPTION_STOP;
        }
        if (option == OPTION_END)
            return c->help ? OPTION_STOP : OPTION_END;
        bool own_short = option < 128 && strchr(shorts, option);     /* a command may have another -j */
        if (own_short || !take_common(c, option))
            return option;
    }
}

exit_code option_stopped(const cli *c)
{
    return c->help ? CODE_DONE : CODE_USAGE;
}

bool check_arguments(const cli *c, int given, int min, int max, const char *what)
{
    if (given < min)
        wrong_usage(c, "%s is missing", what);
    else if (max >= 0 && given > max)
        wrong_usage(c, "too many arguments%s%s", max > 0 ? ": it takes only " : "", max > 0 ? what : "");
    return given >= min && (max < 0 || given <= max);
}

/* ---- values ---- */

bool take_number(const cli *c, const char *option, const char *text, int64_t min, int64_t max, int64_t *out)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (*text && !isspace((unsigned char)*text) && !*end && errno == 0 && number >= min && number <= max) {
        *out = number;
        return true;
    }
    wrong_usage(c, "%s is \"%s\": it is a whole number from %lld to %lld", option, text, (long long)min,
                (long long)max);
    return false;
}

/* The unit at *text in milliseconds, and *text behind it; 0: there is none. */
static int64_t read_unit(const char **text)
{
    static const struct { const char *name; int64_t ms; } units[] = {
        { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 }, { "w", 604800000 }
    };
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        size_t len = strlen(units[i].name);
        if (strncmp(*text, units[i].name, len) == 0 && !isalpha((unsigned char)(*text)[len])) {
            *text += len;
            return units[i].ms;
        }
    }
    return 0;
}

static bool read_duration(const char *text, int64_t *ms)
{
    bool first = true;
    *ms = 0;
    do {
        if (!isdigit((unsigned char)*text))
            return false;
        int64_t number = 0;
        for (; isdigit((unsigned char)*text) && number <= RENDERQ_DELAY_MAX_MS; text++)
            number = number * 10 + (*text - '0');
        int64_t unit = first && !*text ? 1000 : read_unit(&text);
        if (unit == 0 || number > RENDERQ_DELAY_MAX_MS / unit)
            return false;
        *ms += number * unit;
        first = false;
    } while (*text && *ms <= RENDERQ_DELAY_MAX_MS);
    return *ms <= RENDERQ_DELAY_MAX_MS;
}

bool take_duration(const cli *c, const char *option, const char *text, int64_t *ms)
{
    if (read_duration(text, ms))
        return true;
    wrong_usage(c, "%s is \"%s\": it is a duration like 30s, 10m, 2h, 7d, or a number of seconds; at most 3650d",
                option, text);
    return false;
}

bool take_id(const cli *c, const char *what, const char *text, renderq_id *id)
{
    static const char form[] = "XXXXXXXX-XXXX-XXXX-XXXX-XXXXXXXXXXXX";
    size_t i = 0;
    while (form[i] && (form[i] == 'X' ? isxdigit((unsigned char)text[i]) : text[i] == '-'))
        i++;
    if (form[i] || text[i]) {
        wrong_usage(c, "\"%s\" is no %s: it has 8-4-4-4-12 hexadecimal digits", text, what);
        return false;
    }
    for (size_t at = 0; at <= i; at++)
        id->text[at] = (char)toupper((unsigned char)text[at]);
    return true;
}
