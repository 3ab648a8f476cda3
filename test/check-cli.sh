#!/bin/bash
# The command renderq, as people and scripts use it. BUILD: where it was built. SOURCE: the sources.
# Needs jq, sqlite3, ps, and util-linux (script, setpriv).
# shellcheck disable=SC2016  # what stands in single quotes is for the shells that renderq runs
set -u
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
SOURCE=${SOURCE:-$(cd "$(dirname "$0")/.." && pwd)}
R=$BUILD/renderq
for tool in jq sqlite3 script setpriv ps; do
    command -v $tool >/dev/null && continue
    echo "check-cli: skipped, since there is no $tool"
    [ -z "${CI:-}" ]
    exit
done
WORK=$(mktemp -d) || exit 1
cd "$WORK" || exit 1
unset COLUMNS RENDERQ_URL POSIXLY_CORRECT
SECRET=hunter2-and-more
export RENDERQ_PASSWORD=$SECRET
failures=0
started=()

finish() {
    for pid in "${started[@]}"; do
        kill -KILL "$pid" 2>/dev/null
    done
    wait
    cd / && rm -rf "$WORK"
}
trap finish EXIT
trap 'exit 130' INT TERM

# Says what is wrong, and where in this file.
bad() {
    printf 'check-cli: line %s: %s\n' "${BASH_LINENO[-2]}" "$*"
    failures=$((failures + 1))
}

# expect CODE COMMAND...: runs it; what it says is in the files out and err, and all of it is kept in everything.
expect() {
    local wanted=$1 code
    shift
    "$@" >out 2>err
    code=$?
    cat out err >>everything
    if [ "$code" != "$wanted" ]; then
        bad "exit code $code, not $wanted: $*"
        head -c 2000 err
    fi
}

# has FILE TEXT: the file has the text in it.
has() {
    grep -qF -e "$2" "$1" || { bad "no \"$2\" in $1:" && head -c 2000 "$1"; }
}

hasnt() {
    ! grep -qF -e "$2" "$1" || bad "\"$2\" is in $1"
}

# is EXPRESSION: true of the JSON in out.
is() {
    jq -es "if length == 1 then .[0] else . end | $1" out >/dev/null || { bad "not so: $1" && head -c 2000 out; }
}

# Until a command succeeds, for at most a minute.
until_true() {
    local end=$((SECONDS + 60))
    while [ $SECONDS -lt $end ]; do
        "$@" && return
        sleep 0.02
    done
    bad "never came true: $*"
}

gone() {
    local pid
    for pid in "$@"; do
        # A zombie that nobody has reaped yet does not live on.
        [ ! -e "/proc/$pid" ] || grep -q '^State:.Z' "/proc/$pid/status" 2>/dev/null || return 1
    done
}

# all_gone FILE: the processes whose numbers are in the file are gone.
all_gone() {
    local pids
    read -ra pids <"$1"
    until_true gone "${pids[@]}"
}

# in_background COMMAND...: its process id is in $pid, and what it says in the files bg.out and bg.err.
in_background() {
    : >bg.out
    "$@" >bg.out 2>bg.err &
    pid=$!
    started+=("$pid")
}

# ended CODE: the process $pid ends with this code.
ended() {
    local code
    wait "$pid"
    code=$?
    cat bg.out bg.err >>everything
    [ "$code" = "$1" ] || { bad "exit code $code, not $1" && head -c 2000 bg.err; }
}

# A signal to $pid, and until it has heard it: the kernel makes one of two that wait.
signal() {
    kill -"$1" "$pid"
    until_true heard
}

heard() {
    grep -q '^ShdPnd:[[:space:]]*0*$' "/proc/$pid/status" 2>/dev/null || gone "$pid"
}

enqueue() {
    "$R" enqueue "$@" 2>>everything
}

state_of() {
    "$R" show --json "$1" | jq -r .state
}

in_state() {
    [ "$(state_of "$1")" = "$2" ]
}

fresh() {
    export RENDERQ_URL=sqlite:$WORK/$1.db
    "$R" init >>everything
}

# on_terminal ANSWER COMMAND: on a terminal of its own, whose whole output is in the file out.
on_terminal() {
    local code
    if [ -n "$1" ]; then
        script -qec "$2" /dev/null <<<"$1" >out
    else
        script -qec "$2" /dev/null </dev/null >out
    fi
    code=$?
    cat out >>everything
    return "$code"
}

# ---- help, usage, version ----

commands="init schema enqueue work stats list show retry cancel settle release reap purge version"
expect 0 "$R" --help
for word in $commands RENDERQ_URL RENDERQ_PASSWORD --password-file --queue "Exit codes:"; do has out "$word"; done
for code in 0 1 2 64 66 69 71 74 77 78; do
    grep -q "^  $code  *[a-z]" out || bad "exit code $code is not explained"
