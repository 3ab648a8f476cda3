#!/bin/sh
# Every effect exactly once, with consumers that are killed and paused (test/once): on SQLite, and with fewer messages
# over TDS against the test server of test/tdsd.
# BUILD: where the program is. SOURCE: the source tree.
set -eu
SOURCE=${SOURCE:-$(cd "$(dirname "$0")/.." && pwd)}
BUILD=$(cd "${BUILD:-$SOURCE/build}" && pwd)
ONCE=$BUILD/test/once/once

WORK=$(mktemp -d)
SERVER=""
finish() {
    if [ -n "$SERVER" ]; then
        kill "$SERVER" 2> /dev/null || true
        wait "$SERVER" 2> /dev/null || true
    fi
    rm -rf "$WORK"
}
trap finish EXIT
trap 'exit 130' INT TERM
cd "$WORK"

echo "-- on SQLite"
"$ONCE" "sqlite:$WORK/queue.db?synchronous=normal"

if ! command -v python3 > /dev/null; then
    echo "check-once: there is no python3; nothing was tested over TDS"
    [ "${CI:-}" != true ] || exit 1
    exit 0
fi

echo "-- over TDS"
# Nothing that is set for the machine's own FreeTDS counts here.
unset TDSHOST TDSPORT TDSVER TDSDUMP TDSDUMPCONFIG FREETDS
export FREETDSCONF="$WORK/none.conf"
# shellcheck disable=SC2086  # CC may be a command with its arguments
${CC:-cc} -std=gnu99 -I"$SOURCE/include" -I"$SOURCE/lib" "$SOURCE/test/tsql/contract.c" "$SOURCE/lib/statement.c" \
    -o tell && ./tell > contract
: > server
python3 "$SOURCE/test/tdsd/tdsd.py" --sql "$SOURCE/sql" --contract contract --db tdsd.db --callers > server 2>&1 &
SERVER=$!
PORT=""
for _ in $(seq 600); do
    PORT=$(sed -n 's/^tdsd: listening on .*:\([0-9]*\)$/\1/p' server)
    [ -z "$PORT" ] || break
    kill -0 "$SERVER" 2> /dev/null || break
    sleep 0.1
done
[ -n "$PORT" ] || { echo "check-once: the server did not start:"; cat server; exit 1; }
"$ONCE" --messages 200 "sqlserver://renderq:renderq@127.0.0.1:$PORT/renderq"
kill "$SERVER"
wait "$SERVER" || { echo "check-once: the server ended with $?"; exit 1; }
SERVER=""
[ "$(wc -l < server)" -eq 1 ] || { echo "check-once: the server said:"; cat server; exit 1; }
