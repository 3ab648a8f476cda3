/* report.c: the table on the terminal, and the same as JSON. */
#include "bench.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define FIGURES_MAX 128
#define NAME_WIDTH "50"

typedef struct group {
    const char *title, *ours, *base;
} group;

/* Names are string constants of the sections, without a character that JSON would want escaped. */
static struct {
    group group;
    figure figure;
} reported[FIGURES_MAX];
static size_t n_reported;
static group current;

static bool is_met(const figure *f)
{
    return f->rule == AT_LEAST ? f->ratio >= f->target : f->rule == AT_MOST ? f->ratio <= f->target : true;
}

static const char *verdict(const figure *f)
{
    return f->rule == NO_TARGET ? "-" : is_met(f) ? "ok" : "MISSED";
}

void report_group(const char *title, const char *ours, const char *base)
{
    current = (group){ title, ours, base };
    printf("\n%-" NAME_WIDTH "s %12s %12s  %6s  %-8s\n", title, ours, base, "ratio", "target");
    fflush(stdout);
}

static void number(char *out, size_t size, double value)
{
    int decimals = value >= 100 || value <= -100 ? 0 : value >= 10 ? 1 : 2;
    snprintf(out, size, "%.*f", value == (double)(int64_t)value ? 0 : decimals, value);
}

void report(const figure *f)
{
    char name[80], ours[32], base[32], target[32] = "";
    snprintf(name, sizeof name, "%s, %s", f->name, f->unit);
    number(ours, sizeof ours, f->ours);
    number(base, sizeof base, f->base);
    if (f->rule != NO_TARGET)
        snprintf(target, sizeof target, "%s %.2f", f->rule == AT_LEAST ? ">=" : "<=", f->target);
    printf("  %-48s %12s %12s  %6.2f  %-8s %s\n", name, ours, base, f->ratio, target, verdict(f));
    fflush(stdout);
    if (n_reported == FIGURES_MAX)
        die("more figures than the report has room for");
    reported[n_reported].group = current;
    reported[n_reported++].figure = *f;
}

void report_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("  ", stdout);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    fflush(stdout);
}

void report_summary(double seconds)
{
    size_t missed = 0;
    for (size_t i = 0; i < n_reported; i++)
        missed += !is_met(&reported[i].figure);
    printf("\n%zu figures, %zu missed, in %.0f s. A ratio is the median of rounds, each side in turn.\n", n_reported,
           missed, seconds);
}

static void put_figure(FILE *file, const group *g, const figure *f)
{
    fprintf(file, "    { \"group\": \"%s\", \"name\": \"%s\", \"unit\": \"%s\",\n", g->title, f->name, f->unit);
    fprintf(file, "      \"columns\": [\"%s\", \"%s\"], \"values\": [%.6g, %.6g], \"ratio\": %.4f,\n", g->ours, g->base,
            f->ours, f->base, f->ratio);
    if (f->rule == NO_TARGET)
        fputs("      \"target\": null, \"verdict\": null }", file);
    else
        fprintf(file, "      \"target\": \"%s %.2f\", \"verdict\": \"%s\" }", f->rule == AT_LEAST ? ">=" : "<=",
                f->target, verdict(f));
}

void report_json(const char *path, const bench_run *run, double seconds)
{
    char temporary[4200], day[32];
    struct utsname system;
    time_t now = time(NULL);
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    FILE *file = fopen(temporary, "w");
    if (!file)
        die("%s: %s", temporary, strerror(errno));
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    uname(&system);
    fprintf(file, "{\n  \"librenderq\": \"%s\", \"sqlite\": \"%s\", \"when\": \"%s\",\n", renderq_version(),
            sqlite3_libversion(), day);
    fprintf(file, "  \"system\": \"%s %s %s\", \"processors\": %ld, \"quick\": %s, \"seconds\": %.1f,\n",
            system.sysname, system.release, system.machine, sysconf(_SC_NPROCESSORS_ONLN),
            run->quick ? "true" : "false", seconds);
    fputs("  \"figures\": [\n", file);
    for (size_t i = 0; i < n_reported; i++) {
        put_figure(file, &reported[i].group, &reported[i].figure);
        fputs(i + 1 < n_reported ? ",\n" : "\n", file);
    }
    fputs("  ]\n}\n", file);
    if (ferror(file) | fclose(file) || rename(temporary, path) != 0)
        die("%s: %s", path, strerror(errno));
}
