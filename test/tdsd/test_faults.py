#!/usr/bin/env python3
"""Tests of how tdsd misbehaves: that each fault is what faults.py says, at the request that it is asked for, and that
what the request did, or did not, is in the table."""
from __future__ import annotations

import struct
import time
import unittest
from typing import Any

from rawclient import LONG_S, Client, Closed, Reply, definitions_of, text_of, values_of
from testcase import (ATTN, BEGIN, DONE, ENV_ROLLBACK, FAILED, ID, PATIENT, ROLLBACK, SESSION, TOKEN, Case, commit)

ROW = b"\xd1" + struct.pack("<H", 36)          # how a row begins, with its JobId's length
NEW = ("c", "{}", None, None, 0, None, 0)


class Faulty(Case):
    number = 0

    def setUp(self) -> None:
        self.assertEqual(self.server.ask("clear"), "ok")
        self.c = self.session()
        self.table(self.c)
        self.assertEqual(self.server.ask("clear"), "ok")

    def ask(self, words: str) -> None:
        self.assertEqual(self.server.ask("fault " + words), "ok")

    def begin(self) -> None:
        self.number = self.ok(self.c.batch(BEGIN)).rows[0][0]

    def commit(self) -> Reply:
        return self.c.batch(commit(self.number))

    def struck(self, times: int = 1) -> None:
        self.assertEqual(self.server.ask("fired"), str(times))

    def until_struck(self, there: int) -> None:
        """A request was sent and is not answered; this is how many jobs are there then."""
        self.until(lambda: self.server.ask("fired") == "1" and self.count() == there)

    def send_enqueue(self, n: int = 0) -> None:
        self.c.send_rpc(text_of("enqueue"), definitions_of("enqueue"), values_of("enqueue", (ID[n], *NEW)))

    def send_attention(self) -> None:
        self.c.send(6, b"")

    def silent_for(self, client: Client, seconds: float) -> None:
        client.sock.settimeout(seconds)
        with self.assertRaises(TimeoutError):
            client.receive()
        client.sock.settimeout(LONG_S)

    def assert_lost(self, there: int, client: Any = None) -> None:
        """The connection ended without a whole reply, and so many jobs are there."""
        with self.assertRaises(Closed):
            (client or self.c).read()
        self.struck()
        self.assertEqual(self.count(), there)


    def what_came(self) -> bytes:
        """Until the connection ended; then there is another one."""
        with self.assertRaises(Closed):
            while True:
                self.c.receive()
        data = self.c.buffer
        self.struck()
        self.server.ask("clear")
        self.c = self.session()
        return data


class Asking(Faulty):
    def test_what_is_not_understood(self) -> None:
        for line in ("", "x", "fault", "fault do=x", "fault do=drop when=x", "fault do=drop do=drop",
                     "fault do=drop at", "fault do=drop nth=x", "fault do=cut at_byte=x",
                     "fault do=cut when=before", "fault do=drop x=1", "fault do=drop when=undone", "seen x=1", "hang_up at=claim"):
            with self.subTest(line):
                self.assertIn("error: ", self.server.ask(line))
        self.ok(self.enqueue(self.c))
        self.struck(0)

    def test_which_request(self) -> None:
        self.ask("at=enqueue nth=2 times=2 when=before do=error number=1222")
        self.ask("at=get times=0 when=before do=error number=208")
        self.ask("app=another do=drop")
        self.assertEqual([self.enqueue(self.c, n).error for n in range(5)], [0, 1222, 1222, 0, 0])
        for _ in range(3):
            self.assertEqual(self.run_statement(self.c, "get", ID[0]).error, 208)
        self.struck(5)
        self.assertEqual(self.server.ask("seen"), "enqueue " * 5 + "get get get")
        self.assertEqual(self.server.ask("seen app=another"), "nothing")
        self.assertEqual(self.server.ask("clear"), "ok")
        self.ok(self.run_statement(self.c, "get", ID[0]))
        self.assertEqual(self.server.ask("seen app=test"), "get")

    def test_the_client_it_is_for(self) -> None:
        self.ask("app=test at=enqueue when=before do=error number=1222")
        self.assertEqual(self.enqueue(self.c).error, 1222)
        self.assertEqual(self.server.ask("seen app=test"), "enqueue")

    def test_sessions_that_are_cut(self) -> None:
        other = self.session()
        self.server.ask("hang_up app=another")
        self.ok(self.enqueue(self.c))
        self.server.ask("hang_up app=test")
        self.assertTrue(self.c.is_closed())
        self.assertTrue(other.is_closed())


