#!/bin/sh
# Runs each file of sql/sqlite as it is through the sqlite3 shell: people paste them there, with the sample values
# that stand above the marker line. Those must name every parameter that the statement has.
# SOURCE: the source tree.
set -eu
SOURCE=${SOURCE:-$(cd "$(dirname "$0")/.." && pwd)}

if ! command -v sqlite3 > /dev/null; then
    echo "check-sql: there is no sqlite3 shell; the files were not run"
    [ "${CI:-}" != true ] || exit 1
    exit 0
fi

WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
trap 'exit 130' INT TERM
failed=0

wrong() {
    echo "check-sql: $1"
    failed=1
}

# run FILE: nothing but rows may come of it
run() {
    sqlite3 -bail "$WORK/queue.db" < "$1" > "$WORK/out" 2> "$WORK/err" || return 1
    [ ! -s "$WORK/err" ]
}

for round in 1 2; do
    run "$SOURCE/sql/sqlite/schema.sql" || wrong "schema.sql, run $round: $(cat "$WORK/err")"
done
run "$SOURCE/sql/sqlite/enqueue.sql" || wrong "enqueue.sql: $(cat "$WORK/err")"
grep -q '^0|' "$WORK/out" || wrong "enqueue.sql does not say that it added a job"
run "$SOURCE/sql/sqlite/claim.sql" || wrong "claim.sql: $(cat "$WORK/err")"
grep -q 'Processing|intro' "$WORK/out" || wrong "claim.sql does not hand out the job"

count=0
for file in "$SOURCE"/sql/sqlite/*.sql; do
    name=$(basename "$file")
    count=$((count + 1))
    run "$file" || wrong "$name: $(cat "$WORK/err")"
    [ "$(grep -c '^-- statement$' "$file")" -eq 1 ] || wrong "$name has not one marker line"
    head -n 1 "$file" | grep -q "^-- ${name%.sql}: " || wrong "$name does not begin with its name and what it does"
    sed -n 's/^\.parameter set :\([a-z_]*\) .*/\1/p' "$file" | sort > "$WORK/given"
    sed '1,/^-- statement$/d; s/--.*//' "$file" | grep -o ':[a-z_][a-z_]*' | tr -d : | sort -u > "$WORK/used"
    comm -3 "$WORK/given" "$WORK/used" | tr -s '\t\n' ' ' > "$WORK/differ"
    [ ! -s "$WORK/differ" ] || wrong "$name: sample values and parameters differ: $(cat "$WORK/differ")"
done
[ "$count" -gt 20 ] || wrong "only $count files were found in $SOURCE/sql/sqlite"
[ "$(sqlite3 "$WORK/queue.db" 'PRAGMA integrity_check')" = ok ] || wrong "the database is not intact afterwards"
exit $failed