done
for command in $commands; do
    expect 0 "$R" "$command" --help
    has out "usage: renderq"
    has out " $command"
    [ "$(awk 'length > 79' out | wc -l)" = 0 ] || bad "the help of $command is wider than 79"
    cp out help-now
    expect 0 "$R" help "$command"
    cmp -s out help-now || bad "help $command is not $command --help"
    expect 64 "$R" "$command" --no-such-option
    has err "renderq: $command: there is no option --no-such-option"
done
expect 0 "$R" version
has out "renderq $(sed -n 's/^#define RENDERQ_VERSION "\(.*\)"/\1/p' "$SOURCE/include/renderq.h")"
expect 0 "$R" --version
expect 0 "$R" version --json
is '.version == .library'
expect 64 "$R"
expect 64 "$R" enque
has err "did you mean enqueue?"
expect 64 "$R" list
has err "RENDERQ_URL"
expect 64 "$R" --db
expect 64 "$R" --db nonsense stats
expect 64 "$R" --db oracle:x stats

# ---- schema, init ----

expect 0 "$R" --queue '[odd ]]"name]' schema
sqlite3 odd.db <out || bad "the schema does not run"
sqlite3 odd.db <out || bad "the schema does not run twice"
expect 0 "$R" --db sqlite:odd.db --queue '[odd ]]"name]' enqueue a '{}'
expect 0 "$R" --db 'sqlite:odd.db?queue=%5Bodd%20%5D%5D%22name%5D' list --json
is 'length == 1'
expect 0 "$R" --queue '[odd ]]"name]' schema --json
is '.table == "odd ]\"name" and (.sql | contains("\"odd ]\"\"name\""))'
expect 64 "$R" --queue a.b schema
expect 64 "$R" --db sqlserver:x schema
expect 78 "$R" --db sqlite:none.db stats
has err "renderq init"
expect 0 "$R" --db sqlite:jobs.db init
has out "VideoRenderJobs"
expect 0 "$R" --db sqlite:jobs.db -q second init --json
is '.queue == "second" and .status == "OK"'
expect 78 "$R" --db sqlite:jobs.db -q third list

# ---- where the URL and the password come from; that nobody sees it ----

export RENDERQ_URL=sqlite:$WORK/jobs.db
expect 0 "$R" stats
expect 78 "$R" --db sqlite:none.db stats
echo "$SECRET" >secret
expect 0 "$R" --password-file secret stats
expect 66 "$R" --password-file none stats
: >empty
expect 66 "$R" --password-file empty stats
for url in "sqlite://u:$SECRET@h/x" "sqlite://u:${SECRET}?x@h/x" "sqlserver://u:$SECRET@h/x" "$SECRET" \
    "u:$SECRET@h:1" "sqlite:x?password=$SECRET" "sqlite://u:$SECRET@h:port/x" "sqlserver://u:$SECRET#@h/x"; do
    for command in stats schema "work true"; do
        # shellcheck disable=SC2086
        "$R" --db "$url" $command >>everything 2>&1
    done
done
expect 64 "$R" "--db=$SECRET" --no-such
expect 64 "$R" --json="$SECRET" stats

# ---- enqueue: arguments ----

expect 0 "$R" enqueue intro '{"a": 1}' --priority 5 --max-retries 0 --dedup-key key --output-url file:///x
id=$(cat out)
expect 0 "$R" show --json "$id"
is '.composition_id == "intro" and .payload_json == "{\"a\": 1}" and .priority == 5 and .max_retries == 0'
is '.dedup_key == "key" and .output_url == "file:///x" and .state == "Queued" and .due_at == null'
expect 0 "$R" enqueue intro '{}' --dedup-key key
[ "$(cat out)" = "$id" ] || bad "a duplicate is answered with another ID"
has err "nothing was added"
expect 0 "$R" enqueue --json intro '{}' --dedup-key key
is ".id == \"$id\" and .status == \"DUPLICATE\""
expect 0 "$R" enqueue later '{}' --delay 1h30m --json
later=$(jq -r .id out)
[ "$(state_of "$later")" = Scheduled ] || bad "a delayed job is not Scheduled"
printf 'any text\n' >payload
expect 0 "$R" enqueue text --payload-file payload
text=$(cat out)
expect 0 "$R" show --payload "$text"
cmp -s out payload || bad "the payload is another one"
expect 0 "$R" enqueue text --payload-file - <payload
for wrong in "a" "a b c" "a b --priority x" "a b --priority 99999999999" "a b --delay 5x" "a b --delay -5" \
    "a b --max-retries -1" "--file x a b" "--file x --priority 1" "a --payload-file"; do
    # shellcheck disable=SC2086
    expect 64 "$R" enqueue $wrong
