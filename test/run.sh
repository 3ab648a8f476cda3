#!/bin/sh
# Runs the test programs that `make tests` built, each in a folder of its own. Says in which second each began, and at
# the end which failed.
# BUILD: where they are. WRAP: a command to run each program under (valgrind).
set -u
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
SOURCE=$(cd "$(dirname "$0")/.." && pwd)
export BUILD SOURCE
WORK=$(mktemp -d) || exit 1
trap 'rm -rf "$WORK"' EXIT
trap 'exit 130' INT TERM
failed=""
began=$(date +%s)

# run NAME COMMAND...
run() {
    name=$1
    shift
    mkdir -p "$WORK/$name"
    printf '== %s (%s s)\n' "$name" $(($(date +%s) - began))
    (cd "$WORK/$name" && "$@") || failed="$failed $name"
}

for test in "$BUILD"/test/test_*; do
    case $test in *.o | *.d) continue ;; esac
    # shellcheck disable=SC2086  # WRAP is a command with its arguments
    run "$(basename "$test")" ${WRAP:-} "$test"
done
[ -n "${WRAP:-}" ] || run race "$BUILD/test/race/race" --poison "sqlite:$WORK/race/queue.db?synchronous=normal"
# shellcheck disable=SC2086
run conformance ${WRAP:-} "$BUILD/test/conformance/conformance" "sqlite:$WORK/conformance/queue.db"
# shellcheck disable=SC2086
run worker ${WRAP:-} "$BUILD/test/worker/worker" "sqlite:$WORK/worker/queue.db?synchronous=normal"
if [ -z "${WRAP:-}" ]; then
    for script in "$SOURCE"/test/check-*.sh; do
        [ -n "${RENDERQ_TEST_URL:-}" ] || [ "${script##*/}" != check-server.sh ] || continue
        run "$(basename "$script" .sh)" "$script"
    done
fi

if [ -n "$failed" ]; then
    printf 'FAILED:%s\n' "$failed"
    exit 1
fi
echo "every test passed ($(($(date +%s) - began)) s)"
