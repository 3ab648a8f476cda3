"""TDS 7.4 on the wire: packets and messages, the types of values, and the tokens of a reply. Nothing here knows what a
message means."""
from __future__ import annotations

import select
import socket
import ssl
import struct
import uuid
from dataclasses import dataclass
from typing import Iterable, Optional, Union

Value = Union[None, int, str, bytes]

# ---- messages ----

BATCH, RPC, REPLY, ATTENTION, LOGIN7, PRELOGIN = 0x01, 0x03, 0x04, 0x06, 0x10, 0x12
EOM, RESET = 0x01, 0x08                 # RESET: a pool hands the connection to its next user
HEADER = struct.Struct(">BBHHBB")       # type, status, length, SPID, packet id, window
PACKET_MIN, PACKET_FIRST, PACKET_MAX = 512, 4096, 32767
MESSAGE_MAX = 256 << 20


class ProtocolError(Exception):
    """The peer broke the protocol: nothing it says after this can be understood, and the connection ends."""


class Disconnected(Exception):
    """The peer is gone."""


class SqlError(Exception):
    """What the server answers with an ERROR token; the connection lives on."""

    def __init__(self, number: int, text: str, severity: int = 16, state: int = 1) -> None:
        super().__init__(text)
        self.number, self.severity, self.state = number, severity, state
        self.rows: list[bytes] = []             # tokens that had been sent when it came,
        self.behind: list[bytes] = []           # and what ends them

    def token(self) -> bytes:
        return error(self.number, self.severity, str(self), self.state)


def refused(text: str) -> SqlError:
    """SQL Server would take it, or say something else; here it is a fault of the client."""
    return SqlError(50000, f"tdsd: {text}")


@dataclass
class Message:
    kind: int
    data: bytes


def packets(kind: int, data: bytes, size: int) -> list[bytes]:
    """A message cut into packets of `size`; only the last may be shorter."""
    room = size - HEADER.size
    pieces = [data[at:at + room] for at in range(0, len(data), room)] or [b""]
    last = len(pieces) - 1
    return [HEADER.pack(kind, EOM if n == last else 0, HEADER.size + len(piece), 0, (n + 1) & 0xff, 0) + piece
            for n, piece in enumerate(pieces)]


