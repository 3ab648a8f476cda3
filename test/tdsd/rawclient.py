"""A client that speaks TDS byte by byte, so that it can also speak it badly. It shares nothing with the server, whose
tests it is for."""
from __future__ import annotations

import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Optional

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SQL = ROOT / "sql" / "sqlserver"
COLLATION = bytes.fromhex("0904d00034")
VERSION_74 = 0x74000004
LONG_S = 60                         # what is to come, comes before, however busy the machine is


def utf16(text: str) -> bytes:
    return text.encode("utf-16-le")


class Closed(Exception):
    """The server closed the connection."""


class Server:
    """A tdsd of its own, on a database of its own."""

    def __init__(self, *options: str) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="test-tdsd-")
        self.db = os.path.join(self.folder.name, "queue.db")
        self.log = os.path.join(self.folder.name, "log")
        self.control = os.path.join(self.folder.name, "control")
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "tdsd.py"), "--db", self.db, "--log", self.log, "--control", self.control,
             "--user", "tester", "--password", "pa$$ wörd", "--database", "jobs", *options],
            stdout=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": self.folder.name})
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("tdsd: listening on 127.0.0.1:"):
            self.process.wait()
            raise RuntimeError(f"tdsd did not start: {line!r}")
        self.port = int(line.rsplit(":", 1)[1])

    def ask(self, line: str) -> str:
        """Over its control socket; see faults.py."""
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(self.control)
            control.sendall(line.encode() + b"\n")
            with control.makefile(encoding="utf-8") as file:
                return file.readline().rstrip("\n")

    def stop(self, keep: bool = False) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(2 * LONG_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        if not keep:
            self.folder.cleanup()
        return code


@dataclass
class Reply:
    """What came, taken apart."""
    sets: list[list[tuple[Any, ...]]] = field(default_factory=list)
    columns: list[list[tuple[str, str, bool]]] = field(default_factory=list)    # name, type, nullable
    errors: list[tuple[int, int, str]] = field(default_factory=list)            # number, severity, text
    changes: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)       # ENVCHANGE: new, old
    dones: list[tuple[int, int, int, int]] = field(default_factory=list)        # token, status, command, count
    infos: list[int] = field(default_factory=list)
    acks: list[int] = field(default_factory=list)
    status: Optional[int] = None
    packets: list[int] = field(default_factory=list)                            # their lengths

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return self.sets[0] if self.sets else []

    @property
    def error(self) -> int:
        return self.errors[0][0] if self.errors else 0


