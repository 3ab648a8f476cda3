"""A session: what a client asks after its login, one request at a time, and the tokens that answer it."""
from __future__ import annotations

import itertools
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional

import foreign
import login
import misbehave
import script
import transactions
import wire
from contract import ITEM_COLUMN, Statement
from faults import Fault, Faults
from foreign import Foreign, Given
from login import Login, Policy
from script import Call, Scripts
from statements import Cancelled, Database, Files
from wire import Column, Message, ProtocolError, Reader, SqlError, Stream, Type, Value, refused

NO_TRANSACTION = bytes(8)
SP_EXECUTESQL = 10
RPC_NO_METADATA = 2
DESCRIPTOR_HEADER = 2
BEGIN_XACT, COMMIT_XACT, ROLLBACK_XACT, SET = 0xD4, 0xD5, 0xD2, 0xBE
DEADLOCK = 1205                     # ends its victim's transaction, whatever XACT_ABORT says
FATAL = 20                          # an error of this severity ends the connection

# What SQL Server wants of every session that writes to a table with filtered indexes. ARITHABORT is one of them, and
# ANSI_WARNINGS implies it.
FILTERED_INDEX = {"QUOTED_IDENTIFIER": True, "ANSI_NULLS": True, "ANSI_PADDING": True, "ANSI_WARNINGS": True,
                  "CONCAT_NULL_YIELDS_NULL": True, "NUMERIC_ROUNDABORT": False}
DEFAULTS = {"QUOTED_IDENTIFIER": False, "ANSI_NULLS": False, "ANSI_PADDING": False, "ANSI_WARNINGS": False,
            "ANSI_NULL_DFLT_ON": False, "CONCAT_NULL_YIELDS_NULL": True, "ARITHABORT": False,
            "NUMERIC_ROUNDABORT": False, "XACT_ABORT": False, "NOCOUNT": False, "IMPLICIT_TRANSACTIONS": False,
            "CURSOR_CLOSE_ON_COMMIT": False}
ODBC_SETS = ("QUOTED_IDENTIFIER", "ANSI_NULLS", "ANSI_PADDING", "ANSI_WARNINGS", "ANSI_NULL_DFLT_ON")
UNLIMITED, SMALL_TEXT = 2**31 - 1, 4096
SWITCH = re.compile(r"SET\s+([A-Z_]+(?:\s*,\s*[A-Z_]+)*)\s+(ON|OFF)\b\s*;?\s*")
NUMBER = re.compile(r"SET\s+(TEXTSIZE|LOCK_TIMEOUT)\s+(-?\d{1,10})\b\s*;?\s*")
WORDS = re.compile(r"(?:SET\s+DEADLOCK_PRIORITY\s+(?:LOW|NORMAL|HIGH|-?\d+)"
                   r"|SET\s+TRANSACTION\s+ISOLATION\s+LEVEL\s+READ\s+COMMITTED)\b\s*;?\s*|--[^\n]*\n\s*")
SESSION_COLUMNS = (Column("", Type(wire.INT4, 4), False), Column("", Type(wire.INTN, 4), True))
SESSION_ROW = (0, 150)
ATTACH_COLUMNS = (Column("", Type(wire.INT4, 4), False), Column("", Type(wire.INTN, 4), True),
                  Column("", Type(wire.INTN, 4), True), Column("", wire.nvarchar(1), True))
NUMBER_COLUMN = (Column("", Type(wire.INTN, 8), True),)
STATE_COLUMN = (Column("", Type(wire.INTN, 4), True),)


@dataclass
class Server:
    """What all sessions share."""
    database: Path
    policy: Policy
    statements: dict[str, Statement]
    scripts: Scripts
    files: Files
    foreign: Foreign
    log: Callable[[str], None]
    faults: Faults
    callers: bool = False               # a text without our first line is SQL of the program that uses the library


NUMBERS = itertools.count(1001)


