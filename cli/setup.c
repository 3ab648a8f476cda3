/* setup.c: renderq init, renderq schema and renderq version: what is needed before there is a queue. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "schema.h"

/* ---- init ---- */

const char help_init[] =
    "usage: renderq init\n"
    "\n"
    "Makes the queue's table, or adds what an older one lacks. Jobs and other tables\n"
    "are left alone, and running it again is harmless. Where only an administrator\n"
    "may make tables, give them what renderq schema prints.\n"
    "\n"
    "Example:\n"
    "  renderq --db sqlite:jobs.db init\n";

exit_code run_init(cli *c, int argc, char **argv)
{
    if (next_option(c, argc, argv, ":", NULL) == OPTION_STOP)
        return option_stopped(c);
    if (!check_arguments(c, argc - optind, 0, 0, NULL))
        return CODE_USAGE;
    exit_code code = open_queue(c, NULL);
    if (code != CODE_DONE)
        return code;
    renderq_status status = renderq_create(c->h, c->queue);
    if (status != RENDERQ_OK)
        return complain_status(c, status);
    char *name = queue_name(c);
    if (c->json)
        json_print(json_pack("{s:o, s:s}", "queue", json_text(name), "status", "OK"));
    else
        printf("the queue %s is ready\n", name);
    free(name);
    return CODE_DONE;
}

/* ---- schema ---- */

const char help_schema[] =
    "usage: renderq schema\n"
    "\n"
    "Prints the SQL script that makes the queue in SQLite, with the queue's name\n"
    "(--queue, or the URL's). It needs no database and no rights; it may be run\n"
    "again without harm. SQL Server's script is a file: sql/sqlserver/schema.sql,\n"
    "whose head says how to give the table another name.\n"
    "\n"
    "Example:\n"
    "  renderq --queue thumbnails schema | sqlite3 jobs.db\n";

static const struct { const char *scheme; const rq_sql *files; } scripts[] = {
    { "sqlite", rq_sql_cli_sqlite },
};

#define TABLE_DEFAULT "VideoRenderJobs"     /* in the scripts, always inside double quotes */

static const char *find_script(const char *scheme)
{
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
        if (strcmp(scripts[i].scheme, *scheme ? scheme : "sqlite") == 0)
            return scripts[i].files[0].text;
    return NULL;
}

/* The table's name out of a queue's: [my ]]name] is my ]name. False: it is none that SQLite could have. */
static bool plain_name(char *name)
{
    size_t len = strlen(name);
    if (*name != '[')
        return len > 0 && !strpbrk(name, ".[]");
    char *out = name;
    const char *from = name + 1;
    for (; *from && !(*from == ']' && from[1] != ']'); from++) {
        from += *from == ']';
        *out++ = *from;
    }
    *out = 0;
    return *from == ']' && !from[1] && *name;
}

static void print_script(FILE *to, const char *text, const char *table)
{
    for (const char *at; (at = strstr(text, TABLE_DEFAULT)); text = at + strlen(TABLE_DEFAULT)) {
        fwrite(text, 1, (size_t)(at - text), to);
        for (const char *p = table; *p; p++) {
            if (*p == '"')
                fputc('"', to);
            fputc(*p, to);
        }
    }
    fputs(text, to);
}

static void print_json_script(const char *text, const char *table)
{
    char *script = NULL;
    size_t len = 0;
    FILE *to = open_memstream(&script, &len);
    if (to) {
        print_script(to, text, table);
        fclose(to);
    }
    json_print(json_pack("{s:o, s:s}", "table", json_text(table), "sql", script));
    free(script);
}

exit_code run_schema(cli *c, int argc, char **argv)
{
    char scheme[32];
    if (next_option(c, argc, argv, ":", NULL) == OPTION_STOP)
        return option_stopped(c);
    if (!check_arguments(c, argc - optind, 0, 0, NULL))
        return CODE_USAGE;
    const char *script = find_script(url_scheme(c, scheme, sizeof scheme));
    if (!script)
        return wrong_usage(c, "the script for %s is not printed here: it is the file sql/%s/schema.sql", scheme,
                           scheme);
    char *name = queue_name(c);
    exit_code code = CODE_DONE;
    bool good = plain_name(name);
    if (good && c->json)
        print_json_script(script, name);
    else if (good)
        print_script(stdout, script, name);
    else
        code = wrong_usage(c, "the queue's name is no name of a table: NAME, or [NAME] if it has . [ or ] in it");
    free(name);
    return code;
}

/* ---- version ---- */

const char help_version[] =
    "usage: renderq version\n"
    "\n"
    "Prints the version of the command, and of the library if it is another one.\n";

exit_code run_version(cli *c, int argc, char **argv)
{
    if (next_option(c, argc, argv, ":", NULL) == OPTION_STOP)
        return option_stopped(c);
    if (!check_arguments(c, argc - optind, 0, 0, NULL))
        return CODE_USAGE;
    bool same = strcmp(renderq_version(), RENDERQ_VERSION) == 0;
    if (c->json)
        json_print(json_pack("{s:s, s:s}", "version", RENDERQ_VERSION, "library", renderq_version()));
    else if (same)
        printf("renderq %s\n", RENDERQ_VERSION);
    else
        printf("renderq %s (library %s)\n", RENDERQ_VERSION, renderq_version());
    return CODE_DONE;
}
