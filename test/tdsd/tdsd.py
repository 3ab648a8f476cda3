#!/usr/bin/env python3
"""tdsd: a TDS 7.4 server for tests. It knows the statements of sql/sqlserver by their first line and runs each on
SQLite by the file of the same name, and refuses whatever else it is sent. It proves nothing about T-SQL.

    tdsd.py --db FILE [--port N] [--user NAME] [--password TEXT] [--database NAME] [--encrypt off|on|required]
            [--cert FILE --key FILE] [--sql DIR] [--contract FILE] [--log FILE] [--control SOCKET]
            [--databases] [--callers] [--ipv6]

It listens on 127.0.0.1 alone, says `tdsd: listening on 127.0.0.1:PORT` when it does, and ends on SIGTERM. With --ipv6
it is ::1 instead. What --control is for stands in faults.py."""
from __future__ import annotations

import argparse
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path
from typing import Optional, TextIO

sys.dont_write_bytecode = True      # nothing is left in the source tree

import contract     # noqa: E402
from faults import Faults   # noqa: E402
from foreign import Foreign     # noqa: E402
from login import OFFERS, Policy, tls_context   # noqa: E402
from script import Scripts      # noqa: E402
from session import Server, Session     # noqa: E402
from statements import Files    # noqa: E402
from wire import Stream         # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
LEAVE_S = 30                        # how long sessions have to end


class Log:
    """A line an event, from all sessions."""

    def __init__(self, path: Optional[Path]) -> None:
        self.lock = threading.Lock()
        self.file: Optional[TextIO] = open(path, "a", encoding="utf-8", buffering=1) if path else None

    def __call__(self, text: str) -> None:
        if self.file is not None:
            with self.lock:
                self.file.write(text.replace("\n", "\\n") + "\n")


class Listener:
    """Accepts clients, a thread each."""

    def __init__(self, server: Server, port: int, ipv6: bool) -> None:
        self.server = server
        self.lock = threading.Lock()
        self.sessions: dict[threading.Thread, Session] = {}
        self.started = 0
        self.leaving = False
        self.socket = socket.socket(socket.AF_INET6 if ipv6 else socket.AF_INET)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("::1" if ipv6 else "127.0.0.1", port))
        self.socket.listen(128)

    @property
    def shown(self) -> str:
        host, port = self.socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def serve(self) -> None:
        while not self.leaving:
            try:
                client, _ = self.socket.accept()
            except OSError:
                break
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.started += 1
            session = Session(Stream(client), self.server, self.started)
            thread = threading.Thread(target=self.run, args=(session,), daemon=True)
            with self.lock:
                self.sessions[thread] = session
            thread.start()

    def run(self, session: Session) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))   # they have to wake the main thread
        try:
            session.run()
        except Exception:                   # a fault of ours: it must be seen, and the other sessions go on
            if not self.leaving:
                traceback.print_exc()
        finally:
            with self.lock:
                self.sessions.pop(threading.current_thread(), None)

    def leave(self) -> None:
        """Closes everything; serve() returns, and the sessions end."""
        self.leaving = True
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()
        with self.lock:
            sessions = dict(self.sessions)
        for thread, session in sessions.items():
            session.stream.hang_up()
        for thread in sessions:
            thread.join(LEAVE_S)


def arguments(argv: Optional[list[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tdsd", description="A TDS 7.4 server for tests, on SQLite.")
    parser.add_argument("--db", type=Path, required=True, help="the SQLite file")
    parser.add_argument("--port", type=int, default=0, help="0: any that is free")
    parser.add_argument("--ipv6", action="store_true", help="listen on ::1")
    parser.add_argument("--user", default="renderq")
    parser.add_argument("--password", default="renderq")
    parser.add_argument("--database", default="renderq", help="the one database there is")
    parser.add_argument("--databases", action="store_true", help="... besides one of every other name, beside its file")
    parser.add_argument("--encrypt", choices=OFFERS, default="off")
    parser.add_argument("--cert", type=Path, help="PEM; made by openssl where it is missing")
    parser.add_argument("--key", type=Path)
    parser.add_argument("--sql", type=Path, default=ROOT / "sql", help="where sqlserver/ and sqlite/ are")
    parser.add_argument("--contract", type=Path, help="what test/tsql/contract.c prints; compiled where it is missing")
    parser.add_argument("--log", type=Path, help="a line for each event")
    parser.add_argument("--callers", action="store_true",
                        help="take a text without our first line for SQL of the program that uses the library, and run it")
    parser.add_argument("--control", type=Path, help="a Unix socket to ask for faults on: see faults.py")
    return parser.parse_args(argv)


def make_listener(options: argparse.Namespace) -> Listener:
    statements = contract.read(options.contract.read_text() if options.contract else contract.ask_the_library(ROOT))
    tls = tls_context(options.cert, options.key) if options.encrypt != "off" else None
    policy = Policy(options.user, options.password, options.database, options.encrypt, tls, options.databases)
    faults = Faults()
    if options.control:
        faults.listen(options.control)
    server = Server(options.db, policy, statements, Scripts(options.sql / "sqlserver"),
                    Files(options.sql / "sqlite", statements), Foreign(ROOT / "test/interop"), Log(options.log), faults,
                    options.callers)
    return Listener(server, options.port, options.ipv6)


def main(argv: Optional[list[str]] = None) -> int:
    listener = make_listener(arguments(argv))

    def stop(*_: object) -> None:
        raise SystemExit(0)
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    print(f"tdsd: listening on {listener.shown}", flush=True)
    try:
        listener.serve()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        listener.leave()
        listener.server.faults.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