class Errors(Faulty):
    def test_before(self) -> None:
        self.ask("at=enqueue when=before do=error number=1222 severity=13 state=45 text=Délai\\ndépassé")
        reply = self.enqueue(self.c)
        self.assertEqual(reply.errors, [(1222, 13, "Délai\ndépassé")])
        self.assertEqual((reply.status, reply.dones[-1][1]), (1222, FAILED))
        self.assertEqual(self.count(), 0)
        self.ok(self.enqueue(self.c))

    def test_undone(self) -> None:
        """The rows came, and are worth nothing."""
        self.ok(self.enqueue(self.c))
        self.ask("at=claim when=undone do=error number=1205 severity=13")
        reply = self.run_statement(self.c, "claim", "w", TOKEN, 60, 0, 1)
        self.assertEqual((reply.error, reply.rows[0][:3]), (1205, (ID[0], TOKEN, "Processing")))
        self.assertEqual(self.sqlite().execute("SELECT Status FROM VideoRenderJobs").fetchall(), [("Queued",)])
        self.assertEqual(len(self.ok(self.run_statement(self.c, "claim", "w", TOKEN, 60, 0, 1)).rows), 1)

    def test_after(self) -> None:
        self.ask("at=enqueue do=error number=40197 severity=17")
        reply = self.enqueue(self.c)
        self.assertEqual((reply.error, reply.rows), (40197, [(0, ID[0])]))
        self.assertEqual(self.count(), 1)
        self.ask("at=enqueue do=error number=596 severity=21")
        self.assertEqual(self.enqueue(self.c, 1).error, 596)
        self.assertTrue(self.c.is_closed())
        self.assertEqual(self.count(), 2)

    def test_an_error_and_then_the_end(self) -> None:
        for when in ("before", "undone", "after"):
            self.ask(f"at=enqueue when={when} do=error number=208 cut=1")
            self.send_enqueue()
            data = self.what_came()
            at = data.index(b"\xaa")
            length, number = struct.unpack_from("<Hi", data, at + 1)
            self.assertEqual((number, len(data), data[1]), (208, at + 3 + length, 0))
            self.assertEqual(self.count(), when == "after")

    def test_a_deadlock_ends_the_transaction(self) -> None:
        for when in ("before", "undone"):
            self.begin()
            self.ok(self.enqueue(self.c))
            self.ask(f"at=enqueue when={when} do=error number=1205 severity=13")
            self.assertIn(ENV_ROLLBACK, self.enqueue(self.c, 1).changes)
            self.assertEqual(self.commit().error, 50000)
            self.assertEqual(self.count(), 0)
            self.server.ask("clear")

    def test_a_statement_that_is_undone_alone(self) -> None:
        """enqueue turns XACT_ABORT off."""
        self.begin()
        self.ok(self.enqueue(self.c))
        self.ask("at=enqueue when=undone do=error number=1222")
        self.assertEqual(self.enqueue(self.c, 1).changes, {})
        self.ok(self.commit())
        self.assertEqual(self.count(), 1)

    def test_at_transactions(self) -> None:
        self.ask("at=begin when=before do=error number=1222")
        self.assertEqual(self.c.batch(BEGIN).error, 1222)
        self.begin()
        self.ok(self.enqueue(self.c))
        self.ask("at=commit when=undone do=error number=1105")
        self.assertIn(ENV_ROLLBACK, self.commit().changes)
        self.begin()
        self.ok(self.enqueue(self.c))
        self.ask("at=commit do=error number=40197")
        self.assertEqual(self.commit().error, 40197)
        self.assertEqual(self.count(), 1)
        self.ok(self.c.batch(ROLLBACK))


