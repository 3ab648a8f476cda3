/* contract.c: prints what each statement takes and gives, a line a statement, so that the check of the T-SQL compares
 * its files with the contract that the library has.
 *   enqueue many id:guid composition_id:text:200 ... -> int guid */
#include <stdio.h>

#include "statement.h"

static const char *const type_names[] = {
    [RQ_TEXT] = "text", [RQ_GUID] = "guid", [RQ_INT] = "int", [RQ_BIGINT] = "bigint", [RQ_BIT] = "bit"
};

int main(void)
{
    for (int id = 0; id < RQ_STATEMENTS; id++) {
        const rq_statement *s = &rq_statements[id];
        printf("%s %s", s->name, s->many ? "many" : "one");
        for (size_t i = 0; i < s->n_params; i++) {
            printf(" %s:%s", s->params[i].name, type_names[s->params[i].type]);
            if (s->params[i].type == RQ_TEXT)
                printf(":%d", s->params[i].units);
        }
        printf(" ->");
        for (size_t i = 0; i < s->n_columns; i++)
            printf(" %s", type_names[s->columns[i]]);
        printf("\n");
    }
    return 0;
}
