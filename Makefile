# Builds librenderq. `make help` lists the targets.
# Variables: CC CFLAGS LDFLAGS BUILD PREFIX LIBDIR INCLUDEDIR DESTDIR

VERSION := $(shell sed -n 's/^\#define RENDERQ_VERSION "\(.*\)"/\1/p' include/renderq.h)
SOVERSION := $(firstword $(subst ., ,$(VERSION)))

BUILD ?= build
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DATADIR ?= $(PREFIX)/share
DESTDIR ?=
INSTALL ?= install
PKG_CONFIG ?= pkg-config

CFLAGS ?= -O2 -g
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
BASE_CFLAGS := -std=c99 -D_GNU_SOURCE $(WARNINGS) -Iinclude -fPIC
DEPFLAGS = -MMD -MP

SQLITE_CFLAGS := $(shell $(PKG_CONFIG) --cflags sqlite3 2>/dev/null)
SQLITE_LIBS := $(shell $(PKG_CONFIG) --libs sqlite3 2>/dev/null)
JANSSON_CFLAGS := $(shell $(PKG_CONFIG) --cflags jansson 2>/dev/null)
JANSSON_LIBS := $(shell $(PKG_CONFIG) --libs jansson 2>/dev/null)
MICROHTTPD_CFLAGS := $(shell $(PKG_CONFIG) --cflags libmicrohttpd 2>/dev/null)
MICROHTTPD_LIBS := $(shell $(PKG_CONFIG) --libs libmicrohttpd 2>/dev/null)
CMOCKA_CFLAGS := $(shell $(PKG_CONFIG) --cflags cmocka 2>/dev/null)
CMOCKA_LIBS := $(shell $(PKG_CONFIG) --libs cmocka 2>/dev/null)

# FreeTDS has no pkg-config file.
ENGINE_LIBS := $(SQLITE_LIBS) -lct -lpthread