class Tokens:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, n: int) -> bytes:
        assert self.at + n <= len(self.data), "the reply ends too early"
        self.at += n
        return self.data[self.at - n:self.at]

    def number(self, size: int, signed: bool = False) -> int:
        return int.from_bytes(self.take(size), "little", signed=signed)

    def text(self, units: int) -> str:
        return self.take(2 * units).decode("utf-16-le")

    def column(self) -> tuple[int, int, str, bool]:
        """(type, size, name, nullable)"""
        assert self.number(4) == 0
        flags, kind = self.number(2), self.number(1)
        if kind in (0x26, 0x68, 0x24, 0x2A):
            size = self.number(1)
        elif kind in (0xE7, 0xA7, 0xAF):
            size = self.number(2)
            assert self.take(5) == COLLATION
        else:
            size = {0x38: 4, 0x7F: 8, 0x32: 1}[kind]
        return kind, size, self.text(self.number(1)), bool(flags & 1)

    def value(self, kind: int, size: int) -> Any:
        if kind in (0x24, 0x2A):
            exact = self.take(self.number(1))
            return None if not exact else uuid.UUID(bytes_le=exact) if kind == 0x24 else self.time(exact)
        if kind in (0x26, 0x68):
            n = self.number(1)
            return self.number(n, kind == 0x26) if n else None
        if kind in (0x38, 0x7F, 0x32):
            return self.number(size, kind != 0x32)
        if size != 0xFFFF:
            n = self.number(2)
            data = None if n == 0xFFFF else self.take(n)
        else:
            total = self.number(8)
            data = None if total == 0xFFFFFFFFFFFFFFFF else b""
            while data is not None and (n := self.number(4)):
                data += self.take(n)
            assert data is None or len(data) == total
        return data if data is None else data.decode("utf-16-le" if kind == 0xE7 else "cp1252")

    @staticmethod
    def time(data: bytes) -> datetime:
        ticks, days = int.from_bytes(data[:5], "little"), int.from_bytes(data[5:], "little")
        return datetime(1, 1, 1) + timedelta(days=days, microseconds=ticks / 10)

    @staticmethod
    def type_name(kind: int, size: int) -> str:
        if kind in (0xE7, 0xA7, 0xAF):
            name = {0xE7: "nvarchar", 0xA7: "varchar", 0xAF: "char"}[kind]
            return f"{name}({'max' if size == 0xFFFF else size // 2 if kind == 0xE7 else size})"
        if kind in (0x26, 0x68):
            return {4: "intn", 8: "bigintn", 1: "bitn"}[size]
        if kind in (0x24, 0x2A):
            return {0x24: "uniqueidentifier", 0x2A: f"datetime2({size})"}[kind]
        return {0x38: "int", 0x7F: "bigint", 0x32: "bit"}[kind]

    def parse(self) -> Reply:
        reply, columns = Reply(), []
        while self.at < len(self.data):
            token = self.number(1)
            if token == 0x81:
                columns = [self.column() for _ in range(self.number(2))]
                reply.columns.append([(name, self.type_name(kind, size), null) for kind, size, name, null in columns])
                reply.sets.append([])
            elif token == 0xD1:
                reply.sets[-1].append(tuple(self.value(kind, size) for kind, size, _, _ in columns))
            elif token in (0xFD, 0xFE, 0xFF):
                reply.dones.append((token, self.number(2), self.number(2), self.number(8)))
            elif token == 0x79:
                reply.status = self.number(4, True)
            else:
                body = Tokens(self.take(self.number(2)))
                if token in (0xAA, 0xAB):
                    number, _, severity = body.number(4, True), body.number(1), body.number(1)
                    text = body.text(body.number(2))
                    if token == 0xAA:
                        reply.errors.append((number, severity, text))
                    else:
                        reply.infos.append(number)
                elif token == 0xE3:
                    what = body.number(1)
                    unit = 2 if what in (1, 2, 4) else 1
                    reply.changes[what] = (body.take(unit * body.number(1)), body.take(unit * body.number(1)))
                elif token == 0xAD:
                    assert body.number(1) == 1
                    reply.acks.append(int.from_bytes(body.take(4), "big"))
                else:
                    raise AssertionError(f"an unknown token {token:#04x}")
        return reply


