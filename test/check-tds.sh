#!/bin/sh
# The SQL Server driver over TDS, through FreeTDS, against the test server of test/tdsd: the conformance suite, what
# only the wire shows (test/sqlserver), a server that misbehaves (test/faults), and the server's own tests. It proves
# nothing about T-SQL.
# BUILD: where the programs are. SOURCE: the source tree. WRAP: a command to run each of them under (valgrind).
# PARTS: conformance, interop, wire, worker, faults, proxy, server; these if it is not set. And dapper, which needs .NET: `make
# check-interop`.
set -eu
SOURCE=${SOURCE:-$(cd "$(dirname "$0")/.." && pwd)}
BUILD=$(cd "${BUILD:-$SOURCE/build}" && pwd)
PARTS=${PARTS:-conformance interop wire worker faults proxy server}

for tool in python3 openssl; do
    if ! command -v $tool > /dev/null; then
        echo "check-tds: there is no $tool; nothing was tested over TDS"
        [ "${CI:-}" != true ] || exit 1
        exit 0
    fi
done

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
failed=""

# Nothing that is set for the machine's own FreeTDS counts here.
unset TDSHOST TDSPORT TDSVER TDSDUMP TDSDUMPCONFIG FREETDS
FREETDSCONF=$WORK/none.conf
export SOURCE FREETDSCONF

RENDERQ_TDSD_CONTRACT=$WORK/contract
RENDERQ_TDSD_CERT=$WORK/server.crt
RENDERQ_TDSD_KEY=$WORK/server.key
export RENDERQ_TDSD_CONTRACT RENDERQ_TDSD_CERT RENDERQ_TDSD_KEY

# What the statements are, as the library tells it.
make_contract() {
    # shellcheck disable=SC2086  # CC may be a command with its arguments
    ${CC:-cc} -std=gnu99 -I"$SOURCE/include" -I"$SOURCE/lib" "$SOURCE/test/tsql/contract.c" "$SOURCE/lib/statement.c" \
        -o "$WORK/tell" && "$WORK/tell" > "$RENDERQ_TDSD_CONTRACT"
}

make_certificate() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost \
        -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout "$RENDERQ_TDSD_KEY" -out "$RENDERQ_TDSD_CERT" \
        > "$WORK/openssl" 2>&1 || { cat "$WORK/openssl"; return 1; }
}

# Sets SERVER and PORT. The shell that starts it may be slow to open the file, which must not hold the last one's port.
start_server() {
    : > "$WORK/server"
    python3 "$SOURCE/test/tdsd/tdsd.py" --sql "$SOURCE/sql" --contract "$RENDERQ_TDSD_CONTRACT" --db "$WORK/queue.db" \
        --control "$WORK/control" --user sa --password s3cret --database renderq > "$WORK/server" 2>&1 &
    SERVER=$!
    PORT=""
    for _ in $(seq 600); do
        PORT=$(sed -n 's/^tdsd: listening on .*:\([0-9]*\)$/\1/p' "$WORK/server")
        [ -z "$PORT" ] || return 0
        kill -0 "$SERVER" 2> /dev/null || break
        sleep 0.1
    done
    echo "check-tds: the server did not start:"
    cat "$WORK/server"
    return 1
}

stop_server() {
    kill "$SERVER"
    wait "$SERVER" || { echo "check-tds: the server ended with $?"; return 1; }
    SERVER=""
    [ "$(wc -l < "$WORK/server")" -eq 1 ] || { echo "check-tds: the server said:"; cat "$WORK/server"; return 1; }
}

# suite [OPTION]: the conformance suite, or its GROUPS.
suite() {
    start_server || return 1
    # shellcheck disable=SC2086  # WRAP is a command with its arguments
    RENDERQ_TDSD_FILE=$WORK/queue.db ${WRAP:-} "$BUILD/test/conformance/conformance" "$@" \
        "sqlserver://sa:s3cret@127.0.0.1:$PORT/renderq" ${GROUPS_OF_SUITE:-} || { stop_server; return 1; }
    stop_server
}

conformance() {
    suite
}

# The same tests of what other programs do on the table, with those programs on the wire as well.
interop() {
    GROUPS_OF_SUITE="foreign states beside" suite --their-tsql
}

dapper() {
    start_server || return 1
    BUILD=$BUILD "$SOURCE/test/interop/turns.sh" "sqlserver://sa:s3cret@127.0.0.1:$PORT/renderq" \
        || { stop_server; return 1; }
    stop_server
}

worker() {
    start_server || return 1
    # shellcheck disable=SC2086
    RENDERQ_TDSD_FILE=$WORK/queue.db RENDERQ_TDSD_CONTROL=$WORK/control ${WRAP:-} "$BUILD/test/worker/worker" \
        "sqlserver://sa:s3cret@127.0.0.1:$PORT/renderq" ${GROUPS_OF_WORKER:-} \
        || { stop_server; return 1; }
    stop_server
}

wire() {
    # shellcheck disable=SC2086
    ${WRAP:-} "$BUILD/test/sqlserver/wire"
}

# What waits for the clock goes beside what waits for the processor.
faults() {
    # shellcheck disable=SC2086
    ${WRAP:-} "$BUILD/test/faults/faults" connect request attached failover > "$WORK/faults" 2>&1 &
    others=$!
    status=0
    # shellcheck disable=SC2086
    ${WRAP:-} "$BUILD/test/faults/faults" matrix || status=1
    wait $others || status=1
    cat "$WORK/faults"
    return $status
}

# The race while connections are lost.
proxy() {
    start_server || return 1
    BUILD=$BUILD TMPDIR=$WORK "$SOURCE/test/proxy/race.sh" "sqlserver://sa:s3cret@127.0.0.1:$PORT/renderq" \
        --jobs 300 --poison || { stop_server; return 1; }
    stop_server
}

server() {
    (cd "$SOURCE" && TMPDIR=$WORK python3 -B -m unittest discover -s test/tdsd)
}

make_contract
make_certificate
cd "$WORK"
for part in $PARTS; do
    printf -- '-- %s over TDS\n' "$part"
    $part || failed="$failed $part"
done
if [ -n "$failed" ]; then
    echo "check-tds: failed:$failed"
    exit 1
fi
