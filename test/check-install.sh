#!/bin/sh
# `make install` as a packager and a user meet it: the files and their modes, a DESTDIR that nothing escapes from,
# renderq.pc, programs in C and C++ that are built from the installed tree alone, the README's examples, uninstall.
# BUILD: a finished build. SOURCE: the source tree. CC, CXX: the compilers.
set -eu
SOURCE=${SOURCE:-$(cd "$(dirname "$0")/.." && pwd)}
BUILD=$(cd "${BUILD:-$SOURCE/build}" && pwd)
CC=${CC:-cc}
CXX=${CXX:-c++}
# What a `make check` around this was told is not meant for the installs here.
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL CFLAGS LDFLAGS DESTDIR PREFIX BINDIR LIBDIR INCLUDEDIR DATADIR MANDIR \
    SQLDIR COMPLETIONDIR PKG_CONFIG_PATH PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR LD_LIBRARY_PATH 2> /dev/null || :

missing() {
    echo "check-install: there is no $1; $2"
    [ "${CI:-}" != true ] || exit 1
}
for tool in make pkg-config readelf nm "${CC%% *}" "${CXX%% *}"; do
    if ! command -v "$tool" > /dev/null; then
        missing "$tool" "nothing was installed"
        exit 0
    fi
done

WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
trap 'exit 130' INT TERM
cd "$WORK"
failed=0

wrong() {
    echo "check-install: $1"
    failed=1
}

# A library with sanitizers in it cannot be linked by a program without them.
if nm "$BUILD/librenderq.a" 2> /dev/null | grep -Eq ' U __(asan|ubsan|tsan|msan)_'; then
    BUILD=$WORK/build
fi

# installer TARGET VARIABLE=VALUE...
installer() {
    make -s -C "$SOURCE" BUILD="$BUILD" CC="$CC" "$@"
}
installer lib cli controller > build.log 2>&1 || { cat build.log; wrong "the library does not build"; exit 1; }

# tree FOLDER: its files and links, a line each with the mode and where a link leads
tree() {
    (cd "$1" && find . ! -type d -printf '%P %m %l\n' | sed 's/ 777 / -> /; s/ $//' | sort)
}

# ---- into a DESTDIR, as packagers do ----

version=$(sed -n 's/^#define RENDERQ_VERSION "\(.*\)"/\1/p' "$SOURCE/include/renderq.h")
lib=lib/some-where

expected() {
    echo "bin/renderq 755"
    echo "include/renderq.h 644"
    echo "$lib/librenderq.a 644"
    echo "$lib/librenderq.so -> librenderq.so.0"
    echo "$lib/librenderq.so.0 -> librenderq.so.$version"
    echo "$lib/librenderq.so.$version 755"
    echo "$lib/pkgconfig/renderq.pc 644"
    echo "share/bash-completion/completions/renderq 644"
    echo "share/man/man1/renderq.1 644"
    printf "%s 644\n" share/man/man3/renderq.3 share/man/man3/renderq_worker.3
    echo "share/man/man7/renderq-sql.7 644"
    echo "share/man/man8/renderq-controller.8 644"
    echo "share/renderq/openapi.yaml 644"
    echo "sbin/renderq-controller 755"
    echo "lib/systemd/system/renderq-controller.service 644"
    # Every function has a page.
    nm -D --defined-only "$BUILD/librenderq.so" | sed -n 's|.* T \(renderq_[a-z_]*\).*|share/man/man3/\1.3 644|p'
    (cd "$SOURCE/sql" && find . -name '*.sql' -printf 'share/renderq/sql/%P 644\n')
}

# PREFIX is in here too, so that what forgets DESTDIR is seen.
here=$WORK/usr
touch stamp
(umask 077 && installer install DESTDIR="$WORK/package" PREFIX="$here" LIBDIR="$here/$lib") > install.log 2>&1 \
    || { cat install.log; wrong "make install failed"; exit 1; }
[ ! -e "$here" ] || wrong "files were written outside DESTDIR: $(find "$here" ! -type d | head -n 3)"
written=$(find "$BUILD" -newer stamp ! -type d | head -n 3)
[ -z "$written" ] || wrong "make install after make builds again: $written"
expected | sort > wanted
tree "$WORK/package$here" > found
cmp -s wanted found || wrong "wanted (-) and installed (+) differ: $(diff -u wanted found | sed 1,2d | grep '^[-+]')"
closed=$(find "$WORK/package" -type d ! -path "$WORK/package" ! -perm -755 | head -n 1)
[ -z "$closed" ] || wrong "with umask 077 others cannot enter $closed"

