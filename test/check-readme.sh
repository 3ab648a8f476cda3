#!/bin/sh
# The README's programs: copied from it, built as it says, and run.
# BUILD, SOURCE: set by run.sh. SANITIZE_FLAGS: what the library was built with, if with sanitizers.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# Each block of C begins with its file's name in a comment.
awk '/^```c$/ { inside = 1; name = ""; next }
     /^```$/ { inside = 0; next }
     inside { if (name == "") name = $2; print > name }' "$SOURCE/README.md"

# The libraries behind librenderq.a are those of the line for this tree.
libs=$(sed -n 's|^    cc -Iinclude producer\.c build/librenderq\.a \(.*\) -o producer$|\1|p' "$SOURCE/README.md")
[ -n "$libs" ] || { echo "README.md does not say how to build in this tree"; exit 1; }
libs=$(eval "echo $libs")

for program in producer worker relay; do
    [ -s $program.c ] || { echo "README.md has no $program.c"; exit 1; }
    # shellcheck disable=SC2086  # lists of options
    ${CC:-cc} -std=c99 -Wall -Wextra -Wpedantic -Werror ${SANITIZE_FLAGS:-} -I"$SOURCE/include" $program.c \
        "$BUILD/librenderq.a" $libs -o $program
done

id=$(./producer)
echo "$id" | grep -Eq '^[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}$' || { echo "no id: $id"; exit 1; }
./producer 2>&1 | grep -q "^DUPLICATE: job $id holds" || { echo "the second one is no duplicate"; exit 1; }
out=$(./worker)
[ "$out" = 'intro-001, attempt 1: {"title": "Hello", "frames": 48}' ] || { echo "the worker said: $out"; exit 1; }
[ "$(sqlite3 jobs.db 'SELECT Status, OutputUrl FROM VideoRenderJobs_View')" = \
    'Completed|file:///videos/intro-001.mp4' ] || { echo "the job is not completed"; exit 1; }

for queue in Incoming Receipts; do
    sed "s/VideoRenderJobs/$queue/g" "$SOURCE/sql/sqlite/schema.sql" | sqlite3 jobs.db
done
# It has failed often, so that it is not tried again within the run.
sqlite3 jobs.db "INSERT INTO Incoming (JobId, CompositionId, PayloadJson, RetryCount, MaxRetries)
    VALUES (randomblob(16), 'order-1', '{}', 9, 20)"
./relay                                         # its own table is not there
[ "$(sqlite3 jobs.db 'SELECT Status, RetryCount, LastErrorMessage, (SELECT count(*) FROM Receipts) FROM Incoming')" = \
    'Scheduled|10|booking|0' ] || { echo "the relay did not fail"; exit 1; }
sqlite3 jobs.db 'CREATE TABLE bookings (at TEXT); UPDATE Incoming SET DueAtUtc = 0'
./relay
[ "$(sqlite3 jobs.db 'SELECT a.Status, b.Status, count(*) FROM Incoming a, Receipts b, bookings')" = \
    'Completed|Queued|1' ] || { echo "the relay did not do all of it"; exit 1; }
echo "the README's programs build and run"
