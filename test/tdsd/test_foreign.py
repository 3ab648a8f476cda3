"""What other programs send: their texts, as SqlClient and as CT-Library send these, and what is refused."""
from __future__ import annotations

import struct
import unittest
import uuid
from datetime import datetime, timedelta, timezone
from typing import Any, Optional

from rawclient import COLLATION, ROOT, Client, Reply, ntext, utf16
from testcase import BEGIN, ENV_ROLLBACK, Case

ENV_RESET, RESET = 18, 0x08
CLAIM, ENQUEUE, JOB, COUNTS = "claim", "enqueue", "job", "counts"


def text_of(name: str, table: str = "dbo.VideoRenderJobs") -> str:
    whole = (ROOT / "test/interop" / f"{name}.sql").read_text(encoding="utf-8")
    return whole.split("\n-- statement\n", 1)[1].replace("dbo.VideoRenderJobs", table)


def named(name: str, value: Any) -> bytes:
    """As SqlClient sends a parameter."""
    head = bytes([len(name) + 1]) + utf16("@" + name) + b"\0"
    if isinstance(value, int):
        return head + b"\x26\x04\x04" + struct.pack("<i", value)
    if isinstance(value, uuid.UUID):
        return head + b"\x24\x10\x10" + value.bytes_le
    data = utf16(value) if value is not None else b""
    return (head + b"\xe7" + struct.pack("<H", 8000) + COLLATION
            + (b"\xff\xff" if value is None else struct.pack("<H", len(data)) + data))


def varchar(text: str) -> bytes:
    """As CT-Library does."""
    return b"\0\0\xa7" + struct.pack("<H", 8000) + COLLATION + struct.pack("<H", len(text)) + text.encode()


