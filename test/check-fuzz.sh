#!/bin/sh
# The inputs of the fuzz targets as tests: each corpus, and what the calls answer to the replies that once fooled them.
# BUILD: where the programs are. SOURCE: the source tree.
set -eu
SOURCE=${SOURCE:-$(cd "$(dirname "$0")/.." && pwd)}
BUILD=$(cd "${BUILD:-$SOURCE/build}" && pwd)
failed=""

# Nothing that is set for the machine's own FreeTDS counts here.
unset TDSHOST TDSPORT TDSVER TDSDUMP TDSDUMPCONFIG TDSQUERY FREETDS
FREETDSCONF=/dev/null
export FREETDSCONF

for target in "$SOURCE"/test/fuzz/fuzz_*.c; do
    name=$(basename "$target" .c)
    name=${name#fuzz_}
    corpus=$SOURCE/test/fuzz/corpus/$name
    if said=$("$BUILD/test/fuzz/fuzz_$name" "$corpus" 2>&1); then
        printf '%s: %s\n' "$name" "$(printf '%s\n' "$said" | tail -n 1)"
        continue
    fi
    failed="$failed $name"
    printf '%s\n' "$said"
    for input in "$corpus"/*; do
        "$BUILD/test/fuzz/fuzz_$name" "$input" > /dev/null 2>&1 || echo "again: $BUILD/test/fuzz/fuzz_$name $input"
    done
done

while read -r input wanted; do
    [ "$input" != "#" ] || continue
    said=$(FUZZ_VERBOSE=1 "$BUILD/test/fuzz/fuzz_rows" "$SOURCE/test/fuzz/corpus/rows/$input" 2>&1) || true
    printf '%s\n' "$said" | grep -q "^[a-z_]*: $wanted: " && continue
    printf '%s: it is not %s:\n%s\n' "$input" "$wanted" "$said"
    failed="$failed $input"
done < "$SOURCE/test/fuzz/rows.expected"

if [ -n "$failed" ]; then
    echo "check-fuzz: failed:$failed"
    exit 1
fi
