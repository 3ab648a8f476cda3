#!/bin/sh
# renderq-controller: its paths against controller/openapi.yaml by curl, clients that misbehave, what it refuses, the
# scan, the database away and back, its page in a browser, 10,000 requests of 64 at a time, and the demo with the
# service killed in the middle.
# BUILD: where the programs are. SOURCE: the source tree.
set -u
SOURCE=${SOURCE:-$(cd "$(dirname "$0")/.." && pwd)}
BUILD=$(cd "${BUILD:-$SOURCE/build}" && pwd) || exit 1
export SOURCE BUILD

missing() {
    echo "check-controller: there is no $1; nothing was tested"
    [ "${CI:-}" != true ] || exit 1
    exit 0
}
for tool in python3 curl openssl jq setpriv; do
    command -v $tool > /dev/null || missing $tool
done
python3 -c 'import yaml' 2> /dev/null || missing PyYAML
command -v chromium > /dev/null || echo "check-controller: there is no chromium; the page is not tested"

WORK=$(mktemp -d) || exit 1
parts=""
finish() {
    # shellcheck disable=SC2086  # a list of processes
    [ -z "$parts" ] || kill $parts 2> /dev/null
    rm -rf "$WORK"
}
trap finish EXIT
trap 'exit 130' INT TERM

# Most of what they do is wait, so they do it side by side.
for part in api clients safety scan away docs page load demo; do
    case $part in
        load) set -- "$SOURCE/test/controller/load.sh" ;;
        demo) set -- "$SOURCE/examples/demo-controller.sh" --records 40 --workers 5 --kill ;;
        *) set -- python3 -B -m unittest "test_$part" ;;
    esac
    (
        cd "$SOURCE/test/controller" || exit 1
        TMPDIR=$WORK
        export TMPDIR
        exec "$@"
    ) > "$WORK/$part.log" 2>&1 &
    parts="$parts $!"
    eval "pid_$part=$!"
done
failed=""
for part in api clients safety scan away docs page load demo; do
    eval "wait \$pid_$part" || failed="$failed $part"
    printf -- '-- %s\n' "$part"
    case $failed in
        *" $part") cat "$WORK/$part.log" ;;
        *) tail -n 3 "$WORK/$part.log" ;;
    esac
done
parts=""
if [ -n "$failed" ]; then
    echo "check-controller: failed:$failed"
    exit 1
fi
