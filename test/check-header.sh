#!/bin/sh
# include/renderq.h stands alone, without a warning, in C and C++, with each compiler that is there; and the
# library keeps what its header promises about itself: nothing printed, no exit, no signal handlers, no state.
# BUILD: where librenderq.a is. SOURCE: the source tree.
set -eu
SOURCE=${SOURCE:-$(cd "$(dirname "$0")/.." && pwd)}
LIBRARY=${BUILD:-$SOURCE/build}/librenderq.a
WARNINGS="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
trap 'exit 130' INT TERM
failed=0

wrong() {
    echo "check-header: $1"
    failed=1
}

# missing TOOL: says so, and is a failure where everything should be there
missing() {
    echo "check-header: there is no $1; what needs it was not checked"
    [ "${CI:-}" != true ] || failed=1
}

# ---- the header ----

# Every struct that begins with its size can be made with RENDERQ_INIT, all zero else.
structs=$(awk '/^typedef struct renderq_[a-z_]+ \{/ { name = $3; next }
               name != "" { if ($0 ~ /^ *size_t size;/) print name; name = "" }' "$SOURCE/include/renderq.h")
[ "$(echo "$structs" | wc -l)" -ge 8 ] || wrong "found too few structs that begin with their size: $structs"
{
    echo '#include "renderq.h"'
    echo '#include "renderq.h"'
    echo 'int use(void);'
    echo 'int use(void)'
    echo '{'
    echo '    int made = 0;'
    for struct in $structs; do
        echo "    $struct of_$struct = RENDERQ_INIT($struct);"
        echo "    made += of_$struct.size == sizeof($struct);"
    done
    echo '    return made;'
    echo '}'
} > "$WORK/use.c"
count=$(echo "$structs" | wc -l)
cat > "$WORK/main.c" <<END
#include <string.h>
#include "renderq.h"
int use(void);
int main(void)
{
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    job.delay_ms = RENDERQ_DELAY_MAX_MS;
    return use() == $count && job.dedup_key == NULL && !strcmp(renderq_version(), RENDERQ_VERSION)
           && renderq_open("none", NULL, NULL) == RENDERQ_INVALID ? 0 : 1;
}
END
cp "$WORK/main.c" "$WORK/main.cc"
cp "$WORK/use.c" "$WORK/use.cc"
sed -i.c 's/^int use(void);$/extern "C" int use(void);/' "$WORK/main.cc" "$WORK/use.cc"

# compile COMPILER STANDARD SUFFIX
compile() {
    for unit in main use; do
        # shellcheck disable=SC2086  # several warnings
        "$1" -std="$2" $WARNINGS -I"$SOURCE/include" -c "$WORK/$unit.$3" -o "$WORK/$unit-$1-$2.o" \
            || wrong "renderq.h does not compile with $1 -std=$2"
    done
}

sanitized=$(nm "$LIBRARY" 2> /dev/null | grep -c -E '__(asan|ubsan|tsan|msan|gcov)' || true)

# link COMPILER STANDARD: and run
link() {
    [ "$sanitized" -eq 0 ] || return 0
    # shellcheck disable=SC2046  # several libraries
    "$1" "$WORK/main-$1-$2.o" "$WORK/use-$1-$2.o" "$LIBRARY" $(pkg-config --libs sqlite3) -lct -lpthread -o "$WORK/main" \
        || wrong "a program made with $1 -std=$2 does not link"
    "$WORK/main" || wrong "a program made with $1 -std=$2 does not work"
}

for pair in gcc:g++ clang:clang++; do
    c=${pair%:*}
    cc=${pair#*:}
    if command -v "$c" > /dev/null; then
        compile "$c" c99 c
        compile "$c" c17 c
        link "$c" c99
    else
        missing "$c"
    fi
    if command -v "$cc" > /dev/null; then
        for standard in c++98 c++11 c++17; do
            compile "$cc" "$standard" cc
        done
        link "$cc" c++98
        link "$cc" c++17
    else
        missing "$cc"
    fi
done

# ---- the library ----

# What it may not call. Formatting into a buffer is fine.
forbidden='printf|vprintf|fprintf|vfprintf|dprintf|puts|putchar|putc|fputs|fputc|fwrite|perror'
forbidden="$forbidden|stdout|stderr|psignal|syslog|warn|warnx|err|errx|exit|_exit|_Exit|quick_exit|abort"
forbidden="$forbidden|atexit|raise|kill|signal|sigaction|sigprocmask|pthread_sigmask|setenv|putenv|unsetenv"
forbidden="$forbidden|clearenv|setlocale|chdir|umask|system|popen|rand|srand|random|srandom|strtok"
forbidden="$forbidden|localtime|gmtime|asctime|ctime|alarm|setitimer|__assert_fail|sqlite3_config"
forbidden="$forbidden|sqlite3_shutdown|sqlite3_soft_heap_limit64|sqlite3_enable_shared_cache"

if ! command -v nm > /dev/null || ! command -v objdump > /dev/null; then
    missing "nm or objdump"
elif [ "$sanitized" -gt 0 ]; then
    echo "check-header: the library carries a sanitizer, which has state of its own; a plain build is looked at"
else
    nm -u "$LIBRARY" | awk '$1 == "U" { sub(/@.*/, "", $2); print $2 }' | sort -u > "$WORK/calls"
    sed 's/^__\(.*\)_chk$/\1/' "$WORK/calls" | grep -x -E "$forbidden" > "$WORK/bad" || true
    [ -s "$WORK/calls" ] || wrong "$LIBRARY calls nothing: it was not read"
    [ ! -s "$WORK/bad" ] || wrong "the library calls $(tr '\n' ' ' < "$WORK/bad")"

    # Data that can change, of any linkage: .data, .bss, common and thread-local. .data.rel.ro is constant once
    # it is loaded. The one exception is what CT-Library forces on us: its callbacks find their request by a
    # thread-local pointer, and its first connection in a process is made under a lock.
    objdump -t "$LIBRARY" | awk '
        /file format/ { file = $1 }
        / (\.t?data|\.t?bss|\*COM\*)/ && $0 !~ /\.data\.rel\.ro/ && $0 !~ / d  \./ {
            print file, $NF
        }' | grep -v -x -E 'sqlserver_(link\.o: current|connect\.o: (connecting|connected_before))' > "$WORK/state" || true
    [ ! -s "$WORK/state" ] || wrong "the library has state of its own: $(tr '\n' ' ' < "$WORK/state")"

    # Each name that it defines for others is its own, also in the static library, where nothing hides them.
    nm -g --defined-only "$LIBRARY" | awk 'NF == 3 && $3 !~ /^(renderq|rq)_/ { print $3 }' > "$WORK/names"
    [ ! -s "$WORK/names" ] || wrong "the library defines $(tr '\n' ' ' < "$WORK/names")"
fi
exit $failed
