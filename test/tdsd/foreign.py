"""What other programs may say: the statements of test/interop, in T-SQL, and their renderings in SQLite's SQL. Whoever
sends them has never heard of the library: there is no first line to know them by, so that each text is compared with
all of them, blanks apart."""
from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Union

import script
import wire
from script import Table
from statements import Database, split_sql
from wire import Column, ProtocolError, SqlError, Type, Value, refused

# A value as it came: its name, its type, its bytes.
Given = tuple[str, Type, Optional[bytes]]

_PART = r"(?:\[(?:[^\]]|\]\])+\]|[A-Za-z_]\w*)"
_TABLE = rf"(?P<table>(?:{_PART}\.)?{_PART})"
_DEFAULT = "dbo.VideoRenderJobs"
_DECLARED = re.compile(r"@(\w+) (\w+(?:\(\w+\))?) =")
_DEFINED = re.compile(r"\s*@(\w+) \w+(?:\(\w+\))?\s*")

_GUID, _TIME, _INT = Type(wire.GUIDN, 16), Type(wire.DATETIME2N, 7), Type(wire.INTN, 4)
_COLUMNS: dict[str, list[tuple[str, Type]]] = {
    "enqueue": [("JobId", _GUID)],
    "claim": [("JobId", _GUID), ("CompositionId", wire.nvarchar(200)), ("PayloadJson", wire.nvarchar(0)),
              ("RetryCount", _INT)],
    "job": [("JobId", _GUID), ("CompositionId", wire.nvarchar(200)), ("PayloadJson", wire.nvarchar(0)),
            ("Priority", _INT), ("Status", Type(wire.BIGVARCHAR, 20)), ("WorkerNodeId", wire.nvarchar(100)),
            ("LockedAtUtc", _TIME), ("CreatedAtUtc", _TIME), ("CompletedAtUtc", _TIME),
            ("OutputUrl", wire.nvarchar(1000)), ("RetryCount", _INT), ("LastErrorMessage", wire.nvarchar(0))],
    "counts": [("Status", Type(wire.BIGVARCHAR, 20)), ("Jobs", _INT)],
}
_COMMANDS = {"INSERT": wire.INSERT, "WITH": wire.UPDATE, "UPDATE": wire.UPDATE, "SELECT": wire.SELECT, "CREATE": 0,
             "DROP": 0}


@dataclass
class Shape:
    """One file: how it looks, what it takes, what it gives, and how SQLite says it."""
    name: str
    pattern: re.Pattern[str]
    params: dict[str, str]                  # types by names
    sql: list[str]
    columns: list[Column]
    command: int


@dataclass
class ForeignCall:
    shape: Shape
    table: Table
    values: dict[str, Value]


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _read_shape(file: Path) -> Optional[Shape]:
    head, _, text = file.read_text(encoding="utf-8").partition("\n-- statement\n")
    rendering = file.parent / "sqlite" / file.name
    if not rendering.exists():
        return None                         # for another engine
    pattern = re.escape(_squeezed(text))
    pattern = pattern.replace(re.escape(_DEFAULT), _TABLE, 1).replace(re.escape(_DEFAULT), r"(?P=table)")
    columns = [Column(name, kind, True) for name, kind in _COLUMNS.get(file.stem, [])]
    sql = split_sql(rendering.read_text(encoding="utf-8").partition("\n-- statement\n")[2])
    return Shape(file.stem, re.compile(pattern), dict(_DECLARED.findall(head)), sql, columns,
                 _COMMANDS[text.split()[0]])


