"""What the client may say: knows a text by its first comment line, and compares all of it with the file it is made
of. Values and how they are declared are looked at here too; nothing is run."""
from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import contract
import transactions
from contract import Param, Statement
from wire import SqlError, Type, Value, refused

FIRST_WORDS = "-- renderq: "
FIRST_LINE = re.compile(FIRST_WORDS + r"([a-z_]+)\n")
DEFAULT = ("dbo", "VideoRenderJobs")
PART = r"\[(?:[^\]]|\]\])+\]"
NAME = re.compile(rf"(?:({PART})\.)?({PART})")
PART_MAX = 128
MANY = "_many"
SCRIPTS = ("schema", "watchdog")        # files of many batches, run as they are
ITEMS = (Param("items", contract.TEXT, 0),)
TRANSACTION = (Param("transaction", contract.BIGINT, 0),)


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def cut(text: str, n: int) -> str:
    """The first n UTF-16 units; half a character is dropped."""
    return text.encode("utf-16-le")[:2 * n].decode("utf-16-le", "ignore")


# ---- names ----

@dataclass(frozen=True)
class Table:
    """The queue's table: schema is None where the name has one part."""
    schema: Optional[str]
    name: str

    @property
    def quoted(self) -> str:
        parts = [self.name] if self.schema is None else [self.schema, self.name]
        return ".".join(f"[{part.replace(']', ']]')}]" for part in parts)

    @property
    def shown(self) -> str:
        return self.name if self.schema is None else f"{self.schema}.{self.name}"

    @property
    def stored(self) -> str:
        """Its name in SQLite, which has no schemas."""
        return self.name if self.schema is None or self.schema.lower() == DEFAULT[0] else f"{self.schema}.{self.name}"


DEFAULT_TABLE = Table(*DEFAULT)


def read_table(text: str) -> Optional[Table]:
    match = NAME.match(text)
    if not match:
        return None
    schema, name = (part[1:-1].replace("]]", "]") if part else None for part in match.groups())
    assert name is not None
    return Table(schema, name) if units(name) <= PART_MAX and units(schema or "") <= PART_MAX else None


def render(template: str, table: Table) -> str:
    """A file's text for the queue's table, by the rules at the head of sql/sqlserver/schema.sql: names derived from the
    table's are cut to fit, and a name that is a literal has its quotes doubled."""
    def name(match: re.Match[str]) -> str:
        quote, schema, suffix = match[1], match[2], match[3]
        own = Table(table.schema if schema else None, cut(table.name, PART_MAX - len(suffix)) + suffix)
        return f"N'{own.quoted.replace(chr(39), chr(39) * 2)}" if quote else own.quoted
    return re.sub(rf"(N')?(\[{DEFAULT[0]}\]\.)?\[{DEFAULT[1]}(\w*)\]", name, template)


# ---- texts ----

class Scripts:
    """The files of sql/sqlserver. What has no file is known by its first lines alone."""

    def __init__(self, folder: Path) -> None:
        self.texts = {file.stem: self._below_marker(file) for file in sorted(folder.glob("*.sql"))}
        self._known: dict[tuple[str, str], Table] = {}

    @staticmethod
    def _below_marker(file: Path) -> str:
        whole = file.read_text(encoding="utf-8")
        _, marker, text = whole.partition("\n-- statement\n")
        if not marker and file.stem not in SCRIPTS:
            raise ValueError(f"{file} has no line -- statement")
        return text if marker else whole

    def table_of(self, name: str, text: str) -> Table:
        """The table that a statement's text is about. Refuses a text which is not that of its file."""
        if (name, text) not in self._known:
            template = self.texts.get(name)
            table = find_table(text) if template is None else compare(name, text, template)
            self._known[name, text] = table or DEFAULT_TABLE
        return self._known[name, text]

    def table_of_batch(self, name: str, text: str) -> Optional[Table]:
        """The table that a batch of a script is about; None: it names none."""
        if name not in self.texts:
            return find_table(text)
        batches = [part for part in re.split(r"^GO[ \t]*$", self.texts[name], flags=re.M) if part.strip()]
        for batch in batches:
            try:
                return compare(name, text.strip(), batch.strip())
            except SqlError:
                continue
        raise refused(f"{name}: the text is none of the {len(batches)} batches of its file: {text.strip()[:60]!r}")


