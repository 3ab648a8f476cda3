"""What misbehaviour the server was asked for, and how a test asks for it. How it is done is in misbehave.py.

tdsd.py --control PATH listens on that Unix socket. A line is a request, and is answered by a line: `ok`, what was asked
for, or `error: ...`.

    fault WORD=VALUE...     misbehave: see below. Faults are looked at in the order in which they came
    clear [app=NAME]        no more faults, and nothing seen yet; with a name, of that client
    fired [app=NAME]        how many requests met one since then
    seen [app=NAME]         what was asked since then: login, session, claim, ...
    hang_up [app=NAME]      cuts the sessions that are there
    idle [app=NAME]         answers when no request is under way that its client does not wait for any more

A fault's words:

    app=NAME                only sessions of clients of this name; else all
    at=NAME                 the request: the first line of its text (claim, claim_many, begin, session, schema), or
                            prelogin, login, any. prelogin has no app
    nth=N                   the N-th of those (1), counted from when the fault was asked for ...
    times=N                 ... and so many of them (1); 0: all from there
    when=before             the request was read and nothing was done
    when=undone             it was done and taken back; its rows come in front of an error
    when=after              it took effect, and is answered so (this is what is assumed)
    do=error number=N severity=N state=N cut=1 text=REST OF THE LINE
                            \\n in the text is a line end. From severity 20 on the session ends; with cut=1 it ends
                            right behind the error
    do=drop [reset=1]       the connection ends without a byte of a reply
    do=cut at_byte=WHERE    it ends in the reply: row (in the middle of a row), packet (in the middle of a packet), done
                            (in front of the last token), rows (behind the first half of them)
    do=silent               no reply, and none to an attention either
    do=hang                 no reply, but an attention is obeyed; with rows=1 half the rows come before
    do=late ms=N            the client finds the connection gone; the request is done so much later
    do=trickle ms=N         the reply comes a byte each N milliseconds; an attention changes nothing
    do=packets              each byte of the reply is a packet of its own
    do=bytes                ... is written on its own
    do=info text=REST       messages that are no errors stand in front of the reply and at its end
    do=noise                bytes without sense instead of the reply, and then the end; seed=N for others
    do=junk                 a good packet with nonsense in it; seed=N for others
    do=length               a token that says it is longer than the reply
    do=short                ... that says it is shorter than what it holds
    do=fewer, do=more       rows of a column too few, or too many
    do=types                rows of other types
    do=premature            the reply says that it ends, and goes on
    do=endless              it ends without saying so"""
from __future__ import annotations

import os
import signal
import socket
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Optional, Protocol, Sequence

from wire import SqlError

WHENS = ("before", "undone", "after")
CUTS = ("row", "packet", "done", "rows")
KINDS = ("error", "drop", "cut", "silent", "hang", "late", "trickle", "packets", "bytes", "info", "noise", "junk",
         "length", "short", "fewer", "more", "types", "premature", "endless")
BEFORE = ("error", "drop", "silent", "hang", "late")       # what can be done before the request is
NUMBERS = ("nth", "times", "number", "severity", "state", "cut", "reset", "rows", "ms", "seed")
IDLE_S = 60.0


class Unclear(Exception):
    """What the test asked for is not understood."""


@dataclass
class Fault:
    """One that was asked for."""
    do: str
    at: str = "any"
    app: str = ""
    when: str = "after"
    at_byte: str = "row"
    text: str = ""
    numbers: dict[str, int] = field(default_factory=dict)
    met: int = 0                    # requests that it is about, so far

    def number(self, name: str, otherwise: int) -> int:
        return self.numbers.get(name, otherwise)

    def strikes(self, app: str, name: str) -> bool:
        """Whether it is this request's turn; counts it."""
        if self.app not in ("", app) or self.at not in ("any", name):
            return False
        self.met += 1
        first, times = self.number("nth", 1), self.number("times", 1)
        return self.met >= first and (times == 0 or self.met < first + times)

    def error(self, rows: Sequence[bytes] = (), behind: Sequence[bytes] = ()) -> SqlError:
        """Between these tokens."""
        error = SqlError(self.number("number", 50000), self.text or "an error that was asked for",
                         self.number("severity", 16), self.number("state", 1))
        error.rows, error.behind = list(rows), list(behind)
        return error


