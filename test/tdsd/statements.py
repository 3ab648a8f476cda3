"""Runs the statements on SQLite by the files of sql/sqlite, as lib/sqlite.c does, and gives what goes wrong the numbers
of SQL Server. TDS is not known here."""
from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Optional, TypeVar

import contract
import script
import wire
from contract import Statement
from script import Call, Table
from wire import SqlError, Value, refused

WAIT_S = 0.005
PROGRESS_STEPS = 20000
T = TypeVar("T")


class Cancelled(Exception):
    """The client gave its request up while it ran; it did nothing."""


# ---- the files ----

@dataclass
class Part:
    sql: str
    command: int                            # the kind of statement, as DONE tells it

    @property
    def reads(self) -> bool:
        return self.command == wire.SELECT


@dataclass
class File:
    parts: list[Part]
    writes: bool = False
    looks: bool = False                     # the first part decides whether the others are run; see lib/sqlite.c


def split_sql(text: str) -> list[str]:
    statements, start = [], 0
    at = text.find(";")
    while at >= 0:
        if sqlite3.complete_statement(text[start:at + 1]):
            statements.append(text[start:at + 1].strip())
            start = at + 1
        at = text.find(";", at + 1)
    if text[start:].strip():
        raise ValueError(f"a statement has no end: {text[start:].strip()[:60]!r}")
    return statements


def command_of(db: sqlite3.Connection, sql: str) -> int:
    """What SQLite itself takes the statement for."""
    kinds = {sqlite3.SQLITE_INSERT: wire.INSERT, sqlite3.SQLITE_UPDATE: wire.UPDATE, sqlite3.SQLITE_DELETE: wire.DELETE}
    found = [wire.SELECT]

    def authorize(action: int, *_: Optional[str]) -> int:
        if action in kinds and found[0] == wire.SELECT:
            found[0] = kinds[action]
        return sqlite3.SQLITE_OK
    db.set_authorizer(authorize)
    try:
        db.execute("EXPLAIN " + sql, _Nulls()).fetchall()
    finally:
        db.set_authorizer(None)
    return found[0]


class _Nulls(dict):     # type: ignore[type-arg]
    def __missing__(self, key: str) -> None:
        return None


def for_table(sql: str, table: str) -> str:
    """The files write every name of the queue in double quotes."""
    return sql.replace(script.DEFAULT[1], table.replace('"', '""'))


class Files:
    """sql/sqlite, taken apart once for all sessions."""

    def __init__(self, folder: Path, statements: dict[str, Statement]) -> None:
        self.schema = self._text(folder, "schema")
        self.files: dict[str, File] = {}
        db = sqlite3.connect(":memory:", isolation_level=None)
        db.executescript(self.schema)
        for name in statements:
            parts = [Part(sql, command_of(db, sql)) for sql in split_sql(self._text(folder, name))]
            file = File(parts, writes=any(not part.reads for part in parts))
            file.looks = file.writes and parts[0].reads
            self.files[name] = file
        db.close()

    @staticmethod
    def _text(folder: Path, name: str) -> str:
        _, marker, text = (folder / f"{name}.sql").read_text(encoding="utf-8").partition("\n-- statement\n")
        if not marker:
            raise ValueError(f"{name}.sql has no line -- statement")
        return text


# ---- errors ----

def translate(error: sqlite3.Error, table: Table) -> SqlError:
    """The number that SQL Server has for it."""
    text, code = str(error), getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    exact = {
        sqlite3.SQLITE_CONSTRAINT_CHECK: SqlError(547, f"The statement conflicted with a CHECK constraint: {text}."),
        sqlite3.SQLITE_CONSTRAINT_NOTNULL: SqlError(515, f"Cannot insert the value NULL: {text}."),
        sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY: SqlError(2627, f"Violation of PRIMARY KEY constraint: {text}.", 14),
        sqlite3.SQLITE_CONSTRAINT_UNIQUE: SqlError(2601, f"Cannot insert duplicate key row: {text}.", 14),
        sqlite3.SQLITE_BUSY_SNAPSHOT: SqlError(3960, "Snapshot isolation transaction aborted due to update conflict."),
    }
    general = {
        sqlite3.SQLITE_BUSY: SqlError(1222, "Lock request time out period exceeded."),
        sqlite3.SQLITE_LOCKED: SqlError(1222, "Lock request time out period exceeded."),
        sqlite3.SQLITE_CONSTRAINT: SqlError(547, f"The statement conflicted with a constraint: {text}."),
        sqlite3.SQLITE_FULL: SqlError(1105, "Could not allocate space: the filegroup is full.", 17),
        sqlite3.SQLITE_READONLY: SqlError(3906, "Failed to update the database because it is read-only."),
        sqlite3.SQLITE_CORRUPT: SqlError(824, f"SQL Server detected a logical I/O error: {text}.", 24),
        sqlite3.SQLITE_NOTADB: SqlError(824, f"SQL Server detected a logical I/O error: {text}.", 24),
        sqlite3.SQLITE_IOERR: SqlError(823, f"The operating system returned an error: {text}.", 24),
    }
    if code in exact:
        return exact[code]
    if code & 0xff in general:
        return general[code & 0xff]
    if text.startswith("no such table"):
        return SqlError(208, f"Invalid object name '{table.shown}'.")
    if text.startswith(("no such column", "no such index")) or " has no column named " in text:
        return SqlError(207, f"Invalid column name '{text.rsplit(' ', 1)[-1]}'.")
    return refused(f"SQLite says: {text}")


