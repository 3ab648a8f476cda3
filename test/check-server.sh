#!/bin/sh
# The library against a server of yours: SQL Server, Azure SQL, or Babelfish for PostgreSQL. Runs only with
# RENDERQ_TEST_URL, sqlserver://USER@HOST:PORT/DATABASE, the password in RENDERQ_PASSWORD or in the URL. The user owns the
# database (db_owner), or may make and drop tables in their default schema.
#
# What it drops: each test of the conformance suite makes one table, conformance_PID_NUMBER, in the user's default schema,
# and drops it again; first it drops what a run that was killed may have left under that name. One test makes tables whose
# names begin with "conformance " and are odd on purpose, in the same way. No other table is written to or dropped.
# BUILD: where the programs are. WRAP: a command to run each of them under (valgrind).
# PARTS: conformance; all of them if it is not set.
# CONFORMANCE_GROUPS: which groups of that suite; all of them if it is not set.
set -eu
SOURCE=${SOURCE:-$(cd "$(dirname "$0")/.." && pwd)}
BUILD=$(cd "${BUILD:-$SOURCE/build}" && pwd)
PARTS=${PARTS:-conformance}

if [ -z "${RENDERQ_TEST_URL:-}" ]; then
    echo "check-server: RENDERQ_TEST_URL names no server; nothing was tested against one"
    exit 0
fi
unset RENDERQ_TDSD_FILE
failed=""

conformance() {
    # shellcheck disable=SC2086  # WRAP is a command with its arguments, GROUPS a list
    ${WRAP:-} "$BUILD/test/conformance/conformance" "$RENDERQ_TEST_URL" ${CONFORMANCE_GROUPS:-}
}

for part in $PARTS; do
    printf -- '-- %s against the server\n' "$part"
    $part || failed="$failed $part"
done
if [ -n "$failed" ]; then
    echo "check-server: failed:$failed"
    exit 1
fi