# The list that packagers are given is the same.
installer installed PREFIX="$here" LIBDIR="$here/$lib" | sed "s|^$here/||" | sort > listed
cut -d ' ' -f 1 wanted | cmp -s - listed || wrong "make installed lists other files than install makes"

# A page that stands for another leads to one that is there.
grep -l '^\.so ' "$WORK/package$here"/share/man/man3/*.3 > links || wrong "no page leads to another"
while read -r link; do
    grep -q "^\.Nm $(basename "$link" .3)\>" "$WORK/package$here/share/man/$(sed 's/^\.so //' "$link")" \
        || wrong "$(basename "$link") leads to no page of this name"
done < links

if installer install DESTDIR="$WORK/relative" PREFIX=usr > install.log 2>&1 || [ -e "$WORK/relative" ]; then
    wrong "a PREFIX without a / at its beginning is not refused"
fi

# ---- uninstall ----

own=share/renderq/sql/sqlite
for file in bin/other $own/own.sql "$lib/librenderq.so.9"; do
    echo mine > "$WORK/package$here/$file"
done
installer uninstall DESTDIR="$WORK/package" PREFIX="$here" LIBDIR="$here/$lib"
[ "$(tree "$WORK/package$here" | cut -d ' ' -f 1 | tr '\n' ' ')" = "bin/other $lib/librenderq.so.9 $own/own.sql " ] \
    || wrong "uninstall leaves, or takes what is not its own: $(tree "$WORK/package$here")"
rm -f "$WORK/package$here/bin/other" "$WORK/package$here/$own/own.sql" "$WORK/package$here/$lib/librenderq.so.9"
installer uninstall DESTDIR="$WORK/package" PREFIX="$here" LIBDIR="$here/$lib"
[ ! -e "$WORK/package$here/share/renderq" ] || wrong "uninstall leaves share/renderq, which is empty"

# ---- into a prefix, twice: renderq.pc is never another install's ----

for prefix in "$WORK/first" "$WORK/second"; do
    installer install PREFIX="$prefix" LIBDIR="$prefix/$lib"
    export PKG_CONFIG_LIBDIR="$prefix/$lib/pkgconfig"
    said=$({ pkg-config --modversion renderq && pkg-config --cflags --libs renderq; } 2>&1 | tr -s '\n ' ' ')
    [ "$said" = "$version -I$prefix/include -L$prefix/$lib -lrenderq " ] || wrong "renderq.pc says $said"
    unset PKG_CONFIG_LIBDIR
done
installer install PREFIX="$prefix" LIBDIR="$prefix/$lib" || wrong "installing over an installation fails"
installer uninstall PREFIX="$WORK/first" LIBDIR="$WORK/first/$lib"

[ "$("$prefix/bin/renderq" --version | grep -Fc "$version")" -gt 0 ] || wrong "renderq --version says something else"
[ "$("$prefix/sbin/renderq-controller" --version)" = "renderq-controller $version" ] \
    || wrong "renderq-controller --version says something else"
grep -qx "ExecStart=$prefix/sbin/renderq-controller .*" "$prefix/lib/systemd/system/renderq-controller.service" \
    || wrong "the unit starts another program"
if command -v bash > /dev/null; then
    # shellcheck disable=SC2016  # $1 is bash's
    bash -c '. "$1" && complete -p renderq' - "$prefix/share/bash-completion/completions/renderq" > /dev/null \
        || wrong "bash does not take the completion"
fi

# ---- programs, built in a folder of their own from the installed tree alone ----
# PKG_CONFIG_LIBDIR leaves no other package to be found, sqlite3 neither, and the engines' headers cannot be read.

export PKG_CONFIG_LIBDIR="$prefix/$lib/pkgconfig"
mkdir poison program
for header in sqlite3.h sqlite3ext.h ctpublic.h cspublic.h cstypes.h bkpublic.h sybdb.h sqldb.h; do
    echo '#error "a program needs no engine'"'"'s header"' > poison/$header
done
cat > program/queue.c << 'END'
#include <renderq.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    renderq *h;
    renderq_id id;
    renderq_job *job = NULL;
    renderq_new_job fresh = RENDERQ_INIT(renderq_new_job);
    fresh.composition_id = "intro";
    fresh.payload_json = "{}";
    renderq_status status = renderq_open("sqlite:queue.db", NULL, &h);
    if (status == RENDERQ_OK)
        status = renderq_create(h, NULL);
    if (status == RENDERQ_OK)
        status = renderq_enqueue(h, &fresh, &id);
    if (status == RENDERQ_OK)
        status = renderq_claim(h, NULL, &job);
    if (status == RENDERQ_OK && strcmp(job->id.text, id.text) == 0)
        status = renderq_complete(h, job, NULL);
    printf("%s %s\n", renderq_strstatus(status), renderq_version());
    renderq_job_free(job);
    renderq_close(h);
    return status != RENDERQ_OK;
}
END
cp program/queue.c program/queue.cc
echo '#include <sqlite3.h>' > program/engine.c
# shellcheck disable=SC2086  # a compiler may be a command with its arguments
if $CC -I"$WORK/poison" -fsyntax-only program/engine.c 2> /dev/null; then
    wrong "the poisoned folder does not hide SQLite's header"
fi

# built NAME COMMAND...: the program that the command makes runs
built() {
    name=$1
    shift
    rm -rf program/run program/queue
    mkdir program/run
    if ! (cd program && "$@" -o queue) > built.log 2>&1; then
        head -n 20 built.log
        wrong "$name: $* failed"
        return 1
    fi
    # Under a sanitizer's `make check` the environment may have LD_PRELOAD; it is not for this program.
    out=$(cd program/run && unset LD_PRELOAD && LD_LIBRARY_PATH=$libs ../queue) || :
    [ "$out" = "OK $version" ] || wrong "$name: it says \"$out\""
}

# needed: the library that the program asks for at run time
needed() {
    readelf -d program/queue 2> /dev/null | sed -n 's/.*(NEEDED).*\[\(librenderq.*\)\].*/\1/p'
}

