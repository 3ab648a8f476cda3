#!/usr/bin/env python3
"""record: makes inputs for fuzz_replies of what the TDS test server (test/tdsd) says to the conformance suite. It
stands between the two, and keeps the smallest reply of each shape of a statement: how many rows, which error.

    record.py CONFORMANCE FOLDER        # build/test/conformance/conformance, build/fuzz/corpus/replies

Run it when a statement's columns change, then minimise: test/fuzz/run.sh says how."""
from __future__ import annotations

import hashlib
import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tdsd"))
import rawclient    # noqa: E402

BATCH, RPC = 1, 3
HEADER, LAST = 8, 1
LONGEST = 1500                      # bytes of a reply worth keeping
NEXT_MESSAGE = b"\xf5RQ\xf5"        # as in fuzz_replies.c


def calls() -> list[tuple[str, bool]]:
    """The statement of each call, and whether it is for many, by the call's place in calls.c."""
    table = re.findall(r'^    \{ "\w+", RQ_(\w+), (true|false), \w+ \},$', (HERE / "calls.c").read_text(), re.M)
    return [(statement.lower(), many == "true") for statement, many in table]


class Recorder:
    """The smallest reply of each shape, and what came after it on its connection."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.kept: dict[tuple[str, str], list[bytes]] = {}

    def add(self, said: list[tuple[str, bytes]]) -> None:
        for at, (name, reply) in enumerate(said):
            if name == "session" or len(reply) > LONGEST:
                continue
            parsed = rawclient.Tokens(reply).parse()
            shape = (name, repr([[min(len(rows), 3) for rows in parsed.sets], parsed.error]))
            more = [later for _, later in said[at + 1:at + 3] if len(later) < LONGEST]
            with self.lock:
                if shape not in self.kept or len(reply) < len(self.kept[shape][0]):
                    self.kept[shape] = [reply, *more]

    def write(self, folder: Path) -> int:
        folder.mkdir(parents=True, exist_ok=True)
        written = 0
        for (name, _), replies in self.kept.items():
            for place, (statement, many) in enumerate(calls()):
                if name == statement + ("_many" if many else ""):
                    data = bytes([place, 0]) + NEXT_MESSAGE.join(replies)
                    (folder / hashlib.sha1(data).hexdigest()[:16]).write_bytes(data)
                    written += 1
        return written


class Connection(threading.Thread):
    """Passes bytes on between a client and the server, and keeps each request's name with its reply."""

    def __init__(self, client: socket.socket, port: int, recorder: Recorder) -> None:
        super().__init__(daemon=True)
        self.client, self.recorder = client, recorder
        self.server = socket.create_connection(("127.0.0.1", port))
        self.said: list[tuple[str, bytes]] = []
        self.name = ""

    def run(self) -> None:
        back = threading.Thread(target=self.pass_on, args=(self.server, self.client, self.take_reply), daemon=True)
        back.start()
        self.pass_on(self.client, self.server, self.take_request)
        back.join()
        self.recorder.add(self.said)

    def pass_on(self, source: socket.socket, to: socket.socket, take: object) -> None:
        held, message = b"", b""
        try:
            while data := source.recv(65536):
                held += data
                while len(held) >= HEADER and len(held) >= (size := int.from_bytes(held[2:4], "big")):
                    message += held[HEADER:size]
                    if held[1] & LAST:
                        take(held[0], message)      # type: ignore[operator]
                        message = b""
                    held = held[size:]
                to.sendall(data)
        except OSError:
            pass
        for end in (source, to):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def take_request(self, kind: int, message: bytes) -> None:
        self.name = ""
        if kind in (BATCH, RPC):
            found = re.search(r"-- renderq: (\w+)", message.decode("utf-16-le", "replace")) or \
                re.search(r"-- renderq: (\w+)", message[1:].decode("utf-16-le", "replace"))
            self.name = found[1] if found else ""

    def take_reply(self, kind: int, message: bytes) -> None:
        if kind == 4 and self.name:
            self.said.append((self.name, message))


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    program, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    server = rawclient.Server("--user", "sa", "--password", "s3cret", "--database", "renderq")
    recorder = Recorder()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def accept() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                Connection(client, server.port, recorder).start()
        threading.Thread(target=accept, daemon=True).start()
        port = listener.getsockname()[1]
        ended = subprocess.run([str(program), f"sqlserver://sa:s3cret@127.0.0.1:{port}/renderq"],
                               env=os.environ | {"RENDERQ_TDSD_FILE": server.db}, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, check=False)
    server.stop()
    print(f"{recorder.write(folder)} inputs")
    return ended.returncode


if __name__ == "__main__":
    sys.exit(main())
