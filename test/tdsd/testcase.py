"""What the tests of tdsd share: a server for each class, and a session on a fresh table."""
from __future__ import annotations

import re
import sqlite3
import time
import unittest
from typing import Any, Callable

import transactions
from rawclient import LONG_S, PARAMS, SQL, Client, Reply, Server, body_of, definitions_of, text_of, values_of

ID = ["019AD000-0000-8000-0000-0000000000A%X" % n for n in range(16)]
TOKEN, OTHER = "00112233-4455-4677-8899-AABBCCDDEEFF", "FFEEDDCC-BBAA-4988-B766-554433221100"
ENV_PACKET_SIZE, ENV_BEGIN, ENV_COMMIT, ENV_ROLLBACK = 4, 8, 9, 10
DONE, DONEPROC, DONEINPROC = 0xFD, 0xFE, 0xFF
FAILED, COUNT, ATTN = 0x02, 0x10, 0x20
SESSION = ("-- renderq: session\n"
           "SET QUOTED_IDENTIFIER, ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL ON;\n"
           "SET NUMERIC_ROUNDABORT OFF;\nSET XACT_ABORT ON;\nSET TEXTSIZE 2147483647;\nSET LOCK_TIMEOUT 300;\n"
           "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;\nSELECT CASE WHEN 1 = 0 THEN 1 ELSE 0 END, 150;\n")
PATIENT = SESSION.replace("LOCK_TIMEOUT 300", "LOCK_TIMEOUT -1")
BEGIN = "-- renderq: begin\n" + transactions.BEGIN
ROLLBACK = "-- renderq: rollback\n" + transactions.ROLLBACK
CALLER = "-- renderq: caller\n"


def guard(number: Any) -> str:
    return (f"IF XACT_STATE() <> 1 OR CURRENT_TRANSACTION_ID() <> {number}\nBEGIN\n"
            "    RAISERROR(N'the transaction is gone', 16, 251);\n    RETURN;\nEND;\n")


def commit(number: int) -> str:
    return "-- renderq: commit\n" + guard(number) + transactions.COMMIT


def schema_batches(table: str) -> list[str]:
    if not (SQL / "schema.sql").exists():
        return [f"CREATE TABLE {table} (JobId uniqueidentifier)"]
    text = body_of("schema", table)
    return [part for part in re.split(r"^GO[ \t]*$", text, flags=re.M) if part.strip()]


class Case(unittest.TestCase):
    """A server for each class, with the options that it names, and a fresh table for each test."""
    options: tuple[str, ...] = ()
    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server(*cls.options)
        cls.addClassCleanup(cls.server.stop)

    def client(self) -> Client:
        client = Client(self.server)
        self.addCleanup(client.close)
        return client

    def session(self, **how: Any) -> Client:
        client = self.client()
        self.assertEqual(client.login(**how).error, 0)
        self.assertEqual(client.batch(SESSION).rows, [(0, 150)])
        return client

    def table(self, client: Client, table: str = "[dbo].[VideoRenderJobs]") -> None:
        db = self.sqlite()
        for kind, name in db.execute("SELECT type, name FROM sqlite_master WHERE type IN ('view', 'table')").fetchall():
            db.execute('DROP {} "{}"'.format(kind, name.replace('"', '""')))
        db.close()
        for batch in schema_batches(table):
            self.ok(client.batch("-- renderq: schema\n" + batch))

    def sqlite(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.server.db, timeout=LONG_S, isolation_level=None)
        self.addCleanup(db.close)
        return db

    def count(self) -> int:
        return int(self.sqlite().execute('SELECT count(*) FROM "VideoRenderJobs"').fetchone()[0])

    def until(self, comes: Callable[[], bool]) -> None:
        """Waits for what the server does when its turn comes."""
        end = time.monotonic() + LONG_S
        while not comes() and time.monotonic() < end:
            time.sleep(0.01)
        self.assertTrue(comes())

    def ok(self, reply: Reply) -> Reply:
        self.assertEqual(reply.errors, [])
        self.assertFalse(reply.dones[-1][1] & 1, "the last DONE says that there is more")
        return reply

    def run_statement(self, client: Client, name: str, *values: Any, table: str = "[dbo].[VideoRenderJobs]") -> Reply:
        self.assertEqual(len(values), len(PARAMS[name]))
        return client.rpc(text_of(name, table), definitions_of(name), values_of(name, values))

    def enqueue(self, client: Client, n: int = 0, **values: Any) -> Reply:
        given: dict[str, Any] = {"composition_id": "intro", "payload": "{}", "output_url": None, "dedup_key": None, "priority": 0,
                 "max_retries": None, "delay_ms": 0} | values
        return self.run_statement(client, "enqueue", ID[n], *given.values())

    def assert_refused(self, reply: Reply, text: str) -> None:
        self.assertEqual(reply.error, 50000, reply)
        self.assertIn(text, reply.errors[0][2])
        self.assertTrue(reply.dones[-1][1] & FAILED)

    def assert_broken(self, client: Client, text: str) -> None:
        """The server says that the protocol was broken, and closes."""
        reply = client.reply()
        self.assertEqual((reply.error, reply.errors[0][1]), (4002, 20))
        self.assertIn(text, reply.errors[0][2])
        self.assertTrue(client.is_closed())