SQL_OBJECTS := $(patsubst %,$(BUILD)/lib/sql_%.o,sqlite sqlserver babelfish)
LIB_OBJECTS := $(patsubst lib/%.c,$(BUILD)/lib/%.o,$(sort $(wildcard lib/*.c))) $(SQL_OBJECTS)
STATIC := $(BUILD)/librenderq.a
SHARED := $(BUILD)/librenderq.so.$(VERSION)

.PHONY: all lib help
all: lib examples
lib: $(STATIC) $(BUILD)/librenderq.so

help:
	@echo "all lib cli controller examples   build"
	@echo "check                   every test that needs no other tool; check-asan, check-valgrind: under those"
	@echo "demo                    twenty videos, three workers, one killed; see examples/demo.c"
	@echo "demo-relay              messages through queues and a table, with kills; see examples/relay_demo.c; DEMO_URL"
	@echo "demo-controller         eleven workers that only speak HTTP and crash; 200 records"
	@echo "race                    5,000 jobs, workers killed and paused at random, nothing lost; minutes"
	@echo "race-relay              2,000 messages in transactions, consumers killed and paused, every effect once"
	@echo "bench                   figures beside bare sqlite3 and bare CT-Library; minutes. BENCH_FLAGS=--quick"
	@echo "fuzz                    invented inputs, a minute a target; needs clang. FUZZ_SECONDS=60"
	@echo "check-tsan soak         the worker under the thread sanitizer; minutes of it, and its memory"
	@echo "check-tsql              the T-SQL parsed and checked; needs .NET"
	@echo "check-server            the library against the server of RENDERQ_TEST_URL"
	@echo "check-interop           a C# program with Dapper beside the command, on one table; needs .NET"
	@echo "lint format             static analysis; the code's layout"
	@echo "install uninstall dist  PREFIX=$(PREFIX) LIBDIR=$(LIBDIR) DESTDIR=$(DESTDIR)"
	@echo "clean"

# ---- library ----

$(BUILD)/lib/%.o: lib/%.c Makefile
	@mkdir -p $(@D)
	$(CC) $(BASE_CFLAGS) $(SQLITE_CFLAGS) $(CFLAGS) $(DEPFLAGS) -c $< -o $@

$(BUILD)/lib/sql_sqlite.c: $(sort $(wildcard sql/sqlite/*.sql))
$(BUILD)/lib/sql_sqlserver.c: $(sort $(wildcard sql/sqlserver/*.sql))
$(BUILD)/lib/sql_babelfish.c: $(sort $(wildcard sql/babelfish/*.sql))
$(BUILD)/lib/sql_%.c: lib/embed.awk
	@mkdir -p $(@D)
	awk -v table=rq_sql_$* -f lib/embed.awk $(filter %.sql,$^) > $@.tmp && mv $@.tmp $@

$(SQL_OBJECTS): $(BUILD)/lib/%.o: $(BUILD)/lib/%.c Makefile
	$(CC) $(BASE_CFLAGS) -Ilib $(CFLAGS) -Wno-overlength-strings $(DEPFLAGS) -c $< -o $@

$(STATIC): $(LIB_OBJECTS)
	rm -f $@
	$(AR) rcs $@ $^

$(SHARED): $(LIB_OBJECTS) lib/renderq.map
	$(CC) -shared -Wl,-soname,librenderq.so.$(SOVERSION) -Wl,--version-script=lib/renderq.map -Wl,-z,defs \
	    $(CFLAGS) $(LDFLAGS) $(LIB_OBJECTS) $(ENGINE_LIBS) -o $@

$(BUILD)/librenderq.so: $(SHARED)
	ln -sf librenderq.so.$(VERSION) $(BUILD)/librenderq.so.$(SOVERSION)
	ln -sf librenderq.so.$(SOVERSION) $@

-include $(wildcard $(BUILD)/*/*.d $(BUILD)/*/*/*.d)

# ---- examples ----

EXAMPLES := $(BUILD)/examples/enqueue $(BUILD)/examples/worker $(BUILD)/examples/render $(BUILD)/examples/demo
.PHONY: examples demo
examples: $(EXAMPLES)

$(BUILD)/examples/%.o: examples/%.c Makefile
	@mkdir -p $(@D)
	$(CC) $(BASE_CFLAGS) $(JANSSON_CFLAGS) $(CFLAGS) $(DEPFLAGS) -c $< -o $@

$(BUILD)/examples/worker $(BUILD)/examples/render: $(BUILD)/examples/y4m.o
$(BUILD)/examples/demo: $(patsubst %,$(BUILD)/examples/%.o,demo_plan demo_check play y4m)
$(EXAMPLES): $(BUILD)/examples/%: $(BUILD)/examples/%.o $(STATIC)
	$(CC) $(CFLAGS) $(LDFLAGS) $(filter %.o,$^) $(STATIC) $(JANSSON_LIBS) $(ENGINE_LIBS) -o $@

demo: examples
	BIN=$(BUILD)/examples $(BUILD)/examples/demo

# ---- the relay and its demo ----
# What needs a library that is not there is left out of `make`; demo-relay says so. DEMO_URL: another database.

CURL_LIBS := $(shell $(PKG_CONFIG) --libs libcurl 2>/dev/null)
RELAY_EXAMPLES := relay $(if $(CURL_LIBS),drain $(if $(MICROHTTPD_LIBS),relay_demo))
RELAY_LIBS_relay := $(JANSSON_LIBS)
RELAY_LIBS_drain := $(CURL_LIBS)
RELAY_LIBS_relay_demo := $(JANSSON_LIBS) $(MICROHTTPD_LIBS)
DEMO_URL ?=

.PHONY: demo-relay
examples: $(RELAY_EXAMPLES:%=$(BUILD)/examples/%)
$(BUILD)/examples/relay: $(patsubst %,$(BUILD)/examples/%.o,booking own_sql)
$(BUILD)/examples/relay_demo: $(patsubst %,$(BUILD)/examples/%.o,relay_check relay_receiver booking own_sql play)
$(RELAY_EXAMPLES:%=$(BUILD)/examples/%): $(BUILD)/examples/%: $(BUILD)/examples/%.o $(STATIC)
	$(CC) $(CFLAGS) $(LDFLAGS) $(filter %.o,$^) $(STATIC) $(RELAY_LIBS_$*) $(ENGINE_LIBS) -o $@

demo-relay: examples
	@[ -n "$(filter relay_demo,$(RELAY_EXAMPLES))" ] || { \
	    echo "demo-relay needs libcurl and libmicrohttpd, with headers: ./bootstrap demo-relay" >&2; exit 1; }
	BIN=$(BUILD)/examples $(BUILD)/examples/relay_demo $(DEMO_URL:%='%')

# ---- tests ----
# test/test_*.c are programs of their own; test/conformance/*.c make one, which takes a URL.

TESTS := $(patsubst test/%.c,$(BUILD)/test/%,$(sort $(wildcard test/test_*.c)))
CONFORMANCE := $(BUILD)/test/conformance/conformance
INTEROP_SQL := $(BUILD)/test/interop/sql_tsql.o $(BUILD)/test/interop/sql_sqlite.o
CONFORMANCE_OBJECTS := $(INTEROP_SQL) \
    $(patsubst test/%.c,$(BUILD)/test/%.o,$(sort $(wildcard test/conformance/*.c test/interop/*.c)))
TEST_SCRIPTS := $(sort $(wildcard test/check-*.sh))

.PHONY: check check-asan check-valgrind tests
tests: $(TESTS) $(CONFORMANCE)
.SECONDARY: $(TESTS:=.o)

$(BUILD)/test/%.o: test/%.c Makefile
	@mkdir -p $(@D)
	$(CC) $(BASE_CFLAGS) -Ilib -Itest -Itest/conformance $(CMOCKA_CFLAGS) $(SQLITE_CFLAGS) $(CFLAGS) $(DEPFLAGS) -c $< \
	    -o $@

$(BUILD)/test/test_%: $(BUILD)/test/test_%.o $(STATIC)
	$(CC) $(CFLAGS) $(LDFLAGS) $(TEST_LDFLAGS) $< $(STATIC) $(CMOCKA_LIBS) $(ENGINE_LIBS) -o $@

$(CONFORMANCE): $(CONFORMANCE_OBJECTS) $(STATIC)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) $^ $(CMOCKA_LIBS) $(ENGINE_LIBS) -o $@

# The statements of the programs that work on the table through Dapper, which the suite's other program says.
$(BUILD)/test/interop/sql_tsql.c: $(sort $(wildcard test/interop/*.sql))
$(BUILD)/test/interop/sql_sqlite.c: $(sort $(wildcard test/interop/sqlite/*.sql))
$(BUILD)/test/interop/sql_%.c: lib/embed.awk
	@mkdir -p $(@D)
	awk -v table=interop_$* -f lib/embed.awk $(filter %.sql,$^) > $@.tmp && mv $@.tmp $@

$(INTEROP_SQL): $(BUILD)/test/interop/%.o: $(BUILD)/test/interop/%.c Makefile
	$(CC) $(BASE_CFLAGS) -Ilib $(CFLAGS) -Wno-overlength-strings $(DEPFLAGS) -c $< -o $@

# What the SQL Server driver does on the wire; test/check-tds.sh runs it.
WIRE := $(BUILD)/test/sqlserver/wire
WIRE_OBJECTS := $(patsubst test/%.c,$(BUILD)/test/%.o,$(sort $(wildcard test/sqlserver/*.c)))
tests: $(WIRE)

$(WIRE): $(WIRE_OBJECTS) $(STATIC)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) $^ $(CMOCKA_LIBS) $(ENGINE_LIBS) -o $@

# The same against servers that misbehave, with the scenes of the conformance suite.
FAULTS := $(BUILD)/test/faults/faults
FAULTS_OBJECTS := $(INTEROP_SQL) $(patsubst test/%.c,$(BUILD)/test/%.o,$(sort $(wildcard test/faults/*.c)) \
    $(patsubst %,test/conformance/%.c,calls suite) $(sort $(wildcard test/conformance/engine_*.c \
    test/conformance/native_*.c test/interop/*.c)))
tests: $(FAULTS)

$(FAULTS): $(FAULTS_OBJECTS) $(STATIC)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -Wl,--wrap=ct_connect,--wrap=ct_param,--wrap=ct_send,--wrap=ct_results,--wrap=ct_fetch $^ \
	    $(CMOCKA_LIBS) $(ENGINE_LIBS) -o $@

# ---- the worker runtime ----
# One suite for every engine, as the conformance suite; test/run.sh and test/check-tds.sh run it.

WORKER := $(BUILD)/test/worker/worker
WORKER_OBJECTS := $(INTEROP_SQL) $(patsubst test/%.c,$(BUILD)/test/%.o,$(sort $(wildcard test/worker/*.c \
    test/conformance/engine_*.c)))
tests: $(WORKER)

$(WORKER): $(WORKER_OBJECTS) $(STATIC)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) $^ $(CMOCKA_LIBS) $(ENGINE_LIBS) -o $@

# A test that replaces a function of libc's says so here.
$(BUILD)/test/test_sqlite_files: TEST_LDFLAGS = -Wl,--wrap=statfs
$(BUILD)/test/test_sqlite_tx: TEST_LDFLAGS = -Wl,--wrap=rq_stop_raised
$(BUILD)/test/test_freetds_conf: TEST_LDFLAGS = -Wl,--wrap=fopen,--wrap=getpwuid_r
$(BUILD)/test/test_sqlserver_sql: TEST_LDFLAGS = -Wl,--wrap=rq_ss_request
$(BUILD)/test/test_sqlserver_babelfish: TEST_LDFLAGS = -Wl,--wrap=rq_ss_request
$(BUILD)/test/test_nomem: TEST_LDFLAGS = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup,--wrap=free

check: all tests
	BUILD=$(BUILD) test/run.sh

# The same tests, built with sanitizers, or run under valgrind.
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
check-asan:
	SANITIZE_FLAGS="$(SANITIZE)" $(MAKE) BUILD=$(BUILD)/asan CFLAGS="-O1 -g $(SANITIZE)" check

# The thread sanitizer, for what has threads. It sees only what is built with it.
.PHONY: check-tsan soak
check-tsan:
	$(MAKE) BUILD=$(BUILD)/tsan CFLAGS="-O1 -g -fsanitize=thread" $(BUILD)/tsan/test/worker/worker
	rm -rf $(BUILD)/tsan/queue.db*
	RENDERQ_WORKER_JOBS=3000 $(BUILD)/tsan/test/worker/worker "sqlite:$(BUILD)/tsan/queue.db?synchronous=normal"

# Minutes of the worker: the long forms of its tests, and its memory.
soak: $(WORKER)
	rm -rf $(BUILD)/soak && mkdir -p $(BUILD)/soak
	RENDERQ_WORKER_JOBS=100000 $(WORKER) "sqlite:$(BUILD)/soak/many.db?synchronous=normal" many
	RENDERQ_WORKER_AWAY_S=30 $(WORKER) "sqlite:$(BUILD)/soak/away.db?synchronous=normal" away
	RENDERQ_SOAK_S=180 $(WORKER) "sqlite:$(BUILD)/soak/soak.db?synchronous=normal" soak

check-valgrind: all tests
	BUILD=$(BUILD) WRAP="valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite,indirect \
	    --suppressions=$(CURDIR)/test/valgrind.supp" \
	    test/run.sh

# ---- a server of yours ----
# RENDERQ_TEST_URL=sqlserver://USER:PASSWORD@HOST:PORT/DATABASE make check-server; test/check-server.sh says what it drops.

.PHONY: check-server
check-server: all tests
	@[ -n "$$RENDERQ_TEST_URL" ] || { echo "RENDERQ_TEST_URL names no server" >&2; exit 1; }
	BUILD=$(BUILD) test/check-server.sh

# ---- the race ----
# Workers that are killed and paused at random, and the proof that nothing was lost; test/race/race.c. `make check` runs
# its short form.

RACE := $(BUILD)/test/race/race
RACE_OBJECTS := $(patsubst test/%.c,$(BUILD)/test/%.o,$(sort $(wildcard test/race/*.c)))

.PHONY: race
tests: $(RACE)

$(RACE): $(RACE_OBJECTS) $(STATIC)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) $^ $(ENGINE_LIBS) -o $@

race: $(RACE)
	rm -rf $(BUILD)/race && mkdir -p $(BUILD)/race
	$(RACE) --jobs 5000 --seconds 300 "sqlite:$(BUILD)/race/plain.db?synchronous=normal"
	$(RACE) --jobs 5000 --seconds 300 --poison "sqlite:$(BUILD)/race/poison.db?synchronous=normal"

# ---- every effect once ----
# Consumers that receive in transactions, killed and paused at random; test/once/once.c. check-once.sh runs its short form.

ONCE := $(BUILD)/test/once/once
ONCE_OBJECTS := $(patsubst test/%.c,$(BUILD)/test/%.o,$(sort $(wildcard test/once/*.c))) $(BUILD)/examples/own_sql.o

.PHONY: race-relay
tests: $(ONCE)

$(ONCE): $(ONCE_OBJECTS) $(STATIC)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) $^ $(ENGINE_LIBS) -o $@

race-relay: $(ONCE)
	rm -rf $(BUILD)/once && mkdir -p $(BUILD)/once
	$(ONCE) --messages 2000 --seconds 300 "sqlite:$(BUILD)/once/once.db?synchronous=normal"

# ---- fuzzing ----
# test/fuzz/fuzz_NAME.c are targets. Each is built twice: with main.c, by any compiler, for `make check`, which runs its
# corpus; and with libFuzzer and the sanitizers, by clang, for `make fuzz`, which looks for new inputs.

FUZZ_TARGETS := $(patsubst test/%.c,$(BUILD)/test/%,$(sort $(wildcard test/fuzz/fuzz_*.c)))
FUZZ_FLAGS := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
FUZZ_MAIN = $(BUILD)/test/fuzz/main.o
FUZZ_CC ?= clang

.PHONY: fuzz fuzz-targets
tests: fuzz-targets
fuzz-targets: $(FUZZ_TARGETS)
.SECONDARY: $(FUZZ_TARGETS:=.o)

FUZZ_WIRE := $(BUILD)/test/fuzz/wire.o
FUZZ_SERVER := $(FUZZ_WIRE) $(BUILD)/test/fuzz/tds.o $(BUILD)/test/fuzz/calls.o
$(BUILD)/test/fuzz/fuzz_freetds_conf: $(FUZZ_WIRE)
$(BUILD)/test/fuzz/fuzz_replies $(BUILD)/test/fuzz/fuzz_rows: $(FUZZ_SERVER)
$(BUILD)/test/fuzz/fuzz_replies $(BUILD)/test/fuzz/fuzz_rows: TEST_LDFLAGS = \
    -Wl,--wrap=rq_clock_ms,--wrap=rq_stop_sleep
$(BUILD)/test/fuzz/fuzz_items: FUZZ_LIBS = $(JANSSON_LIBS)
$(BUILD)/test/fuzz/fuzz_items.o: CMOCKA_CFLAGS += $(JANSSON_CFLAGS)

$(FUZZ_TARGETS): $(BUILD)/test/fuzz/%: $(BUILD)/test/fuzz/%.o $(FUZZ_MAIN) $(STATIC)
	$(CC) $(CFLAGS) $(LDFLAGS) $(TEST_LDFLAGS) $(filter %.o,$^) $(STATIC) $(FUZZ_LIBS) $(ENGINE_LIBS) -ldl -o $@

# FUZZ_SECONDS for each, 60 by default.
fuzz:
	$(MAKE) BUILD=$(BUILD)/fuzz CC="$(FUZZ_CC)" CFLAGS="-O1 -g $(FUZZ_FLAGS)" FUZZ_MAIN= LDFLAGS=-fsanitize=fuzzer \
	    fuzz-targets
	BUILD=$(BUILD)/fuzz test/fuzz/run.sh

# ---- static analysis, layout ----

C_SOURCES := $(sort $(wildcard lib/*.c cli/*.c controller/*.c examples/*.c test/*.c test/*/*.c bench/*.c))
SHELL_SOURCES := bootstrap .ci/run $(sort $(wildcard test/*.sh test/*/*.sh examples/*.sh))
LINT_CFLAGS = -std=c99 -D_GNU_SOURCE -Iinclude -Ilib -Itest -Itest/conformance $(CMOCKA_CFLAGS) $(SQLITE_CFLAGS) \
    $(JANSSON_CFLAGS) $(MICROHTTPD_CFLAGS)

.PHONY: lint format
lint:
	cppcheck --quiet --error-exitcode=1 --std=c99 --enable=warning,performance,portability --inline-suppr \
	    -Iinclude -Ilib lib cli controller examples
	clang-tidy --quiet --warnings-as-errors='*' $(filter lib/% cli/% controller/% examples/%,$(C_SOURCES)) -- $(LINT_CFLAGS)
	shellcheck $(SHELL_SOURCES)

format:
	clang-format -i $(C_SOURCES)

# ---- T-SQL ----
# No server is needed: a .NET program parses sql/sqlserver and sql/babelfish, and reads in the trees what the statements must respect.

TSQL_CONTRACT := $(BUILD)/test/tsql/contract
DOTNET ?= dotnet

.PHONY: check-tsql
$(TSQL_CONTRACT): $(TSQL_CONTRACT).o $(STATIC)
	$(CC) $(CFLAGS) $(LDFLAGS) $^ $(ENGINE_LIBS) -o $@

# Nothing of a run leaves the machine.
check-tsql: export DOTNET_CLI_TELEMETRY_OPTOUT = 1
check-tsql: export DACFX_TELEMETRY_OPTOUT = 1
check-tsql: $(TSQL_CONTRACT)
	$(TSQL_CONTRACT) > $(TSQL_CONTRACT).txt
	$(DOTNET) build test/tsql --nologo --verbosity quiet --output $(BUILD)/test/tsql/bin
	$(DOTNET) $(BUILD)/test/tsql/bin/tsql.dll sql/sqlserver $(TSQL_CONTRACT).txt test/tsql/bad \
	    sql/babelfish test/interop

# ---- the programs beside ours ----
# A C# program with Dapper and SqlClient, and the command, take turns on one table of the TDS test server.

INTEROP := $(BUILD)/test/interop/dotnet/interop.dll

.PHONY: check-interop interop
interop: export DOTNET_CLI_TELEMETRY_OPTOUT = 1
interop:
	$(DOTNET) build test/interop/dotnet --nologo --verbosity quiet --output $(dir $(INTEROP))
	$(DOTNET) $(INTEROP) texts

check-interop: all interop
	BUILD=$(BUILD) PARTS=dapper test/check-tds.sh

# ---- figures ----
# One run, ratios to a bare sqlite3 loop and, over the wire, to bare CT-Library. BENCH_FLAGS=--quick takes a minute;
# TMPDIR says which disk. RENDERQ_TEST_URL names a server to be measured on beside other clients (bench/peers).
# The benchmark counts the statements that the library begins, so its calls of sqlite3_step() go through its own.

BENCH := $(BUILD)/bench/bench
BENCH_FLAGS ?=
PEERS := $(BUILD)/bench/peers

.PHONY: bench bench-peers
bench: $(BENCH) $(BUILD)/renderq-controller $(BUILD)/test/controller/client $(if $(RENDERQ_TEST_URL),bench-peers)
	$(BENCH) $(BENCH_FLAGS) --json $(BUILD)/bench.json

# A peer that cannot be built is left out; the benchmark says so.
bench-peers: export DOTNET_CLI_TELEMETRY_OPTOUT = 1
bench-peers:
	-$(DOTNET) build bench/peers/dapper --nologo --verbosity quiet --output $(PEERS)/dapper
	-mkdir -p $(PEERS)/tedious && cp bench/peers/tedious/* $(PEERS)/tedious && \
	    cd $(PEERS)/tedious && npm ci --ignore-scripts --no-audit --no-fund --silent

$(BENCH): $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard bench/*.c))) $(STATIC)
	$(CC) $(CFLAGS) $(LDFLAGS) -Wl,--wrap=sqlite3_step $^ $(ENGINE_LIBS) -o $@

$(BUILD)/bench/%.o: bench/%.c Makefile
	@mkdir -p $(@D)
	$(CC) $(BASE_CFLAGS) -Ilib $(SQLITE_CFLAGS) $(CFLAGS) $(DEPFLAGS) -c $< -o $@

# ---- install ----
# DESTDIR goes in front of every path, and nothing is written outside it. renderq.pc is made here and not by the build,
# so that it always has the folders of this install. Its Libs.private names SQLite's libraries, where Requires.private
# would want sqlite3.pc, and so SQLite's headers, of every program that is built.

BINDIR ?= $(PREFIX)/bin
SBINDIR ?= $(PREFIX)/sbin
UNITDIR ?= $(PREFIX)/lib/systemd/system
MANDIR ?= $(DATADIR)/man
SQLDIR ?= $(DATADIR)/renderq/sql
COMPLETIONDIR ?= $(DATADIR)/bash-completion/completions
INSTALL_DIRS = $(BINDIR) $(SBINDIR) $(UNITDIR) $(LIBDIR)/pkgconfig $(INCLUDEDIR) $(SQLDIR) $(MANDIR) $(COMPLETIONDIR)
INSTALL_SQL := $(patsubst sql/%,%,$(sort $(wildcard sql/*/*.sql)))
INSTALL_MAN := $(sort $(wildcard man/*.[1-9]))

# A manual page stands for several functions: these names get a page that leads to it. test/check-man.sh compares them
# with the pages.
MAN_renderq_open := renderq_close renderq_errmsg renderq_native_error renderq_interrupt renderq_create
MAN_renderq_enqueue := renderq_enqueue_many
MAN_renderq_begin := renderq_receive renderq_commit renderq_rollback
MAN_renderq_attach := renderq_native
MAN_renderq_claim := renderq_claim_many renderq_start_many renderq_hand_out renderq_job_resume renderq_job_free
MAN_renderq_complete := renderq_renew renderq_renew_many renderq_lease_left_ms renderq_complete_many renderq_fail \
    renderq_release
MAN_renderq_get := renderq_list
MAN_renderq_cancel := renderq_retry renderq_retry_dead renderq_settle renderq_reap renderq_purge renderq_stats
MAN_renderq_worker := renderq_worker_new renderq_worker_run renderq_worker_stop renderq_worker_errmsg \
    renderq_worker_free renderq_task_done renderq_task_retry renderq_task_fail renderq_task_should_stop \
    renderq_task_progress renderq_task_handle renderq_job_lost
MAN_renderq_strstatus := renderq_strstate renderq_version
MAN_LINKS := $(foreach page,$(patsubst man/%.3,%,$(filter %.3,$(INSTALL_MAN))),$(MAN_$(page):%=%:$(page)))

# Where the page of a file of man/ goes: man/x.3 is man3/x.3.
man_path = $(MANDIR)/man$(patsubst .%,%,$(suffix $(1)))/$(notdir $(1))

SQLITE_STATIC_LIBS = $(strip $(shell $(PKG_CONFIG) --static --libs sqlite3))

# A folder below the prefix is written as such, so that a moved tree can be used with --define-prefix.
pc_path = $(patsubst $(PREFIX)/%,$${prefix}/%,$(1))

# Everything that install makes, without DESTDIR.
INSTALLED = $(BINDIR)/renderq $(SBINDIR)/renderq-controller $(UNITDIR)/renderq-controller.service \
    $(DATADIR)/renderq/openapi.yaml $(INCLUDEDIR)/renderq.h $(LIBDIR)/librenderq.a $(LIBDIR)/librenderq.so \
    $(LIBDIR)/librenderq.so.$(SOVERSION) $(LIBDIR)/librenderq.so.$(VERSION) $(LIBDIR)/pkgconfig/renderq.pc \
    $(COMPLETIONDIR)/renderq $(addprefix $(SQLDIR)/,$(INSTALL_SQL)) \
    $(foreach page,$(INSTALL_MAN),$(call man_path,$(page))) \
    $(foreach link,$(MAN_LINKS),$(MANDIR)/man3/$(firstword $(subst :, ,$(link))).3)

.PHONY: install uninstall installed dist clean
install: lib cli controller
	@for dir in $(INSTALL_DIRS); do \
	    case $$dir in /*) ;; *) echo "install: $$dir has to begin with a /" >&2; exit 1 ;; esac; done
	@[ -n '$(SQLITE_STATIC_LIBS)' ] || { echo "install: $(PKG_CONFIG) does not know sqlite3" >&2; exit 1; }
	umask 022 && $(INSTALL) -d $(sort $(dir $(addprefix $(DESTDIR),$(INSTALLED))))
	$(INSTALL) -m 755 $(CLI) $(DESTDIR)$(BINDIR)/renderq
	$(INSTALL) -m 755 $(CONTROLLER) $(DESTDIR)$(SBINDIR)/renderq-controller
	$(INSTALL) -m 644 controller/openapi.yaml $(DESTDIR)$(DATADIR)/renderq/openapi.yaml
	umask 022 && sed 's|@SBINDIR@|$(SBINDIR)|g' controller/renderq-controller.service \
	    > $(DESTDIR)$(UNITDIR)/renderq-controller.service
	$(INSTALL) -m 644 include/renderq.h $(DESTDIR)$(INCLUDEDIR)/renderq.h
	$(INSTALL) -m 644 $(STATIC) $(DESTDIR)$(LIBDIR)/librenderq.a
	$(INSTALL) -m 755 $(SHARED) $(DESTDIR)$(LIBDIR)/librenderq.so.$(VERSION)
	ln -sf librenderq.so.$(VERSION) $(DESTDIR)$(LIBDIR)/librenderq.so.$(SOVERSION)
	ln -sf librenderq.so.$(SOVERSION) $(DESTDIR)$(LIBDIR)/librenderq.so
	umask 022 && sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(call pc_path,$(LIBDIR))|' \
	    -e 's|@INCLUDEDIR@|$(call pc_path,$(INCLUDEDIR))|' -e 's|@VERSION@|$(VERSION)|' \
	    -e 's|@LIBS_PRIVATE@|$(SQLITE_STATIC_LIBS) -lct -lpthread|' \
	    pkgconfig/renderq.pc.in > $(DESTDIR)$(LIBDIR)/pkgconfig/renderq.pc
	$(INSTALL) -m 644 cli/renderq.bash $(DESTDIR)$(COMPLETIONDIR)/renderq
	@set -e; for file in $(INSTALL_SQL); do $(INSTALL) -m 644 sql/$$file $(DESTDIR)$(SQLDIR)/$$file; done
	@set -e; umask 022; $(foreach page,$(INSTALL_MAN),$(INSTALL) -m 644 $(page) $(DESTDIR)$(call man_path,$(page));) \
	    for link in $(MAN_LINKS); do \
	        echo ".so man3/$${link#*:}.3" > $(DESTDIR)$(MANDIR)/man3/$${link%%:*}.3; done

# Leaves folders that others share, and files that others put into ours.
uninstall:
	@rm -f $(addprefix $(DESTDIR),$(INSTALLED))
	@for dir in $(sort $(dir $(addprefix $(DESTDIR)$(SQLDIR)/,$(INSTALL_SQL)))) $(DESTDIR)$(SQLDIR) \
	    $(DESTDIR)$(DATADIR)/renderq; do \
	    [ ! -d $$dir ] || rmdir --ignore-fail-on-non-empty $$dir; done

# The list of what install makes, for packagers and for test/check-install.sh.
installed:
	@printf '%s\n' $(INSTALLED)

# The committed tree, as a tarball.
dist:
	@mkdir -p $(BUILD)
	git archive --format=tar.gz --prefix=librenderq-$(VERSION)/ -o $(BUILD)/librenderq-$(VERSION).tar.gz HEAD

clean:
	rm -rf $(BUILD)

# ---- command ----
# It knows the public header alone, and of the library's sources the schema that `renderq schema` prints.

CLI := $(BUILD)/renderq
CLI_OBJECTS := $(patsubst cli/%.c,$(BUILD)/cli/%.o,$(sort $(wildcard cli/*.c))) $(BUILD)/cli/sql_schema.o

.PHONY: cli
all: cli
cli: $(CLI)

$(BUILD)/cli/%.o: cli/%.c Makefile
	@mkdir -p $(@D)
	$(CC) $(BASE_CFLAGS) $(JANSSON_CFLAGS) $(CFLAGS) $(DEPFLAGS) -c $< -o $@

$(BUILD)/cli/sql_schema.c: lib/embed.awk sql/sqlite/schema.sql
	@mkdir -p $(@D)
	awk -v table=rq_sql_cli_sqlite -f lib/embed.awk sql/sqlite/schema.sql > $@.awk
	sed 's/"driver.h"/"schema.h"/' $@.awk > $@.tmp
	mv $@.tmp $@

$(BUILD)/cli/sql_schema.o: $(BUILD)/cli/sql_schema.c Makefile
	$(CC) $(BASE_CFLAGS) -Icli $(CFLAGS) -Wno-overlength-strings $(DEPFLAGS) -c $< -o $@

$(CLI): $(CLI_OBJECTS) $(STATIC)
	$(CC) $(CFLAGS) $(LDFLAGS) $^ $(JANSSON_LIBS) $(ENGINE_LIBS) -o $@

# ---- controller ----
# The HTTP service. It knows the public header alone; how a job is read from JSON, and written, is the command's.

CONTROLLER := $(BUILD)/renderq-controller
CONTROLLER_OBJECTS := $(patsubst controller/%.c,$(BUILD)/controller/%.o,$(sort $(wildcard controller/*.c))) \
    $(BUILD)/controller/page.o

.PHONY: controller
all: controller
controller: $(CONTROLLER)

$(BUILD)/controller/%.o: controller/%.c Makefile
	@mkdir -p $(@D)
	$(CC) $(BASE_CFLAGS) $(JANSSON_CFLAGS) $(MICROHTTPD_CFLAGS) $(CFLAGS) $(DEPFLAGS) -c $< -o $@

$(BUILD)/controller/page.c: controller/page/index.html
	@mkdir -p $(@D)
	{ echo '#include "page.h"'; echo 'const char page_html[] = {'; \
	    od -An -v -tx1 $< | sed 's/ \(..\)/0x\1,/g'; echo '0 };'; \
	    echo 'const size_t page_html_len = sizeof page_html - 1;'; } > $@.tmp && mv $@.tmp $@

$(BUILD)/controller/page.o: $(BUILD)/controller/page.c Makefile
	$(CC) $(BASE_CFLAGS) -Icontroller $(CFLAGS) $(DEPFLAGS) -c $< -o $@

$(CONTROLLER): $(CONTROLLER_OBJECTS) $(patsubst %,$(BUILD)/cli/%.o,record job_json text) $(STATIC)
	$(CC) $(CFLAGS) $(LDFLAGS) $^ $(JANSSON_LIBS) $(MICROHTTPD_LIBS) $(ENGINE_LIBS) -o $@

# What asks it many things at a time; test/check-controller.sh and `make bench-controller` run it.
CLIENT := $(BUILD)/test/controller/client
tests: $(CLIENT) controller
$(CLIENT): $(BUILD)/test/controller/client.o
	$(CC) $(CFLAGS) $(LDFLAGS) $^ -o $@

# Eleven workers that only speak HTTP and crash at random; every video is made, no record is lost.
.PHONY: demo-controller
demo-controller: controller examples
	BUILD=$(BUILD) examples/demo-controller.sh
