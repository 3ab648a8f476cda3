#!/bin/sh
# The renderq command and a C# program with Dapper and SqlClient (dotnet/) take turns on one table, and each looks at
# what the other did; then two workers of each do several hundred jobs together.
# usage: turns.sh URL, of a database in which a table may be made. INTEROP: the C# program. BUILD: where renderq is.
set -eu
URL=$1
BUILD=${BUILD:-build}
INTEROP=${INTEROP:-dotnet $BUILD/test/interop/dotnet/interop.dll}
TABLE=dbo.interop_$$
JOBS=75                 # of each of four producers
WORK=$(mktemp -d)
export DOTNET_CLI_TELEMETRY_OPTOUT=1

children=""
finish() {
    for child in $children; do
        kill "$child" 2> "$WORK/kill" || true
    done
    for child in $children; do
        wait "$child" 2> "$WORK/wait" || true
    done
    [ -z "${made:-}" ] || theirs drop || true
    rm -rf "$WORK"
}
trap finish EXIT
trap 'exit 130' INT TERM

# ---- the two sides ----

theirs() {
    # shellcheck disable=SC2086  # a command with its arguments
    $INTEROP "$URL" "$TABLE" "$@"
}

ours() {
    "$BUILD/renderq" --db "$URL" --queue "$TABLE" "$@"
}

# One job by us: a program that prints an output URL, or fails.
work_once() {
    ours --json work --once --worker c-1 "$@" > "$WORK/events"
}

failed() {
    printf 'turns: %s\n' "$*" >&2
    exit 1
}

# same WHAT WANTED GOT
same() {
    [ "$2" = "$3" ] || failed "$1 is $3 instead of $2"
}

upper() {
    printf '%s\n' "$1" | tr a-f A-F
}

# their_job ID JQ, our_job ID JQ: what each reads of a row.
their_job() {
    theirs job "$1" | jq -r "$2"
}

our_job() {
    ours --json show "$1" | jq -r "$2"
}

# The id of the job that an event of the last work_once is about.
worked_on() {
    jq -r "select(.event == \"$1\") | .id" "$WORK/events"
}

turn() {
    printf -- '-- %s\n' "$*"
}

# ---- turns ----

payload='{"title": "Größe \"L\" 🎬", "path": "C:\\intro"}'

their_table() {
    turn "their table, their job in it, and the columns that we add"
    theirs create
    made=1
    first=$(theirs enqueue "größe 🎬" "$payload" 5)
    ours init > "$WORK/init"
    ours init > "$WORK/init"
    same "its id" "$(upper "$first")" "$(our_job "$first" .id)"
    same "its state" Queued "$(our_job "$first" .state)"
    same "its composition" "größe 🎬" "$(our_job "$first" .composition_id)"
    same "its payload" "$payload" "$(ours show --payload "$first")"
    same "its priority" 5 "$(our_job "$first" .priority)"
    same "what only we know of it" "null null null 3" \
        "$(our_job "$first" '"\(.dedup_key) \(.progress) \(.due_at) \(.max_retries)"')"
}

ours_does_theirs() {
    turn "our worker does their job"
    # shellcheck disable=SC2016  # the worker's shell expands it
    work_once -- sh -c 'cat > "$1"; echo >> "$1"; echo file:///out.mp4' sh "$WORK/seen"
    same "the job done" "$(upper "$first")" "$(worked_on "done")"
    printf '%s\n' "$payload" > "$WORK/wanted"
    cmp "$WORK/wanted" "$WORK/seen" || failed "the worker saw another payload"
    same "what they read" "Completed c-1 file:///out.mp4 0 true" \
        "$(their_job "$first" '"\(.Status) \(.WorkerNodeId) \(.OutputUrl) \(.RetryCount) \(.CompletedAtUtc != null)"')"
}

theirs_does_ours() {
    turn "their worker does ours"
    id=$(ours enqueue ours "$payload" --priority 3)
    same "what they read" "ours 3 Queued 0 null" \
        "$(their_job "$id" '"\(.CompositionId) \(.Priority) \(.Status) \(.RetryCount) \(.LockedAtUtc)"')"
    theirs claim csharp-1 > "$WORK/job"
    same "the job" "$id" "$(upper "$(jq -r .JobId "$WORK/job")")"
    same "its payload" "$payload" "$(jq -r .PayloadJson "$WORK/job")"
    same "what we read" "Processing csharp-1" "$(our_job "$id" '"\(.state) \(.worker)"')"
    work_once -- true && failed "we took the job that they work on"
    same "rows" 1 "$(theirs complete "$id" https://cdn/ours.mp4)"
    same "what we read" "Completed https://cdn/ours.mp4 true" \
        "$(our_job "$id" '"\(.state) \(.output_url) \(.ended_at != null)"')"
    ours cancel --yes "$id" 2> "$WORK/said" && failed "a job that they completed was cancelled"
    ours settle "$id" > "$WORK/said"
}