def is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_BUSY_RECOVERY,
                                                     sqlite3.SQLITE_LOCKED)


# ---- running ----

@dataclass
class Answer:
    """What a statement did, in order: rows changed (kind, how many), and the rows it handed out, by item."""
    changed: list[tuple[int, int]] = field(default_factory=list)
    rows: list[tuple[int, list[Value]]] = field(default_factory=list)


class Database:
    """A session's connection. Nothing is done halfway: a request that fails or is given up leaves no trace but, where
    the session says so, the end of its transaction."""

    def __init__(self, path: Path, files: Files, given_up: Callable[[], bool]) -> None:
        """given_up is asked while a request waits or works; it may raise, when the client is gone."""
        self.files, self.given_up = files, given_up
        self.lock_timeout_ms = -1           # for ever, as with SQL Server
        self.in_transaction = False         # the client's; it takes SQLite's lock with its first statement
        self._stopped: Optional[BaseException] = None
        # No cache of statements: an EXPLAIN that is kept over a change of the schema crashes Python.
        self.db = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=0)
        self.db.text_factory = lambda data: data.decode("utf-8", "surrogatepass")
        try:
            self.db.set_progress_handler(self._progress, PROGRESS_STEPS)
            self._patiently(lambda: self.db.execute("PRAGMA journal_mode = WAL").fetchall())
            self.db.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            self.db.close()
            raise

    def close(self) -> None:
        self.db.close()

    # -- transactions --

    def begin(self) -> None:
        self.in_transaction = True

    def commit(self) -> None:
        if self.db.in_transaction:
            self._patiently(lambda: self.db.execute("COMMIT"))
        self.in_transaction = False

    def rollback(self) -> None:
        if self.db.in_transaction:
            self.db.execute("ROLLBACK")
        self.in_transaction = False

    # -- statements --

    def run(self, call: Call) -> Answer:
        try:
            return self._patiently(lambda: self._once(call))
        except sqlite3.Error as error:
            raise translate(error, call.table) from error

    def run_undone(self, call: Call) -> Answer:
        """Runs it and takes it back, and it alone."""
        own = not self.in_transaction
        self.in_transaction = True
        try:
            if not self.db.in_transaction:
                self._patiently(lambda: self.db.execute("BEGIN IMMEDIATE"))
            self.db.execute("SAVEPOINT undone")
            answer = self.run(call)
            self.db.execute("ROLLBACK TO undone")
            self.db.execute("RELEASE undone")
        finally:
            if own:
                self.rollback()
        return answer

    def run_other(self, sql: str, values: dict[str, Value]) -> list[list[Value]]:
        """A statement of some other program, on any table; its rows as text."""
        def once() -> list[list[Value]]:
            started = self._start() if self.in_transaction else ""
            try:
                rows: list[list[Value]] = [[None if value is None else str(value) for value in row]
                                           for row in self.db.execute(sql, values)]
                self._keep(started)
                return rows
            except BaseException:
                self._undo(started)
                raise
        try:
            return self._patiently(once)
        except sqlite3.Error as error:
            raise translate(error, script.DEFAULT_TABLE) from error

    def _once(self, call: Call) -> Answer:
        file = self.files.files[call.statement.name]
        answer = Answer()
        started = self._start() if self.in_transaction else ""
        try:
            if file.looks and not call.many and not self._rows(call, file.parts[0], call.items[0]):
                self._keep(started)
                return answer
            started = started or (self._start() if file.writes else "")
            for n, item in enumerate(call.items):
                self._run_item(call, file, n, item, answer)
            self._keep(started)
        except BaseException:
            self._undo(started)
            raise
        return answer

    def _run_item(self, call: Call, file: File, n: int, item: dict[str, Value], answer: Answer) -> None:
        if file.writes:
            self._check_widths(call.statement, item)
        for part in file.parts[1 if file.looks else 0:]:
            rows = self._rows(call, part, item)
            if not part.reads:
                answer.changed.append((part.command, self.db.execute("SELECT changes()").fetchone()[0]))
            answer.rows += [(n, self._read_row(call.statement, row)) for row in rows]
            if rows:
                break

    def _rows(self, call: Call, part: Part, item: dict[str, Value]) -> list[Any]:
        return self.db.execute(for_table(part.sql, call.table.stored), item).fetchall()

    @staticmethod
    def _check_widths(statement: Statement, item: dict[str, Value]) -> None:
        """SQLite's columns have no widths."""
        for param in statement.params:
            value = item[param.name]
            if param.units and isinstance(value, str) and script.units(value) > param.units:
                raise SqlError(2628, f"String or binary data would be truncated in column for @{param.name}. "
                                     f"Truncated value: '{script.cut(value, 40)}'.")

    @staticmethod
    def _read_row(statement: Statement, row: tuple[Any, ...]) -> list[Value]:
        values: list[Value] = []
        for kind, column, value in zip(statement.kinds, statement.columns, row):
            if value is None:
                # Foreign rows hold NULL where the T-SQL says ISNULL(x, 0).
                values.append(None if column.nullable or kind in (contract.TEXT, contract.GUID) else 0)
            elif kind == contract.GUID:
                if not isinstance(value, bytes) or len(value) != 16:
                    raise refused(f"{statement.name}: a row has a GUID that is no blob of 16 bytes")
                values.append(script.guid_from_blob(value))
            else:
                values.append(str(value) if kind == contract.TEXT else int(value))
        return values

    def run_plain(self, table: Table, sql: list[str], values: dict[str, Value]) -> tuple[list[Any], int]:
        """What another program says, in one transaction: the last statement's rows, and how many it changed."""
        def once() -> tuple[list[Any], int]:
            rows: list[Any] = []
            started = self._start()
            try:
                for statement in sql:
                    rows = self.db.execute(for_table(statement, table.stored), values).fetchall()
                changed = self.db.execute("SELECT changes()").fetchone()[0]
                self._keep(started)
            except BaseException:
                self._undo(started)
                raise
            return rows, changed
        try:
            return self._patiently(once)
        except sqlite3.Error as error:
            raise translate(error, table) from error

    # -- the queue's table --

    def create(self, table: Table) -> None:
        """Makes the table, or adds the columns that an older one lacks; see lib/sqlite_schema.c."""
        try:
            self._patiently(lambda: self._create_once(table))
        except sqlite3.Error as error:
            raise translate(error, table) from error

    def _create_once(self, table: Table) -> None:
        started = self._start()
        try:
            self._add_missing(table)
            for sql in split_sql(for_table(self.files.schema, table.stored)):
                self.db.execute(sql)
            for file in self.files.files.values():
                for part in file.parts:
                    self.db.execute("EXPLAIN " + for_table(part.sql, table.stored), _Nulls()).fetchall()
            self._keep(started)
        except BaseException:
            self._undo(started)
            raise

    def _add_missing(self, table: Table) -> None:
        there = {row[1] for row in self._columns(self.db, table)}
        if not there:
            return
        scratch = sqlite3.connect(":memory:", isolation_level=None)
        scratch.executescript(for_table(self.files.schema, table.stored))
        wanted = self._columns(scratch, table)
        scratch.close()
        for _, name, kind, not_null, *_ in wanted:
            if name in there:
                continue
            if not_null:
                raise SqlError(51000, f"The table {table.shown} has no column {name} and so is no queue.")
            self.db.execute(for_table(f'ALTER TABLE "{script.DEFAULT[1]}" ADD COLUMN "{name}" {kind}', table.stored))

    @staticmethod
    def _columns(db: sqlite3.Connection, table: Table) -> list[Any]:
        return db.execute("SELECT * FROM pragma_table_info(?)", (table.stored,)).fetchall()

    # -- SQLite's own transactions --

    def _start(self) -> str:
        """Returns what _keep or _undo needs."""
        if self.in_transaction and self.db.in_transaction:
            self.db.execute("SAVEPOINT renderq")
            return "savepoint"
        self.db.execute("BEGIN IMMEDIATE")
        return "savepoint" if self.in_transaction and self._start() else "begin"

    def _keep(self, started: str) -> None:
        if started:
            self.db.execute("RELEASE renderq" if started == "savepoint" else "COMMIT")

    def _undo(self, started: str) -> None:
        if not self.db.in_transaction:
            # SQLite rolls back by itself when its disk fails, and with it the client's transaction.
            self.in_transaction = False
        elif started == "savepoint":
            self.db.execute("ROLLBACK TO renderq")
            self.db.execute("RELEASE renderq")
        elif started:
            self.db.execute("ROLLBACK")

    # -- waiting --

    def _progress(self) -> int:
        try:
            if self._stopped is None and self.given_up():
                self._stopped = Cancelled()
        except BaseException as error:      # SQLite would print it and go on
            self._stopped = error
        return int(self._stopped is not None)

    def _patiently(self, work: Callable[[], T]) -> T:
        """Does it again while others hold the lock. SQLite's own wait would be deaf to the client."""
        self._stopped = None
        start = time.monotonic()
        while True:
            try:
                return work()
            except sqlite3.OperationalError as error:
                if self._stopped is not None:
                    raise self._stopped from error
                if not is_busy(error):
                    raise
                waited_ms = (time.monotonic() - start) * 1000
                if 0 <= self.lock_timeout_ms <= waited_ms:
                    raise
            if self.given_up():
                raise Cancelled
            time.sleep(WAIT_S)
