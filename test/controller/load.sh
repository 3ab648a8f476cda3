#!/bin/sh
# 10,000 requests of 64 at a time, with no error and no job handed out twice, while the page's calls go on.
# BUILD: where the programs are.
set -eu
WORK=$(mktemp -d)
service=""
finish() {
    [ -z "$service" ] || kill "$service" 2> /dev/null || :
    wait
    rm -rf "$WORK"
}
trap finish EXIT
trap 'exit 130' INT TERM
cd "$WORK"
mkdir outputs
: > log
"$BUILD/renderq-controller" --db "sqlite:queue.db?synchronous=normal" --create --listen 127.0.0.1:0 --outputs outputs \
    --scan 1 --no-access-log 2> log &
service=$!
port=""
for _ in $(seq 600); do
    port=$(sed -n 's/.*controller: listening on .*:\([0-9]*\)$/\1/p' log)
    [ -z "$port" ] || break
    kill -0 $service || { cat log; exit 1; }
    sleep 0.1
done

client() {
    "$BUILD/test/controller/client" --port "$port" --at-a-time 64 "$@"
}
client --requests 5000 enqueue
client --requests 2500 cycle            # two requests each
client --requests 2500 next
client --requests 1000 next | tee empty
grep -q '"ok":0,"empty":1000' empty     # there were no more than 5,000
counts=$(curl -fsS "http://127.0.0.1:$port/v1/stats" | jq -c '[.counts.Completed, .counts.Processing, .counts.Queued]')
[ "$counts" = "[2500,2500,0]" ] || { echo "completed, processing, queued: $counts"; exit 1; }
kill $service
wait $service
service=""
echo "10,000 requests of 64 at a time, and no error"