one_order() {
    turn "by priority and age, whoever made it"
    a=$(upper "$(theirs enqueue order '{}' 1)")
    b=$(ours enqueue order '{}' --priority 7)
    c=$(upper "$(theirs enqueue order '{}' 7)")
    d=$(ours enqueue order '{}' --priority 1)
    same "the first" "$b" "$(upper "$(theirs claim csharp-1 | jq -r .JobId)")"
    work_once -- true
    same "the second" "$c" "$(worked_on "done")"
    same "the third" "$a" "$(upper "$(theirs claim csharp-1 | jq -r .JobId)")"
    work_once -- true
    same "the fourth" "$d" "$(worked_on "done")"
    same "the fifth" null "$(theirs claim csharp-1)"
    theirs complete "$a" x > "$WORK/rows"
    theirs complete "$b" x > "$WORK/rows"
}

failures() {
    turn "failures of both add up"
    id=$(upper "$(theirs enqueue poison '{}' 0)")
    work_once -- sh -c 'echo broken >&2; exit 1' 2> "$WORK/said" && failed "a job that failed was done"
    same "what they read" "Scheduled 1 broken null" \
        "$(their_job "$id" '"\(.Status) \(.RetryCount) \(.LastErrorMessage[:6]) \(.WorkerNodeId)"')"
    same "what they find while it waits" null "$(theirs claim csharp-1)"
    work_once --wait 60s -- false && failed "a job that failed was done"     # the back-off is two seconds
    for retries in 3 4; do
        same "rows" 1 "$(theirs fail "$id" "failure $retries")"
    done
    same "its state" "DeadLetter 4 failure 4" "$(our_job "$id" '"\(.state) \(.retry_count) \(.last_error)"')"
    same "the dead" "$id" "$(ours --json list --state DeadLetter | jq -r '.[].id')"
    same "in their counts" 1 "$(theirs counts | jq .DeadLetter)"
    ours retry "$id" > "$WORK/said"
    same "the job retried" "$id 0" "$(theirs claim csharp-1 | jq -r '"\(.JobId | ascii_upcase) \(.RetryCount)"')"
    theirs complete "$id" x > "$WORK/rows"
}

taken_away() {
    turn "they complete what our worker holds: it hears of it, at its next renewal in ten seconds"
    id=$(ours enqueue held '{}')
    (exec "$BUILD/renderq" --db "$URL" --queue "$TABLE" --json work --once --worker c-1 --lease 30s -- sleep 600) \
        > "$WORK/events" 2> "$WORK/said" &
    children=$!
    for _ in $(seq 600); do
        [ "$(our_job "$id" .state)" != Processing ] || break
        kill -0 "$children" || { cat "$WORK/said"; failed "our worker gave up"; }
        sleep 0.1
    done
    same "rows" 1 "$(theirs complete "$id" https://cdn/theirs.mp4)"
    wait "$children" && failed "a job that was taken away was done"
    children=""
    same "the job lost" "$id" "$(worked_on lost)"
    same "its output" https://cdn/theirs.mp4 "$(our_job "$id" .output_url)"
}

cancelled() {
    turn "we cancel what their worker holds: it never asks"
    id=$(ours enqueue held '{}')
    theirs claim csharp-1 > "$WORK/job"
    ours cancel --yes "$id" > "$WORK/said"
    same "what they read" "Cancelled null" "$(their_job "$id" '"\(.Status) \(.WorkerNodeId)"')"
    same "in their counts" 1 "$(theirs counts | jq .Cancelled)"
    same "rows" 1 "$(theirs complete "$id" late)"
    same "its state" Completed "$(our_job "$id" .state)"
}