class Foreign(Case):
    def setUp(self) -> None:
        self.c = self.client()
        self.assertEqual(self.c.login().error, 0)
        self.table(self.c)

    def say(self, name: str, client: Optional[Client] = None, flags: int = 0, text: str = "", **values: Any) -> Reply:
        client = client or self.c
        kinds = {int: "int", uuid.UUID: "uniqueidentifier"}
        definitions = ",".join(f"@{key} {kinds.get(type(value), 'nvarchar(4000)')}" for key, value in values.items())
        client.send(3, client.headers() + struct.pack("<HHH", 0xFFFF, 10, flags) + ntext(text or text_of(name))
                    + ntext(definitions) + b"".join(named(*pair) for pair in values.items()))
        return client.reply()

    def put(self) -> uuid.UUID:
        reply = self.ok(self.say(ENQUEUE, compositionId="größe \N{CLAPPER BOARD}", payloadJson="{}", priority=3))
        self.assertEqual(reply.columns[0], [("JobId", "uniqueidentifier", True)])
        id: uuid.UUID = reply.rows[0][0]
        return id

    def test_as_sqlclient_sends_them(self) -> None:
        id = self.put()
        reply = self.ok(self.say(CLAIM, flags=2, workerNodeId="csharp"))
        self.assertEqual(reply.rows, [(id, "größe \N{CLAPPER BOARD}", "{}", 0)])
        self.assertEqual(self.ok(self.say(CLAIM, workerNodeId="csharp")).rows, [])
        reply = self.ok(self.say("mark_failed", errorMessage="broken", jobId=id))
        self.assertEqual((reply.sets, reply.dones[0][2:]), ([], (0xC5, 1)))
        row = self.ok(self.say(JOB, jobId=id)).rows[0]
        self.assertEqual(row[:7], (id, "größe \N{CLAPPER BOARD}", "{}", 3, "Queued", None, None))
        self.assertEqual(row[8:], (None, None, 1, "broken"))
        now = datetime.now(timezone.utc).replace(tzinfo=None)
        self.assertAlmostEqual(row[7], now, delta=timedelta(minutes=1))
        self.assertEqual(self.ok(self.c.batch(text_of(COUNTS))).rows, [("Queued", 1)])
        self.assertEqual(self.ok(self.say("mark_failed", jobId=uuid.uuid4(), errorMessage=None)).dones[0][3], 0)

    def test_as_ct_library_sends_them(self) -> None:
        id = self.put()
        text = "DECLARE @jobId uniqueidentifier = @P1, @outputUrl nvarchar(1000) = @P2;\n" + text_of("complete")
        definitions = "@P1 VARCHAR(8000),@P2 VARCHAR(8000)"
        reply = self.ok(self.c.rpc(text, definitions, [varchar(str(id)), varchar("out")]))
        self.assertEqual(reply.dones[0][3], 1)
        self.assertEqual(self.ok(self.say(JOB, jobId=id)).rows[0][9], "out")
        self.assertEqual(self.c.rpc(text, definitions, [varchar("4711"), varchar("out")]).error, 8169)
        other = text.replace("nvarchar(1000)", "nvarchar(10)")
        self.assert_refused(self.c.rpc(other, definitions, [varchar(str(id)), varchar("out")]), "none of")

    def test_blanks_and_names_of_tables(self) -> None:
        self.assertEqual(self.c.batch("CREATE TABLE other (x int)").error, 50000)
        self.ok(self.c.batch(text_of("table", "[dbo].[other 1]")))
        for table in ("[dbo].[other 1]", "[other 1]", "dbo.[other 1]"):
            text = text_of(ENQUEUE, table).replace("\n", "\r\n        ")
            self.ok(self.say("", text=text, compositionId="c", payloadJson="{}", priority=0))
        self.assertEqual(self.ok(self.c.batch(text_of(COUNTS, "[other 1]"))).rows, [("Queued", 3)])
        self.assertEqual(self.c.batch(text_of(COUNTS, "dbo.nowhere")).error, 208)
        self.ok(self.c.batch(text_of("drop", "[other 1]")))

    def test_what_is_not_in_the_files(self) -> None:
        id = self.put()
        claim = text_of(CLAIM)
        for text in (claim.replace(", READPAST", ""), claim.replace("TOP (1)", "TOP (2)"), claim + "SELECT 1;",
                     claim[:-2], "SELECT 1"):
            self.assert_refused(self.say("", text=text, workerNodeId="csharp"), "none of")
        two = text_of("table").replace("dbo.VideoRenderJobs", "dbo.Other", 1)
        self.assert_refused(self.c.batch(two), "none of")
        self.assert_refused(self.say(CLAIM, worker="csharp"), "the parameters are")
        self.assert_refused(self.say(CLAIM, workerNodeId="csharp", more=1), "the parameters are")
        self.assert_refused(self.say(CLAIM), "the parameters are")
        self.assert_refused(self.c.rpc(claim, "@workerNodeId nvarchar(100)", []), "0 values")
        self.assert_refused(self.c.rpc(claim, "@workerNodeId nvarchar(100)", [named("x", "y")]), "are named")
        self.assert_refused(self.c.rpc(claim, "workerNodeId", [named("x", "y")]), "defined as")
        self.assertEqual(self.say(ENQUEUE, compositionId="c", payloadJson="{}", priority="x").error, 245)
        self.assertEqual(self.say(ENQUEUE, compositionId=None, payloadJson="{}", priority=1).error, 515)
        self.assertEqual(self.ok(self.say(JOB, jobId=id)).rows[0][4], "Queued")

    def test_options_of_the_session(self) -> None:
        client = self.client()
        client.login(flags2=0)
        self.assertEqual(self.say(CLAIM, client, workerNodeId="csharp").error, 1934)
        self.ok(client.batch(text_of(COUNTS)))

    def test_a_pool_resets_a_connection(self) -> None:
        client = self.session()
        self.ok(client.batch(BEGIN))
        client.descriptor = bytes(8)
        client.send(1, client.headers() + utf16(text_of(COUNTS)), status=RESET)
        reply = self.ok(client.reply())
        self.assertEqual((reply.rows, reply.changes[ENV_RESET]), ([], (b"", b"")))
        self.assertIn(ENV_ROLLBACK, reply.changes)


if __name__ == "__main__":
    unittest.main()
