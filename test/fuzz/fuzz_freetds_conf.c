/* fuzz_freetds_conf.c: any configuration file, and any name of a server. Whether it demands encryption is asked of the
 * library, and of FreeTDS itself: what it asks of a server in its first packet. The two have to agree.
 * An input is the server's name, a line end, and the file. */
#include <limits.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "sqlserver.h"
#include "wire.h"

static int file = -1;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    char path[64];
    (void)argc, (void)argv;
    file = memfd_create("freetds.conf", 0);
    HOLDS(file >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    HOLDS(setenv("FREETDSCONF", path, 1) == 0 && unsetenv("FREETDS") == 0);
    static const char *const others[] = { "TDSVER", "TDSDUMP", "TDSDUMPCONFIG", "TDSQUERY" };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        unsetenv(others[i]);
    /* It connects to there whatever the file says, and so also where a section has no host. */
    HOLDS(setenv("TDSHOST", "127.0.0.1", 1) == 0 && setenv("TDSPORT", "1433", 1) == 0);
    return 0;
}

/* ---- what FreeTDS makes of it ---- */

enum { NOT_ASKED = -1, ENCRYPT_ON = 1 };

/* The value of ENCRYPTION in a PRELOGIN message: options of 5 bytes behind the packet's header, then their values. */
static int encryption_of(const uint8_t *packet, size_t len)
{
    enum { HEADER = 8, OPTION = 5, ENCRYPTION = 1, TERMINATOR = 0xFF };
    HOLDS(len > HEADER && packet[0] == 0x12);
    for (const uint8_t *option = packet + HEADER; option + OPTION < packet + len && *option != TERMINATOR;
         option += OPTION)
        if (*option == ENCRYPTION) {
            size_t at = HEADER + ((size_t)option[1] << 8 | option[2]);
            HOLDS(at < len);
            return packet[at];
        }
    fuzz_fault(__FILE__, __LINE__, "PRELOGIN has an ENCRYPTION");
}

static CS_RETCODE on_message(CS_CONTEXT *context, CS_CONNECTION *link, CS_CLIENTMSG *message)
{
    (void)context, (void)link, (void)message;
    return CS_SUCCEED;
}

static void set(CS_CONNECTION *link, CS_INT property, const void *value, CS_INT len)
{
    HOLDS(ct_con_props(link, CS_SET, property, (CS_VOID *)(uintptr_t)value, len, NULL) == CS_SUCCEED);
}

/* Connects as the driver does, to a server that hangs up. */
static int ask_freetds(char *server)
{
    uint8_t said[4096];
    CS_CONTEXT *context;
    CS_CONNECTION *link;
    CS_INT version = CS_TDS_74, seconds = 1;
    CS_RETCODE (*handler)(CS_CONTEXT *, CS_CONNECTION *, CS_CLIENTMSG *) = on_message;
    CS_VOID *pointer;
    memcpy(&pointer, &handler, sizeof pointer);
    HOLDS(cs_ctx_alloc(CS_VERSION_100, &context) == CS_SUCCEED && ct_init(context, CS_VERSION_100) == CS_SUCCEED);
    HOLDS(ct_callback(context, NULL, CS_SET, CS_CLIENTMSG_CB, pointer) == CS_SUCCEED);
    HOLDS(ct_con_alloc(context, &link) == CS_SUCCEED);
    set(link, CS_TDS_VERSION, &version, CS_UNUSED);
    set(link, CS_LOGIN_TIMEOUT, &seconds, CS_UNUSED);
    set(link, CS_CLIENTCHARSET, "UTF-8", CS_NULLTERM);
    set(link, CS_USERNAME, "u", CS_NULLTERM);
    set(link, CS_PASSWORD, "p", CS_NULLTERM);
    wire_begin(NULL, 0);
    HOLDS(ct_connect(link, server, CS_NULLTERM) != CS_SUCCEED);
    size_t len = wire_connections() ? wire_heard(0, said, sizeof said) : 0;
    wire_end();
    ct_con_drop(link);
    ct_exit(context, CS_FORCE_EXIT);
    cs_ctx_drop(context);
    return len ? encryption_of(said, len) : NOT_ASKED;
}

/* ---- */

static bool has_word(const char *text, size_t len, const char *word)
{
    size_t word_len = strlen(word);
    for (size_t i = 0; i + word_len <= len; i++)
        if (strncasecmp(text + i, word, word_len) == 0)
            return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *line_end = memchr(data, '\n', size);
    input in = { data, size };
    char *server = take_string(&in, line_end ? (size_t)(line_end - data) : size), where[PATH_MAX];
    if (in.left)
        take(&in, 1);
    /* Its dump file could be any file of this machine. Without a name it takes one from elsewhere. */
    if (*server && !has_word((const char *)in.at, in.left, "dump")) {
        HOLDS(ftruncate(file, 0) == 0 && pwrite(file, in.at, in.left, 0) == (ssize_t)in.left);
        bool demands = rq_freetds_demands_encryption(server, where, sizeof where);
        int asked = ask_freetds(server);
        HOLDS(asked == NOT_ASKED || demands == (asked == ENCRYPT_ON));
    }
    free(server);
    return 0;
}