def read_fault(words: str) -> Fault:
    head, _, text = words.partition("text=")
    given: dict[str, str] = {}
    for word in head.split():
        name, equals, value = word.partition("=")
        if not equals or name in given:
            raise Unclear(f"{word!r} is no word of a fault, or stands there twice")
        given[name] = value
    fault = Fault(do=given.pop("do", ""), text=text.replace("\\n", "\n"))
    for name, value in given.items():
        if name in NUMBERS:
            if not value.isdecimal():
                raise Unclear(f"{name}={value}: a number is wanted")
            fault.numbers[name] = int(value)
        elif name in ("at", "app", "when", "at_byte"):
            setattr(fault, name, value)
        else:
            raise Unclear(f"{name} is not known")
    if fault.do not in KINDS or fault.when not in WHENS or fault.at_byte not in CUTS:
        raise Unclear(f"do={fault.do} when={fault.when} at_byte={fault.at_byte}: one of them is not known")
    if fault.when == "before" and fault.do not in BEFORE or fault.when == "undone" and fault.do != "error":
        raise Unclear(f"do={fault.do} cannot be when={fault.when}")
    return fault


class Cuttable(Protocol):
    """A session, as this module sees it."""
    application: str

    def hang_up(self) -> None: ...


class Faults:
    """What was asked for, shared by all sessions."""

    def __init__(self) -> None:
        self.lock = threading.Condition()
        self.faults: list[Fault] = []
        self.seen: list[tuple[str, str]] = []       # app, request
        self.fired: list[str] = []                  # apps
        self.late: list[str] = []                   # apps
        self.sessions: set[Cuttable] = set()
        self.socket: Optional[socket.socket] = None

    # -- what sessions ask --

    def take(self, app: str, name: str) -> Optional[Fault]:
        """The fault that this request meets."""
        with self.lock:
            if self.socket is None:
                return None
            self.seen.append((app, name))
            struck = [fault for fault in self.faults if fault.strikes(app, name)]
            self.fired += [app] if struck else []
            return struck[0] if struck else None

    def come(self, session: Cuttable) -> None:
        with self.lock:
            self.sessions.add(session)

    def leave(self, session: Cuttable) -> None:
        with self.lock:
            self.sessions.discard(session)

    def begin_late(self, app: str) -> None:
        with self.lock:
            self.late.append(app)

    def end_late(self, app: str) -> None:
        with self.lock:
            self.late.remove(app)
            self.lock.notify_all()

    # -- what a test asks --

    def answer(self, line: str) -> str:
        verb, _, rest = line.strip().partition(" ")
        verbs: dict[str, Callable[[str], str]] = {
            "fault": self._fault, "clear": self._clear, "fired": self._fired, "seen": self._seen,
            "hang_up": self._hang_up, "idle": self._idle}
        if verb not in verbs:
            return f"error: {verb!r} is none of {', '.join(verbs)}"
        try:
            return verbs[verb](rest)
        except Unclear as error:
            return f"error: {error}"

    def _fault(self, words: str) -> str:
        fault = read_fault(words)
        with self.lock:
            self.faults.append(fault)
        return "ok"

    @staticmethod
    def _is_about(rest: str) -> Callable[[str], bool]:
        name, _, wanted = rest.partition("=")
        if name not in ("", "app"):
            raise Unclear(f"{name} is not app=NAME")
        return lambda app: not name or app == wanted

    def _clear(self, rest: str) -> str:
        about = self._is_about(rest)
        with self.lock:
            self.faults = [fault for fault in self.faults if not about(fault.app)]
            self.seen = [(app, name) for app, name in self.seen if not about(app)]
            self.fired = [app for app in self.fired if not about(app)]
        return "ok"

    def _fired(self, rest: str) -> str:
        about = self._is_about(rest)
        with self.lock:
            return str(sum(map(about, self.fired)))

    def _seen(self, rest: str) -> str:
        about = self._is_about(rest)
        with self.lock:
            return " ".join(name for app, name in self.seen if about(app)) or "nothing"

    def _hang_up(self, rest: str) -> str:
        about = self._is_about(rest)
        with self.lock:
            for session in self.sessions:
                if about(session.application):
                    session.hang_up()
        return "ok"

    def _idle(self, rest: str) -> str:
        about = self._is_about(rest)
        with self.lock:
            ended = self.lock.wait_for(lambda: not any(map(about, self.late)), IDLE_S)
        return "ok" if ended else "error: a late request is not done"

    # -- the socket --

    def listen(self, path: Path) -> None:
        if path.is_socket():
            os.unlink(path)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen(16)
        self.socket = listener
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """At the end of the process: the threads go with it."""
        if self.socket is not None:
            os.unlink(self.socket.getsockname())

    def _accept(self) -> None:
        assert self.socket is not None
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))   # they have to wake the main thread
        while True:
            client, _ = self.socket.accept()
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            with client, client.makefile("rw", encoding="utf-8", newline="\n") as file:
                for line in file:
                    file.write(self.answer(line).replace("\n", " ") + "\n")
                    file.flush()
        except OSError:
            pass                    # the test is gone