def find_table(text: str) -> Optional[Table]:
    at = text.find("[")
    return read_table(text[at:]) if at >= 0 else None


def compare(name: str, text: str, template: str) -> Optional[Table]:
    """The table that a template was filled in with to give this text; None: it names none."""
    at = template.find(DEFAULT_TABLE.quoted)
    table = read_table(text[at:]) if at >= 0 else None
    if table is not None and template[at - 1:at] == "'":
        table = Table(table.schema and table.schema.replace("''", "'"), table.name.replace("''", "'"))
    wanted = render(template, table or DEFAULT_TABLE)
    if wanted != text:
        same = next((n for n, (a, b) in enumerate(zip(wanted, text)) if a != b), min(len(wanted), len(text)))
        raise refused(f"{name}: the text differs from its file in line {text.count(chr(10), 0, same) + 1}: "
                      f"{text[same:same + 40]!r} instead of {wanted[same:same + 40]!r}")
    return table


def first_line(text: str) -> tuple[str, str]:
    """(name, what stands below)."""
    match = FIRST_LINE.match(text)
    if not match:
        raise refused(f"a text without a first line that is known: {text[:60]!r}")
    return match[1], text[match.end():]


# ---- sp_executesql ----

def prologue(params: tuple[Param, ...]) -> str:
    if not params:
        return ""
    return "DECLARE " + ", ".join(f"@{p.name} {p.declared} = CAST(@P{n} AS {p.declared})"
                                  for n, p in enumerate(params, 1)) + ";\n"


def check_definitions(name: str, params: tuple[Param, ...], text: str) -> None:
    given = [part.strip().lower() for part in text.split(",")] if text.strip() else []
    wanted = [f"@p{n} {p.sent_as}" for n, p in enumerate(params, 1)]
    if given != wanted:
        raise refused(f"{name}: the parameters are defined as {', '.join(given)!r} instead of {', '.join(wanted)!r}")


def check_types(name: str, params: tuple[Param, ...], types: list[Type]) -> None:
    if len(types) != len(params):
        raise refused(f"{name}: {len(types)} values for {len(params)} parameters")
    for param, kind in zip(params, types):
        if kind.name != param.sent_as:
            raise refused(f"{name}: @{param.name} came as {kind.name} instead of {param.sent_as}")


def callers_values(definitions: str, values: list[tuple[Type, Optional[bytes]]]) -> dict[str, Value]:
    """The values of SQL that is not ours, by their names without the @."""
    names = re.findall(r"@(\w+)\s+\w", definitions)
    if len(names) != len(values):
        raise refused(f"{len(values)} values for the parameters {definitions!r}")
    return {name: callers_value(name, kind, data) for name, (kind, data) in zip(names, values)}


def callers_value(name: str, kind: Type, data: Optional[bytes]) -> Value:
    if data is None:
        return None
    if kind.name in ("int", "bigint"):
        return int.from_bytes(data, "little", signed=True)
    if kind.name.startswith("varchar"):
        return data.decode("ascii", "replace")
    raise refused(f"@{name} came as {kind.name}, which is not known here")


# ---- values ----

# The two digits of each byte in the order that SQL Server sorts by; see lib/guid.c.
DIGITS_AT = (24, 26, 28, 30, 32, 34, 19, 21, 16, 14, 11, 9, 6, 4, 2, 0)
GUID_FORM = re.compile(r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}")


def guid_to_blob(text: str) -> bytes:
    if not GUID_FORM.fullmatch(text):
        raise SqlError(8169, "Conversion failed when converting from a character string to uniqueidentifier.")
    return bytes(int(text[at:at + 2], 16) for at in DIGITS_AT)


def guid_from_blob(blob: bytes) -> str:
    text = list("00000000-0000-0000-0000-000000000000")
    for byte, at in zip(blob, DIGITS_AT):
        text[at:at + 2] = f"{byte:02X}"
    return "".join(text)


def read_text(name: str, param: Param, data: bytes) -> str:
    """UTF-16 as it came, cut like the prologue's CAST does."""
    if len(data) % 2:
        raise refused(f"{name}: @{param.name} has {len(data)} bytes, which is no UTF-16")
    try:
        text = data.decode("utf-16-le")
    except UnicodeDecodeError as error:
        raise refused(f"{name}: @{param.name} is not UTF-16: {error}") from error
    if "\0" in text:
        raise refused(f"{name}: @{param.name} has a NUL in it")
    return cut(text, param.units + 1) if param.units else text