done
expect 64 "$R" enqueue a ''
expect 64 "$R" enqueue "$(printf 'a\xff')" '{}'
expect 66 "$R" enqueue a --payload-file none
expect 66 "$R" enqueue --file none.jsonl
expect 66 "$R" enqueue --file .

# ---- enqueue: JSON lines ----

fresh lines
cat >good.jsonl <<'END'
{"composition_id": "a", "payload": {"x" : [1, 2.50, 18446744073709551616], "s": "a \"b\" c"}, "priority": -3}

{"composition_id": "b", "payload_json": "any text", "delay_ms": 60000, "max_retries": 7, "dedup_key": "k"}
{"composition_id": "c", "payload": {}, "output_url": "file:///c", "dedup_key": "k"}
END
expect 0 "$R" enqueue --file good.jsonl
has out "2 queued, 1 there already"
expect 0 "$R" list --json
is 'length == 2 and .[0].priority == -3 and .[1].max_retries == 7 and .[1].state == "Scheduled"'
expect 0 "$R" show --payload "$(jq -r '.[0].id' out)"
[ "$(cat out)" = '{"x":[1,2.50,18446744073709551616],"s":"a \"b\" c"}' ] || bad "a payload was changed: $(cat out)"
expect 0 "$R" enqueue --json <good.jsonl
is 'length == 3 and .[0].status == "OK" and .[0].line == 1 and .[1].line == 3 and .[2].status == "DUPLICATE"'
expect 0 "$R" enqueue --file - --json </dev/null
is 'length == 0'

{
    echo '{"composition_id": "ok-1", "payload": {}}'
    echo 'not json'
    echo '{"composition_id": "x", "payload": {}, "prio": 1}'
    echo '{"composition_id": "x"}'
    echo '{"payload": {}}'
    echo '{"composition_id": "x", "payload": "text"}'
    echo '{"composition_id": "x", "payload": {}, "payload_json": "{}"}'
    echo '{"composition_id": "x", "payload": {}, "priority": "high"}'
    echo '{"composition_id": "x", "payload": {}, "delay_ms": -1}'
    echo '{"composition_id": "x", "payload": {}, "dedup_key": "ends in a blank "}'
    printf '{"composition_id": "%0201d", "payload": {}}\n' 0
    printf '{"composition_id": "\xff", "payload": {}}\n'
    echo '{"composition_id": "a\u0000b", "payload": {}}'
    echo '[1, 2]'
    echo '{"composition_id": "ok-2", "payload": {}}'
    printf '{"composition_id": "ok-3", "payload": {}}'
} >bad.jsonl
fresh bad
expect 1 "$R" enqueue --file bad.jsonl
has out "3 queued, 13 bad"
for line in 2 3 4 5 6 7 8 9 10 11 12 13 14; do
    grep -q "^bad.jsonl:$line: [a-z]" err || bad "line $line is not reported"
done
[ "$(wc -l <err)" = 13 ] || bad "more than the bad lines is reported"
has err 'bad.jsonl:3: unknown field "prio"'
has err 'bad.jsonl:8: priority is a string: a whole number is expected'
hasnt err "$(printf '\r')"
expect 0 "$R" list --json
is '[.[].composition_id] == ["ok-1", "ok-2", "ok-3"]'
expect 1 "$R" enqueue --json <bad.jsonl
is 'length == 16 and ([.[] | select(.status == "INVALID") | .line] == [range(2; 15)])'
has err "stdin:2: "

# More than a batch, on a terminal with a progress bar; the whole is quick.
fresh many
for ((i = 0; i < 1700; i++)); do echo '{"composition_id": "c'$i'", "payload": {"i": '$i'}}'; done >many.jsonl
sed -i '1200s/.*/oops/' many.jsonl
on_terminal "" "$R enqueue --file many.jsonl"
[ $? = 1 ] || bad "a bad line on a terminal: another exit code"
has out "many.jsonl:1200: "
has out "1699 queued, 1 bad"
has out "[#"
expect 0 "$R" stats --json
is '.queued == 1699 and .queue == "VideoRenderJobs"'
expect 0 "$R" list --json
is 'length == 1699 and .[0].composition_id == "c0" and .[-1].composition_id == "c1699"'
expect 0 "$R" list --json --limit 10
is 'length == 10'
expect 0 "$R" list --composition c7 --state queued --json
is 'length == 1 and .[0].payload_json == null'
expect 0 "$R" list --worker nobody --json
is 'length == 0'
expect 64 "$R" list --state Quued

# ---- tables, narrow and wide ----

