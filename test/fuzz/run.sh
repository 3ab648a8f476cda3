#!/bin/bash
# Fuzzes each target for a while, two at a time, beginning with its corpus; `make fuzz` builds them and runs this.
# What it finds stays in BUILD/NAME, and the last lines say how to see it again.
#   run.sh NAME...              these targets; without names all
#   run.sh --minimise NAME...   adds what was found new to test/fuzz/corpus, and keeps as few inputs there as do
# BUILD: where the programs are, build/fuzz. FUZZ_SECONDS: for each target, 60.
set -u
SOURCE=$(cd "$(dirname "$0")/../.." && pwd)
BUILD=$(cd "${BUILD:-$SOURCE/build/fuzz}" && pwd) || exit 1
FUZZ_SECONDS=${FUZZ_SECONDS:-60}
failed=()

# Nothing that is set for the machine's own FreeTDS counts here.
unset TDSHOST TDSPORT TDSVER TDSDUMP TDSDUMPCONFIG TDSQUERY FREETDS
export FREETDSCONF=/dev/null

# Sets `options`: what libFuzzer is told of a target. Longer inputs than that find nothing more, and take longer.
set_options() {
    local longest=600
    [ "$1" != replies ] || longest=2500
    [ "$1" != freetds_conf ] || longest=1000
    options=("-max_len=$longest" -len_control=0 -timeout=60 -rss_limit_mb=4096 "-artifact_prefix=$BUILD/$1/")
    [ ! -f "$SOURCE/test/fuzz/$1.dict" ] || options+=("-dict=$SOURCE/test/fuzz/$1.dict")
}

fuzz() {
    local options
    set_options "$1"
    mkdir -p "$BUILD/$1/corpus"
    exec "$BUILD/test/fuzz/fuzz_$1" "${options[@]}" "-max_total_time=$FUZZ_SECONDS" \
        "$BUILD/$1/corpus" "$SOURCE/test/fuzz/corpus/$1" > "$BUILD/$1/log" 2>&1
}

# Whether it was FreeTDS that fell over: the innermost function that is nobody else's is in libct.
in_freetds() {
    grep -m 1 -A 60 -E 'ERROR: (AddressSanitizer|libFuzzer)' "$1" | grep -E '^ +#[0-9]+ 0x' |
        grep -vE '__asan|__sanitizer|__interceptor|fuzzer::|libc\.so|nptl/|sysdeps/|stdlib/' | head -n 1 |
        grep -q 'libct\.so'
}

# report NAME STATUS
report() {
    local log=$BUILD/$1/log found
    if [ "$2" -eq 0 ]; then
        sed -n "s/^#\([0-9]*\)[[:space:]]*DONE *cov: \([0-9]*\) .*/$1: \1 inputs, \2 edges/p" "$log"
        return
    fi
    if in_freetds "$log"; then
        # The system's FreeTDS is not ours to mend; but look whether the driver can keep out of its way (tds.h).
        printf '%s: FreeTDS fell over a fault of its own\n' "$1"
    else
        failed+=("$1")
        printf '%s: FAILED\n' "$1"
    fi
    grep -v 'failed to allocate' "$log" | grep -A 30 -m 1 -E 'does not hold|ERROR:|runtime error:' | cut -c 1-160
    found=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
    [ -z "$found" ] || printf 'again: %s %s\n' "$BUILD/test/fuzz/fuzz_$1" "$found"
    printf 'all it said: %s\n' "$log"
}

minimise() {
    local options corpus=$SOURCE/test/fuzz/corpus/$1 new=$BUILD/$1/minimised
    set_options "$1"
    rm -rf "$new" && mkdir -p "$new" "$BUILD/$1/corpus"
    # An input counts for the code that it reaches, not for how often.
    "$BUILD/test/fuzz/fuzz_$1" "${options[@]}" -merge=1 -use_counters=0 "$new" "$corpus" "$BUILD/$1/corpus" \
        > "$BUILD/$1/log" 2>&1 || { report "$1" 1; return; }
    # Inputs whose name is no hash show something: they stay.
    find "$corpus" -type f -regextype posix-extended -regex '.*/[0-9a-f]{40}' -delete
    cp "$new"/* "$corpus"
    printf '%s: %s inputs, %s bytes\n' "$1" "$(find "$corpus" -type f | wc -l)" "$(cat "$corpus"/* | wc -c)"
}

action=fuzz
[ "${1:-}" != --minimise ] || { action=minimise; shift; }
if [ $# -eq 0 ]; then
    for target in "$SOURCE"/test/fuzz/fuzz_*.c; do
        name=${target##*/fuzz_}
        set -- "$@" "${name%.c}"
    done
fi
while [ $# -gt 0 ]; do
    if [ "$action" = minimise ]; then
        minimise "$1"
        shift
        continue
    fi
    pair=("${@:1:2}") pids=()
    for name in "${pair[@]}"; do
        fuzz "$name" &
        pids+=($!)
    done
    for i in "${!pair[@]}"; do
        wait "${pids[i]}"
        report "${pair[i]}" $?
    done
    shift "${#pair[@]}"
done
if [ "${#failed[@]}" -gt 0 ]; then
    printf 'FAILED: %s\n' "${failed[*]}"
    exit 1
fi
