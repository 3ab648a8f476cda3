"""How the server misbehaves, once faults.py says that a request meets a fault: in front of the request, in the rows, or
in how the reply is sent."""
from __future__ import annotations

import random
import socket
import struct
import time
from typing import TYPE_CHECKING, Callable, Iterator

import wire
from faults import Fault
from script import MANY
from statements import Cancelled
from wire import Column, Stream, Type, Value

if TYPE_CHECKING:
    from session import Session

ROW, ERROR = 0xD1, 0xAA
INFO_UNITS = 2000                   # how long a long message is


# ---- in front of the request ----

def before(session: Session, fault: Fault, name: str) -> None:
    """Returns when the request is to be done after all."""
    if fault.do == "late":
        # The client finds its connection gone, and whatever it asks meanwhile comes first.
        session.late = True
        session.server.faults.begin_late(session.application)
        session.running = False                 # nobody is there to give it up
        drop(session.stream, reset=True)
        time.sleep(fault.number("ms", 100) / 1000)
    elif fault.when == "undone":
        if name.removesuffix(MANY) not in session.server.statements:
            raise fault.error()                 # what is neither done nor undone by rows
    elif fault.when == "before":
        if fault.do == "error":
            raise fault.error()
        endings[fault.do](session, fault)


def drop(stream: Stream, reset: bool) -> None:
    if reset:
        # Closing waits until the thread lets go of the socket, but a reader of it has to end now.
        stream.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        stream.sock.close()
    else:
        stream.hang_up()
    stream.closed = True


def _drop(session: Session, fault: Fault) -> None:
    drop(session.stream, bool(fault.number("reset", 0)))
    raise wire.Disconnected


def _silent(session: Session, _: Fault) -> None:
    """Takes what comes, until the client has had enough."""
    while True:
        session.stream.received.clear()
        session.stream.receive()


def wait_for_attention(session: Session) -> None:
    while not session.stream.attention_waits():
        session.stream.receive()


def _hang(session: Session, _: Fault) -> None:
    wait_for_attention(session)
    raise Cancelled


endings: dict[str, Callable[[Session, Fault], None]] = {"drop": _drop, "silent": _silent, "hang": _hang}


# ---- rows ----

def distort(fault: Fault, columns: tuple[Column, ...], rows: list[list[Value]]) -> tuple[tuple[Column, ...],
                                                                                      list[list[Value]]]:
    """Columns and rows as a server without sense has them."""
    if fault.do == "fewer":
        return columns[:-1], [row[:-1] for row in rows]
    if fault.do == "more":
        return columns + (Column("x", Type(wire.INT4, 4), False),), [row + [7] for row in rows]
    if fault.do != "types":
        return columns, rows
    texts = [column.type.code in (wire.NVARCHAR, wire.BIGCHAR) for column in columns]
    return (tuple(Column(column.name, Type(wire.INT8, 8) if text else wire.nvarchar(0), not text)
                  for column, text in zip(columns, texts)),
            [[2**62 + 1 if text else "nonsense" for text in texts] for _ in rows])


# ---- the reply ----

def send(stream: Stream, tokens: list[bytes], fault: Fault) -> None:
    """Sends a whole reply, its way. Raises Disconnected where it ends the connection."""
    if fault.do == "cut" or fault.number("cut", 0):
        cut(stream, tokens, fault.at_byte if fault.do == "cut" else "error")
        raise wire.Disconnected
    if fault.do == "noise":
        stream.write(_random(fault).randbytes(2048))
        drop(stream, reset=False)
        raise wire.Disconnected
    data = b"".join(_spoilt(tokens, fault))
    size = wire.HEADER.size + 1 if fault.do == "packets" else stream.packet_size
    whole = b"".join(wire.packets(wire.REPLY, data, size))
    if fault.do not in ("trickle", "bytes"):
        stream.write(whole)
        return
    for at in range(len(whole)):
        stream.write(whole[at:at + 1])
        if pause := fault.number("ms", 0):
            time.sleep(pause / 1000)


def _random(fault: Fault) -> random.Random:
    return random.Random(fault.number("seed", 1))


def _spoilt(tokens: list[bytes], fault: Fault) -> Iterator[bytes]:
    if fault.do == "info":
        # A message behind the last result stands in front of its last DONE.
        long = (fault.text + "\n") * (INFO_UNITS // (len(fault.text) + 1))
        messages = [wire.info(5701, fault.text), wire.info(50001, long)]
        yield from [*messages, *tokens[:-1], *messages, tokens[-1]]
    elif fault.do == "junk":
        yield b"\x02" + _random(fault).randbytes(200)       # no token begins so
    elif fault.do == "length":
        yield from [*tokens[:-1], b"\xab\xff\xff", tokens[-1]]
    elif fault.do == "short":
        message = wire.info(5701, "a message that is longer than it says")
        yield from [message[:1] + b"\x02\x00" + message[3:], *tokens]
    elif fault.do == "premature":
        yield from [wire.done(wire.DONE, 0), *tokens]
    elif fault.do == "endless":
        yield from tokens[:-1]
    else:
        yield from tokens


def cut(stream: Stream, tokens: list[bytes], where: str) -> None:
    """The first part of a reply, and then the end of the connection."""
    data = b"".join(tokens)
    at = [n for n, token in enumerate(tokens) if token[0] == ROW] or [len(tokens) - 1]
    if where == "packet":
        head = wire.HEADER.pack(wire.REPLY, wire.EOM, min(wire.HEADER.size + len(data), stream.packet_size), 0, 1, 0)
        stream.write(head + data[:min(len(data), stream.packet_size - wire.HEADER.size) // 2])
    elif where == "row":
        part_way(stream, b"".join(tokens[:at[0]]) + tokens[at[0]][:len(tokens[at[0]]) // 2])
    elif where == "rows":
        part_way(stream, b"".join(tokens[:at[len(at) // 2]]))
    elif where == "error":
        part_way(stream, b"".join(tokens[:[token[0] for token in tokens].index(ERROR) + 1]))
    else:
        part_way(stream, b"".join(tokens[:-1]))
    drop(stream, reset=False)


def part_way(stream: Stream, data: bytes) -> None:
    """Whole packets, and none of them the last."""
    room = stream.packet_size - wire.HEADER.size
    for n, at in enumerate(range(0, len(data), room)):
        piece = data[at:at + room]
        stream.write(wire.HEADER.pack(wire.REPLY, 0, wire.HEADER.size + len(piece), 0, (n + 1) & 0xff, 0) + piece)


def half_and_wait(session: Session, tokens: list[bytes]) -> list[bytes]:
    """Sends half of the rows, if there are any, and waits for an attention; what then answers it."""
    at = [n for n, token in enumerate(tokens) if token[0] == ROW]
    if at:
        part_way(session.stream, b"".join(tokens[:at[len(at) // 2] + 1]))
    wait_for_attention(session)
    return session.answer_attention()