fresh tables
enqueue "intro 日本語" '{}' >/dev/null
enqueue "$(printf 'evil \033[31m\007 \xc2\x9b \xe2\x80\xae')" '{}' --delay 5m >/dev/null
long=$(enqueue "a composition with a long name that fits into no column" "{\"x\": \"$(printf '%0150d' 0)\"}" \
    --output-url u)
for columns in 20 40 60 80 100 200; do
    for command in list "show $long" stats; do
        # shellcheck disable=SC2086
        expect 0 env COLUMNS=$columns "$R" $command
        wide=$(LC_ALL=C.UTF-8 wc -L <out)
        [ $columns -lt 40 ] || [ "$wide" -le $columns ] || bad "$command takes $wide of $columns columns"
        hasnt out "$(printf '\033')"
        hasnt out "$(printf '\xc2\x9b')"
        hasnt out "$(printf '\xe2\x80\xae')"
    done
done
expect 0 env COLUMNS=40 "$R" list
has out "$long"
has out "STATE        Queued"
expect 0 "$R" list
has out "a composition with a long name that fits into no column"
on_terminal "" "stty cols 40 rows 24; $R list; $R show $long"
[ "$(tr -d '\r' <out | LC_ALL=C.UTF-8 wc -L)" -le 40 ] || bad "a terminal of 40 columns is overrun"

# ---- operators' commands ----

fresh operate
one=$(enqueue one '{}')
two=$(enqueue two '{}')
three=$(enqueue three '{}')
nobody=00000000-0000-0000-0000-000000000000
expect 2 "$R" show $nobody
has err "there is no job $nobody"
expect 64 "$R" show 123
expect 64 "$R" show
expect 0 "$R" cancel "$one"
expect 0 "$R" cancel "$one"
expect 2 "$R" cancel $nobody
expect 64 "$R" cancel "$one" "$two" </dev/null
has err "--yes"
[ "$(state_of "$two")" = Queued ] || bad "cancel of two went on without a yes"
expect 0 "$R" cancel --yes --json "$one" "$two"
is 'length == 2 and .[1].status == "OK"'
expect 0 "$R" retry "$two"
expect 2 "$R" retry $nobody "$one" --json
is '.[0].status == "EMPTY" and .[1].status == "OK"'
expect 0 "$R" settle "$one" file:///one
expect 1 "$R" cancel "$one"
has err "is Completed"
expect 0 "$R" settle --json "$one"
is '.status == "OK"'
expect 2 "$R" settle $nobody
expect 0 "$R" show --json "$one"
is '.state == "Completed" and .output_url == "file:///one"'

expect 0 "$R" work --once --json -- true
is '.[0].event == "started" and .[1].event == "done"'
expect 1 "$R" release "$(jq -r 'select(.lease).id' out)" "$(jq -r 'select(.lease).lease' out)"
in_background "$R" work --once -- sh -c 'exec sleep 600'
until_true grep -q lease bg.out
lease=$(sed -n 's/.* lease //p' bg.out)
expect 1 "$R" release "$three" $nobody
expect 0 "$R" release --delay 1h "$three" "$lease"
expect 1 "$R" release "$three" "$lease"
[ "$(state_of "$three")" = Scheduled ] || bad "a released job does not wait"
signal TERM
signal TERM
wait "$pid"

dead=$(enqueue dead '{}' --max-retries 0 --dedup-key twin)
expect 1 "$R" work --once -- false
has out "dead letter"
[ "$(state_of "$dead")" = DeadLetter ] || bad "no dead letter"
twin=$(enqueue twin '{}' --dedup-key twin)
expect 1 "$R" retry "$dead"
has err "$twin"
expect 64 "$R" retry --all </dev/null
has err "--yes"
expect 0 "$R" retry --all --yes --json
is '.retried == 0 and .duplicates == 1'
expect 0 "$R" cancel "$twin"
on_terminal n "$R retry --all"
[ $? = 1 ] || bad "a no is not exit code 1"
has out "Retry the 1 dead letters of VideoRenderJobs? [y/N]"
[ "$(state_of "$dead")" = DeadLetter ] || bad "a no was taken for a yes"
on_terminal y "$R retry --all" || bad "a yes is not exit code 0"
[ "$(state_of "$dead")" = Queued ] || bad "a yes was taken for a no"
expect 64 "$R" retry --all "$dead"
on_terminal n "$R cancel $dead $one"
[ $? = 1 ] || bad "cancel did not ask"

expect 0 "$R" reap --json
is '.returned == 0 and .dead == 0'
claimed=$(enqueue claimed '{}' --priority 9)
sqlite3 operate.db "UPDATE VideoRenderJobs SET Status = 'Processing', LockedAtUtc = 1000
                    WHERE CompositionId = 'claimed'"