class Ends(Faulty):
    def test_drop(self) -> None:
        for when, reset, there in (("before", 0, 0), ("before", 1, 0), ("after", 0, 1), ("after", 1, 2)):
            with self.subTest(f"{when} {reset}"):
                self.ask(f"at=enqueue when={when} do=drop reset={reset}")
                self.send_enqueue(there)
                self.assert_lost(there)
            self.server.ask("clear")
            self.c = self.session()

    def cut(self, where: str) -> bytes:
        self.ask("at=list do=cut at_byte=" + where)
        self.c.send_rpc(text_of("list"), definitions_of("list"), values_of("list", (None, None, None, None, 9)))
        return self.what_came()

    def test_cut(self) -> None:
        self.ok(self.enqueue(self.c, 0))
        self.ok(self.enqueue(self.c, 1))
        whole = self.c
        whole.send_rpc(text_of("list"), definitions_of("list"), values_of("list", (None, None, None, None, 9)))
        data = whole.read()[1]
        row = data.index(ROW)
        second = data.index(ROW, row + 1)
        cuts = {where: self.cut(where) for where in ("packet", "row", "rows", "done")}
        for where, got in cuts.items():
            with self.subTest(where):
                self.assertEqual((got[0], got[1]), (4, 1 if where == "packet" else 0))
                length = int.from_bytes(got[2:4], "big")
                self.assertEqual(len(got) < length, where == "packet")
                self.assertLessEqual(len(got), length)
        self.assertTrue(row < len(cuts["row"]) - 8 < second)
        self.assertEqual(len(cuts["rows"]) - 8, second)
        self.assertEqual(len(cuts["done"]) - 8, len(data) - 13)

    def test_at_login(self) -> None:
        for words in ("when=before do=drop", "do=drop", "do=cut at_byte=packet", "do=cut at_byte=done", "do=noise"):
            for at in ("prelogin", "login"):
                with self.subTest(f"{at} {words}"):
                    self.ask(f"at={at} {words}")
                    client = self.client()
                    with self.assertRaises(Closed):
                        client.login()
                    self.struck()
                self.server.ask("clear")
        self.session()

    def test_a_login_that_is_refused(self) -> None:
        self.ask("at=login times=2 when=before do=error number=40613 severity=14")
        for _ in range(2):
            client = self.client()
            self.assertEqual(client.login().error, 40613)
            self.assertTrue(client.is_closed())
        self.session()

    def test_late(self) -> None:
        self.ok(self.c.batch(PATIENT))
        self.ask("at=enqueue do=late ms=300")
        lock = self.sqlite()
        lock.execute("BEGIN IMMEDIATE")             # or it might be done before it is looked
        self.send_enqueue()
        self.assert_lost(0)
        lock.execute("ROLLBACK")
        self.assertEqual(self.server.ask("idle"), "ok")
        self.assertEqual(self.count(), 1)


