"""What the statements are: names, parameters and columns, as the library itself tells them, and the types that SQL
Server gives those columns. Nothing is run here."""
from __future__ import annotations

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import wire
from wire import Column, Type

TEXT, GUID, INT, BIGINT, BIT = "text", "guid", "int", "bigint", "bit"
RANGES = {INT: (-2**31, 2**31 - 1), BIGINT: (-2**63, 2**63 - 1), BIT: (0, 1)}


@dataclass(frozen=True)
class Param:
    name: str
    kind: str
    units: int                      # n of nvarchar(n); 0: max

    @property
    def declared(self) -> str:
        """Its type in the prologue. Text has a unit more than its column, so that too long is refused, not cut."""
        if self.kind == TEXT:
            return f"nvarchar({self.units + 1})" if self.units else "nvarchar(max)"
        return {GUID: "uniqueidentifier", INT: "int", BIGINT: "bigint", BIT: "bit"}[self.kind]

    @property
    def sent_as(self) -> str:
        """Its type on the wire, and in the definitions of sp_executesql."""
        return {TEXT: "varbinary(max)", GUID: "varchar(64)", INT: "int", BIGINT: "bigint", BIT: "bit"}[self.kind]


@dataclass(frozen=True)
class Statement:
    name: str
    params: tuple[Param, ...]
    kinds: tuple[str, ...]          # of its columns
    columns: tuple[Column, ...]
    many: bool
    silent: bool                    # no result set where there are no rows, unless it is for many
    ordered: bool                   # its rows come in an order


# ---- columns, as the T-SQL hands them out ----

# A column of the table keeps its name, an expression has none. What ISNULL or a constant gives is not NULL, and then
# the type on the wire is another.
_JOB = """char(36), char(36) null, nvarchar(20) null, nvarchar(max) null, nvarchar(max) null, nvarchar(max) null,
    DedupKey nvarchar(200) null, nvarchar(max) null, nvarchar(max) null, Progress nvarchar(200) null,
    int, int, int, bigint null, bigint null, bigint null, bigint null, bigint null, bigint null, bigint null"""
_LEASE = "LeaseSeconds int null, bigint null, bigint null"
_COLUMNS = {
    "enqueue": "int null, char(36) null",
    "claim": _JOB, "take": _JOB, "claimed": _JOB, "resume": _JOB, "get": _JOB, "list": _JOB,
    "start": _LEASE, "started": _LEASE, "renew": _LEASE,
    "complete": "int", "completed": "int", "output": "int", "fail": "int", "release": "int", "returned": "int",
    "cancel": "bit null, nvarchar(20) null", "settle": "bit, nvarchar(20)",
    "retry": "int null, char(36) null, nvarchar(20) null",
    "reap": "char(36) null, nvarchar(20) null",
    "purge": "bigint null",
    "stats": "bigint null, bigint null, bigint null, bigint null, bigint, bigint, bigint null, bigint, bigint, bigint,"
             "bigint, bigint",
}
# These SELECT nothing where nothing matched: there is no result set then, not an empty one.
_SILENT = {"complete", "output", "fail", "release", "retry"}
_ORDERED = {"list"}
ITEM_COLUMN = Column("i", Type(wire.INT4, 4), False)


def _type(text: str, nullable: bool) -> Type:
    if text in ("int", "bigint", "bit"):
        size = {"int": 4, "bigint": 8, "bit": 1}[text]
        if nullable:
            return Type(wire.BITN if text == "bit" else wire.INTN, size)
        return Type({"int": wire.INT4, "bigint": wire.INT8, "bit": wire.BIT}[text], size)
    match = re.fullmatch(r"(n?varchar|char)\((\d+|max)\)", text)
    assert match, text
    n = 0 if match[2] == "max" else int(match[2])
    if match[1] == "nvarchar":
        return wire.nvarchar(n)
    return Type({"varchar": wire.BIGVARCHAR, "char": wire.BIGCHAR}[match[1]], n or wire.MAX)


def _columns(text: str) -> tuple[Column, ...]:
    columns = []
    for part in text.split(",") if text else []:
        match = re.fullmatch(r"\s*(?:([A-Z]\w+) )?([a-z]+(?:\(\w+\))?)( null)?\s*", part)
        assert match, part
        columns.append(Column(match[1] or "", _type(match[2], bool(match[3])), bool(match[3])))
    return tuple(columns)


def _fits(kind: str, column: Column) -> bool:
    name = column.type.name
    if kind == TEXT:
        return "varchar" in name
    return name == {GUID: "char(36)", INT: "int", BIGINT: "bigint", BIT: "bit"}[kind]


# ---- reading ----

def ask_the_library(root: Path) -> str:
    """What test/tsql/contract.c prints, which is compiled for it."""
    with tempfile.TemporaryDirectory(prefix="tdsd-") as folder:
        program = f"{folder}/contract"
        subprocess.run([os.environ.get("CC", "cc"), "-std=gnu99", "-I", str(root / "include"), "-I", str(root / "lib"),
                        str(root / "test/tsql/contract.c"), str(root / "lib/statement.c"), "-o", program], check=True)
        return subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True).stdout


def read(text: str) -> dict[str, Statement]:
    """The statements by their names, from lines like
    enqueue many id:guid composition_id:text:200 ... -> int guid"""
    statements = {}
    for line in text.splitlines():
        takes, _, gives = line.partition(" ->")
        name, many, *params = takes.split()
        kinds, columns = tuple(gives.split()), _columns(_COLUMNS.get(name, ""))
        if len(columns) != len(kinds) or not all(map(_fits, kinds, columns)):
            raise ValueError(f"{name}: the columns of lib/statement.c are not those that are known here")
        statements[name] = Statement(name, tuple(map(_param, params)), kinds, columns, many == "many", name in _SILENT,
                                     name in _ORDERED)
    return statements


def _param(text: str) -> Param:
    name, kind, *units = text.split(":")
    if kind not in (TEXT, GUID, INT, BIGINT, BIT):
        raise ValueError(f"{name}: {kind} is no type that is known here")
    return Param(name, kind, int(units[0]) if units else 0)