expect 0 "$R" stats --json
is '.run_out == 1'
expect 0 "$R" list --state processing
has out "has run out"
expect 0 "$R" reap
has out "1 back in the queue"
[ "$(state_of "$claimed")" = Scheduled ] || bad "a reaped job does not wait"

expect 64 "$R" purge
expect 64 "$R" purge --older-than 59s --yes
expect 64 "$R" purge --older-than 7d </dev/null
sqlite3 operate.db "UPDATE VideoRenderJobs SET CompletedAtUtc = 1000 WHERE CompositionId = 'one'"
on_terminal n "$R purge --older-than 7d"
[ $? = 1 ] || bad "purge did not ask"
expect 0 "$R" purge --older-than 7d --yes --json
is '.deleted == 1'
expect 2 "$R" show "$one"

# ---- stats --watch ----

in_background "$R" stats --watch --interval 100ms --json
until_true eval '[ "$(wc -l <bg.out)" -ge 3 ]'
kill -TERM "$pid"
ended 0
cp bg.out out
is 'length >= 3 and (.[0] | has("at") and .scheduled >= 0)'
in_background "$R" stats --watch --interval 100ms
until_true eval '[ "$(grep -c " queued=[0-9]" bg.out)" -ge 2 ]'
kill -TERM "$pid"
ended 0
: >drawn
in_background script -qefc "stty cols 40 rows 24; echo \$\$ >watch; exec $R stats --watch --interval 100ms" drawn
until_true eval '[ "$(grep -caF "$(printf "\\033[H")" drawn)" -ge 3 ]'
kill -TERM "$(cat watch)"
ended 0

# ---- the other exit codes ----

expect 74 "$R" --db "sqlite:$SOURCE/LICENSE?synchronous=full" stats
expect 74 sh -c "$R list --json >/dev/full"
has err "No space left on device"
mkfifo lock
sqlite3 operate.db <lock &
exec 3>lock
printf 'BEGIN IMMEDIATE;\n.shell touch locked\n' >&3
until_true test -e locked
expect 69 "$R" --db "sqlite:$WORK/operate.db?busy_timeout_ms=100" enqueue a '{}'
exec 3>&-
wait $!
if [ "$(id -u)" = 0 ]; then
    mkdir denied
    cp "$R" denied/renderq
    cp operate.db denied
    chmod 711 "$WORK" denied
    expect 77 setpriv --reuid=65534 --regid=65534 --clear-groups \
        denied/renderq --db sqlite:denied/operate.db enqueue a '{}'
