"""How a connection begins: PRELOGIN, TLS inside of it, LOGIN7, and what the server answers to a login."""
from __future__ import annotations

import ssl
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional

import wire
from wire import ProtocolError, Reader, SqlError, Stream

# The ENCRYPTION option of PRELOGIN.
ENCRYPT_OFF, ENCRYPT_ON, ENCRYPT_NOT_SUP, ENCRYPT_REQ = 0, 1, 2, 3
OFFERS = ("off", "on", "required")

# What the server answers, by what it is told to offer and what the client wants; None: no login without encryption.
# OFF on both sides encrypts the login alone.
ANSWERS = {
    "off": {ENCRYPT_OFF: ENCRYPT_NOT_SUP, ENCRYPT_ON: ENCRYPT_NOT_SUP, ENCRYPT_NOT_SUP: ENCRYPT_NOT_SUP,
            ENCRYPT_REQ: ENCRYPT_NOT_SUP},
    "on": {ENCRYPT_OFF: ENCRYPT_OFF, ENCRYPT_ON: ENCRYPT_ON, ENCRYPT_NOT_SUP: ENCRYPT_NOT_SUP,
           ENCRYPT_REQ: ENCRYPT_ON},
    "required": {ENCRYPT_OFF: ENCRYPT_REQ, ENCRYPT_ON: ENCRYPT_ON, ENCRYPT_NOT_SUP: ENCRYPT_REQ,
                 ENCRYPT_REQ: ENCRYPT_REQ},
}


@dataclass(frozen=True)
class Policy:
    """Who is let in, and how."""
    user: str
    password: str
    database: str
    encrypt: str
    tls: Optional[ssl.SSLContext]
    others: bool = False    # there are databases of every other name


@dataclass(frozen=True)
class Login:
    user: str
    password: str
    database: str
    host: str
    application: str
    packet_size: int
    odbc: bool              # the server then sets the ANSI options and a TEXTSIZE without limit
    features: bool          # wants FEATUREEXTACK


Send = Callable[[list[bytes]], None]    # a reply
Meet = Callable[[str, str], None]       # told of each step, and by whom; may keep it from being done


class Refused(Exception):
    """The login is answered by these tokens, and the connection closed."""

    def __init__(self, why: str, tokens: list[bytes]) -> None:
        super().__init__(why)
        self.tokens = tokens


# ---- TLS ----

