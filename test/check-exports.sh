#!/bin/sh
# What the shared library exports is what include/renderq.h declares, no more and no less; and its soname.
# BUILD: where librenderq.so is. SOURCE: the source tree. CC: reads the header.
set -eu
SOURCE=${SOURCE:-$(cd "$(dirname "$0")/.." && pwd)}
LIBRARY=${BUILD:-$SOURCE/build}/librenderq.so
CC=${CC:-cc}

for tool in nm readelf "${CC%% *}"; do
    if ! command -v "$tool" > /dev/null; then
        echo "check-exports: there is no $tool; nothing was compared"
        [ "${CI:-}" != true ] || exit 1
        exit 0
    fi
done
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
trap 'exit 130' INT TERM

# The header without comments and macros, one declaration a line: what stands in braces goes, and so do typedefs.
# shellcheck disable=SC2086  # CC may be a command with its arguments
$CC -E -P "$SOURCE/include/renderq.h" | tr '\n' ' ' | awk '
    {
        depth = 0
        text = ""
        for (i = 1; i <= length($0); i++) {
            c = substr($0, i, 1)
            if (c == "{") depth++
            if (depth == 0) text = text c
            if (c == "}") depth--
        }
        n = split(text, declarations, ";")
        for (i = 1; i <= n; i++) {
            d = declarations[i]
            sub(/^[ \t]+/, "", d)
            if (d ~ /^typedef[ \t]/) continue
            if (match(d, /renderq_[A-Za-z0-9_]*[ \t]*\(/)) {
                name = substr(d, RSTART, RLENGTH)
                sub(/[ \t]*\($/, "", name)
                print name
            }
        }
    }' | sort > "$WORK/declared"
nm -D --defined-only "$LIBRARY" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort > "$WORK/exported"

failed=0
if [ "$(wc -l < "$WORK/declared")" -lt 30 ] || [ -n "$(uniq -d "$WORK/declared")" ]; then
    echo "check-exports: the header could not be read:"
    cat "$WORK/declared"
    failed=1
fi
if ! cmp -s "$WORK/declared" "$WORK/exported"; then
    echo "check-exports: declared (left) and exported (right) differ:"
    comm -3 "$WORK/declared" "$WORK/exported"
    failed=1
fi
soname=$(readelf -d "$LIBRARY" | sed -n 's/.*(SONAME).*\[\(.*\)\].*/\1/p')
if [ "$soname" != librenderq.so.0 ]; then
    echo "check-exports: the soname is \"$soname\", not librenderq.so.0"
    failed=1
fi
exit $failed
