/* table.c: the faults, and what the library can know of a request that met one. */
#include "trial.h"

#define FRENCH "La transaction (ID de processus 57) a été bloquée sur les ressources verrou par un autre.\\n" \
               "Réexécutez la transaction. — „Привет“ ﾃﾞｯﾄﾞﾛｯｸ \xF0\x9F\x94\x92\\n\\nÀ bientôt"
#define LONG_FRENCH FRENCH FRENCH FRENCH FRENCH FRENCH FRENCH FRENCH FRENCH


const fault faults[] = {
    /* Errors: the server did not do it. */
    { "a deadlock", "when=before do=error number=1205 severity=13 state=45", .answer = BUSY, .number = 1205,
      .stays = true },
    { "a deadlock behind the rows", "when=undone do=error number=1205 severity=13", .answer = BUSY, .number = 1205 },
    { "a lock timeout", "when=before do=error number=1222 severity=16 state=51", .answer = BUSY, .number = 1222 },
    { "a lock timeout, in French", "when=before do=error number=1222 text=" FRENCH, .answer = BUSY, .number = 1222 },
    { "a snapshot conflict", "when=before do=error number=3960", .answer = BUSY, .number = 3960 },
    { "a missing table", "when=before do=error number=208", .answer = RENDERQ_SCHEMA, .number = 208 },
    { "a missing permission", "when=before do=error number=229 severity=14", .answer = RENDERQ_DENIED, .number = 229 },
    { "a text that is too long", "when=undone do=error number=2628 text=" LONG_FRENCH, .answer = RENDERQ_INVALID,
      .number = 2628 },
    { "a full disk", "when=undone do=error number=1105 severity=17", .answer = RENDERQ_FAILED, .number = 1105 },
    { "an unknown error", "when=before do=error number=99999", .answer = RENDERQ_FAILED, .number = 99999 },
    { "a deadlock, and cut", "when=before do=error number=1205 severity=13 cut=1", .answer = BUSY, .number = 1205,
      .cut = true },
    { "a missing table, and cut", "when=before do=error number=208 cut=1", .answer = RENDERQ_SCHEMA, .number = 208,
      .cut = true },
    /* Errors that say nothing about the request. */
    { "throttling", "when=before do=error number=40501 severity=20", .answer = UNCERTAIN, .number = 40501 },
    { "a failover", "when=before do=error number=40197 severity=17", .answer = UNCERTAIN, .number = 40197,
      .stays = true },
    { "a failover behind it", "do=error number=40197 severity=17", .answer = UNCERTAIN, .happens = true,
      .number = 40197 },
    { "a killed session", "when=before do=error number=596 severity=21", .answer = UNCERTAIN, .number = 596 },
    { "a killed session behind it", "do=error number=596 severity=21", .answer = UNCERTAIN, .happens = true,
      .number = 596 },
    /* The connection ends. */
    { "cut while idle", NULL, .answer = UNCERTAIN },
    { "dropped before", "when=before do=drop", .answer = UNCERTAIN, .stays = true },
    { "reset before", "when=before do=drop reset=1", .answer = UNCERTAIN },
    { "dropped after", "do=drop", .answer = UNCERTAIN, .happens = true, .stays = true },
    { "reset after", "do=drop reset=1", .answer = UNCERTAIN, .happens = true },
    { "cut in a packet", "do=cut at_byte=packet", .answer = UNCERTAIN, .happens = true },
    { "cut in a row", "do=cut at_byte=row", .answer = UNCERTAIN, .happens = true },
    { "cut between rows", "do=cut at_byte=rows", .answer = UNCERTAIN, .happens = true },
    { "cut in front of the end", "do=cut at_byte=done", .answer = UNCERTAIN, .happens = true },
    { "done later", "do=late ms=150", .answer = UNCERTAIN, .happens = true, .late = true },
    /* Slow and silent servers. */
    { "silent before", "when=before do=silent", .answer = UNCERTAIN, .waits = true },
    { "silent after", "do=silent", .answer = UNCERTAIN, .happens = true, .waits = true },
    { "hung before", "when=before do=hang", .answer = UNCERTAIN, .waits = true },
    { "hung after", "do=hang", .answer = UNCERTAIN, .happens = true, .waits = true },
    { "hung in the rows", "do=hang rows=1", .answer = UNCERTAIN, .happens = true, .waits = true },
    { "trickling", "do=trickle ms=4", .answer = UNCERTAIN, .happens = true, .waits = true, .or_ok = true },
    /* Nothing is wrong. */
    { "one-byte packets", "do=packets", .answer = OK, .happens = true },
    { "one-byte writes", "do=bytes", .answer = OK, .happens = true },
    { "messages, in French", "do=info text=" FRENCH, .answer = OK, .happens = true },
    /* Nonsense. */
    { "noise", "do=noise", .answer = UNCERTAIN, .happens = true },
    { "other noise", "do=noise seed=2", .answer = UNCERTAIN, .happens = true },
    { "junk in a packet", "do=junk", .answer = UNCERTAIN, .happens = true },
    { "other junk", "do=junk seed=2", .answer = UNCERTAIN, .happens = true },
    { "a token that is too long", "do=length", .answer = UNCERTAIN, .happens = true, .waits = true },
    { "a token that is too short", "do=short", .answer = UNCERTAIN, .happens = true, .or_ok = true },
    { "a column too few", "do=fewer", .answer = UNCERTAIN, .happens = true, .of_rows = true },
    { "a column too many", "do=more", .answer = UNCERTAIN, .happens = true, .of_rows = true },
    { "other types", "do=types", .answer = UNCERTAIN, .happens = true, .of_rows = true },
    { "an end in front", "do=premature", .answer = UNCERTAIN, .happens = true, .of_rows = true, .lies = true },
    { "no end", "do=endless", .answer = UNCERTAIN, .happens = true, .waits = true },
};
const size_t n_faults = count_of(faults);