class Session:
    def __init__(self, stream: Stream, server: Server, number: int) -> None:
        self.stream, self.server, self.number = stream, server, number
        self.odbc = False
        self.set_defaults()
        self.trancount = 0
        self.transaction = 0            # its number; never used again
        self.descriptor = NO_TRANSACTION
        self.database: Optional[Database] = None
        self.batches: dict[str, Callable[[str], list[bytes]]] = {
            "begin": self.answer_begin, "commit": self.answer_commit, "rollback": self.answer_rollback,
            "find": self.answer_find, "standing": self.answer_standing, "attach": self.answer_attach,
            "caller": self.answer_caller, "session": self.set_session, "schema": self.make_table}
        self.running = False            # a request, which the client can give up
        self.over = False
        self.application = ""
        self.fault: Optional[Fault] = None      # which the running request meets
        self.late = False               # its client is not there any more

    def set_defaults(self) -> None:
        self.options = dict(DEFAULTS, **dict.fromkeys(ODBC_SETS if self.odbc else (), True))
        self.text_size = UNLIMITED if self.odbc else SMALL_TEXT

    def log(self, text: str) -> None:
        self.server.log(f"{self.number} {text}")

    # -- its life --

    def run(self) -> None:
        logged_in = False
        self.server.faults.come(self)
        try:
            self.start(login.log_in(self.stream, self.server.policy, self.meet, self.send_login))
            logged_in = True
            while not self.over and (message := self.stream.read_message()) is not None:
                self.send(self.answer(message))
            self.log("closed")
        except login.Refused as error:
            self.log(f"login refused: {error}")
        except wire.Disconnected:
            self.log("the client is gone")
        except ProtocolError as error:
            self.log(f"protocol error: {error}")
            if logged_in:
                self.complain(error)
        finally:
            if self.database is not None:
                self.database.close()       # rolls back
            self.stream.close()
            self.server.faults.leave(self)
            if self.late:
                self.server.faults.end_late(self.application)

    def start(self, what: Login) -> None:
        encrypted = "encrypted" if self.stream.tls else "plain"
        self.log(f"login {what.user!r} {what.application!r} TDS 7.4 packets of {self.stream.packet_size} {encrypted}")
        self.odbc = what.odbc
        self.set_defaults()
        path = self.server.database
        if what.database not in ("", self.server.policy.database):
            path = path.with_name(what.database + path.suffix)
        self.database = Database(path, self.server.files, self.given_up)

    def complain(self, error: ProtocolError) -> None:
        text = f"The incoming tabular data stream (TDS) protocol stream is incorrect. tdsd: {error}"
        try:
            self.stream.write_message(wire.REPLY, wire.error(4002, FATAL, text) + wire.done(wire.DONE, wire.FAILED))
            self.stream.poll()              # closing with bytes unread would take the reply back
        except (wire.Disconnected, ProtocolError):
            pass

    def given_up(self) -> bool:
        """Whether there is an attention for the running request."""
        if not self.running:
            return False
        if self.stream.attention_waits():
            return True
        if self.stream.closed:
            raise wire.Disconnected
        return False

    # -- misbehaviour: see faults.py --

    def hang_up(self) -> None:
        self.stream.hang_up()

    def meet(self, name: str, application: Optional[str] = None) -> None:
        """Called with each request; raises what keeps it from being done."""
        self.application = self.application if application is None else application
        self.fault = self.server.faults.take(self.application, name)
        if self.fault is not None:
            self.log(f"fault {self.fault.do} {self.fault.when} at {name}")
            misbehave.before(self, self.fault, name)

    def send_login(self, tokens: list[bytes]) -> None:
        self.send(self.spoil(tokens))

    def spoil(self, tokens: list[bytes]) -> list[bytes]:
        """The reply of a request that took effect, as the fault leaves it."""
        fault = self.fault
        if fault is None or fault.when != "after":
            return tokens
        if fault.do in misbehave.endings and not (fault.do == "hang" and fault.number("rows", 0)):
            misbehave.endings[fault.do](self, fault)
        if fault.do == "hang":
            return misbehave.half_and_wait(self, tokens)
        if fault.do == "error":
            error = fault.error()
            self.over = error.severity >= FATAL
            failed = tokens[-1][:1] + wire.done(wire.DONE, wire.FAILED)[1:]
            at = len(tokens) - (2 if len(tokens) > 1 and tokens[-2][0] == wire.RETURN_STATUS else 1)
            return [*tokens[:at], error.token(), *tokens[at:-1], failed]
        return tokens

    # -- requests and replies --

    def answer(self, message: Message) -> list[bytes]:
        self.fault = None
        if message.kind == wire.ATTENTION:
            self.log("attention, and nothing was running")
            return [wire.done(wire.DONE, wire.ATTN)]
        if message.kind not in (wire.BATCH, wire.RPC):
            raise ProtocolError(f"a message of type {message.kind:#04x} is not known here")
        self.running = True
        reset = self.reset() if self.stream.reset else []
        try:
            return reset + self.spoil(self.answer_rpc(message.data) if message.kind == wire.RPC
                                      else self.answer_batch(message.data))
        except Cancelled:
            return self.answer_attention()
        finally:
            self.running = False

    def reset(self) -> list[bytes]:
        """A pool gives the connection to its next user, who finds it as after the login."""
        tokens = self.end_transaction(wire.ENV_ROLLBACK)
        self.set_defaults()
        assert self.database is not None
        self.database.lock_timeout_ms = -1
        return tokens + [wire.envchange(wire.ENV_RESET, b"")]

    def answer_attention(self) -> list[bytes]:
        """The running request is given up; the attention is taken out of what has come."""
        message = self.stream.read_message()
        assert message is not None and message.kind == wire.ATTENTION
        self.log("attention")
        tokens = self.end_transaction(wire.ENV_ROLLBACK) if self.options["XACT_ABORT"] else []
        return tokens + [wire.done(wire.DONE, wire.ATTN)]

    def send(self, tokens: list[bytes]) -> None:
        """Sends a reply; an attention in the middle of it cuts it behind a token."""
        if self.fault is not None and (self.fault.when == "after" or self.fault.number("cut", 0)):
            misbehave.send(self.stream, tokens, self.fault)
            return
        packer = wire.Packer(self.stream)
        for token in tokens:
            if self.stream.attention_waits():
                for last in self.answer_attention():
                    packer.put(last)
                break
            packer.put(token)
        packer.end()

    def failed(self, error: SqlError, text: str) -> list[bytes]:
        """The tokens of an error, and of what it does to the transaction."""
        self.log(f"error {error.number}: {error}")
        self.over = error.severity >= FATAL
        assert self.database is not None
        if error.number == DEADLOCK:
            self.database.rollback()
        aborts = (self.options["XACT_ABORT"] and "SET XACT_ABORT OFF" not in text
                  and not transactions.is_gone(error))
        lost = not self.database.in_transaction
        return [*error.rows, error.token(), *error.behind] + (self.end_transaction(wire.ENV_ROLLBACK) if aborts or lost else [])

    def read_headers(self, reader: Reader) -> None:
        """ALL_HEADERS: the one header that says which transaction the client thinks it is in."""
        total, length, kind = reader.number(4), reader.number(4), reader.number(2)
        if (total, length, kind) != (22, 18, DESCRIPTOR_HEADER):
            raise ProtocolError(f"ALL_HEADERS has {total} bytes, and its first header is of type {kind}")
        descriptor, outstanding = reader.take(8), reader.number(4)
        if outstanding != 1:
            raise ProtocolError(f"ALL_HEADERS tells of {outstanding} outstanding requests")
        if descriptor != self.descriptor:
            raise SqlError(3989, "New request is not allowed to start because it should come with valid transaction "
                                 f"descriptor. tdsd: {descriptor.hex()} instead of {self.descriptor.hex()}")

    # -- transactions --

    def end_transaction(self, how: int) -> list[bytes]:
        """Commits or rolls back what is open, and tells the client."""
        if self.trancount == 0:
            return []
        assert self.database is not None
        if how == wire.ENV_COMMIT:
            self.database.commit()
        else:
            self.database.rollback()
        token = wire.envchange(how, b"", self.descriptor)
        self.trancount, self.descriptor = 0, NO_TRANSACTION
        self.log("committed" if how == wire.ENV_COMMIT else "rolled back")
        return [token]

    def begin(self, more: int = 0) -> list[bytes]:
        self.trancount += 1
        if self.trancount > 1:
            return [wire.done(wire.DONE, more, BEGIN_XACT)]
        assert self.database is not None
        self.database.begin()
        self.transaction = next(NUMBERS)
        self.descriptor = os.urandom(7) + b"\x01"
        return [wire.envchange(wire.ENV_BEGIN, self.descriptor), wire.done(wire.DONE, more, BEGIN_XACT)]

    def commit(self) -> list[bytes]:
        if self.trancount == 0:
            raise SqlError(3902, "The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION.")
        tokens = []
        if self.trancount == 1:
            tokens = self.end_transaction(wire.ENV_COMMIT)
        else:
            self.trancount -= 1
        return tokens + [wire.done(wire.DONE, 0, COMMIT_XACT)]

    def rollback(self) -> list[bytes]:
        return self.end_transaction(wire.ENV_ROLLBACK) + [wire.done(wire.DONE, 0, ROLLBACK_XACT)]

    def answer_begin(self, text: str) -> list[bytes]:
        transactions.expect("begin", text, transactions.BEGIN)
        return [*self.begin(wire.MORE), *self.one_row(NUMBER_COLUMN, self.transaction)]

    def answer_commit(self, text: str) -> list[bytes]:
        number, rest = transactions.take_guard(text, "")
        transactions.expect("commit", rest, transactions.COMMIT)
        self.check_stands(int(number or -1))
        if self.trancount != 1:
            raise SqlError(51003, "a transaction inside it is open")
        return self.commit()

    def answer_rollback(self, text: str) -> list[bytes]:
        transactions.expect("rollback", text, transactions.ROLLBACK)
        return self.rollback()

    def answer_find(self, text: str) -> list[bytes]:
        transactions.expect("find", text, transactions.FIND)
        return self.one_row(NUMBER_COLUMN, self.transaction if self.trancount else 0)

    def answer_standing(self, text: str) -> list[bytes]:
        transactions.expect("standing", text, transactions.STANDING)
        return self.one_row(STATE_COLUMN, int(self.trancount > 0))

    def answer_attach(self, text: str) -> list[bytes]:
        transactions.expect("attach", text, transactions.ATTACH)
        return self.one_row(ATTACH_COLUMNS, *SESSION_ROW, transactions.options(self.options), chr(8364))

    def check_stands(self, number: int) -> None:
        if self.trancount == 0 or self.transaction != number:
            raise transactions.gone()

    def one_row(self, columns: tuple[Column, ...], *values: Value) -> list[bytes]:
        rows = [list(values)]
        if self.fault is not None:
            columns, rows = misbehave.distort(self.fault, columns, rows)
        return [wire.colmetadata(columns), *(wire.row(columns, row, self.text_size) for row in rows),
                wire.done(wire.DONE, wire.COUNT, wire.SELECT, 1)]

    def answer_caller(self, text: str) -> list[bytes]:
        """SQL of the program that uses the library: its own transactions and settings, or what SQLite takes too."""
        text = text.strip().rstrip(";")
        if match := SWITCH.fullmatch(text):
            self.options.update(dict.fromkeys(re.split(r"\s*,\s*", match[1]), match[2] == "ON"))
            return [wire.done(wire.DONE, 0, SET)]
        if text == "BEGIN TRANSACTION":
            return self.begin()
        if text in ("COMMIT TRANSACTION", "ROLLBACK TRANSACTION"):
            return self.commit() if text.startswith("COMMIT") else self.rollback()
        return self.run_other(text, {}, wire.DONE, 0)

    def run_other(self, text: str, values: dict[str, Value], done: int, more: int) -> list[bytes]:
        assert self.database is not None
        rows = self.database.run_other(transactions.for_sqlite(text), values)
        if not rows:
            return [wire.done(done, more)]
        columns = tuple(Column("", wire.nvarchar(4000), True) for _ in rows[0])
        return [wire.colmetadata(columns), *(wire.row(columns, row, self.text_size) for row in rows),
                wire.done(done, more | wire.COUNT, wire.SELECT, len(rows))]

    def is_callers(self, text: str) -> bool:
        return self.server.callers and not text.startswith("-- renderq: ")

    # -- batches --

    def answer_batch(self, data: bytes) -> list[bytes]:
        reader, text = Reader(data, "a batch"), ""
        try:
            self.read_headers(reader)
            text = self.rest_as_text(reader)
            return self.run_batch(text)
        except SqlError as error:
            return self.failed(error, text) + [wire.done(wire.DONE, wire.FAILED)]

    @staticmethod
    def rest_as_text(reader: Reader) -> str:
        if reader.left() % 2:
            raise ProtocolError("a batch has an odd number of bytes")
        return reader.ucs2(reader.left() // 2)

    def run_batch(self, text: str) -> list[bytes]:
        if number := re.fullmatch(r"\s*set textsize (\d+)\s*", text, flags=re.I):
            self.text_size = int(number[1])         # FreeTDS itself, where its configuration says so
            return [wire.done(wire.DONE, 0, SET)]
        if self.is_callers(text):
            self.log("batch of the caller's")
            return self.answer_caller(text)
        if not text.startswith(script.FIRST_WORDS):
            return self.run_foreign(text, "", [], wire.DONE) + [wire.done(wire.DONE, 0)]
        name, rest = script.first_line(text)
        self.log(f"batch {name}")
        self.meet(name)
        if name in self.batches:
            return self.batches[name](rest)
        statement = self.server.statements.get(name)
        if statement is None or statement.params:
            raise refused(f"{name}: there is no such batch")
        call = script.read_call(self.server.scripts, self.server.statements, text, "", [])
        return self.run_call(call, wire.DONE) + [wire.done(wire.DONE, 0)]

    def set_session(self, text: str) -> list[bytes]:
        """SET statements, and at the end a SELECT of what the client wants to know of the server."""
        assert self.database is not None
        at = len(text) - len(text.lstrip())
        while not text.startswith("SELECT ", at):
            if match := SWITCH.match(text, at):
                for option in re.split(r"\s*,\s*", match[1]):
                    if option not in self.options:
                        raise refused(f"session: SET {option} is not known here")
                    self.options[option] = match[2] == "ON"
            elif match := NUMBER.match(text, at):
                if match[1] == "TEXTSIZE":
                    self.text_size = UNLIMITED if match[2] == "-1" else int(match[2]) or SMALL_TEXT
                else:
                    self.database.lock_timeout_ms = int(match[2])
            else:
                match = WORDS.match(text, at)
                if not match:
                    raise refused(f"session: not understood: {text[at:at + 60]!r}")
            self.log(match[0].strip())
            at = match.end()
        return [wire.done(wire.DONE, wire.MORE, SET), *self.one_row(SESSION_COLUMNS, *SESSION_ROW)]

    def make_table(self, text: str) -> list[bytes]:
        table = self.server.scripts.table_of_batch("schema", text)
        if table is not None:
            assert self.database is not None
            self.database.create(table)             # each time, since that does no harm
        return [wire.done(wire.DONE, 0)]

    # -- sp_executesql --

    def answer_rpc(self, data: bytes) -> list[bytes]:
        reader, text = Reader(data, "an RPC"), ""
        try:
            self.read_headers(reader)
            text, definitions, given = self.read_executesql(reader)
            if self.is_callers(text):
                self.log("rpc of the caller's")
                values = self.without_names(given)
                return (self.run_other(text, script.callers_values(definitions, values), wire.DONEINPROC, wire.MORE)
                        + [wire.return_status(0), wire.done(wire.DONEPROC, 0)])
            if not text.startswith(script.FIRST_WORDS):
                tokens = self.run_foreign(text, definitions, given, wire.DONEINPROC)
                return tokens + [wire.return_status(0), wire.done(wire.DONEPROC, 0)]
            values = self.without_names(given)
            call = script.read_call(self.server.scripts, self.server.statements, text, definitions, values)
            self.log(f"rpc {call.name} {call.table.shown} {len(call.items)}")
            self.meet(call.name)
            return self.run_call(call, wire.DONEINPROC) + [wire.return_status(0), wire.done(wire.DONEPROC, 0)]
        except SqlError as error:
            return self.failed(error, text) + [wire.return_status(error.number),
                                               wire.done(wire.DONEPROC, wire.FAILED)]

    def read_executesql(self, reader: Reader) -> tuple[str, str, list[Given]]:
        length = reader.number(2)
        procedure = reader.number(2) if length == 0xFFFF else reader.ucs2(length)
        if procedure not in (SP_EXECUTESQL, "sp_executesql"):
            raise refused(f"an RPC of {procedure!r}; only sp_executesql is known")
        flags = reader.number(2)
        values = []
        while reader.left():
            if reader.data[reader.at] in (0x80, 0xFE, 0xFF):
                raise refused("several RPCs in one message")
            values.append(self.read_param(reader))
        texts = []
        for _, kind, value in values[:2]:
            if kind.code not in (wire.NVARCHAR, wire.NTEXT):
                raise SqlError(214, "Procedure expects parameter '@statement' of type 'ntext/nchar/nvarchar'.")
            texts.append((value or b"").decode("utf-16-le", "replace"))
        # SqlClient says that it knows the columns of a statement that it sent before; it is told them again.
        if flags not in (0, RPC_NO_METADATA) or (flags and texts and texts[0].startswith(script.FIRST_WORDS)):
            raise refused(f"an RPC with option flags {flags:#06x}")
        if not texts or not texts[0]:
            raise refused("sp_executesql without a statement")
        return texts[0], texts[1] if len(texts) > 1 else "", values[2:]

    @staticmethod
    def without_names(given: list[Given]) -> list[tuple[Type, Optional[bytes]]]:
        for name, _, _ in given:
            if name:
                raise refused(f"a value is named {name}; values go by their order")
        return [(kind, data) for _, kind, data in given]

    @staticmethod
    def read_param(reader: Reader) -> Given:
        name = reader.ucs2(reader.number(1))
        if status := reader.number(1):
            raise refused(f"a value has status {status:#04x}; there are no outputs and no defaults")
        kind = wire.read_type(reader)
        return name, kind, wire.read_bytes(reader, kind)

    # -- statements --

    def run_call(self, call: Call, done: int) -> list[bytes]:
        """The rows of a statement and their counts. Something has to follow them."""
        assert self.database is not None
        if call.transaction is not None:
            self.check_stands(call.transaction)
        if self.server.files.files[call.statement.name].writes:
            self.check_options()
        undone = self.fault is not None and self.fault.when == "undone"
        answer = self.database.run_undone(call) if undone else self.database.run(call)
        counted = not (self.options["NOCOUNT"] or "SET NOCOUNT ON" in call.text)
        columns = ((ITEM_COLUMN,) if call.many else ()) + call.statement.columns
        tokens = [wire.done(done, wire.MORE | wire.COUNT, command, count)
                  for command, count in answer.changed if counted]
        if answer.rows or call.many or not call.statement.silent:
            # Where nothing orders the rows, they come in the order that a client is least likely to count on.
            answered = answer.rows if call.statement.ordered else answer.rows[::-1]
            rows = [[item, *values] if call.many else values for item, values in answered]
            if self.fault is not None:
                columns, rows = misbehave.distort(self.fault, columns, rows)
            tokens.append(wire.colmetadata(columns))
            tokens += [self.row(call, columns, values) for values in rows]
            tokens.append(wire.done(done, wire.MORE | (wire.COUNT if counted else 0), wire.SELECT, len(rows)))
        if undone:
            assert self.fault is not None
            raise self.fault.error(tokens[:-1], [wire.done(done, wire.MORE | wire.FAILED, wire.SELECT)])
        return tokens

    def run_foreign(self, text: str, definitions: str, given: list[Given], done: int) -> list[bytes]:
        """What a program says that does not use the library."""
        call = self.server.foreign.read(text, definitions, given)
        self.log(f"foreign {call.shape.name} {call.table.shown}")
        assert self.database is not None
        if call.shape.command not in (0, wire.SELECT):
            self.check_options()
        return foreign.run(self.database, call, done, self.text_size)

    def row(self, call: Call, columns: tuple[Column, ...], values: list[Value]) -> bytes:
        try:
            return wire.row(columns, values, UNLIMITED if call.whole_texts else self.text_size)
        except ValueError as error:
            raise refused(f"{call.name}: {error}") from error

    def check_options(self) -> None:
        wrong = [option for option, wanted in FILTERED_INDEX.items() if self.options[option] != wanted]
        if wrong:
            raise SqlError(1934, "UPDATE failed because the following SET options have incorrect settings: "
                                 f"'{', '.join(wrong)}'.")
