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
CMOCKA_CFLAGS := $(shell $(PKG_CONFIG) --cflags cmocka 2>/dev/null)
CMOCKA_LIBS := $(shell $(PKG_CONFIG) --libs cmocka 2>/dev/null)

LIB_OBJECTS := $(patsubst lib/%.c,$(BUILD)/lib/%.o,$(sort $(wildcard lib/*.c))) $(BUILD)/lib/sql_sqlite.o
STATIC := $(BUILD)/librenderq.a
SHARED := $(BUILD)/librenderq.so.$(VERSION)

.PHONY: all lib help
all: lib examples $(BUILD)/renderq.pc
lib: $(STATIC) $(BUILD)/librenderq.so

help:
	@echo "all lib examples        build"
	@echo "check                   every test that needs no other tool; check-asan, check-valgrind: under those"
	@echo "demo                    twenty videos, three workers, one killed; see examples/demo.c"
	@echo "lint format             static analysis; the code's layout"
	@echo "install uninstall dist  PREFIX=$(PREFIX) LIBDIR=$(LIBDIR) DESTDIR=$(DESTDIR)"
	@echo "clean"

# ---- library ----

$(BUILD)/lib/%.o: lib/%.c Makefile
	@mkdir -p $(@D)
	$(CC) $(BASE_CFLAGS) $(SQLITE_CFLAGS) $(CFLAGS) $(DEPFLAGS) -c $< -o $@

$(BUILD)/lib/sql_sqlite.c: lib/embed.awk $(sort $(wildcard sql/sqlite/*.sql))
	@mkdir -p $(@D)
	awk -v table=rq_sql_sqlite -f lib/embed.awk $(filter %.sql,$^) > $@.tmp && mv $@.tmp $@

$(BUILD)/lib/sql_sqlite.o: $(BUILD)/lib/sql_sqlite.c Makefile
	$(CC) $(BASE_CFLAGS) -Ilib $(CFLAGS) -Wno-overlength-strings $(DEPFLAGS) -c $< -o $@

$(STATIC): $(LIB_OBJECTS)
	rm -f $@
	$(AR) rcs $@ $^

$(SHARED): $(LIB_OBJECTS) lib/renderq.map
	$(CC) -shared -Wl,-soname,librenderq.so.$(SOVERSION) -Wl,--version-script=lib/renderq.map -Wl,-z,defs \
	    $(CFLAGS) $(LDFLAGS) $(LIB_OBJECTS) $(SQLITE_LIBS) -o $@

$(BUILD)/librenderq.so: $(SHARED)
	ln -sf librenderq.so.$(VERSION) $(BUILD)/librenderq.so.$(SOVERSION)
	ln -sf librenderq.so.$(SOVERSION) $@

$(BUILD)/renderq.pc: pkgconfig/renderq.pc.in include/renderq.h Makefile
	@mkdir -p $(@D)
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' \
	    -e 's|@VERSION@|$(VERSION)|' $< > $@

-include $(wildcard $(BUILD)/*/*.d $(BUILD)/*/*/*.d)

# ---- examples ----

EXAMPLES := $(BUILD)/examples/enqueue $(BUILD)/examples/worker $(BUILD)/examples/demo
.PHONY: examples demo
examples: $(EXAMPLES)

$(BUILD)/examples/%.o: examples/%.c Makefile
	@mkdir -p $(@D)
	$(CC) $(BASE_CFLAGS) $(JANSSON_CFLAGS) $(CFLAGS) $(DEPFLAGS) -c $< -o $@

$(BUILD)/examples/worker: $(BUILD)/examples/y4m.o
$(BUILD)/examples/demo: $(patsubst %,$(BUILD)/examples/%.o,demo_plan demo_check y4m)
$(EXAMPLES): $(BUILD)/examples/%: $(BUILD)/examples/%.o $(STATIC)
	$(CC) $(CFLAGS) $(LDFLAGS) $(filter %.o,$^) $(STATIC) $(JANSSON_LIBS) $(SQLITE_LIBS) -o $@

demo: examples
	BIN=$(BUILD)/examples $(BUILD)/examples/demo

# ---- tests ----
# test/test_*.c are programs of their own; test/conformance/*.c make one, which takes a URL.

TESTS := $(patsubst test/%.c,$(BUILD)/test/%,$(sort $(wildcard test/test_*.c)))
CONFORMANCE := $(BUILD)/test/conformance/conformance
CONFORMANCE_OBJECTS := $(patsubst test/%.c,$(BUILD)/test/%.o,$(sort $(wildcard test/conformance/*.c)))
TEST_SCRIPTS := $(sort $(wildcard test/check-*.sh))

.PHONY: check check-asan check-valgrind tests
tests: $(TESTS) $(CONFORMANCE)

$(BUILD)/test/%.o: test/%.c Makefile
	@mkdir -p $(@D)
	$(CC) $(BASE_CFLAGS) -Ilib -Itest $(CMOCKA_CFLAGS) $(SQLITE_CFLAGS) $(CFLAGS) $(DEPFLAGS) -c $< -o $@

$(BUILD)/test/test_%: $(BUILD)/test/test_%.o $(STATIC)
	$(CC) $(CFLAGS) $(LDFLAGS) $(TEST_LDFLAGS) $< $(STATIC) $(CMOCKA_LIBS) $(SQLITE_LIBS) -lpthread -o $@

$(CONFORMANCE): $(CONFORMANCE_OBJECTS) $(STATIC)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) $^ $(CMOCKA_LIBS) $(SQLITE_LIBS) -lpthread -o $@

# A test that replaces a function of libc's says so here.
$(BUILD)/test/test_sqlite_files: TEST_LDFLAGS = -Wl,--wrap=statfs
$(BUILD)/test/test_nomem: TEST_LDFLAGS = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup

check: all tests
	BUILD=$(BUILD) test/run.sh

# The same tests, built with sanitizers, or run under valgrind.
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
check-asan:
	$(MAKE) BUILD=$(BUILD)/asan CFLAGS="-O1 -g $(SANITIZE)" check

check-valgrind: all tests
	BUILD=$(BUILD) WRAP="valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite,indirect" \
	    test/run.sh

# ---- static analysis, layout ----

C_SOURCES := $(sort $(wildcard lib/*.c cli/*.c examples/*.c test/*.c test/*/*.c bench/*.c))
SHELL_SOURCES := bootstrap .ci/run $(sort $(wildcard test/*.sh test/*/*.sh examples/*.sh))
LINT_CFLAGS = -std=c99 -D_GNU_SOURCE -Iinclude -Ilib -Itest $(CMOCKA_CFLAGS) $(SQLITE_CFLAGS) $(JANSSON_CFLAGS)

.PHONY: lint format
lint:
	cppcheck --quiet --error-exitcode=1 --std=c99 --enable=warning,performance,portability --inline-suppr \
	    -Iinclude -Ilib lib cli examples
	clang-tidy --quiet --warnings-as-errors='*' $(filter lib/% cli/% examples/%,$(C_SOURCES)) -- $(LINT_CFLAGS)
	shellcheck $(SHELL_SOURCES)

format:
	clang-format -i $(C_SOURCES)

# ---- install ----

BINDIR ?= $(PREFIX)/bin
MANDIR ?= $(DATADIR)/man
SQLDIR ?= $(DATADIR)/renderq/sql
COMPLETIONDIR ?= $(DATADIR)/bash-completion/completions
MAN_PAGES := $(sort $(wildcard man/*.[1-9]))

.PHONY: install uninstall dist clean
install: all
	$(INSTALL) -d $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(INCLUDEDIR) $(DESTDIR)$(SQLDIR)/sqlite
	$(INSTALL) -m 644 include/renderq.h $(DESTDIR)$(INCLUDEDIR)/
	$(INSTALL) -m 644 $(STATIC) $(DESTDIR)$(LIBDIR)/
	$(INSTALL) -m 755 $(SHARED) $(DESTDIR)$(LIBDIR)/
	ln -sf librenderq.so.$(VERSION) $(DESTDIR)$(LIBDIR)/librenderq.so.$(SOVERSION)
	ln -sf librenderq.so.$(SOVERSION) $(DESTDIR)$(LIBDIR)/librenderq.so
	$(INSTALL) -m 644 $(BUILD)/renderq.pc $(DESTDIR)$(LIBDIR)/pkgconfig/
	$(INSTALL) -m 644 sql/sqlite/*.sql $(DESTDIR)$(SQLDIR)/sqlite/

uninstall:
	rm -f $(DESTDIR)$(INCLUDEDIR)/renderq.h $(DESTDIR)$(LIBDIR)/librenderq.* $(DESTDIR)$(LIBDIR)/pkgconfig/renderq.pc
	rm -rf $(DESTDIR)$(DATADIR)/renderq

# The committed tree, as a tarball.
dist:
	@mkdir -p $(BUILD)
	git archive --format=tar.gz --prefix=librenderq-$(VERSION)/ -o $(BUILD)/librenderq-$(VERSION).tar.gz HEAD

clean:
	rm -rf $(BUILD)