class Client:
    def __init__(self, server: Server) -> None:
        self.sock = socket.create_connection(("127.0.0.1", server.port))
        self.sock.settimeout(LONG_S)
        self.tls: Optional[ssl.SSLObject] = None
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.buffer = b""
        self.packet_size = 4096
        self.descriptor = bytes(8)

    def close(self) -> None:
        self.sock.close()

    # -- bytes and packets --

    def send_bytes(self, data: bytes) -> None:
        if self.tls is not None:
            self.tls.write(data)
            data = self.outgoing.read()
        self.sock.sendall(data)

    def receive(self) -> None:
        try:
            data = self.sock.recv(65536)
        except ConnectionError:
            data = b""
        if not data:
            raise Closed
        if self.tls is None:
            self.buffer += data
            return
        self.incoming.write(data)
        try:
            while plain := self.tls.read(65536):
                self.buffer += plain
        except ssl.SSLWantReadError:
            pass

    def send(self, kind: int, data: bytes, status: int = 0) -> None:
        room = self.packet_size - 8
        pieces = [data[at:at + room] for at in range(0, len(data), room)] or [b""]
        for n, piece in enumerate(pieces):
            last = n == len(pieces) - 1
            self.send_bytes(struct.pack(">BBHHBB", kind, last | (0 if n else status), 8 + len(piece), 0, 1, 0) + piece)

    def read_packet(self) -> tuple[int, int, bytes]:
        while len(self.buffer) < 8 or len(self.buffer) < int.from_bytes(self.buffer[2:4], "big"):
            self.receive()
        length = int.from_bytes(self.buffer[2:4], "big")
        packet, self.buffer = self.buffer[:length], self.buffer[length:]
        return packet[0], packet[1], packet[8:]

    def read(self) -> tuple[int, bytes, list[int]]:
        data, lengths = b"", []
        while True:
            kind, status, piece = self.read_packet()
            data += piece
            lengths.append(len(piece) + 8)
            if status & 1:
                return kind, data, lengths

    def reply(self) -> Reply:
        kind, data, lengths = self.read()
        assert kind == 4
        reply = Tokens(data).parse()
        reply.packets = lengths
        for what in (8, 9, 10):
            if what in reply.changes:
                self.descriptor = reply.changes[what][0] or bytes(8)
        return reply

    def is_closed(self) -> bool:
        try:
            while True:
                self.receive()
        except Closed:
            return True

    # -- login --

    def prelogin(self, encryption: int, mars: int = 0) -> int:
        options = {0: bytes([9, 0, 0, 0, 0, 0]), 1: bytes([encryption]), 2: b"x\0", 3: bytes(4), 4: bytes([mars])}
        head, body = b"", b""
        for option, value in options.items():
            head += struct.pack(">BHH", option, 26 + len(body), len(value))
            body += value
        self.send(0x12, head + b"\xff" + body)
        kind, data, _ = self.read()
        assert kind == 4
        at = 0
        while data[at] != 1:
            at += 5
        return data[int.from_bytes(data[at + 1:at + 3], "big")]

    def start_tls(self, certificate: Optional[str] = None) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if certificate is None:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        else:
            context.load_verify_locations(certificate)
        tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="127.0.0.1")
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.send(0x12, self.outgoing.read())
                kind, data, _ = self.read()
                assert kind == 0x12
                self.incoming.write(data)
        if rest := self.outgoing.read():
            self.send(0x12, rest)
        self.tls = tls

    @staticmethod
    def login7(user: str = "tester", password: str = "pa$$ wörd", database: str = "jobs", packet_size: int = 4096,
               version: int = VERSION_74, flags2: int = 0x02) -> bytes:
        hidden = bytes(((b << 4 | b >> 4) & 0xff) ^ 0xA5 for b in utf16(password))
        parts = [utf16("host"), utf16(user), hidden, utf16("test"), utf16("server"), b"", utf16("raw"), b"",
                 utf16(database)]
        table, body = b"", b""
        for part in parts:
            table += struct.pack("<HH", 94 + len(body), len(part) // 2)
            body += part
        table += bytes(6) + struct.pack("<HH", 94 + len(body), 0) * 3 + bytes(4)
        fixed = struct.pack("<IIIIIBBBBII", 94 + len(body), version, packet_size, 7, 1, 0, 0, 0, 0, 0, 0)
        fixed = fixed[:20] + bytes(4) + bytes([0xE0, flags2, 0, 0]) + bytes(8)
        return fixed + table + body

    def login(self, encryption: int = 2, **how: Any) -> Reply:
        answer = self.prelogin(encryption)
        if answer != 2:
            self.start_tls()
        self.send(0x10, self.login7(**how))
        if answer == 0:
            self.tls = None
        reply = self.reply()
        if 4 in reply.changes:
            self.packet_size = int(reply.changes[4][0].decode("utf-16-le"))
        return reply

    # -- requests --

    def headers(self) -> bytes:
        return struct.pack("<IIH", 22, 18, 2) + self.descriptor + struct.pack("<I", 1)

    def batch(self, text: str) -> Reply:
        self.send(1, self.headers() + utf16(text))
        return self.reply()

    def send_rpc(self, text: str, definitions: str, values: list[bytes]) -> None:
        data = self.headers() + struct.pack("<HHH", 0xFFFF, 10, 0) + ntext(text)
        if values or definitions:
            data += ntext(definitions)
        self.send(3, data + b"".join(values))

    def rpc(self, text: str, definitions: str, values: list[bytes]) -> Reply:
        self.send_rpc(text, definitions, values)
        return self.reply()


# ---- values of an RPC, as FreeTDS sends them ----

UNNAMED = b"\0\0"


def ntext(text: str) -> bytes:
    data = utf16(text)
    return UNNAMED + b"\x63" + struct.pack("<I", len(data)) + COLLATION + struct.pack("<I", len(data)) + data


def plp(text: Optional[str], data: Optional[bytes] = None) -> bytes:
    head = UNNAMED + b"\xa5\xff\xff"
    if data is None and text is None:
        return head + b"\xff" * 8
    data = utf16(text or "") if data is None else data
    chunk = struct.pack("<I", len(data)) + data if data else b""
    return head + struct.pack("<Q", len(data)) + chunk + bytes(4)


def guid(text: Optional[str]) -> bytes:
    head = UNNAMED + b"\xa7" + struct.pack("<H", 64) + COLLATION
    return head + (b"\xff\xff" if text is None else struct.pack("<H", len(text)) + text.encode())


def number(size: int, value: Optional[int]) -> bytes:
    body = b"\0" if value is None else bytes([size]) + value.to_bytes(size, "little", signed=True)
    return UNNAMED + bytes([0x26, size]) + body


def bit(value: Optional[int]) -> bytes:
    return UNNAMED + b"\x68\x01" + (b"\0" if value is None else bytes([1, value]))


# ---- the statements, as the driver says them ----

# A letter a parameter: g GUID, t text, i int, l bigint, b bit.
PARAMS: dict[str, list[tuple[str, str]]] = {
    "enqueue": [("id", "g"), ("composition_id", "t200"), ("payload", "t0"), ("output_url", "t2048"),
                ("dedup_key", "t200"), ("priority", "i"), ("max_retries", "i"), ("delay_ms", "l")],
    "claim": [("worker", "t128"), ("token", "g"), ("lease_s", "i"), ("unstarted", "i"), ("batch", "i")],
    "get": [("id", "g")], "cancel": [("id", "g")], "retry": [("id", "g"), ("dead_only", "b")],
    "complete": [("id", "g"), ("token", "g"), ("output_url", "t2048")],
    "renew": [("id", "g"), ("token", "g"), ("progress", "t200")],
    "settle": [("id", "g"), ("output_url", "t2048"), ("spare_renewed", "b")],
    "list": [("after", "g"), ("state", "t20"), ("composition_id", "t200"), ("worker", "t128"), ("page", "i")],
    "reap": [("batch", "i")], "purge": [("age_s", "l"), ("batch", "i")],
    "fail": [("id", "g"), ("token", "g"), ("error", "t0"), ("never", "b"), ("delay_ms", "l")],
    "stats": [],
}
SENT_AS = {"g": "VARCHAR(64)", "t": "VARBINARY(MAX)", "i": "INT", "l": "BIGINT", "b": "BIT"}


def declared(kind: str) -> str:
    if kind[0] == "t":
        return f"nvarchar({int(kind[1:]) + 1})" if kind != "t0" else "nvarchar(max)"
    return {"g": "uniqueidentifier", "i": "int", "l": "bigint", "b": "bit"}[kind]


def body_of(name: str, table: str = "[dbo].[VideoRenderJobs]") -> str:
    text = (SQL / f"{name}.sql").read_text(encoding="utf-8").split("\n-- statement\n", 1)[1]
    stem = table.rpartition("[")[2][:-1]         # good for names that are short and have no bracket in them
    schema = table[:-len(stem) - 2]
    for old, new in (("[dbo].[VideoRenderJobs]", table), ("[dbo].[VideoRenderJobs_", f"{schema}[{stem}_"),
                     ("[VideoRenderJobs_", f"[{stem}_")):
        text = text.replace(f"N'{old}", "N'" + new.replace("'", "''")).replace(old, new)
    return text


def text_of(name: str, table: str = "[dbo].[VideoRenderJobs]", many: bool = False) -> str:
    params = [("items", "t0")] if many else PARAMS[name]
    said = name + "_many" if many else name
    prologue = ", ".join(f"@{p} {declared(k)} = CAST(@P{n} AS {declared(k)})" for n, (p, k) in enumerate(params, 1))
    return f"-- renderq: {said}\n" + (f"DECLARE {prologue};\n" if params else "") + body_of(said, table)


def definitions_of(name: str) -> str:
    return ",".join(f"@P{n} {SENT_AS[kind[0]]}" for n, (_, kind) in enumerate(PARAMS[name], 1))


def value_of(kind: str, value: Any) -> bytes:
    if kind[0] in "il":
        return number(4 if kind == "i" else 8, value)
    return guid(value) if kind == "g" else bit(value) if kind == "b" else plp(value)


def values_of(name: str, values: tuple[Any, ...]) -> list[bytes]:
    return [value_of(kind, value) for (_, kind), value in zip(PARAMS[name], values)]
