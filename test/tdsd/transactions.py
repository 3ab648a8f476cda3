"""The texts by which a client begins, guards and ends transactions, and the caller's own SQL beside them. What they do to a
session is in session.py."""
from __future__ import annotations

import re
from typing import Optional

from wire import SqlError, refused

BEGIN = "BEGIN TRANSACTION;\nSELECT CAST(CURRENT_TRANSACTION_ID() AS bigint);"
FIND = "SELECT CASE WHEN @@TRANCOUNT > 0 THEN CAST(CURRENT_TRANSACTION_ID() AS bigint) ELSE 0 END;"
STANDING = "SELECT CAST(XACT_STATE() AS int)"
ROLLBACK = "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION"
ATTACH = ("SELECT CASE WHEN SERVERPROPERTY('Babelfish') IS NULL THEN 0 ELSE 1 END,\n"
          "       (SELECT CAST(compatibility_level AS int) FROM sys.databases WHERE database_id = DB_ID()),\n"
          "       CAST(@@OPTIONS AS int), NCHAR(8364);")
GUARD = re.compile(r"IF XACT_STATE\(\) <> 1 OR CURRENT_TRANSACTION_ID\(\) <> (@P\d+|\d+)\nBEGIN\n"
                   r"    RAISERROR\(N'the transaction is gone', 16, 251\);\n    RETURN;\nEND;\n")
COMMIT = ("IF @@TRANCOUNT <> 1\n    THROW 51003, N'a transaction inside it is open', 1;\nCOMMIT TRANSACTION;")
IF_NEW = re.compile(r"IF OBJECT_ID\(N'(\w+)', N'U'\) IS NULL\s+CREATE TABLE \1\b")
TEXT_SIZE = "SET TEXTSIZE 2147483647;\n"
RAISED, GONE_STATE = 50000, 251

# The bits of @@OPTIONS.
BITS = {"IMPLICIT_TRANSACTIONS": 2, "CURSOR_CLOSE_ON_COMMIT": 4, "ANSI_WARNINGS": 8, "ANSI_PADDING": 16,
        "ANSI_NULLS": 32, "ARITHABORT": 64, "QUOTED_IDENTIFIER": 256, "NOCOUNT": 512, "ANSI_NULL_DFLT_ON": 1024,
        "CONCAT_NULL_YIELDS_NULL": 4096, "NUMERIC_ROUNDABORT": 8192, "XACT_ABORT": 16384}


def options(on: dict[str, bool]) -> int:
    return sum(bit for name, bit in BITS.items() if on[name])


def gone() -> SqlError:
    return SqlError(RAISED, "the transaction is gone", 16, GONE_STATE)


def is_gone(error: SqlError) -> bool:
    """Whether it was raised, and not thrown: that leaves the transaction alone."""
    return (error.number, error.state) == (RAISED, GONE_STATE)


def expect(name: str, text: str, wanted: str) -> None:
    if text.strip() != wanted:
        raise refused(f"{name}: the text is {text.strip()[:60]!r} instead of {wanted[:60]!r}")


def take_guard(text: str, wanted: str) -> tuple[Optional[str], str]:
    """What the transaction's number is compared with, if there is a guard, and what stands below it. wanted: the
    parameter that it must be, or "" for a number."""
    match = GUARD.match(text)
    if not match:
        return None, text
    if match[1] != wanted if wanted else not match[1].isdigit():
        raise refused(f"the guard looks at {match[1]}")
    return match[1], text[match.end():]


def for_sqlite(text: str) -> str:
    """A caller's SQL, where SQLite says it in another way."""
    return IF_NEW.sub(r"CREATE TABLE IF NOT EXISTS \1", text)