class Silence(Faulty):
    def test_silent(self) -> None:
        for when, there in (("before", 0), ("after", 1)):
            with self.subTest(when):
                self.ask(f"at=enqueue when={when} do=silent")
                self.send_enqueue()
                self.until_struck(there)
                self.send_attention()
                self.silent_for(self.c, 0.3)
                self.assertEqual(self.count(), there)
                self.c.close()
            self.server.ask("clear")
            self.c = self.session()

    def test_hang(self) -> None:
        for words, there in (("when=before", 0), ("when=after", 1)):
            with self.subTest(words):
                self.ask(f"at=enqueue do=hang {words}")
                self.send_enqueue()
                self.until_struck(there)
                self.silent_for(self.c, 0.2)
                self.send_attention()
                reply = self.c.reply()
                self.assertEqual([done[:2] for done in reply.dones], [(DONE, ATTN)])
                self.assertEqual(self.count(), there)
                self.assertEqual(self.c.batch(SESSION).rows, [(0, 150)])
            self.server.ask("clear")

    def test_hang_in_the_rows(self) -> None:
        for n in range(4):
            self.ok(self.enqueue(self.c, n))
        self.ask("at=list do=hang rows=1")
        self.c.send_rpc(text_of("list"), definitions_of("list"), values_of("list", (None, None, None, None, 9)))
        kind, status, data = self.c.read_packet()
        self.assertEqual((kind, status, data.count(ROW)), (4, 0, 3))
        self.send_attention()
        self.assertEqual(self.c.reply().dones[-1][:2], (DONE, ATTN))
        self.ok(self.enqueue(self.c, 4))

    def test_hang_in_a_transaction(self) -> None:
        self.begin()
        self.ask("at=enqueue do=hang")
        self.send_enqueue()
        self.send_attention()
        self.assertIn(ENV_ROLLBACK, self.c.reply().changes)
        self.assertEqual(self.count(), 0)

    def test_trickle(self) -> None:
        self.ask("at=enqueue do=trickle ms=1")
        started = time.monotonic()
        self.assertEqual(self.ok(self.enqueue(self.c)).rows, [(0, ID[0])])
        self.assertGreater(time.monotonic() - started, 0.1)
        self.struck()


class Replies(Faulty):
    def ask_list(self) -> Reply:
        return self.run_statement(self.c, "list", None, None, None, None, 9)

    def test_one_byte_packets(self) -> None:
        self.ask("at=enqueue do=packets")
        reply = self.ok(self.enqueue(self.c))
        self.assertEqual((reply.rows, set(reply.packets)), ([(0, ID[0])], {9}))
        self.ask("at=get do=bytes")
        self.assertEqual(self.ok(self.run_statement(self.c, "get", ID[0])).rows[0][0], ID[0])
        self.struck(2)

    def test_info(self) -> None:
        text = "Der Datenbankkontext wurde auf „Aufträge“ geändert.\\n"
        self.ask(f"at=enqueue do=info text={text}")
        reply = self.ok(self.enqueue(self.c))
        self.assertEqual((reply.infos, reply.rows), ([5701, 50001] * 2, [(0, ID[0])]))
        self.ask(f"at=login do=info text={text}")
        self.assertEqual(len(self.client().login().infos), 6)

    def test_columns(self) -> None:
        self.ok(self.enqueue(self.c))
        for do, n in (("fewer", 19), ("more", 21)):
            self.ask(f"at=list do={do}")
            reply = self.ok(self.ask_list())
            self.assertEqual((len(reply.columns[0]), len(reply.rows[0])), (n, n))
            self.server.ask("clear")
        self.ask("at=list do=types")
        reply = self.ok(self.ask_list())
        self.assertEqual(reply.rows[0][0], 2**62 + 1)
        self.assertEqual(reply.rows[0][10], "nonsense")
        self.ask("at=session do=fewer")
        self.assertEqual(self.ok(self.c.batch(SESSION)).rows, [(0,)])

    def data(self) -> bytes:
        self.send_enqueue()
        return self.c.read()[1]

    def test_nonsense(self) -> None:
        whole = self.data()
        for do, n in (("premature", 13), ("length", 3), ("endless", -13)):
            with self.subTest(do):
                self.ask(f"at=enqueue do={do}")
                self.assertEqual(len(self.data()), len(whole) + n)
                self.server.ask("clear")
        self.ask("at=enqueue do=short")
        self.assertEqual(self.data()[:3], b"\xab\x02\x00")
        self.server.ask("clear")
        datas = []
        for seed in (1, 1, 2):
            self.ask(f"at=enqueue do=junk seed={seed}")
            datas.append(self.data())
            self.server.ask("clear")
        self.assertEqual(datas[0], datas[1])
        self.assertNotEqual(datas[0], datas[2])
        self.ask("at=enqueue do=noise")
        self.send_enqueue(1)
        self.assertTrue(self.c.is_closed())
        self.assertEqual((len(self.c.buffer), self.count()), (2048, 2))


if __name__ == "__main__":
    unittest.main()
