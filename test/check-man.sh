#!/bin/sh
# The manual: mandoc finds nothing to complain of, every function has a page, prototypes, structs and constants are
# those of the header, options and exit codes those of the command, and the examples compile and run.
# BUILD: a finished build. SOURCE: the source tree.
set -eu
SOURCE=${SOURCE:-$(cd "$(dirname "$0")/.." && pwd)}
BUILD=$(cd "${BUILD:-$SOURCE/build}" && pwd)
CC=${CC:-cc}
MAN=$SOURCE/man
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL 2> /dev/null || :

for tool in mandoc sqlite3 "${CC%% *}"; do
    if ! command -v "$tool" > /dev/null; then
        echo "check-man: there is no $tool; the manual was not looked at"
        [ "${CI:-}" != true ] || exit 1
        exit 0
    fi
done
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
trap 'exit 130' INT TERM
cd "$WORK"
failed=0

wrong() {
    echo "check-man: $1"
    failed=1
}

# same WHAT FIRST SECOND: the two files have the same lines
same() {
    cmp -s "$2" "$3" || wrong "$1: $2 (-) and $3 (+) differ:
$(diff -U 0 "$2" "$3" | sed '1,2d; /^@@/d')"
}

# squeeze: C of one line a declaration, with blanks only where two words would meet
squeeze() {
    sed 's/[[:space:]]\{1,\}/ /g; s/ *\([][(){};,*=]\) */\1/g; s/^ //; s/ $//' | sort
}

# literal SECTION FILE...: the literal blocks of a section (a pattern), as they are printed, a line "<<" behind each
literal() {
    section=$1
    shift
    awk -v section="$section" '
        /^\.Sh / { inside = $0 ~ section }
        /^\.Bd -literal/ { if (inside) block = 1; next }
        /^\.Ed/ { if (block) print "<<"; block = 0; next }
        block { gsub(/\\e/, "\\"); gsub(/\\&/, ""); gsub(/\\-/, "-"); print }' "$@"
}

# ---- how the pages are written ----
# Whether a page of ours that is referred to is there, is looked at below; mandoc looks at what is installed.

for page in "$MAN"/*.[1-9]; do
    mandoc -Tlint "$page" 2>&1 | grep -v 'referenced manual not found\|outdated mandoc.db' > lint || :
    [ ! -s lint ] || wrong "mandoc says: $(cat lint)"
    # Backspaces, which print bold and underlined, are no columns.
    mandoc -Tascii -Owidth=78 "$page" | sed 's/.'"$(printf '\b')"'//g' | awk 'length > 80' > wide
    [ ! -s wide ] || wrong "$(basename "$page") does not fit into 80 columns: $(head -n 1 wide)"
done

make -s -C "$SOURCE" BUILD="$BUILD" MANDIR=/man installed | sed -n 's|^/man/man./\(.*\)\.\([1-9]\)$|\1 \2|p' > pages
sed -n 's/^\.Xr \(renderq[^ ]*\) \([1-9]\).*/\1 \2/p' "$MAN"/*.[1-9] | sort -u > references
while read -r page; do
    grep -qx "$page" pages || wrong "a page refers to $page, which is none"
done < references

# ---- the header and section 3 ----

# The header without comments and macros, a declaration a line.
# shellcheck disable=SC2086  # CC may be a command with its arguments
$CC -E -P "$SOURCE/include/renderq.h" | tr '\n' ' ' | awk '{
    for (i = 1; i <= length($0); i++) {
        c = substr($0, i, 1)
        depth += (c == "{") - (c == "}")
        printf "%s%s", c, c == ";" && depth == 0 ? "\n" : ""
    } }' | squeeze | grep renderq > declarations