class Foreign:
    """The files of test/interop."""

    def __init__(self, folder: Path) -> None:
        self.shapes = [shape for file in sorted(folder.glob("*.sql")) if (shape := _read_shape(file))]

    def read(self, text: str, definitions: str, given: list[Given]) -> ForeignCall:
        """A text and its values, or what is wrong with them. CT-Library sends values without names; then a DECLARE in
        front of the statement names them."""
        names = _names(definitions)
        if len(names) != len(given):
            raise refused(f"{len(given)} values for {len(names)} parameters: {definitions!r}")
        by_name = {(name or f"@{names[n]}")[1:]: (kind, data) for n, (name, kind, data) in enumerate(given)}
        if set(by_name) != set(names):
            raise refused(f"the values are named {', '.join(by_name)} instead of {', '.join(names)}")
        if names and names == [f"P{n + 1}" for n in range(len(names))]:
            return self._declared(_squeezed(text), [by_name[name] for name in names])
        return self._bound(_squeezed(text), by_name)

    def _declared(self, text: str, values: list[tuple[Type, Optional[bytes]]]) -> ForeignCall:
        for shape in self.shapes:
            prologue = "DECLARE " + ", ".join(f"@{name} {kind} = @P{n}" for n, (name, kind)
                                              in enumerate(shape.params.items(), 1)) + "; "
            if len(values) == len(shape.params) and text.startswith(prologue):
                return self._bound(text[len(prologue):], dict(zip(shape.params, values)))
        return self._bound(text, {})

    def _bound(self, text: str, values: dict[str, tuple[Type, Optional[bytes]]]) -> ForeignCall:
        for shape in self.shapes:
            match = shape.pattern.fullmatch(text)
            if not match:
                continue
            if set(values) != set(shape.params):
                raise refused(f"{shape.name}: the parameters are {', '.join(values)} instead of "
                              f"{', '.join(shape.params)}")
            return ForeignCall(shape, _read_table(match["table"]),
                               {name: _read_value(name, shape.params[name], *value) for name, value in values.items()})
        raise refused(f"a text that is none of the library's, nor of the other programs': {text[:60]!r}")


def _names(definitions: str) -> list[str]:
    if not definitions.strip():
        return []
    matches = [_DEFINED.fullmatch(part) for part in definitions.split(",")]
    if not all(matches):
        raise refused(f"the parameters are defined as {definitions!r}")
    return [match[1] for match in matches if match]


def _read_table(text: str) -> Table:
    parts = re.findall(_PART, text)
    quoted = [part if part.startswith("[") else f"[{part}]" for part in parts]
    table = script.read_table(".".join(quoted))
    assert table is not None
    return table


def _read_value(name: str, declared: str, kind: Type, data: Optional[bytes]) -> Value:
    """As SQLite stores it."""
    if data is None:
        return None
    if kind.code == wire.GUIDN:
        text: Union[str, int] = str(uuid.UUID(bytes_le=data))
    elif kind.code in (wire.NVARCHAR, wire.NTEXT):
        text = data.decode("utf-16-le", "surrogatepass")
    elif kind.code == wire.BIGVARCHAR:
        text = data.decode(wire.CODE_PAGE)
    elif kind.name == "int":
        text = int.from_bytes(data, "little", signed=True)
    else:
        raise refused(f"@{name} came as {kind.name}")
    try:
        if declared == "uniqueidentifier":
            return script.guid_to_blob(str(text))
        return int(text) if declared == "int" else str(text)
    except ValueError:
        raise SqlError(245, f"Conversion failed when converting the value of @{name} to int.") from None


def run(database: Database, call: ForeignCall, done: int, text_size: int) -> list[bytes]:
    """Runs it; the tokens of its reply, behind which something has to follow."""
    rows, changed = database.run_plain(call.table, call.shape.sql, call.values)
    shape, tokens = call.shape, []
    if shape.columns:
        tokens.append(wire.colmetadata(shape.columns))
        tokens += [wire.row(shape.columns, map(_written, shape.columns, row), text_size) for row in rows]
        changed = len(rows)
    return tokens + [wire.done(done, wire.MORE | (wire.COUNT if shape.command else 0), shape.command, changed)]


def _written(column: Column, value: Value) -> Value:
    if value is not None and column.type.code == wire.GUIDN:
        if not isinstance(value, bytes) or len(value) != 16:
            raise ProtocolError("a row has a GUID that is no blob of 16 bytes")
        return script.guid_from_blob(value)
    return value