# The third way is a tree with the static library alone.
libs=$prefix/$lib
mkdir -p "$WORK/static"
cp "$libs/librenderq.a" "$WORK/static/"
echo 'int main(void) { return 0; }' > program/empty.c
# shellcheck disable=SC2046,SC2086  # lists of options
for language in c cc; do
    case $language in
        c) compile="$CC -std=c99 -Wall -Wextra -Wpedantic -Werror" ;;
        *) compile="$CXX -std=c++11 -Wall -Wextra -Wpedantic -Werror" ;;
    esac
    compile="$compile -I$WORK/poison queue.$language"
    built "shared, .$language" $compile $(pkg-config --cflags --libs renderq) \
        && { [ "$(needed)" = librenderq.so.0 ] || wrong "shared, .$language: it needs \"$(needed)\""; }
    if ! $CC program/empty.c $(pkg-config --static --libs-only-l renderq | sed 's/-lrenderq//') -o program/empty \
        2> built.log; then
        missing "library that SQLite's pkg-config file names ($(grep -o '[^ ]*-l[a-z0-9]*' built.log | head -n 1))" \
            "nothing was linked with --static"
        continue
    fi
    built "the static library, .$language" $compile \
        $(pkg-config --define-variable=libdir="$WORK/static" --static --cflags --libs renderq) \
        && { [ -z "$(needed)" ] || wrong "static, .$language: it needs $(needed)"; }
done

# ---- the examples, by the README's lines ----

needs='jansson libcurl libmicrohttpd'
# shellcheck disable=SC2086  # a list
if pkg-config --exists $needs 2> /dev/null || (unset PKG_CONFIG_LIBDIR && pkg-config --exists $needs); then
    unset PKG_CONFIG_LIBDIR
    export PKG_CONFIG_PATH="$libs/pkgconfig"
    mkdir examples
    cp "$SOURCE"/examples/*.[ch] examples/
    sed -e ':more' -e '/\\$/{N; s/\\\n *//; b more' -e '}' "$SOURCE/README.md" \
        | sed -n '/^## Examples$/,/^## [^E]/s/^    \(cc .*\)/\1/p' > lines
    while read -r line; do
        (cd examples && sh -c "$CC ${line#cc }" > ../built.log 2>&1) \
            || { cat built.log; wrong "this line of README.md fails: $line"; }
    done < lines
    for program in "$SOURCE"/examples/*.c; do
        grep -q '^int main(' "$program" || continue
        program=$(basename "$program" .c)
        grep -Eq "^cc .*\<$program\.c .*-o $program\$" lines || wrong "README.md has no cc line for $program.c"
        [ -x "examples/$program" ] || wrong "there is no program $program"
    done
    echo '{"id": "intro", "payload": {"title": "HI", "frames": 2}}' > examples/jobs
    (cd examples && unset LD_PRELOAD && export LD_LIBRARY_PATH="$libs" && ./enqueue --create sqlite:jobs.db jobs \
        && ./worker --until-empty sqlite:jobs.db && ls ./*.y4m) > built.log 2>&1 \
        || { cat built.log; wrong "the examples do not render a video"; }
else
    missing "one of $needs" "the examples were not built"
fi

[ $failed -eq 0 ] && echo "what is installed can be used and removed"
exit $failed