run_out() {
    turn "their claim runs out after ten minutes, and we count that; their watchdog does not"
    id=$(upper "$(theirs enqueue slow '{}' 0)")
    theirs claim csharp-1 > "$WORK/job"
    theirs age "$id" 480 > "$WORK/rows"
    ours reap > "$WORK/said"
    same "its state before" Processing "$(our_job "$id" .state)"
    same "what they took back before" 0 "$(theirs watchdog)"
    theirs age "$id" 121 > "$WORK/rows"
    ours reap > "$WORK/said"
    same "what they read" "Scheduled 1 the lease of csharp-1 ran out" \
        "$(their_job "$id" '"\(.Status) \(.RetryCount) \(.LastErrorMessage)"')"
    work_once --wait 60s -- sleep 0
    same "the job done" "$id" "$(worked_on "done")"

    id=$(upper "$(theirs enqueue slow '{}' 0)")
    theirs claim csharp-1 > "$WORK/job"
    theirs age "$id" 601 > "$WORK/rows"
    same "what they took back" 1 "$(theirs watchdog)"
    same "what we read" "Queued 0 null" "$(our_job "$id" '"\(.state) \(.retry_count) \(.worker)"')"
    work_once -- true
    same "the job done" "$id" "$(worked_on "done")"
}

# ---- all at once ----

# For the background: the signal has to reach it. Neither goes on alone, or one might do the work of both.
our_worker() {
    # shellcheck disable=SC2016  # the worker's shell expands it
    exec "$BUILD/renderq" --db "$URL" --queue "$TABLE" work --worker "c-$1" --retry-after 1s -- sh -c '
        : > "$3/has-begun-$4"
        for _ in $(seq 600); do
            [ ! -e "$3/has-begun-1" ] || [ ! -e "$3/has-begun-2" ] || break
            sleep 0.1
        done
        case $2$RENDERQ_ATTEMPT$RENDERQ_JOB_ID in half1[13579BDF]*) exit 1 ;; esac
        echo "$RENDERQ_JOB_ID" >> "$1"
        echo ours' sh "$WORK/done-c-$1" "$fails" "$WORK" "$1" > "$WORK/work-c-$1" 2>&1
}

our_producer() {
    seq "$JOBS" | jq -c '{composition_id: "ours", payload: {n: .}, priority: (. % 3)}' | ours enqueue > "$WORK/ids-$1"
}

together() {
    turn "two producers and two workers of each, $((4 * JOBS)) jobs"
    before=$(theirs counts | jq '.Completed')
    # At the first attempt, whoever makes it. Babelfish's OUTPUT is not true of a row that changed while the statement
    # waited for it, so that their claim would hand out garbage there once jobs are queued again.
    fails=half
    [ "$(theirs engine)" != babelfish ] || fails=none
    producers=""
    for n in 1 2; do
        theirs produce "$JOBS" &
        children="$children $!"
        our_producer $n &
        producers="$producers $!"
    done
    # A worker of theirs ends where nothing is left to do. There is more now than one of them takes.
    for child in $producers; do
        wait "$child" || failed "a producer of ours failed"
    done
    for n in 1 2; do
        theirs work "csharp-$n" $JOBS $fails "$WORK/done-csharp-$n" &
        children="$children $!"
    done
    # Theirs are slower to start: they do something first.
    for n in 1 2; do
        for _ in $(seq 1200); do
            [ ! -s "$WORK/done-csharp-$n" ] || break
            sleep 0.1
        done
        [ -s "$WORK/done-csharp-$n" ] || failed "their worker $n does nothing"
    done
    waited_for=$children
    ours_at_work=""
    for n in 1 2; do
        our_worker $n &
        ours_at_work="$ours_at_work $!"
    done
    children="$waited_for $ours_at_work"
    for child in $waited_for; do
        wait "$child" || failed "one of theirs failed"
    done
    for _ in $(seq 3000); do
        [ "$(ours --json stats | jq .completed)" -lt $((before + 4 * JOBS)) ] || break
        sleep 0.1
    done
    for child in $ours_at_work; do
        kill "$child"
        wait "$child" || { tail -n 3 "$WORK"/work-c-*; failed "a worker of ours failed"; }
    done
    children=""
    cat "$WORK"/done-* > "$WORK/done"
    wc -l "$WORK"/done-* | sed "s|$WORK/done-||"
    same "jobs done twice" "" "$(sort "$WORK/done" | uniq -d)"
    same "jobs done" $((4 * JOBS)) "$(wc -l < "$WORK/done")"
    for who in csharp-1 csharp-2 c-1 c-2; do
        [ -s "$WORK/done-$who" ] || failed "$who did nothing"
    done
    same "their counts" "{\"Completed\":$((before + 4 * JOBS))}" "$(theirs counts)"
    ours --json list --state Completed | jq -r '.[].id' | sort > "$WORK/listed"
    same "jobs done that are not in the table" "" "$(sort "$WORK/done" | comm -23 - "$WORK/listed")"
}

their_table
ours_does_theirs
theirs_does_ours
one_order
failures
taken_away
cancelled
run_out
together
echo "turns: both sides see the same"
