#!/bin/sh
# The library against a server of yours: SQL Server, Azure SQL, or Babelfish for PostgreSQL. Runs only with
# RENDERQ_TEST_URL, sqlserver://USER@HOST:PORT/DATABASE, the password in RENDERQ_PASSWORD or in the URL. The user owns the
# database (db_owner), or may make and drop tables in their default schema.
#
# What it drops: each test of the conformance suite makes one table, conformance_PID_NUMBER, in the user's default schema,
# and drops it again; first it drops what a run that was killed may have left under that name. One test makes tables whose
# names begin with "conformance " and are odd on purpose, in the same way. The race, the faults and interop make a table
# each, dbo.race_PID, dbo.faults_PID and dbo.interop_PID, and drop it when all was well. No other table is written to or
# dropped.
# BUILD: where the programs are. WRAP: a command to run the suite under (valgrind).
# PARTS: conformance, race, faults, interop; all of them if it is not set. interop has a C# program with Dapper work beside
# the command, and needs .NET and jq. DOTNET: its command.
# CONFORMANCE_GROUPS: which groups of that suite; all of them if it is not set.
# JOBS: of the race; from 1,000 on it wants to see every kind of fate. WORKERS. DEADLINE: seconds that a request may take
# while connections are lost.
set -eu
SOURCE=${SOURCE:-$(cd "$(dirname "$0")/.." && pwd)}
BUILD=$(cd "${BUILD:-$SOURCE/build}" && pwd)
PARTS=${PARTS:-conformance race faults interop}
JOBS=${JOBS:-1000}
WORKERS=${WORKERS:-8}
DOTNET=${DOTNET:-dotnet}

if [ -z "${RENDERQ_TEST_URL:-}" ]; then
    echo "check-server: RENDERQ_TEST_URL names no server; nothing was tested against one"
    exit 0
fi
unset RENDERQ_TDSD_FILE
export BUILD
failed=""

conformance() {
    # shellcheck disable=SC2086  # WRAP is a command with its arguments, GROUPS a list
    ${WRAP:-} "$BUILD/test/conformance/conformance" "$RENDERQ_TEST_URL" ${CONFORMANCE_GROUPS:-}
}

# The URL, with another queue.
with_queue() {
    base=${RENDERQ_TEST_URL%%\?*}
    others=$(printf '%s' "${RENDERQ_TEST_URL#"$base"}" | tr -d '?' | tr '&' '\n' | grep -v '^queue=' | tr '\n' '&')
    printf '%s?%squeue=%s' "$base" "${others%&}${others:+&}" "$1"
}

race() {
    "$BUILD/test/race/race" --jobs "$JOBS" --workers "$WORKERS" --seconds 900 --poison --drop \
        "$(with_queue "dbo.race_$$")"
}

# The race while connections are lost.
faults() {
    DEADLINE=${DEADLINE:-10} "$SOURCE/test/proxy/race.sh" "$(with_queue "dbo.faults_$$")" --jobs "$JOBS" \
        --workers "$WORKERS" --seconds 900 --poison --drop
}

interop() {
    for tool in "$DOTNET" jq; do
        if ! command -v "$tool" > /dev/null; then
            echo "check-server: there is no $tool; Dapper was not tested"
            [ "${CI:-}" != true ]
            return
        fi
    done
    make -s -C "$SOURCE" BUILD="$BUILD" DOTNET="$DOTNET" interop || return 1
    INTEROP="$DOTNET $BUILD/test/interop/dotnet/interop.dll" "$SOURCE/test/interop/turns.sh" "$RENDERQ_TEST_URL"
}

for part in $PARTS; do
    printf -- '-- %s against the server\n' "$part"
    $part || failed="$failed $part"
done
if [ -n "$failed" ]; then
    echo "check-server: failed:$failed"
    exit 1
fi