def read_value(name: str, param: Param, data: Optional[bytes]) -> Value:
    """A parameter's value as SQLite stores it, from its bytes."""
    if data is None:
        return None
    if param.kind == contract.TEXT:
        return read_text(name, param, data)
    if param.kind == contract.GUID:
        return guid_to_blob(data.decode("ascii", "replace"))
    number = int.from_bytes(data, "little", signed=param.kind != contract.BIT)
    return in_range(name, param, number)


def in_range(name: str, param: Param, number: int) -> int:
    low, high = contract.RANGES[param.kind]
    if not low <= number <= high:
        raise refused(f"{name}: @{param.name} is {number}, which is no {param.declared}")
    return number


def read_json_value(name: str, param: Param, value: Any) -> Value:
    if value is None:
        return None
    textual = param.kind in (contract.TEXT, contract.GUID)
    if textual and isinstance(value, str):
        if param.kind == contract.GUID:
            return guid_to_blob(value)
        return read_text(name, param, value.encode("utf-16-le", "surrogatepass"))
    if not textual and isinstance(value, int) and not isinstance(value, bool):
        return in_range(name, param, value)
    raise refused(f"{name}: {param.name} is {json.dumps(value)[:40]}, which is no {param.declared}")


def read_items(name: str, statement: Statement, text: Value) -> list[dict[str, Value]]:
    """@items of a statement for many: an array of objects, each with its place and every parameter."""
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise refused(f"{name}: an item names a parameter twice")
        return dict(pairs)

    def no_constant(text: str) -> None:
        raise refused(f"{name}: @items holds {text}")

    if not isinstance(text, str):
        raise refused(f"{name}: @items is NULL")
    try:
        items = json.loads(text, object_pairs_hook=once, parse_constant=no_constant)
    except json.JSONDecodeError as error:
        raise refused(f"{name}: @items is no JSON: {error}") from error
    if not isinstance(items, list) or len(items) < 2:
        raise refused(f"{name}: @items is no array of at least two items")
    keys = {"i"} | {param.name for param in statement.params}
    for n, item in enumerate(items):
        if not isinstance(item, dict) or set(item) != keys:
            raise refused(f"{name}: item {n} has not exactly {', '.join(sorted(keys))}")
        if item["i"] != n or type(item["i"]) is not int:
            raise refused(f"{name}: item {n} says that it is item {item['i']}")
    return [{param.name: read_json_value(name, param, item[param.name]) for param in statement.params}
            for item in items]


@dataclass
class Call:
    """A statement to run."""
    name: str
    statement: Statement
    table: Table
    items: list[dict[str, Value]]
    many: bool
    text: str
    transaction: Optional[int] = None       # that must stand
    whole_texts: bool = False               # as by SET TEXTSIZE, for this call alone


def read_call(scripts: Scripts, statements: dict[str, Statement], text: str, definitions: str,
              values: list[tuple[Type, Optional[bytes]]]) -> Call:
    """A call of sp_executesql, or what is wrong with it."""
    name, rest = first_line(text)
    many = name.endswith(MANY)
    statement = statements.get(name.removesuffix(MANY))
    if statement is None or (many and not statement.many):
        raise refused(f"{name}: there is no such statement")
    params = ITEMS if many else statement.params
    whole_texts = rest.startswith(transactions.TEXT_SIZE)
    rest = rest.removeprefix(transactions.TEXT_SIZE)
    guard, rest = transactions.take_guard(rest, f"@P{len(params) + 1}")
    start = prologue(params)
    if not rest.startswith(start):
        raise refused(f"{name}: the prologue is not {start!r}: {rest[:len(start)]!r}")
    table = scripts.table_of(name, rest[len(start):])
    sent = params + (TRANSACTION if guard else ())
    check_definitions(name, sent, definitions)
    check_types(name, sent, [kind for kind, _ in values])
    row = {param.name: read_value(name, param, data) for param, (_, data) in zip(sent, values)}
    transaction = row.pop("transaction", None)
    assert transaction is None or isinstance(transaction, int)
    items = read_items(name, statement, row["items"]) if many else [row]
    return Call(name, statement, table, items, many, rest[len(start):], transaction, whole_texts)
