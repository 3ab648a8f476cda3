#!/usr/bin/env python3
"""Tests of tdsd: what it takes and refuses, what it answers, and what its transactions do."""
from __future__ import annotations

import json
import struct
import time
import unittest
from typing import Any

import transactions
from rawclient import UNNAMED, Reply, bit, body_of, definitions_of, guid, ntext, number, plp, text_of, utf16, values_of
from testcase import (BEGIN, CALLER, COUNT, DONE, DONEINPROC, DONEPROC, ENV_BEGIN, ENV_COMMIT, ENV_ROLLBACK, FAILED, ID,
                      OTHER, PATIENT, ROLLBACK, SESSION, TOKEN, Case, commit, guard, schema_batches)


class Refusals(Case):
    def test_unknown_texts(self) -> None:
        client = self.session()
        for text in ("SELECT 1", "-- renderq: nothing\nSELECT 1", "-- renderq: get\nSELECT 1", "", "-- renderq: begin",
                     BEGIN + " x", ROLLBACK.replace("IF @@TRANCOUNT > 0 ", "")):
            with self.subTest(text):
                self.assertEqual(client.batch(text).error, 50000)
        self.assertEqual(client.batch(SESSION).rows, [(0, 150)])        # and it goes on

    def test_session_texts(self) -> None:
        client = self.session()
        for text in ("SET FMTONLY ON;\nSELECT 1", "SET XACT_ABORT MAYBE;\nSELECT 1", "SET XACT_ABORT ON",
                     "DROP TABLE x", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE;\nSELECT 1"):
            with self.subTest(text):
                self.assert_refused(client.batch("-- renderq: session\n" + text), "session")

    def test_a_text_that_is_not_the_files(self) -> None:
        client = self.session()
        good, definitions, values = text_of("get"), definitions_of("get"), values_of("get", (ID[0],))
        for how, text in (("end", good + " "), ("no end", good[:-2]), ("case", good.replace("FROM", "from")),
                          ("column", good.replace("DedupKey", "CompositionId")), ("no prologue", "-- renderq: get\n"
                                                                                 + body_of("get")),
                          ("type", good.replace("@id uniqueidentifier", "@id varchar(64)")),
                          ("name", good.replace("DECLARE @id", "DECLARE @x")),
                          ("two tables", text_of("settle").replace("[VideoRenderJobs]", "[Other]", 1))):
            with self.subTest(how):
                self.assertEqual(client.rpc(text, definitions, values).error, 50000)

    def test_definitions_and_types(self) -> None:
        client, text, definitions = self.session(), text_of("get"), definitions_of("get")
        wrongs: list[tuple[str, str, list[bytes]]] = [
            ("defined as", "@P1 VARCHAR(36)", [guid(ID[0])]), ("defined as", "@id VARCHAR(64)", [guid(ID[0])]),
            ("defined as", "", [guid(ID[0])]), ("0 values", definitions, []),
            ("2 values", definitions, [guid(ID[0])] * 2), ("came as varbinary(max)", definitions, [plp(ID[0])]),
            ("came as bigint", definitions, [number(8, 1)]), ("came as int", definitions, [number(4, 1)]),
            ("came as bit", definitions, [bit(1)]),
            ("came as uniqueidentifier", definitions, [UNNAMED + b"\x24\x10\x10" + bytes(16)]),
            ("named @id", definitions, [b"\3" + utf16("@id") + guid(ID[0])[1:]]),
            ("status 0x01", definitions, [b"\0\1" + guid(ID[0])[2:]])]
        for how, wrong, values in wrongs:
            with self.subTest(how):
                self.assert_refused(client.rpc(text, wrong, values), how)
        client.send_rpc(text, definitions, [UNNAMED + b"\x28\x03" + bytes(3)])       # a date
        self.assert_broken(client, "type 0x28")

    def test_values(self) -> None:
        client = self.session()
        self.table(client)
        good = values_of("enqueue", (ID[0], "c", "{}", None, None, 0, None, 0))
        for how, at, value in (("no UTF-16", 1, plp(None, b"abc")), ("not UTF-16", 1, plp(None, b"\x3d\xd8")),
                               ("NUL", 2, plp("a\0b"))):
            with self.subTest(how):
                values = good[:at] + [value] + good[at + 1:]
                self.assert_refused(client.rpc(text_of("enqueue"), definitions_of("enqueue"), values), how)
        for wrong in ("019AD000", ID[0] + "0", "{" + ID[0][1:], ""):
            self.assertEqual(self.run_statement(client, "get", wrong).error, 8169)
        self.assertEqual(self.count(), 0)

    def test_other_procedures(self) -> None:
        client = self.session()
        for how, head in (("an RPC of 11", struct.pack("<HHH", 0xFFFF, 11, 0)),
                          ("flags", struct.pack("<HHH", 0xFFFF, 10, 1)),
                          ("flags", struct.pack("<HHH", 0xFFFF, 10, 2) + ntext(text_of("get"))),
                          ("'sp_help'", struct.pack("<H", 7) + utf16("sp_help") + bytes(2)),
                          ("without a statement", struct.pack("<HHH", 0xFFFF, 10, 0))):
            client.send(3, client.headers() + head)
            self.assert_refused(client.reply(), how)
        client.send(3, client.headers() + struct.pack("<HHH", 0xFFFF, 10, 0) + plp("SELECT 1"))
        self.assertEqual(client.reply().error, 214)

    def test_headers(self) -> None:
        for headers in (struct.pack("<I", 4), struct.pack("<IIH", 22, 18, 1) + bytes(8) + struct.pack("<I", 1),
                        struct.pack("<IIH", 22, 18, 2) + bytes(8) + struct.pack("<I", 2)):
            client = self.session()
            client.send(1, headers + utf16(SESSION))
            self.assert_broken(client, "ALL_HEADERS")

    def test_options_of_the_session(self) -> None:
        client = self.client()
        client.login(flags2=0)
        self.table(client)
        self.assertEqual(self.enqueue(client).error, 1934)
        self.ok(self.run_statement(client, "get", ID[0]))
        client = self.client()
        client.login(flags2=2)                      # what an ODBC client gets is enough
        self.ok(self.enqueue(client))


class Statements(Case):
    def setUp(self) -> None:
        self.c = self.session()
        self.table(self.c)

    def test_every_type_in_and_out(self) -> None:
        reply = self.ok(self.enqueue(self.c, composition_id="", payload="\N{CLAPPER BOARD} „x“", dedup_key="k" * 200,
                                     priority=-2**31, max_retries=2**31 - 1, delay_ms=2**40))
        self.assertEqual(reply.rows, [(0, ID[0])])
        self.assertEqual(reply.columns[0], [("", "intn", True), ("", "char(36)", True)])
        self.assertEqual([d[0] for d in reply.dones], [DONEINPROC, DONEINPROC, DONEPROC])
        self.assertEqual(reply.dones[1][1:], (COUNT | 1, 0xC1, 1))
        self.assertEqual(reply.status, 0)
        reply = self.ok(self.run_statement(self.c, "get", ID[0].lower()))
        row = reply.rows[0]
        self.assertEqual(row[:13], (ID[0], None, "Scheduled", "", "\N{CLAPPER BOARD} „x“", None, "k" * 200, None, None,
                                    None, -2**31, 0, 2**31 - 1))
        self.assertAlmostEqual(row[13], time.time() * 1000, delta=60000)
        self.assertAlmostEqual(row[16], time.time() * 1000 + 2**40, delta=60000)
        self.assertEqual([column[1] for column in reply.columns[0]],
                         ["char(36)", "char(36)", "nvarchar(20)", "nvarchar(max)", "nvarchar(max)", "nvarchar(max)",
                          "nvarchar(200)", "nvarchar(max)", "nvarchar(max)", "nvarchar(200)", "int", "int", "int"]
                         + ["bigintn"] * 7)
        reply = self.ok(self.run_statement(self.c, "settle", ID[0], None, 1))
        self.assertEqual((reply.rows, reply.columns[0][0][1]), ([(1, "Completed")], "bit"))
        reply = self.ok(self.run_statement(self.c, "cancel", ID[0]))
        self.assertEqual((reply.rows, reply.columns[0][0][1]), ([(0, "Completed")], "bitn"))

    def test_the_time_of_a_worker(self) -> None:
        self.ok(self.enqueue(self.c, 0, payload="0"))
        self.ok(self.enqueue(self.c, 1, payload="1"))
        self.ok(self.enqueue(self.c, 2, payload="2", dedup_key="key", priority=-1))
        self.assertEqual(self.enqueue(self.c, 3, dedup_key="key").rows, [(1, ID[2])])
        self.assertEqual(self.enqueue(self.c, 2).rows, [(2, ID[2])])
        reply = self.ok(self.run_statement(self.c, "claim", "node", TOKEN, 60, 0, 2))
        self.assertEqual([row[4] for row in reply.rows], ["1", "0"])           # in no order to count on
        self.assertEqual(reply.rows[0][7], "node")
        reply = self.ok(self.run_statement(self.c, "renew", ID[0], TOKEN, "half"))
        self.assertEqual(reply.rows[0][0], 60)
        reply = self.run_statement(self.c, "complete", ID[0], OTHER, None)
        self.assertEqual((self.ok(reply).sets, len(reply.dones)), ([], 2))      # no result set at all
        self.assertEqual(self.ok(self.run_statement(self.c, "complete", ID[0], TOKEN, "http://x")).rows, [(1,)])
        self.assertEqual(self.ok(self.run_statement(self.c, "fail", ID[1], TOKEN, "why", 1, 0)).rows, [(1,)])
        self.assertEqual(self.ok(self.run_statement(self.c, "retry", ID[1], 1)).rows, [(0, ID[1], "Queued")])
        self.assertEqual(self.ok(self.run_statement(self.c, "reap", 10)).rows, [])
        self.assertEqual(self.ok(self.run_statement(self.c, "purge", -10, 10)).rows, [(1,)])
        self.assertEqual([r[0] for r in self.ok(self.run_statement(self.c, "list", None, None, None, None, 9)).rows],
                         sorted([ID[1], ID[2]]))
        reply = self.ok(self.c.batch(text_of("stats")))                         # no parameters: a plain batch
        self.assertEqual(reply.rows[0][:7], (0, 2, 0, 0, 0, 0, 0))
        self.assertEqual([d[0] for d in reply.dones], [DONE, DONE])

    def test_too_long(self) -> None:
        self.ok(self.enqueue(self.c, 0, composition_id="\N{CLAPPER BOARD}" * 100))
        self.assertEqual(self.enqueue(self.c, 1, composition_id="\N{CLAPPER BOARD}" * 100 + "x").error, 2628)
        self.assertEqual(self.enqueue(self.c, 1, dedup_key="x" * 300).error, 2628)
        self.assertEqual(self.run_statement(self.c, "claim", "x" * 129, TOKEN, 1, 0, 1).error, 2628)
        self.assertEqual(self.ok(self.run_statement(self.c, "list", None, None, "x" * 900, None, 9)).rows, [])

    def test_null_where_it_may_not_be(self) -> None:
        self.assertEqual(self.enqueue(self.c, payload=None).error, 515)

    def test_text_size(self) -> None:
        self.ok(self.enqueue(self.c, payload="x" * 1000))
        self.ok(self.c.batch("set textsize 100"))
        self.assertEqual(self.run_statement(self.c, "get", ID[0]).rows[0][4], "x" * 50)

    def test_no_count(self) -> None:
        self.ok(self.c.batch(SESSION.replace("SET XACT_ABORT ON", "SET NOCOUNT ON")))
        reply = self.ok(self.enqueue(self.c))
        self.assertEqual([d[1] & COUNT for d in reply.dones], [0, 0])

    def many(self, name: str, items: Any) -> Reply:
        text = items if isinstance(items, str) else json.dumps(items)
        return self.c.rpc(text_of(name, many=True), "@P1 VARBINARY(MAX)", [plp(text)])

    def test_many(self) -> None:
        item = {"composition_id": "c \N{CLAPPER BOARD}", "payload": "{}", "output_url": None, "dedup_key": None,
                "priority": 0, "max_retries": None, "delay_ms": 0}
        items = [{"i": n, "id": ID[n]} | item for n in range(3)]
        reply = self.ok(self.many("enqueue", items))
        self.assertEqual(sorted(reply.rows), [(n, 0, ID[n]) for n in range(3)])
        self.assertEqual(reply.columns[0][0], ("i", "int", False))
        self.ok(self.run_statement(self.c, "claim", "w", TOKEN, 60, 0, 3))
        leases = [{"i": n, "id": ID[n], "token": TOKEN if n else OTHER, "output_url": "u"} for n in range(3)]
        self.assertEqual(sorted(self.ok(self.many("complete", leases)).rows), [(1, 1), (2, 1)])
        for how, wrong in (("no array", items[:1]), ("no array", {}), ("no JSON", "[{"), ("no JSON", "[],"),
                           ("item 1 says", [items[0], items[2]]), ("exactly", [items[0], {"i": 1}]),
                           ("exactly", [items[0], items[1] | {"x": 1}]),
                           ("is true", [items[0], items[1] | {"priority": True}]),
                           ("is \"0\"", [items[0], items[1] | {"priority": "0"}]),
                           ("is 1.5", [items[0], items[1] | {"priority": 1.5}]),
                           ("no int", [items[0], items[1] | {"priority": 2**31}]),
                           ("is 7", [items[0], items[1] | {"payload": 7}]),
                           ("twice", json.dumps(items).replace('"i": 0', '"i": 0, "i": 0')),
                           ("not UTF-16", json.dumps(items).replace('"{}"', '"\\ud800"'))):
            with self.subTest(how):
                self.assert_refused(self.many("enqueue", wrong), how)
        self.assertEqual(self.c.rpc(text_of("complete", many=True).replace("complete", "fail", 1), "@P1 VARBINARY(MAX)",
                                    [plp("[]")]).error, 50000)

    def test_many_is_all_or_nothing(self) -> None:
        item = {"composition_id": "c", "payload": "{}", "output_url": None, "dedup_key": None, "priority": 0,
                "max_retries": None, "delay_ms": 0}
        items = [{"i": 0, "id": ID[0]} | item, {"i": 1, "id": ID[1]} | item | {"dedup_key": "x" * 201}]
        self.assertEqual(self.many("enqueue", items).error, 2628)
        self.assertEqual(self.count(), 0)


class Tables(Case):
    def test_a_missing_table(self) -> None:
        client = self.session()
        reply = self.run_statement(client, "get", ID[0], table="[q]")
        self.assertEqual((reply.error, reply.errors[0][1]), (208, 16))
        self.assertIn("'q'", reply.errors[0][2])
        self.assertEqual((reply.status, reply.dones[-1][:2]), (208, (DONEPROC, FAILED)))

    def test_names(self) -> None:
        client = self.session()
        for table, stored in (("[q]", "q"), ("[dbo].[a.b]", "a.b"), ("[sales].[jobs]", "sales.jobs"),
                              ("[a ]] \"b\" 'c' é]", "a ] \"b\" 'c' é"), ("[DBO].[d]", "d")):
            with self.subTest(table):
                self.table(client, table)
                self.ok(self.run_statement(client, "enqueue", ID[0], "c", "{}", None, None, 0, None, 0, table=table))
                self.ok(self.run_statement(client, "fail", ID[0], TOKEN, "e", 0, 0, table=table))
                quoted = stored.replace('"', '""')
                self.assertEqual(self.sqlite().execute(f'SELECT count(*) FROM "{quoted}"').fetchone(), (1,))
        for table in ("[q", "q", "[" + "x" * 129 + "]"):
            with self.subTest(table):
                self.assertEqual(self.run_statement(client, "get", ID[0], table=table).error, 50000)

    def test_an_older_table(self) -> None:
        client = self.session()
        self.table(client)
        db = self.sqlite()
        db.execute('DROP VIEW "VideoRenderJobs_View"')
        db.execute('ALTER TABLE "VideoRenderJobs" DROP COLUMN Progress')
        self.assertEqual(self.run_statement(client, "get", ID[0]).error, 207)
        for batch in schema_batches("[dbo].[VideoRenderJobs]"):
            self.ok(client.batch("-- renderq: schema\n" + batch))
        self.ok(self.run_statement(client, "get", ID[0]))

    def test_no_queue(self) -> None:
        client = self.session()
        self.sqlite().execute("CREATE TABLE other (Name TEXT)")
        replies = [client.batch("-- renderq: schema\n" + batch) for batch in schema_batches("[other]")]
        self.assertIn(51000, [reply.error for reply in replies])

    def test_foreign_rows(self) -> None:
        client = self.session()
        self.table(client)
        self.ok(self.enqueue(client))
        db = self.sqlite()
        db.execute("UPDATE VideoRenderJobs SET LeaseToken = 'no blob'")
        self.assert_refused(self.run_statement(client, "get", ID[0]), "no blob of 16 bytes")
        db.execute("UPDATE VideoRenderJobs SET LeaseToken = NULL, Progress = printf('%.*c', 201, 'x')")
        self.assert_refused(self.run_statement(client, "get", ID[0]), "402 bytes for nvarchar(200)")


class Transactions(Case):
    def setUp(self) -> None:
        self.c = self.session()
        self.table(self.c)

    def begin(self) -> bytes:
        reply = self.ok(self.c.batch(BEGIN))
        self.number = reply.rows[0][0]
        self.assertEqual(reply.changes[ENV_BEGIN][1], b"")
        self.assertEqual(len(self.c.descriptor), 8)
        self.assertNotEqual(self.c.descriptor, bytes(8))
        return self.c.descriptor

    def test_commit_and_rollback(self) -> None:
        for what, left in ((ENV_ROLLBACK, 0), (ENV_COMMIT, 1)):
            descriptor = self.begin()
            end = commit(self.number) if left else ROLLBACK
            self.ok(self.enqueue(self.c))
            self.assertEqual(len(self.run_statement(self.c, "get", ID[0]).rows), 1)
            self.assertEqual(self.count(), 0)
            reply = self.ok(self.c.batch(end))
            self.assertEqual(reply.changes[what], (b"", descriptor))
            self.assertEqual(self.count(), left)

    def test_the_descriptor_is_looked_at(self) -> None:
        self.begin()
        descriptor, self.c.descriptor = self.c.descriptor, bytes(8)
        self.assertEqual(self.enqueue(self.c).error, 3989)
        self.c.descriptor = descriptor
        self.assertEqual(self.run_statement(self.c, "get", ID[0]).error, 3989)      # the error has ended it
        self.c.descriptor = b"\1" + bytes(7)
        self.assertEqual(self.c.batch(commit(self.number)).error, 3989)

    def test_counting(self) -> None:
        caller_commits = CALLER + "COMMIT TRANSACTION"
        self.assertEqual(self.c.batch(caller_commits).error, 3902)
        self.assertEqual(self.ok(self.c.batch(ROLLBACK)).changes, {})
        self.begin()
        self.assertEqual(self.ok(self.c.batch(CALLER + "BEGIN TRANSACTION")).changes, {})
        self.ok(self.enqueue(self.c))
        self.assertEqual(self.ok(self.c.batch(caller_commits)).changes, {})
        self.assertEqual(self.count(), 0)
        self.assertIn(ENV_ROLLBACK, self.ok(self.c.batch(ROLLBACK)).changes)
        self.assertEqual(self.c.batch(caller_commits).error, 3902)

    def test_a_commit_is_of_one_transaction(self) -> None:
        self.begin()
        self.ok(self.enqueue(self.c))
        self.ok(self.c.batch(CALLER + "BEGIN TRANSACTION"))
        reply = self.c.batch(commit(self.number))                                   # one inside is open
        self.assertEqual(reply.error, 51003)
        self.assertIn(ENV_ROLLBACK, reply.changes)
        first, _ = self.number, self.begin()
        reply = self.c.batch(commit(first))                                         # another one than meant
        self.assertEqual((reply.errors, reply.changes), ([(50000, 16, "the transaction is gone")], {}))
        self.ok(self.c.batch(commit(self.number)))
        self.assertEqual(self.c.batch(commit(self.number)).error, 50000)
        self.assertEqual(self.count(), 0)

    def test_a_guarded_statement(self) -> None:
        head, _, rest = text_of("get").partition("\n")
        text, definitions = f"{head}\n{guard('@P2')}{rest}", definitions_of("get") + ", @P2 BIGINT"
        values = [*values_of("get", (ID[0],)), number(8, 7)]
        self.assertEqual(self.c.rpc(text, definitions, values).error, 50000)        # there is none
        self.begin()
        self.assertEqual(self.c.rpc(text, definitions, values).error, 50000)        # or another
        values[1] = number(8, self.number)
        self.ok(self.c.rpc(text, definitions, values))
        self.assertEqual(self.c.rpc(text, definitions_of("get"), values[:1]).error, 50000)

    def test_what_is_known_of_it(self) -> None:
        find, standing = "-- renderq: find\n" + transactions.FIND, "-- renderq: standing\n" + transactions.STANDING
        self.assertEqual((self.c.batch(find).rows, self.c.batch(standing).rows), ([(0,)], [(0,)]))
        self.begin()
        self.assertEqual((self.c.batch(find).rows, self.c.batch(standing).rows), ([(self.number,)], [(1,)]))
        self.ok(self.c.batch(ROLLBACK))
        attach = "-- renderq: attach\n" + transactions.ATTACH
        self.assertEqual(self.c.batch(attach).rows[0][2] & 16384, 16384)
        self.ok(self.c.batch(CALLER + "SET XACT_ABORT OFF"))
        self.assertEqual(self.c.batch(attach).rows[0][2] & 16384, 0)

    def test_the_callers_own_sql(self) -> None:
        self.ok(self.c.batch(CALLER + "CREATE TABLE own (k TEXT PRIMARY KEY)"))
        self.begin()
        self.ok(self.c.batch(CALLER + "INSERT INTO own VALUES ('a')"))
        reply = self.c.batch(CALLER + "INSERT INTO own VALUES ('a')")
        self.assertEqual(reply.error, 2627)
        self.assertIn(ENV_ROLLBACK, reply.changes)
        self.assertEqual(self.c.batch(CALLER + "SELECT COUNT(*) FROM own").rows, [("0",)])
        self.ok(self.c.batch(CALLER + "DROP TABLE own"))

    def test_an_error_ends_it(self) -> None:
        descriptor = self.begin()
        self.ok(self.enqueue(self.c))
        reply = self.run_statement(self.c, "claim", "x" * 200, TOKEN, 1, 0, 1)
        self.assertEqual((reply.error, reply.changes[ENV_ROLLBACK]), (2628, (b"", descriptor)))
        self.assertEqual(self.c.batch(commit(self.number)).error, 50000)
        self.assertEqual(self.count(), 0)

    def test_an_error_with_xact_abort_off(self) -> None:
        self.begin()
        self.ok(self.enqueue(self.c, 0))
        reply = self.enqueue(self.c, 1, dedup_key="x" * 201)                        # whose text turns it off
        self.assertEqual((reply.error, reply.changes), (2628, {}))
        self.ok(self.c.batch(commit(self.number)))
        self.assertEqual(self.count(), 1)

    def test_a_client_that_leaves(self) -> None:
        self.begin()
        self.ok(self.enqueue(self.c))
        self.c.close()
        other = self.session()
        self.ok(other.batch(PATIENT))
        self.ok(self.enqueue(other, 1))                                             # waits for the lock
        self.assertEqual(self.count(), 1)

    def test_it_locks_with_its_first_statement(self) -> None:
        other = self.session()
        self.begin()
        self.ok(other.batch(BEGIN))
        self.ok(self.enqueue(self.c))
        started = time.monotonic()
        reply = self.run_statement(other, "renew", ID[0], TOKEN, None)
        self.assertEqual((reply.error, reply.errors[0][1]), (1222, 16))
        self.assertGreater(time.monotonic() - started, 0.25)
        self.assertIn(ENV_ROLLBACK, reply.changes)
        self.ok(self.c.batch(commit(self.number)))


class Callers(Case):
    options = ("--callers",)

    def test_sql_as_it_is(self) -> None:
        client = self.session()
        self.ok(client.batch("IF OBJECT_ID(N'own', N'U') IS NULL\n CREATE TABLE own (k varchar(9), n bigint)"))
        insert, definitions = "INSERT INTO own (k, n) VALUES (@k, @n)", "@k VARCHAR(64), @n BIGINT"
        values = [guid("a"), number(8, -2)]
        self.ok(client.rpc(insert, definitions, values))
        self.ok(client.batch(BEGIN))
        self.ok(client.rpc(insert, definitions, values))
        self.ok(client.batch(ROLLBACK))
        self.assertEqual(self.ok(client.batch("SELECT k, n FROM own")).rows, [("a", "-2")])
        self.assertEqual(client.rpc(insert, "@k VARCHAR(64)", values).error, 50000)
        self.assert_refused(client.batch("-- renderq: nothing\nSELECT 1"), "no such batch")


if __name__ == "__main__":
    unittest.main()
