#!/bin/sh
# race.sh URL [RACE OPTION]...: the race (test/race) with a proxy before the server that loses connections: nothing may
# get lost with them, nothing be done twice, and no call may tell of it. The proxy must have lost some in each of its
# ways. BUILD: where the programs are. EVERY: one request of so many fares badly. DEADLINE: seconds that a request may
# take; some are held up for longer.
set -eu
SOURCE=$(cd "$(dirname "$0")/../.." && pwd)
BUILD=${BUILD:-$SOURCE/build}
EVERY=${EVERY:-20}
DEADLINE=${DEADLINE:-2}

# Requests that a ghost of themselves cannot harm. An enqueue that was told DUPLICATE, and an operator's call, are not
# among them: they would be done, long after their answer, when nobody thinks of them any more.
LATE="renderq: claim,renderq: renew,renderq: start,renderq: complete,renderq: fail,renderq: release,renderq: reap"

url=$1
shift
rest=${url#sqlserver://}
authority=${rest%%[/?]*}
rest=${rest#"$authority"}
user=""
case $authority in *@*) user=${authority%@*}@ ;; esac
server=${authority##*@}
case ${server##*]} in
    *:*) ;;
    *) server=$server:1433 ;;
esac

WORK=$(mktemp -d)
PROXY=""
finish() {
    if [ -n "$PROXY" ]; then
        kill "$PROXY" 2> /dev/null || true
        wait "$PROXY" 2> /dev/null || true
    fi
    rm -rf "$WORK"
}
trap finish EXIT
trap 'exit 130' INT TERM

: > "$WORK/proxy"
python3 "$SOURCE/test/proxy/proxy.py" --to "$server" --every "$EVERY" --late "$LATE" --deadline "$DEADLINE" \
    > "$WORK/proxy" &
PROXY=$!
PORT=""
for _ in $(seq 600); do
    PORT=$(sed -n 's/^proxy: listening on .*:\([0-9]*\)$/\1/p' "$WORK/proxy")
    if [ -n "$PORT" ] || ! kill -0 "$PROXY" 2> /dev/null; then
        break
    fi
    sleep 0.1
done
[ -n "$PORT" ] || { echo "race.sh: the proxy did not start"; exit 1; }

"$BUILD/test/race/race" --faults --deadline "$DEADLINE" "$@" "sqlserver://${user}127.0.0.1:$PORT$rest"

kill "$PROXY"
wait "$PROXY"
PROXY=""
counts=$(sed -n 's/^proxy: \([0-9]* requests: .*\)/\1/p' "$WORK/proxy")
echo "    the proxy: $counts"
# Where all is encrypted, it cannot see which requests may be late.
for kind in before torn after within stall; do
    case $counts in
        *"$kind "[1-9]*) ;;
        *) echo "race.sh: no connection was lost \"$kind\", so nothing is proven of that"; exit 1 ;;
    esac
done
