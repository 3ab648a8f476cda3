#!/bin/sh
# one-shot.sh: a worker that only speaks HTTP. It asks renderq-controller for a record, makes the video, puts it into
# the outputs folder, and ends; this loop starts it again by its exit code. It never reports back: the service sees the
# file, and what a crash leaves undone comes round again.
#
#     one-shot.sh [--until-empty] URL FOLDER [PROGRAM [ARGUMENT...]]
#
# PROGRAM (build/examples/render) gets the job on its standard input, as POST /v1/next gives it, and FOLDER as its last
# argument. NAME: this worker's name. RENDERQ_TOKEN: the service's token. QUEUE: another queue than the default one.
# WAIT_S: how long to wait for a record (30). SIGTERM ends the loop after the record in hand.
set -u

until_empty=false
once=false
while :; do
    case ${1:-} in
        --until-empty) until_empty=true ;;
        --once) once=true ;;
        *) break ;;
    esac
    shift
done
if [ $# -lt 2 ]; then
    echo "usage: one-shot.sh [--until-empty] URL FOLDER [PROGRAM [ARGUMENT...]]" >&2
    exit 2
fi
url=$1
folder=$2
shift 2
[ $# -gt 0 ] || set -- "$(dirname "$0")/../build/examples/render"
NAME=${NAME:-$(hostname):$$}
export NAME

# The token goes to curl by its standard input: an argument would be there for all to see who run ps.
ask() {
    {
        [ -z "${RENDERQ_TOKEN:-}" ] || printf 'header = "Authorization: Bearer %s"\n' "$RENDERQ_TOKEN"
    } | curl --config - --silent --show-error --fail --max-time 90 --output "$1" --write-out '%{http_code}' \
        --json "{\"worker\": \"$NAME\", \"wait_s\": ${WAIT_S:-30}}" "$url/v1/${QUEUE:+queues/$QUEUE/}next"
}

# The worker. Exit: the program's, 3 there is no record, 4 the service cannot be asked.
if $once; then
    job=$(mktemp)
    trap 'rm -f "$job"' EXIT
    code=$(ask "$job") || exit 4
    [ "$code" = 200 ] || exit 3
    "$@" "$folder" < "$job"
    exit
fi

made=0
crashed=0
stopping=false
trap 'stopping=true' TERM INT

while ! $stopping; do
    "$0" --once "$url" "$folder" "$@" &
    wait $!
    code=$?
    while $stopping && kill -0 $! 2> /dev/null; do      # the signal ended the wait, and not the worker
        wait $!
        code=$?
    done
    case $code in
        0) made=$((made + 1)) ;;
        1) sleep 1 ;;                       # it cannot be made here: the lease runs out, and somebody else tries
        2) exit 2 ;;
        3) ! $until_empty || break ;;
        4) sleep 1 ;;                       # the service will be back
        *) crashed=$((crashed + 1)) ;;
    esac
done
echo "$NAME: made $made, crashed $crashed"
