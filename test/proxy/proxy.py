#!/usr/bin/env python3
"""proxy: a TCP proxy that loses connections, for tests. It stands between clients and a server, knows requests and
replies only by who is speaking, and at random does one of these to a request:

    before      the connection is cut, and the server sees nothing of the request
    torn        ... and the server has a part of it
    after       the server has done it; the connection is cut instead of the reply
    within      ... in the middle of the reply
    late        the client loses its connection at once; the server is sent the request a moment later
    stall       request or reply come late, and nothing is cut

    proxy.py --to HOST:PORT [--every N] [--kinds KIND,...] [--late TEXT,...] [--deadline S] [--seed N]

One request of N fares so, logins included. Only requests with one of the TEXTs in them (as UTF-16) are late; the others
are cut after: a call that is not safe against a ghost of itself can be spared. It listens on 127.0.0.1 alone, says
`proxy: listening on 127.0.0.1:PORT` when it does, and how many of each kind there were when it ends, on SIGTERM."""
from __future__ import annotations

import argparse
import random
import select
import signal
import socket
import struct
import sys
import threading
import time
from typing import Optional

KINDS = ("before", "torn", "after", "within", "late", "stall")
CHUNK = 1 << 16
PAUSE_S = 0.02                      # a request is whole when nothing of it came for so long
LATE_S = (0.01, 0.4)
STALL_S = (0.05, 0.6)
LONG_STALL = 0.1                    # so many of them last longer than the client's deadline
ANSWER_S = 5.0                      # how long a late request's reply is waited for


class Cut(Exception):
    """The connection ends here."""


class Faults:
    """Draws what happens to a request, and counts it."""

    def __init__(self, every: int, kinds: tuple[str, ...], deadline_s: float, seed: int) -> None:
        self.every, self.kinds, self.deadline_s = every, kinds, deadline_s
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.requests = 0
        self.counts = dict.fromkeys(KINDS, 0)

    def draw(self) -> str:
        """A kind, or ''."""
        with self.lock:
            self.requests += 1
            return self.random.choice(self.kinds) if self.random.randrange(self.every) == 0 else ""

    def happened(self, kind: str) -> None:
        with self.lock:
            self.counts[kind] += 1

    def within(self, low: float, high: float) -> float:
        with self.lock:
            return self.random.uniform(low, high)

    def stall_s(self) -> float:
        low_s, high_s = STALL_S
        long = self.within(0, 1) < LONG_STALL
        return self.within(low_s, high_s) + (self.deadline_s if long else 0)

    def below(self, n: int) -> int:
        with self.lock:
            return self.random.randrange(n)


def hang_up(end: socket.socket, rudely: bool) -> None:
    """Closes one end; rudely: what is still on its way is lost, as when a machine dies."""
    try:
        if rudely:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.close()
    except OSError:
        pass


class Link:
    """A client's connection and the one to the server that belongs to it."""

    def __init__(self, client: socket.socket, server: socket.socket, faults: Faults, late: tuple[bytes, ...]) -> None:
        self.client, self.server, self.faults, self.late = client, server, faults, late
        self.asking = False             # the client has spoken, and the server not yet
        self.plan = ""

    def run(self) -> None:
        try:
            while True:
                readable, _, _ = select.select([self.client, self.server], [], [])
                if self.client in readable:
                    self.from_client()
                elif self.server in readable:
                    self.from_server()
        except (Cut, OSError):
            pass
        finally:
            rudely = self.faults.below(2) == 0
            hang_up(self.client, rudely)
            hang_up(self.server, rudely)

    @staticmethod
    def receive(end: socket.socket) -> bytes:
        data = end.recv(CHUNK)
        if not data:
            raise Cut
        return data

    def cut(self) -> None:
        self.faults.happened(self.plan)
        raise Cut

    def stall(self) -> None:
        self.faults.happened("stall")
        self.plan = ""
        time.sleep(self.faults.stall_s())

    def from_client(self) -> None:
        data = self.receive(self.client)
        if not self.asking:
            self.asking = True
            self.plan = self.faults.draw()
            if self.plan == "late":
                self.send_late(data)
                return
        if self.plan == "before":
            self.cut()
        if self.plan == "torn":
            self.server.sendall(data[:self.faults.below(len(data))])
            self.cut()
        if self.plan == "stall" and self.faults.below(2) == 0:
            self.stall()
        self.server.sendall(data)

    def from_server(self) -> None:
        data = self.receive(self.server)
        self.asking = False
        if self.plan == "after":
            self.cut()
        if self.plan == "within":
            self.client.sendall(data[:1 + self.faults.below(max(len(data) - 1, 1))])
            self.cut()
        if self.plan == "stall":
            self.stall()
        self.plan = ""
        self.client.sendall(data)

    def send_late(self, data: bytes) -> None:
        while select.select([self.client], [], [], PAUSE_S)[0]:
            data += self.receive(self.client)
        if not any(text in data for text in self.late):
            self.plan = "after"
            self.server.sendall(data)
            return
        hang_up(self.client, self.faults.below(2) == 0)
        time.sleep(self.faults.within(*LATE_S))
        self.server.sendall(data)
        select.select([self.server], [], [], ANSWER_S)
        self.cut()


class Proxy:
    def __init__(self, to: tuple[str, int], faults: Faults, late: tuple[bytes, ...]) -> None:
        self.to, self.faults, self.late = to, faults, late
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen(128)

    @property
    def port(self) -> int:
        return int(self.socket.getsockname()[1])

    def serve(self) -> None:
        while True:
            client, _ = self.socket.accept()
            threading.Thread(target=self.link, args=(client,), daemon=True).start()

    def link(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self.to, timeout=10)
        except OSError:
            hang_up(client, True)
            return
        server.settimeout(None)
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        Link(client, server, self.faults, self.late).run()

    def summary(self) -> str:
        counts = ", ".join(f"{kind} {n}" for kind, n in self.faults.counts.items())
        return f"proxy: {self.faults.requests} requests: {counts}"


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def kinds(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if not set(names) <= set(KINDS):
        raise argparse.ArgumentTypeError(f"the kinds are {', '.join(KINDS)}")
    return names


def main(argv: Optional[list[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="proxy", description="A TCP proxy that loses connections.")
    parser.add_argument("--to", type=address, required=True, help="the server, HOST:PORT")
    parser.add_argument("--every", type=int, default=25, help="one request of so many fares badly")
    parser.add_argument("--kinds", type=kinds, default=KINDS, help="what may happen; all of it if left out")
    parser.add_argument("--late", default="", help="texts, split by commas, that a late request has one of")
    parser.add_argument("--deadline", type=float, default=2, help="seconds after which the clients give a request up")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args(argv)
    late = tuple(text.encode("utf-16-le") for text in options.late.split(",") if text)
    proxy = Proxy(options.to, Faults(options.every, options.kinds, options.deadline, options.seed), late)

    def stop(*_: object) -> None:
        raise SystemExit(0)
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    print(f"proxy: listening on 127.0.0.1:{proxy.port}", flush=True)
    try:
        proxy.serve()
    finally:
        print(proxy.summary(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
