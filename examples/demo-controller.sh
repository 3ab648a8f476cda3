#!/bin/bash
# demo-controller.sh: workers that only speak HTTP, crash at random and never report back; and the proof that every
# video is made and no record is lost.
#
#     demo-controller.sh [--records N] [--workers N] [--crash-percent N] [--kill] [--keep]
#
# --kill: the service is killed (SIGKILL) in the middle, and started again. --keep: the folder stays.
# BUILD: where the programs are. Exit: 0 all is well, 1 something is not.
set -u
here=$(cd "$(dirname "$0")" && pwd)
BUILD=$(cd "${BUILD:-$here/../build}" && pwd) || exit 1
records=200
workers=11
percent=10
kill=false
keep=false
while [ $# -gt 0 ]; do
    case $1 in
        --records) records=$2; shift ;;
        --workers) workers=$2; shift ;;
        --crash-percent) percent=$2; shift ;;
        --kill) kill=true ;;
        --keep) keep=true ;;
        *) sed -n 's/^#     \(demo-controller.sh .*\)/usage: \1/p' "$0" >&2; exit 2 ;;
    esac
    shift
done

WORK=$(mktemp -d) || exit 1
service=""
loops=()
finish() {
    [ ${#loops[@]} -eq 0 ] || kill "${loops[@]}" 2> /dev/null
    [ -z "$service" ] || kill "$service" 2> /dev/null
    wait
    if $keep; then echo "the folder: $WORK"; else rm -rf "$WORK"; fi
}
trap finish EXIT
trap 'exit 130' INT TERM
cd "$WORK" || exit 1
mkdir outputs again
: > log

fail() {
    echo "demo-controller: $*" >&2
    exit 1
}

say() {
    printf '%3s s  %s\n' $SECONDS "$*"
}

# Leases and scans are short here, so that what crashes comes round again within seconds and not within minutes; long
# enough that no worker is late on a busy machine: each failure counted has to be a crash.
try_to_start() {
    "$BUILD/renderq-controller" --db sqlite:queue.db --create --listen "127.0.0.1:${port:-0}" --outputs outputs \
        --lease 10s --scan 1s --second-look 200ms --no-access-log 2>> log &
    service=$!
    for _ in $(seq 600); do
        [ "$(grep -c '^renderq-controller: listening on' log)" -lt "$1" ] || return 0
        kill -0 $service 2> /dev/null || return 1
        sleep 0.1
    done
    return 1
}

# For the Nth time; from the second one on with the port that it had, which somebody else may have for a moment.
start_service() {
    local tries=0
    until try_to_start "$1"; do
        tries=$((tries + 1))
        if [ $tries -eq 20 ] || ! tail -n 3 log | grep -q 'cannot listen'; then
            fail "the service did not start: $(cat log)"
        fi
        sleep 1
    done
    url=$(sed -n 's/^renderq-controller: listening on //p' log | tail -n 1)
    port=${url##*:}
}

# stats FILTER: jq's, on the stats
stats() {
    curl --fail --silent --show-error --retry 5 --retry-connrefused "$url/v1/stats" | jq -r "$1"
}

# ---- the records go in ----

start_service 1
for i in $(seq "$records"); do
    printf '{"composition_id": "video-%03d", "output_url": "video-%03d.y4m", "max_retries": 50, "payload": ' "$i" "$i"
    printf '{"title": "VIDEO %d", "width": 64, "height": 36, "frames": 12, "frame_delay_ms": 10}}\n' "$i"
done > records.jsonl
curl --fail --silent --show-error --header 'Content-Type: application/x-ndjson' --data-binary @records.jsonl \
    "$url/v1/jobs" > ids || fail "the records did not get in"
[ "$(grep -c '"status":"OK"' ids)" -eq "$records" ] || fail "not every record is in: $(grep -v '"OK"' ids | head -n 1)"
say "$records records are in"

# ---- the workers ----

for i in $(seq "$workers"); do
    NAME=machine-$i WAIT_S=2 "$here/one-shot.sh" "$url" outputs "$BUILD/examples/render" --crash-percent "$percent" \
        > "loop-$i" 2> "crashes-$i" &
    loops+=($!)
done
say "$workers workers run; $percent of 100 videos crash"

killed=false
last=""
deadline=$((SECONDS + 300))
while :; do
    done=$(stats .counts.Completed) || fail "the service does not answer"
    [ "$((done * 4 / records))" = "$last" ] || say "$done of $records are done"
    last=$((done * 4 / records))
    [ "$done" -lt "$records" ] || break
    [ $SECONDS -lt $deadline ] || fail "only $done of $records are done; $(stats .counts)"
    if $kill && ! $killed && [ "$done" -ge $((records / 4)) ]; then
        say "the service is killed, with $(stats '"\(.cached) jobs in its cache and \(.counts.Processing) processing"')"
        kill -KILL "$service"
        wait "$service" 2> /dev/null
        sleep 1
        start_service 2
        say "the service is there again"
        killed=true
    fi
    sleep 0.3
done
kill "${loops[@]}"
wait "${loops[@]}" 2> /dev/null
loops=()
crashes=$(sed -n 's/.*crashed \([0-9]*\)$/\1/p' loop-* | awk '{ n += $1 } END { print n + 0 }')

# ---- the proof ----

# Each video is the one that its record asks for, byte for byte.
files=0
jq -c '{ payload_json: (.payload | .frame_delay_ms = 0 | tostring), output_url }' records.jsonl > again/list \
    || fail "jq cannot read the records"
while read -r job; do
    name=${job##*\"output_url\":\"}
    name=${name%%\"*}
    "$BUILD/examples/render" again <<< "$job" || fail "$name cannot be made"
    cmp "outputs/$name" "again/$name" || fail "$name is not what its record asks for"
    files=$((files + 1))
done < again/list
[ "$(find outputs -type f | grep -c '\.y4m$')" -eq "$files" ] || fail "there are files that nobody asked for"

counts=$(stats '.counts | "\(.Completed) \(.Scheduled + .Queued + .Processing + .DeadLetter + .Cancelled + .Other)"')
read -r completed others <<< "$counts"
[ "$completed" -eq "$files" ] || fail "$completed are completed, and there are $files files"
[ "$others" -eq 0 ] || fail "$others records are in another state: $(stats .counts)"

# What the rows count are the crashes, and after a kill at most the hand-outs whose answers it cut off: one a worker.
counted=$(jq -r .id ids | sed "s|.*|url = \"$url/v1/jobs/&\"|" | curl --fail --silent --show-error --config - \
    | jq -s 'map(.retry_count) | add') || fail "the records cannot be read"
most=$crashes
! $kill || most=$((crashes + workers))
if [ "$counted" -lt "$crashes" ] || [ "$counted" -gt "$most" ]; then
    fail "the workers crashed $crashes times, and the rows count $counted failures"
fi
if ! $kill; then
    handed_out=$(stats .totals.handed_out)
    [ "$handed_out" -eq $((records + crashes)) ] \
        || fail "$handed_out were handed out, for $records and $crashes crashes"
fi

kill "$service"
wait "$service" || fail "the service ended with $?: $(cat log)"
service=""
say "from the stats:  $completed completed, 0 in any other state, $counted failures counted"
say "from the folder: $files videos, byte for byte what the records ask for; $crashes crashes"