def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate of its own for 127.0.0.1 and its key, good for a day."""
    certificate, key = folder / "tdsd.crt", folder / "tdsd.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-keyout", str(key), "-out", str(certificate)],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return certificate, key


def tls_context(certificate: Optional[Path], key: Optional[Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # In TLS 1.3 the server's session tickets come behind the handshake, where TDS 7.4 has no place for them.
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    if certificate is not None:
        context.load_cert_chain(certificate, key)
        return context
    with tempfile.TemporaryDirectory(prefix="tdsd-") as folder:
        context.load_cert_chain(*make_certificate(Path(folder)))
    return context


def shake_hands(stream: Stream, context: ssl.SSLContext) -> None:
    """The TLS handshake: its records travel in PRELOGIN messages. What follows is TLS without packets around it."""
    tls = context.wrap_bio(stream.tls_in, stream.tls_out, server_side=True)
    while True:
        try:
            tls.do_handshake()
            finished = True
        except ssl.SSLWantReadError:
            finished = False
        except ssl.SSLError as error:
            raise ProtocolError(f"TLS handshake: {error.reason}") from error
        if answer := stream.tls_out.read():
            stream.write_message(wire.PRELOGIN, answer)
        if finished:
            break
        message = stream.read_message()
        if message is None:
            raise wire.Disconnected
        if message.kind != wire.PRELOGIN:
            raise ProtocolError(f"a message of type {message.kind:#04x} inside the TLS handshake")
        stream.tls_in.write(message.data)
    stream.tls = tls
    if stream.received:
        # The client did not wait for our last flight to come; what it sent is encrypted.
        stream.tls_in.write(bytes(stream.received))
        stream.received.clear()
        stream.decrypt()


def end_login_tls(stream: Stream) -> None:
    """Where only the login is encrypted: nothing may have been sent behind it, for the client has to wait."""
    if stream.received or stream.tls_in.pending:
        raise ProtocolError("encrypted data behind a login that alone was to be encrypted")
    stream.tls = None


# ---- PRELOGIN ----

VERSION, ENCRYPTION, INSTANCE, THREAD, MARS, TERMINATOR = 0, 1, 2, 3, 4, 0xFF


def read_prelogin(data: bytes) -> dict[int, bytes]:
    options: dict[int, bytes] = {}
    reader = Reader(data, "PRELOGIN")
    while (option := reader.number(1)) != TERMINATOR:
        at = int.from_bytes(reader.take(2), "big")
        length = int.from_bytes(reader.take(2), "big")
        if at + length > len(data):
            raise ProtocolError(f"PRELOGIN: option {option} lies outside of the message")
        if option in options:
            raise ProtocolError(f"PRELOGIN: option {option} stands there twice")
        options[option] = data[at:at + length]
    if list(options)[:1] != [VERSION] or len(options[VERSION]) != 6:
        raise ProtocolError("PRELOGIN does not begin with a VERSION of six bytes")
    if len(options.get(ENCRYPTION, b"")) != 1 or options[ENCRYPTION][0] not in ANSWERS["on"]:
        raise ProtocolError("PRELOGIN has no good ENCRYPTION")
    if options.get(MARS, b"\0") != b"\0":
        raise ProtocolError("PRELOGIN asks for MARS, which is not known here")
    return options


def write_prelogin(options: dict[int, bytes]) -> bytes:
    head, body = b"", b""
    start = 5 * len(options) + 1
    for option, value in options.items():
        head += bytes([option]) + (start + len(body)).to_bytes(2, "big") + len(value).to_bytes(2, "big")
        body += value
    return head + bytes([TERMINATOR]) + body


def prelogin(data: bytes, policy: Policy, send: Send) -> tuple[int, int]:
    """Answers PRELOGIN; what the client wanted of encryption, and what it got."""
    wanted = read_prelogin(data)[ENCRYPTION][0]
    answer = ANSWERS[policy.encrypt][wanted]
    # A client that is not answered its MARS option takes the server for one of the year 2000.
    send([write_prelogin({VERSION: bytes([15, 0, 0x07, 0xD0, 0, 0]), ENCRYPTION: bytes([answer]), INSTANCE: b"\0",
                          THREAD: b"", MARS: b"\0"})])
    return wanted, answer


# ---- LOGIN7 ----

FIXED_PART = 94
FLAG2_ODBC, FLAG2_INTEGRATED = 0x02, 0x80
FLAG3_CHANGE_PASSWORD, FLAG3_EXTENSION = 0x01, 0x10


def hide_password(password: str) -> bytes:
    return bytes(((b << 4 | b >> 4) & 0xff) ^ 0xA5 for b in password.encode("utf-16-le"))


def reveal_password(data: bytes) -> str:
    plain = bytes((b ^ 0xA5) for b in data)
    return bytes((b << 4 | b >> 4) & 0xff for b in plain).decode("utf-16-le")


def read_login7(data: bytes) -> Login:
    reader = Reader(data, "LOGIN7")
    length, version, packet_size = (reader.number(4) for _ in range(3))
    reader.take(12)
    _, flags2, _, flags3 = reader.take(4)
    reader.take(8)
    if length != len(data):
        raise ProtocolError(f"LOGIN7 says that it has {length} bytes and has {len(data)}")
    if version != wire.VERSION_74:
        raise ProtocolError(f"LOGIN7 asks for TDS {version:#010x}; only 7.4 is spoken here")
    if packet_size and not wire.PACKET_MIN <= packet_size <= wire.PACKET_MAX:
        raise ProtocolError(f"LOGIN7 asks for packets of {packet_size} bytes")
    if flags2 & FLAG2_INTEGRATED or flags3 & FLAG3_CHANGE_PASSWORD:
        raise ProtocolError("LOGIN7 asks for integrated security or a new password; neither is known here")

    def part(unit: int) -> bytes:
        at, n = reader.number(2), reader.number(2) * unit
        if n and (at < FIXED_PART or at + n > length):
            raise ProtocolError("LOGIN7: a part lies outside of the message")
        return data[at:at + n] if n else b""

    host, user, password, application, _ = (part(2) for _ in range(5))
    extension = part(1)
    _, _, database = (part(2) for _ in range(3))
    reader.take(6)                              # the client's network address
    for _ in range(3):
        if part(1):                             # SSPI, a file to attach, a new password
            raise ProtocolError("LOGIN7 has a part that is not known here")
    try:
        return Login(user=user.decode("utf-16-le"), password=reveal_password(password),
                     database=database.decode("utf-16-le"), host=host.decode("utf-16-le"),
                     application=application.decode("utf-16-le"), packet_size=packet_size,
                     odbc=bool(flags2 & FLAG2_ODBC), features=bool(flags3 & FLAG3_EXTENSION and extension))
    except UnicodeDecodeError as error:
        raise ProtocolError("LOGIN7: text is not UTF-16") from error


def check_login(login: Login, policy: Policy) -> None:
    failed = wire.done(wire.DONE, wire.FAILED)
    if login.user != policy.user or login.password != policy.password:
        text = f"Login failed for user '{login.user}'."
        raise Refused(text, [wire.error(18456, 14, text), failed])
    if login.database not in ("", policy.database) and not (policy.others and login.database.isalnum()):
        text = f'Cannot open database "{login.database}" requested by the login. The login failed.'
        raise Refused(text, [wire.error(4060, 11, text),
                             wire.error(18456, 14, f"Login failed for user '{login.user}'."), failed])


def answer_login(login: Login, policy: Policy, packet_size: int) -> list[bytes]:
    tokens = [
        wire.envchange(wire.ENV_DATABASE, policy.database, "master"),
        wire.info(5701, f"Changed database context to '{policy.database}'."),
        wire.envchange(wire.ENV_COLLATION, wire.COLLATION),
        wire.envchange(wire.ENV_LANGUAGE, "us_english", ""),
        wire.info(5703, "Changed language setting to us_english."),
        wire.loginack(),
        wire.envchange(wire.ENV_PACKET_SIZE, str(packet_size), str(wire.PACKET_FIRST)),
    ]
    if login.features:
        tokens.append(b"\xae\xff")              # FEATUREEXTACK: none of them
    return tokens + [wire.done(wire.DONE, 0)]


def _next(stream: Stream, kind: int, what: str) -> bytes:
    message = stream.read_message()
    if message is None:
        raise wire.Disconnected
    if message.kind != kind:
        raise ProtocolError(f"{what} was due, and a message of type {message.kind:#04x} came")
    return message.data


def log_in(stream: Stream, policy: Policy, meet: Meet, send: Send) -> Login:
    """Everything up to the answer to LOGIN7. Raises Refused, with that answer sent, for whoever is not let in."""
    data = _next(stream, wire.PRELOGIN, "PRELOGIN")
    meet("prelogin", "")
    wanted, answer = prelogin(data, policy, send)
    if answer != ENCRYPT_NOT_SUP:
        if wanted == ENCRYPT_NOT_SUP:
            raise ProtocolError("the client does not encrypt, and has to")
        assert policy.tls is not None
        shake_hands(stream, policy.tls)
    data = _next(stream, wire.LOGIN7, "LOGIN7")
    if answer == ENCRYPT_OFF:
        end_login_tls(stream)
    login = read_login7(data)
    try:
        meet("login", login.application)
        check_login(login, policy)
    except SqlError as error:
        tokens = [error.token(), wire.done(wire.DONE, wire.FAILED)]
        send(tokens)
        raise Refused(str(error), tokens) from error
    except Refused as refused:
        send(refused.tokens)
        raise
    packet_size = login.packet_size or wire.PACKET_FIRST
    send(answer_login(login, policy, packet_size))
    stream.packet_size = packet_size
    return login