grep '^[^(]*renderq_[a-z_]*(.*);$' declarations | grep -v '^typedef' | sed 's/;$//' > header
awk '/^\.Sh / { synopsis = /SYNOPSIS/ }
    !synopsis { next }
    /^\.Ft / { sub(/^\.Ft /, ""); type = $0 }
    /^\.Fo / { line = type " " $2 "("; n = 0 }
    /^\.Fa / { sub(/^\.Fa /, ""); gsub(/"/, ""); line = line (n++ ? "," : "") $0 }
    /^\.Fc/ { print line ")" }
    /^\.Fn / { sub(/^\.Fn /, ""); name = $1; sub(/^[^ ]* */, ""); gsub(/" "/, ","); gsub(/"/, "")
               print type " " name "(" $0 ")" }' "$MAN"/*.3 | squeeze > synopses
same "prototypes" header synopses

# A page's NAME has what its SYNOPSIS has, and each of its names is a page.
for page in "$MAN"/renderq_*.3; do
    sed -n '/^\.Sh NAME/,/^\.Nd/s/^\.Nm \(renderq_[a-z_]*\).*/\1/p' "$page" | sort > names
    sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESC/s/^\.F[no] \(renderq_[a-z_]*\).*/\1/p' "$page" | sort > prototypes
    same "$(basename "$page")" names prototypes
    while read -r name; do
        grep -qx "$name 3" pages || wrong "$name has no page: the Makefile's MAN_$(basename "$page" .3) lacks it"
    done < names
done

grep '^typedef' declarations > types
literal . "$MAN"/*.3 | awk '/^typedef/ { t = 1; line = "" } t { line = line " " $0 }
    t && /^[^ ].*;$/ { print line; t = 0 }' | squeeze | sort -u > shown
comm -13 types shown > strange
[ ! -s strange ] || wrong "these types are not the header's: $(cat strange)"
grep 'size_t size;\|renderq_job;$\|renderq_job_fn' types | comm -23 - shown > unshown
[ ! -s unshown ] || wrong "no page shows these types: $(cat unshown)"

tr -cs 'A-Z_a-z0-9' '\n' < "$SOURCE/include/renderq.h" | grep '^RENDERQ_' | sort -u > constants
sed -n 's/^\.It Dv \(RENDERQ_[A-Z_]*\).*/\1/p; s/^\.Dv \(RENDERQ_[A-Z_]*\).*/\1/p' "$MAN"/*.[1-9] | sort -u > used
comm -13 constants used > strange
[ ! -s strange ] || wrong "the header has no $(cat strange)"
sed -n '/^typedef enum renderq_status/,/^}/s/^ *\(RENDERQ_[A-Z]*\) = \([0-9]*\).*/\1 \2/p' "$SOURCE/include/renderq.h" \
    > statuses
awk '/^\.It Dv RENDERQ_/ { name = $3; getline; if (/^[0-9]+\.$/) print name " " $0 + 0 }' "$MAN/renderq.3" > listed
same "statuses" statuses listed

# ---- the command and section 1 ----

if [ -x "$BUILD/renderq" ]; then
    commands=$("$BUILD/renderq" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p' | grep -v '^-' | tr '\n' ' ')
    for command in $commands; do
        grep -q "^\.\(It \)\{0,1\}Cm $command\>" "$MAN/renderq.1" || wrong "renderq.1 has no $command"
        "$BUILD/renderq" "$command" --help
    done > help
    "$BUILD/renderq" --help >> help
    grep -o '^  \(-[a-z], \)\{0,1\}--[a-z-]*' help | grep -o -e '--[a-z-]*' | sort -u > offered
    grep -o 'Fl -[a-z-]*' "$MAN/renderq.1" | sed 's/Fl -/--/' | grep -v '^--$' | sort -u > explained
    echo "--version" | sort - offered -o offered
    same "options" offered explained
    "$BUILD/renderq" --help | sed -n '/^Exit codes:/,$s/^  \([0-9]\{1,\}\)  *\([^ ].*\)$/\1/p' > codes
    sed -n '/^\.Sh EXIT STATUS/,/^\.El/s/^\.It Li \([0-9]*\)$/\1/p' "$MAN/renderq.1" > explained
    same "exit codes" codes explained
    literal EXAMPLES "$MAN/renderq.1" | sed '/^<<$/,$d' > example.sh
    mkdir shell
    (cd shell && PATH=$BUILD:$PATH sh -e ../example.sh) > said 2>&1 || wrong "renderq.1's example failed: $(cat said)"
    grep -q 'Completed .*file:///tmp/intro.mp4' said || wrong "renderq.1's example completed no job: $(cat said)"
fi
literal EXAMPLES "$MAN/renderq.1" | sed '/^<<$/d' | sh -n || wrong "renderq.1 has an example that is no shell"

# ---- examples in C and SQL ----

sanitize=""
if nm "$BUILD/librenderq.a" 2> /dev/null | grep -Eq ' U __(asan|ubsan)_'; then
    sanitize="-fsanitize=address,undefined"
fi
for page in "$MAN"/*.3; do
    literal EXAMPLES "$page" > examples
    [ -s examples ] || continue
    # A program is one by itself; pieces get the headers that a program with them would have.
    if ! grep -q '^#include' examples; then
        for header in renderq.h signal.h stdatomic.h sqlite3.h stdio.h string.h unistd.h; do
            echo "#include <$header>"
        done > example.c
        sed '/^<<$/d' examples >> example.c
        set -- -c -Wno-unused-function
    else
        sed '/^<<$/d' examples > example.c
        # shellcheck disable=SC2046  # a list of options
        set -- "$BUILD/librenderq.a" $(pkg-config --libs sqlite3) -lct -lpthread
    fi
    # shellcheck disable=SC2086  # lists of options
    $CC -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Werror $sanitize -I"$SOURCE/include" example.c "$@" \
        -o example > said 2>&1 || wrong "the examples of $(basename "$page") do not compile: $(head -n 20 said)"
    if [ "$1" != -c ]; then
        out=$(./example) || :
        [ "$out" = 'intro-001: {"title": "Hello"}' ] || wrong "the example of $(basename "$page") says $out"
    fi
done

rm -f queue.db
for file in schema enqueue claim; do
    sqlite3 queue.db < "$SOURCE/sql/sqlite/$file.sql" > said 2>&1 || wrong "$file.sql: $(cat said)"
done
literal EXAMPLES "$MAN/renderq-sql.7" | sed '/^<<$/d' | sqlite3 -bail queue.db > said 2>&1 \
    || wrong "renderq-sql.7's examples fail: $(cat said)"
grep -qx 'Processing|1' said || wrong "renderq-sql.7's first example does not count: $(cat said)"
[ "$(tail -n 1 said)" = "$(literal DESCRIPTION "$MAN/renderq-sql.7" | grep "^x'")" ] \
    || wrong "renderq-sql.7 has two ways to write an id: $(tail -n 1 said)"
sqlite3 queue.db "SELECT name FROM pragma_table_info('VideoRenderJobs')" | sort > columns
sed -n '/^\.Ss The columns/,/^\.El/s/^\.It Li //p' "$MAN/renderq-sql.7" | sort > explained
same "columns" columns explained
sqlite3 queue.db "SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL" | sort > indexes
sed -n 's/^\.It Li \(VideoRenderJobs_[A-Za-z]*\).*/\1/p' "$MAN/renderq-sql.7" | sort > explained
same "indexes" indexes explained
(cd "$SOURCE/sql/sqlite" && ls) > files
sed -n '/^\.Ss The files by hand/,/^\.Ss Other/p' "$MAN/renderq-sql.7" | sed -n 's/^\.It Pa //p' | tr -s ', ' '\n' \
    | sort > explained
same "files" files explained

[ $failed -eq 0 ] && echo "the manual is that of the header, the command and the table"
exit $failed