else
    mkdir denied
    cp operate.db denied
    chmod 555 denied
    chmod 444 denied/*
    expect 77 "$R" --db sqlite:denied/operate.db enqueue a '{}'
    chmod 755 denied
fi
expect 71 "$R" work -- no-such-program

# ---- work: what the program gets, and what its exit does ----

fresh work
expect 2 "$R" work --once -- true
expect 0 "$R" work --until-empty -- true
expect 64 "$R" work
expect 64 "$R" work --lease 0 -- true
expect 64 "$R" work --lease 1500ms -- true
job=$(enqueue intro '{"a": 1}' --output-url file:///expected)
expect 0 "$R" work --once --worker me -- sh -c 'cat >stdin
    printf "%s %s %s %s %s" "$RENDERQ_JOB_ID" "$RENDERQ_COMPOSITION_ID" "$RENDERQ_ATTEMPT" "$RENDERQ_OUTPUT_URL" \
        "[${RENDERQ_PASSWORD-}]" >environment
    echo "a word on standard error" >&2; echo chatter; echo "file:///done"; echo'
[ "$(cat stdin)" = '{"a": 1}' ] || bad "the payload is not on standard input"
[ "$(cat environment)" = "$job intro 1 file:///expected []" ] || bad "the environment is $(cat environment)"
has err "a word on standard error"
expect 0 "$R" show --json "$job"
is '.state == "Completed" and .output_url == "file:///done" and .worker == "me"'
job=$(enqueue plain '{}')
expect 0 env RENDERQ_OUTPUT_URL=outer "$R" work --once -- sh -c 'test -z "${RENDERQ_OUTPUT_URL+x}"'
expect 0 "$R" show --json "$job"
is '.state == "Completed" and .output_url == null'

job=$(enqueue fails '{}')
expect 1 "$R" work --once --json -- sh -c 'echo first >&2; printf "\033[31mboom\n" >&2; exit 3'
is '.[1].event == "failed" and .[1].exit_code == 3'
expect 0 "$R" show --json "$job"
is '.state == "Scheduled" and .retry_count == 1 and (.last_error | startswith("first\n") and contains("boom"))'
expect 0 "$R" show "$job"
has out "boom (exit code 3)"
"$R" cancel "$job" >/dev/null
job=$(enqueue crashes '{}')
expect 1 "$R" work --once -- sh -c 'echo last words >&2; kill -SEGV $$'
expect 0 "$R" show --json "$job"
is '.retry_count == 1 and (.last_error | startswith("last words") and contains("signal 11"))'
"$R" cancel "$job" >/dev/null
job=$(enqueue retries '{}' --max-retries 0)
expect 1 "$R" work --once --retry-after 1h -- sh -c 'exit 75'
expect 0 "$R" show --json "$job"
is '.state == "Scheduled" and .retry_count == 0'
job=$(enqueue second '{}')
sqlite3 work.db "UPDATE VideoRenderJobs SET RetryCount = 1 WHERE CompositionId = 'second'"
expect 0 "$R" work --once -- sh -c 'echo "attempt $RENDERQ_ATTEMPT"'
expect 0 "$R" show --json "$job"
is '.output_url == "attempt 2"'
job=$(enqueue binary '{}' --max-retries 0)
expect 1 "$R" work --once -- printf 'a\377b\n'
expect 0 "$R" show --json "$job"
is '.state == "DeadLetter" and (.last_error | contains("not UTF-8"))'

job=$(enqueue unrunnable '{}')
printf '#!/no/such/interpreter\n' >script
chmod +x script
expect 71 "$R" work -- ./script
expect 0 "$R" show --json "$job"
is '.state == "Queued" and .retry_count == 0'
for i in 1 2 3; do enqueue "$i" '{}' >/dev/null; done
expect 0 "$R" work --max-jobs 2 --json -- true
is '[.[] | select(.event == "done")] | length == 2'
expect 0 "$R" work --until-empty --json -- sh -c 'exit 1'
is '[.[] | select(.event == "failed")] | length == 2'
expect 0 "$R" stats --json
is '.queued == 0 and .processing == 0'
expect 0 "$R" work --wait 100ms -- true

# ---- work: much data, and none that is read ----

# The lease is renewed, also while nobody reads the standard error that is passed on; the end looks at it.
fresh lease
job_kept=$(enqueue kept '{}')
mkfifo unread
(sleep 14 && cat >/dev/null) <unread &
reader=$!
"$R" work --once --lease 10 -- sh -c 'head -c 200000 /dev/zero >&2; echo file:///late' >kept.out 2>unread &
kept=$!
started+=("$reader" "$kept")

fresh data
head -c 10000000 /dev/zero | tr '\0' x >big
job=$(enqueue big --payload-file big)
expect 0 timeout 120 "$R" work --once -- sh -c 'head -c 10000000 /dev/zero | tr "\0" e >&2
    head -c 10000000 /dev/zero | tr "\0" o; echo; cat | wc -c'
[ "$(wc -c <err)" = 10000000 ] || bad "standard error was not passed on"
expect 0 "$R" show --json "$job"
is '.output_url == "10000000"'
job=$(enqueue big --payload-file big --max-retries 0)
expect 1 timeout 120 "$R" work --once -- sh -c '(cat big; echo; echo the end) >&2; exit 1'
expect 0 "$R" show --json "$job"
is '(.last_error | length < 5000 and startswith("…") and contains("the end"))'
enqueue big --payload-file big >/dev/null
expect 0 timeout 120 "$R" work --once -- true
job=$(enqueue long '{}' --max-retries 0)
expect 1 timeout 120 "$R" work --once -- cat big
expect 0 "$R" show --json "$job"
is '(.last_error | contains("too long"))'
# What the program leaves behind holds its pipes, and ends with it.
enqueue leaves '{}' >/dev/null
expect 0 timeout 120 "$R" work --once -- sh -c 'sleep 600 </dev/null >/dev/null 2>&1 & echo $! >left; echo file:///x'
all_gone left

# ---- work: signals ----

fresh signals
job=$(enqueue in-hand '{}')
next=$(enqueue next '{}')
in_background "$R" work -- sh -c 'touch running; until test -e go; do sleep 0.02; done; echo file:///kept'
until_true test -e running
signal TERM
touch go
ended 0
in_state "$job" Completed || bad "SIGTERM did not let the job in hand end"
in_state "$next" Queued || bad "SIGTERM did not stop the worker"

rm running
in_background "$R" work -- sh -c 'sleep 600 & echo $! $$ >running; wait'
until_true test -s running
signal TERM
sleep 0.1
in_state "$next" Processing || bad "the first SIGTERM ended the program"
signal TERM
ended 0
all_gone running
expect 0 "$R" show --json "$next"
is '.state == "Queued" and .retry_count == 0 and .last_error == null'

rm running
in_background "$R" work --once -- sh -c 'trap "" TERM; echo $$ >running; while :; do sleep 0.05; done'
until_true test -s running
since=$SECONDS
signal HUP
signal TERM
sleep 0.1
# Its time is five seconds.
in_state "$next" Processing || [ $((SECONDS - since)) -ge 5 ] \
    || bad "a second signal killed the program before its time"
signal TERM
ended 1
all_gone running
in_state "$next" Queued || bad "a third signal did not release the job"

# A supervisor that signals the program, too: no failure of the job.
# child_of NAME: sets $child to the process of $pid that has this name.
child_of() {
    child=$(ps -o pid=,comm= --ppid "$pid" | sed -n "s/^ *\([0-9]*\) $1\$/\1/p")
    [ -n "$child" ]
}
in_background "$R" work -- sh -c 'exec sleep 600'
until_true child_of sleep
signal TERM
kill -TERM "$child"
ended 0
expect 0 "$R" show --json "$next"
is '.state == "Queued" and .retry_count == 0'

# While it waits for a job.
"$R" cancel "$next" >/dev/null
in_background "$R" work -- true
# It is renderq, no longer this shell, and catches SIGTERM.
until_true grep -q '^Name:.*renderq' "/proc/$pid/status"
until_true grep -q '^SigCgt:.*[4-7c-f]...$' "/proc/$pid/status"
kill -TERM "$pid"
ended 0

# renderq itself is killed: nothing of it lives on.
enqueue killed '{}' >/dev/null
rm running
in_background "$R" work -- sh -c 'sleep 600 & sleep 600 & echo $! $$ >running; wait'
until_true test -s running
until_true child_of renderq-guard
disown "$pid"                           # bash would tell of its end
kill -KILL "$pid"
all_gone running
until_true gone "$child"

# ---- work: side by side ----

fresh side
for i in 1 2 3 4 5; do enqueue "side-$i" '{}' >/dev/null; done
# Each program waits until three run.
expect 0 timeout 120 "$R" work --jobs 3 --max-jobs 3 -- sh -c 'touch "side-$RENDERQ_JOB_ID"
    until [ "$(ls side-*-* | wc -l)" = 3 ]; do sleep 0.02; done; echo "file:///$RENDERQ_COMPOSITION_ID"'
[ "$(grep -c ' done after ' out)" = 3 ] || bad "three programs were not run side by side"
expect 0 timeout 120 "$R" work -j 3 --until-empty --json -- sh -c '[ "$RENDERQ_COMPOSITION_ID" = side-5 ] || exit 3'
is '[.[] | select(.event == "done")] | length == 1'
is '[.[] | select(.event == "failed" and .exit_code == 3)] | length == 1'
expect 64 "$R" work -j 0 -- true
expect 64 "$R" work -j 257 -- true
expect 64 "$R" work -j two -- true
expect 64 "$R" work --once -j 2 -- true
enqueue side-j '{}' >/dev/null
expect 0 "$R" -j work --until-empty -- true
is '[.[] | select(.event == "done")] | length == 1'

# A lost job is claimed again while its program, which does not hear, is still being killed: both are told of.
fresh again
job_again=$(enqueue again '{}')
in_background "$R" work -j 2 --lease 3 -- sh -c 'trap "" TERM; n=1; test -e again-1 && n=2
    touch again-$n; until test -e over-$n; do sleep 0.02; done'
until_true grep -q ' started: ' bg.out
until_true test -e again-1
expect 0 "$R" release --delay 2s "$job_again" "$(sed -n 's/.* lease //p' bg.out)"
until_true test -e again-2
touch over-1
until_true grep -q "^$job_again lost after " bg.out
touch over-2
until_true grep -q "^$job_again done after " bg.out
kill -TERM "$pid"
ended 0
[ "$(grep -c ' started: ' bg.out)" = 2 ] || bad "the lost job was not claimed again"

# Its own log cannot be written any more.
fresh unwritten
enqueue unwritten '{}' >/dev/null
expect 74 sh -c "$R work --once -- true >/dev/full"
has err "No space left on device"
enqueue unwritten '{}' >/dev/null
mkfifo unwritten
exec 8<>unwritten
exec 9>unwritten 8<&-
expect 74 sh -c "$R work --once -- true >&9"
has err "Broken pipe"
exec 9>&-

# What stops one stops all: first no more jobs, then the programs.
fresh stopped
for i in 1 2 3 4; do enqueue "many-$i" '{}' >/dev/null; done
rm -f running
in_background "$R" work -j 3 -- sh -c 'sleep 600 & echo $! $$ | tr "\n" " " >>running; wait'
three_run() { [ "$(wc -w <running)" = 6 ]; }
until_true test -s running
until_true three_run
signal TERM
signal TERM
ended 0
all_gone running
expect 0 "$R" stats --json
is '.queued == 4 and .processing == 0'
rm running
in_background "$R" work -j 3 -- sh -c 'sleep 600 & echo $! $$ | tr "\n" " " >>running; wait'
until_true test -s running
until_true three_run
disown "$pid"
kill -KILL "$pid"
all_gone running

# On a terminal it says how it goes, and its programs' words stay whole. Nobody says anything before two are there.
fresh terminal
for i in 1 2 3; do enqueue "terminal-$i" '{}' >/dev/null; done
on_terminal "" "$R work -j 2 --until-empty -- sh -c 'touch \"met-\$RENDERQ_JOB_ID\"
    until [ \"\$(ls met-* | wc -l)\" -ge 2 ]; do sleep 0.02; done; echo a word >&2'"
has out "2 running, 0 done, 0 failed"
has out "a word"
[ "$(grep -c ' done after ' out)" = 3 ] || bad "the lines of the log are missing on a terminal"
expect 0 "$R" work -j 2 --until-empty -- true
hasnt out "running"

# ---- work: the lease ----

# It is lost to an operator.
fresh lost
job_lost=$(enqueue cancelled '{}')
rm running
in_background "$R" work --once --lease 3 -- sh -c 'echo $$ >running; sleep 600; echo file:///late'
until_true test -s running
expect 0 "$R" cancel "$job_lost"
ended 1
all_gone running
has bg.err "lease"
in_state "$job_lost" Cancelled || bad "a lost job's result was not kept out"

# It runs out while renderq sleeps, and somebody else has the job by then.
job_slept=$(enqueue slept '{}')
rm -f running go
in_background "$R" work --once -- sh -c 'echo $$ >running; until test -e go; do sleep 0.02; done; echo file:///late'
until_true test -s running
kill -STOP "$pid"
sqlite3 lost.db "UPDATE VideoRenderJobs SET LockedAtUtc = LockedAtUtc - 3600000, LeasedAtUtc = LockedAtUtc - 3600000
                 WHERE Status = 'Processing'"
expect 0 "$R" reap
sqlite3 lost.db "UPDATE VideoRenderJobs SET DueAtUtc = 1000 WHERE Status = 'Scheduled'"
expect 0 "$R" work --once --wait 5s -- echo file:///other
kill -CONT "$pid"
touch go
ended 1
all_gone running
expect 0 "$R" show --json "$job_slept"
is '.state == "Completed" and .output_url == "file:///other"'

wait "$kept" || bad "a lease was lost while standard error was not read"
wait "$reader"
RENDERQ_URL=sqlite:$WORK/lease.db
in_state "$job_kept" Completed || bad "the job with the unread standard error is not completed"

# ---- completion ----

# shellcheck source=/dev/null
. "$SOURCE/cli/renderq.bash"
complete_words() {
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _renderq
}
complete_words renderq en
[ "${COMPREPLY[*]}" = enqueue ] || bad "renderq en: ${COMPREPLY[*]}"
complete_words renderq --db sqlite:x list --state Dead
[ "${COMPREPLY[*]}" = DeadLetter ] || bad "list --state Dead: ${COMPREPLY[*]}"
complete_words renderq --db sqlite : x li
[ "${COMPREPLY[*]}" = list ] || bad "--db sqlite:x li: ${COMPREPLY[*]}"
complete_words renderq list --state = Dead
[ "${COMPREPLY[*]}" = DeadLetter ] || bad "list --state=Dead: ${COMPREPLY[*]}"
complete_words renderq enqueue --file many.j
[ "${COMPREPLY[*]}" = many.jsonl ] || bad "enqueue --file many.j: ${COMPREPLY[*]}"
complete_words renderq work --once -- tru
[[ " ${COMPREPLY[*]} " == *" true "* ]] || bad "work -- tru: ${COMPREPLY[*]}"
complete_words renderq work -- cat many.j
[ "${COMPREPLY[*]}" = many.jsonl ] || bad "work -- cat many.j: ${COMPREPLY[*]}"
complete_words renderq ""
for command in $commands; do
    [[ " ${COMPREPLY[*]} " == *" $command "* ]] || bad "completion does not know $command"
done
for command in $commands; do
    complete_words renderq "$command" --
    offered=$(printf '%s\n' "${COMPREPLY[@]}" | sort -u)
    documented=$("$R" "$command" --help | sed -n 's/^  \(-., \)\{0,1\}\(--[a-z-]*\).*/\2/p' | sort -u)
    [ "$offered" = "$documented" ] ||
        bad "completion of $command: $(diff <(echo "$offered") <(echo "$documented"))"
done

# ---- in the end ----

if grep -n "$SECRET" everything; then bad "the password was shown"; fi
if [ "$failures" -gt 0 ]; then
    echo "check-cli: $failures failures"
    exit 1
fi
echo "check-cli: ok"