class Stream:
    """A client's connection: bytes in and out, encrypted or not, and its packets."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.packet_size = PACKET_FIRST
        self.received = bytearray()             # decrypted, not yet read
        self.closed = False
        self.reset = False                      # asked for by the message that was read last
        self.tls: Optional[ssl.SSLObject] = None
        self.tls_in = ssl.MemoryBIO()
        self.tls_out = ssl.MemoryBIO()

    # -- bytes --

    def _take(self, data: bytes) -> None:
        if not data:
            self.closed = True
        elif self.tls is None:
            self.received += data
        else:
            self.tls_in.write(data)
            self.decrypt()

    def decrypt(self) -> None:
        """Moves what came encrypted to what is read."""
        assert self.tls is not None
        try:
            while data := self.tls.read(65536):
                self.received += data
            self.closed = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise ProtocolError(f"TLS: {error}") from error

    def receive(self) -> None:
        """Waits for more bytes."""
        if not self.closed:
            try:
                self._take(self.sock.recv(65536))
            except OSError:
                self.closed = True
        if self.closed:
            raise Disconnected

    def poll(self) -> None:
        """Takes what has come, and waits for nothing."""
        while not self.closed and select.select([self.sock], [], [], 0)[0]:
            try:
                self._take(self.sock.recv(65536))
            except OSError:
                self.closed = True

    def write(self, data: bytes) -> None:
        if self.tls is not None:
            self.tls.write(data)
            data = self.tls_out.read()
        try:
            self.sock.sendall(data)
        except OSError as error:
            raise Disconnected from error

    # -- packets --

    def read_packet(self) -> tuple[int, int, bytes]:
        """(type, status, data)."""
        while len(self.received) < HEADER.size:
            self.receive()
        kind, status, length, _, _, _ = HEADER.unpack_from(self.received)
        if not HEADER.size <= length <= self.packet_size:
            raise ProtocolError(f"a packet's length is {length}, and packets have at most {self.packet_size} bytes")
        if status & ~(EOM | RESET):
            raise ProtocolError(f"a packet has status {status:#04x}")
        if not status & EOM and length != self.packet_size:
            raise ProtocolError(f"a packet of {length} bytes is neither full nor the last of its message")
        while len(self.received) < length:
            self.receive()
        data = bytes(self.received[HEADER.size:length])
        del self.received[:length]
        return kind, status, data

    def read_message(self) -> Optional[Message]:
        """None: the peer closed the connection between two messages."""
        try:
            while not self.received:
                self.receive()
        except Disconnected:
            return None
        kind, status, data = self.read_packet()
        self.reset = bool(status & RESET)
        pieces, total = [data], len(data)
        while not status & EOM:
            more, status, data = self.read_packet()
            if more == ATTENTION and status & EOM:
                return Message(ATTENTION, data)     # the request was given up half sent: it never was
            if more != kind:
                raise ProtocolError(f"a packet of type {more:#04x} inside a message of type {kind:#04x}")
            pieces.append(data)
            total += len(data)
            if total > MESSAGE_MAX:
                raise ProtocolError("a message is too long")
        return Message(kind, b"".join(pieces))

    def attention_waits(self) -> bool:
        """Whether the client wants its request given up. It may send nothing else while one is running."""
        self.poll()
        if len(self.received) < HEADER.size:
            return False
        if self.received[0] != ATTENTION:
            raise ProtocolError("a request was sent before the reply to the one before had ended")
        return True

    def write_message(self, kind: int, data: bytes) -> None:
        for packet in packets(kind, data, self.packet_size):
            self.write(packet)

    def hang_up(self) -> None:
        """Ends the connection from another thread; the one that uses it finds the client gone."""
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self) -> None:
        self.closed = True
        self.hang_up()
        self.sock.close()


class Reader:
    """Walks over the data of a message; what is not there is a protocol error."""

    def __init__(self, data: bytes, what: str) -> None:
        self.data, self.what, self.at = data, what, 0

    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, n: int) -> bytes:
        if n < 0 or n > self.left():
            raise ProtocolError(f"{self.what} ends {n - self.left()} bytes too early")
        self.at += n
        return self.data[self.at - n:self.at]

    def number(self, size: int, signed: bool = False) -> int:
        return int.from_bytes(self.take(size), "little", signed=signed)

    def ucs2(self, units: int) -> str:
        try:
            return self.take(2 * units).decode("utf-16-le")
        except UnicodeDecodeError as error:
            raise ProtocolError(f"{self.what}: text is not UTF-16") from error

    def end(self) -> None:
        if self.left():
            raise ProtocolError(f"{self.what} has {self.left()} bytes too many")


# ---- types ----

BIT, INT4, INT8 = 0x32, 0x38, 0x7F
GUIDN, DATETIME2N = 0x24, 0x2A          # only other programs use these
NTEXT, INTN, BITN, BIGVARBINARY, BIGVARCHAR, BIGCHAR, NVARCHAR = 0x63, 0x26, 0x68, 0xA5, 0xA7, 0xAF, 0xE7
MAX = 0xFFFF
PLP_NULL, PLP_UNKNOWN = 0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFE
# The server cuts a long value where it likes, in the middle of a character too; a client has to put it together.
PLP_CHUNK = 8001
COLLATION = bytes.fromhex("0904d00034")         # SQL_Latin1_General_CP1_CI_AS
CODE_PAGE = "cp1252"

FIXED = {BIT: 1, INT4: 4, INT8: 8}
NAMES = {INTN: {4: "int", 8: "bigint"}, BITN: {1: "bit"}}
TEXTS = {BIGVARBINARY: "varbinary", BIGVARCHAR: "varchar", BIGCHAR: "char", NVARCHAR: "nvarchar"}


@dataclass(frozen=True)
class Type:
    """A type of T-SQL, with n of varchar(n) and the like in bytes; MAX: varchar(max)."""
    code: int
    size: int

    @property
    def name(self) -> str:
        if self.code in FIXED:
            return {BIT: "bit", INT4: "int", INT8: "bigint"}[self.code]
        if self.code in NAMES:
            return NAMES[self.code].get(self.size, f"a number of {self.size} bytes")
        if self.code in (NTEXT, GUIDN, DATETIME2N):
            return {NTEXT: "ntext", GUIDN: "uniqueidentifier", DATETIME2N: f"datetime2({self.size})"}[self.code]
        n = self.size // 2 if self.code == NVARCHAR else self.size
        return f"{TEXTS[self.code]}({'max' if self.size == MAX else n})"


def nvarchar(n: int) -> Type:
    return Type(NVARCHAR, 2 * n if n else MAX)


def read_type(reader: Reader) -> Type:
    """TYPE_INFO of a parameter. Of all types only those that the client has a use for."""
    code = reader.number(1)
    if code in FIXED:
        return Type(code, FIXED[code])
    if code in NAMES or code == GUIDN:
        return Type(code, reader.number(1))
    if code == NTEXT:
        reader.take(4)
        reader.take(len(COLLATION))
        return Type(NTEXT, MAX)
    if code in (BIGVARBINARY, BIGVARCHAR, NVARCHAR):
        size = reader.number(2)
        if code != BIGVARBINARY:
            reader.take(len(COLLATION))
        if size != MAX and not 0 < size <= 8000:
            raise ProtocolError(f"{reader.what}: a parameter of type {code:#04x} is {size} bytes wide")
        return Type(code, size)
    raise ProtocolError(f"{reader.what}: a parameter has type {code:#04x}, which is not known here")


def read_plp(reader: Reader) -> Optional[bytes]:
    total = reader.number(8)
    if total == PLP_NULL:
        return None
    pieces = []
    while length := reader.number(4):
        pieces.append(reader.take(length))
    data = b"".join(pieces)
    if total not in (PLP_UNKNOWN, len(data)):
        raise ProtocolError(f"{reader.what}: {total} bytes were announced and {len(data)} came")
    return data


def read_bytes(reader: Reader, kind: Type) -> Optional[bytes]:
    """A value as it came; None: NULL."""
    if kind.code in FIXED:
        return reader.take(kind.size)
    if kind.code in NAMES or kind.code == GUIDN:
        length = reader.number(1)
        if length not in (0, kind.size):
            raise ProtocolError(f"{reader.what}: a value of {length} bytes for {kind.name}")
        return reader.take(length) if length else None
    if kind.code == NTEXT:
        length = reader.number(4, signed=True)
        return None if length < 0 else reader.take(length)
    if kind.size == MAX:
        return read_plp(reader)
    length = reader.number(2)
    if length == MAX:
        return None
    if length > kind.size:
        raise ProtocolError(f"{reader.what}: a value of {length} bytes for {kind.name}")
    return reader.take(length)


def type_info(kind: Type) -> bytes:
    if kind.code in FIXED:
        return bytes([kind.code])
    if kind.code in NAMES or kind.code in (GUIDN, DATETIME2N):
        return bytes([kind.code, kind.size])
    return struct.pack("<BH", kind.code, kind.size) + COLLATION


def _counted(data: bytes) -> bytes:
    return bytes([len(data)]) + data


def guid_bytes(value: Value) -> bytes:
    assert isinstance(value, str)
    return uuid.UUID(value).bytes_le


def time_bytes(value: Value) -> bytes:
    """datetime2(7) of milliseconds since 1970: 100 ns since midnight, days since the year 1."""
    assert isinstance(value, int)
    days, ms = divmod(value, 86400000)
    return (ms * 10000).to_bytes(5, "little") + (days + 719162).to_bytes(3, "little")


def value_bytes(kind: Type, value: Value, text_size: int) -> bytes:
    """A value of a row. The server cuts what is longer than TEXTSIZE without a word."""
    if kind.code in FIXED or kind.code in NAMES:
        if value is None:
            assert kind.code in NAMES, "NULL in a column that has none"
            return b"\0"
        data = int(value).to_bytes(kind.size, "little", signed=kind.name != "bit")
        return data if kind.code in FIXED else bytes([kind.size]) + data
    if kind.code in (GUIDN, DATETIME2N):
        return b"\0" if value is None else _counted(guid_bytes(value) if kind.code == GUIDN else time_bytes(value))
    if value is None:
        return struct.pack("<Q", PLP_NULL) if kind.size == MAX else b"\xff\xff"
    assert isinstance(value, str)
    # nvarchar holds anything, half of a surrogate pair too.
    data = (value.encode("utf-16-le", "surrogatepass") if kind.code == NVARCHAR
            else value.encode(CODE_PAGE, "replace"))
    if kind.size != MAX:
        if kind.code == BIGCHAR:
            data = data.ljust(kind.size)
        if len(data) > kind.size:
            raise ValueError(f"a row holds {len(data)} bytes for {kind.name}")
        return struct.pack("<H", len(data)) + data
    data = data[:text_size & ~1]
    chunks = b"".join(struct.pack("<I", len(data[at:at + PLP_CHUNK])) + data[at:at + PLP_CHUNK]
                      for at in range(0, len(data), PLP_CHUNK))
    return struct.pack("<Q", len(data)) + chunks + b"\0\0\0\0"


# ---- tokens ----

MORE, FAILED, COUNT, ATTN = 0x01, 0x02, 0x10, 0x20
SELECT, INSERT, DELETE, UPDATE = 0xC1, 0xC3, 0xC4, 0xC5
DONE, DONEPROC, DONEINPROC, RETURN_STATUS = 0xFD, 0xFE, 0xFF, 0x79
ENV_DATABASE, ENV_LANGUAGE, ENV_PACKET_SIZE, ENV_COLLATION, ENV_BEGIN, ENV_COMMIT, ENV_ROLLBACK = 1, 2, 4, 7, 8, 9, 10
ENV_RESET = 18
VERSION_74 = 0x74000004


@dataclass(frozen=True)
class Column:
    name: str
    type: Type
    nullable: bool


def b_varchar(text: str) -> bytes:
    return bytes([len(text)]) + text.encode("utf-16-le")


def us_varchar(text: str) -> bytes:
    data = text.encode("utf-16-le")
    return struct.pack("<H", len(data) // 2) + data


def colmetadata(columns: Iterable[Column]) -> bytes:
    columns = list(columns)
    return struct.pack("<BH", 0x81, len(columns)) + b"".join(
        struct.pack("<IH", 0, 9 if c.nullable else 8) + type_info(c.type) + b_varchar(c.name) for c in columns)


def row(columns: Iterable[Column], values: Iterable[Value], text_size: int) -> bytes:
    return b"\xd1" + b"".join(value_bytes(c.type, v, text_size) for c, v in zip(columns, values))


def done(token: int, status: int, command: int = 0, count: int = 0) -> bytes:
    return struct.pack("<BHHQ", token, status, command, count)


def return_status(status: int) -> bytes:
    return struct.pack("<Bi", RETURN_STATUS, status)


def _message(token: int, number: int, state: int, severity: int, text: str) -> bytes:
    body = struct.pack("<iBB", number, state, severity) + us_varchar(text) + b_varchar("tdsd") + b_varchar("")
    body += struct.pack("<I", 1)
    return struct.pack("<BH", token, len(body)) + body


def error(number: int, severity: int, text: str, state: int = 1) -> bytes:
    return _message(0xAA, number, state, severity, text)


def info(number: int, text: str) -> bytes:
    return _message(0xAB, number, 1, 10, text)


def envchange(what: int, new: Union[str, bytes], old: Union[str, bytes] = b"") -> bytes:
    """Names are text; collations and transactions are bytes."""
    body = bytes([what])
    for part in (new, old):
        body += b_varchar(part) if isinstance(part, str) else bytes([len(part)]) + part
    return struct.pack("<BH", 0xE3, len(body)) + body


def loginack() -> bytes:
    body = b"\x01" + struct.pack(">I", VERSION_74) + b_varchar("Microsoft SQL Server") + bytes([15, 0, 0x07, 0xD0])
    return struct.pack("<BH", 0xAD, len(body)) + body


class Packer:
    """Sends a reply token by token; a packet leaves as soon as another one has to follow."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.buffer, self.sent = stream, bytearray(), 0

    def put(self, token: bytes) -> None:
        self.buffer += token
        room = self.stream.packet_size - HEADER.size
        while len(self.buffer) > room:
            self._send(bytes(self.buffer[:room]), 0)
            del self.buffer[:room]

    def end(self) -> None:
        self._send(bytes(self.buffer), EOM)
        self.buffer.clear()

    def _send(self, data: bytes, status: int) -> None:
        self.sent = (self.sent + 1) & 0xff
        self.stream.write(HEADER.pack(REPLY, status, HEADER.size + len(data), 0, self.sent, 0) + data)
