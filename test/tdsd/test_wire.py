#!/usr/bin/env python3
"""Tests of tdsd: logins, encryption, packets, attention, and that it ends."""
from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from rawclient import LONG_S, SQL, VERSION_74, Client, Closed, Server, definitions_of, text_of, utf16, values_of
from tdsd import LEAVE_S
from testcase import ATTN, BEGIN, DONE, ENV_ROLLBACK, ID, PATIENT, ROLLBACK, SESSION, TOKEN, Case


class Login(Case):
    def test_login(self) -> None:
        reply = self.client().login()
        self.assertEqual((reply.errors, reply.acks), ([], [VERSION_74]))
        self.assertEqual(reply.changes[1][0], utf16("jobs"))
        self.assertEqual(sorted(reply.changes), [1, 2, 4, 7])
        self.assertEqual(reply.infos, [5701, 5703])

    def test_no_database_is_the_default_one(self) -> None:
        self.assertEqual(self.client().login(database="").changes[1][0], utf16("jobs"))

    def test_who_is_not_let_in(self) -> None:
        for what, value, numbers in (("password", "no", [18456]), ("user", "nobody", [18456]),
                                     ("database", "other", [4060, 18456])):
            client = self.client()
            reply = client.login(2, **{what: value})
            self.assertEqual([error[0] for error in reply.errors], numbers)
            self.assertEqual(reply.errors[-1][1], 14)
            self.assertEqual(reply.acks, [])
            self.assertTrue(client.is_closed())

    def test_login_without_prelogin(self) -> None:
        client = self.client()
        client.send(0x10, client.login7())
        self.assertTrue(client.is_closed())

    def test_bad_logins(self) -> None:
        good = Client.login7()
        for how, data in (("TDS 7.3", good[:4] + struct.pack("<I", 0x730B0003) + good[8:]),
                          ("too long", good + b"\0"), ("cut", good[:80]),
                          ("packets of 100 bytes", good[:8] + struct.pack("<I", 100) + good[12:]),
                          ("integrated security", good[:25] + b"\x82" + good[26:]),
                          ("a part outside", good[:36] + b"\xff\xff" + good[38:])):
            with self.subTest(how):
                client = self.client()
                client.prelogin(2)
                client.send(0x10, data)
                self.assertTrue(client.is_closed())

    def test_bad_prelogins(self) -> None:
        for how, data in (("MARS", b"\0\0\x10\0\x06\x01\0\x16\0\x01\x04\0\x17\0\x01\xff" + bytes(6) + b"\2\1"),
                          ("no encryption", b"\0\0\x06\0\x06\xff" + bytes(6)),
                          ("outside", b"\0\0\x06\0\x07\xff" + bytes(6)), ("no end", b"\0\0\x06")):
            with self.subTest(how):
                client = self.client()
                client.send(0x12, data)
                self.assertTrue(client.is_closed())

    def test_what_is_no_tds(self) -> None:
        for data in (b"GET / HTTP/1.0\r\n\r\n", b"\x02\x00\x02\x00\x00\x00\x00\x00" + bytes(504)):
            client = self.client()
            client.send_bytes(data)
            self.assertTrue(client.is_closed())


class Encryption(unittest.TestCase):
    def test_what_is_answered(self) -> None:
        for offer, answers in (("off", [2, 2, 2, 2]), ("on", [0, 1, 2, 1]), ("required", [3, 1, 3, 3])):
            server = Server("--encrypt", offer)
            self.addCleanup(server.stop)
            for wanted, answer in enumerate(answers):
                with self.subTest(offer=offer, wanted=wanted):
                    client = Client(server)
                    self.addCleanup(client.close)
                    self.assertEqual(client.prelogin(wanted), answer)
                    if wanted == 2 and answer == 3:
                        self.assertTrue(client.is_closed())
                        continue
                    if answer != 2:
                        client.start_tls()
                    client.send(0x10, client.login7())
                    if answer == 0:
                        client.tls = None       # the login alone was encrypted
                    self.assertEqual(client.reply().acks, [VERSION_74])
                    self.assertEqual(client.batch(SESSION).rows, [(0, 150)])

    def test_a_broken_handshake(self) -> None:
        server = Server("--encrypt", "required")
        self.addCleanup(server.stop)
        for data in (b"no TLS at all", b""):
            client = Client(server)
            self.addCleanup(client.close)
            client.prelogin(1)
            client.send(0x12 if data else 0x10, data or client.login7())
            self.assertTrue(client.is_closed())

    def test_a_certificate_of_ours(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = f"{folder}/c.pem", f"{folder}/k.pem"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=x",
                            "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
                           check=True, stderr=subprocess.DEVNULL)
            server = Server("--encrypt", "required", "--cert", certificate, "--key", key)
            self.addCleanup(server.stop)
            client = Client(server)
            self.addCleanup(client.close)
            client.prelogin(1)
            client.start_tls(certificate)
            client.send(0x10, client.login7())
            self.assertEqual(client.reply().acks, [VERSION_74])


class Packets(Case):
    def test_sizes(self) -> None:
        for size in (512, 4096, 32767):
            with self.subTest(size):
                client = self.session(packet_size=size)
                self.assertEqual(client.packet_size, size)
                self.table(client)
                payload = "\N{CLAPPER BOARD}é" * 50000          # the request is over several packets too
                self.ok(self.enqueue(client, payload=payload))
                reply = self.ok(self.run_statement(client, "get", ID[0]))
                self.assertEqual(reply.rows[0][4], payload)
                self.assertEqual(set(reply.packets[:-1]), {size})
                self.assertLessEqual(reply.packets[-1], size)

    def test_bad_packets(self) -> None:
        for how, packet in (("longer than agreed", struct.pack(">BBHHBB", 1, 1, 4097, 0, 1, 0) + bytes(4089)),
                            ("shorter than its header", struct.pack(">BBHHBB", 1, 1, 7, 0, 1, 0)),
                            ("neither full nor the last", struct.pack(">BBHHBB", 1, 0, 9, 0, 1, 0) + b"x"),
                            ("has status", struct.pack(">BBHHBB", 1, 9, 8, 0, 1, 0)),
                            ("not known here", struct.pack(">BBHHBB", 14, 1, 8, 0, 1, 0)),
                            ("inside a message", struct.pack(">BBHHBB", 1, 0, 4096, 0, 1, 0) + bytes(4088)
                             + struct.pack(">BBHHBB", 3, 1, 8, 0, 1, 0))):
            with self.subTest(how):
                client = self.session()
                client.send_bytes(packet)
                reply = client.reply()
                self.assertEqual(reply.error, 4002)
                self.assertTrue(client.is_closed())

    def test_a_packet_byte_by_byte(self) -> None:
        client = self.session()
        data = client.headers() + utf16(SESSION)
        for byte in struct.pack(">BBHHBB", 1, 1, 8 + len(data), 0, 1, 0) + data:
            client.send_bytes(bytes([byte]))
        self.assertEqual(client.reply().rows, [(0, 150)])

    def test_a_second_request_before_the_reply(self) -> None:
        client = self.session()
        self.table(client)
        self.ok(client.batch(PATIENT))
        lock = self.sqlite()
        lock.execute("BEGIN IMMEDIATE")
        values = values_of("enqueue", (ID[0], "c", "{}", None, None, 0, None, 0))
        for _ in range(2):
            client.send_rpc(text_of("enqueue"), definitions_of("enqueue"), values)
        self.assert_broken(client, "before the reply")
        lock.execute("ROLLBACK")
        self.assertEqual(self.count(), 0)


class Attention(Case):
    def setUp(self) -> None:
        self.c = self.session()
        self.table(self.c)

    def test_when_nothing_runs(self) -> None:
        self.c.send(6, b"")
        self.assertEqual(self.c.reply().dones, [(DONE, ATTN, 0, 0)])
        self.assertEqual(self.c.batch(SESSION).rows, [(0, 150)])

    def test_while_it_waits(self) -> None:
        self.ok(self.c.batch(PATIENT))
        lock = self.sqlite()
        lock.execute("BEGIN IMMEDIATE")
        self.c.send_rpc(text_of("enqueue"), definitions_of("enqueue"),
                        values_of("enqueue", (ID[0], "c", "{}", None, None, 0, None, 0)))
        time.sleep(0.1)
        self.c.send(6, b"")
        self.assertEqual(self.c.reply().dones, [(DONE, ATTN, 0, 0)])
        lock.execute("ROLLBACK")
        self.assertEqual(self.count(), 0)
        self.ok(self.enqueue(self.c))

    def test_in_the_middle_of_a_reply(self) -> None:
        for n in range(16):
            self.ok(self.enqueue(self.c, n, payload="x" * 1000000))
        self.c.send_rpc(text_of("claim"), definitions_of("claim"), values_of("claim", ("w", TOKEN, 60, 0, 16)))
        taken = "SELECT count(*) FROM VideoRenderJobs WHERE Status = 'Processing'"
        self.until(lambda: self.sqlite().execute(taken).fetchone() == (16,))
        time.sleep(0.5)                         # the server is stuck in its reply
        self.c.send(6, b"")
        reply = self.c.reply()
        self.assertLess(len(reply.rows), 16)
        self.assertEqual(reply.dones[-1], (DONE, ATTN, 0, 0))
        self.assertEqual(self.ok(self.run_statement(self.c, "get", ID[3])).rows[0][2], "Processing")

    def test_in_a_transaction(self) -> None:
        for xact_abort, ends in (("ON", True), ("OFF", False)):
            self.ok(self.c.batch(SESSION.replace("XACT_ABORT ON", f"XACT_ABORT {xact_abort}").replace("300", "-1")))
            lock = self.sqlite()
            self.ok(self.c.batch(BEGIN))
            lock.execute("BEGIN IMMEDIATE")
            self.c.send_rpc(text_of("reap"), definitions_of("reap"), values_of("reap", (1,)))
            time.sleep(0.1)
            self.c.send(6, b"")
            reply = self.c.reply()
            lock.execute("ROLLBACK")
            self.assertEqual(reply.dones[-1][1], ATTN)
            self.assertEqual(ENV_ROLLBACK in reply.changes, ends)
            self.ok(self.c.batch(ROLLBACK))

    def test_of_a_half_sent_request(self) -> None:
        self.c.send_bytes(struct.pack(">BBHHBB", 1, 0, 4096, 0, 1, 0) + bytes(4088))
        self.c.send(6, b"")
        self.assertEqual(self.c.reply().dones, [(DONE, ATTN, 0, 0)])
        self.assertEqual(self.c.batch(SESSION).rows, [(0, 150)])

    def test_under_tls(self) -> None:
        server = Server("--encrypt", "required")
        self.addCleanup(server.stop)
        client = Client(server)
        self.addCleanup(client.close)
        client.login(encryption=1)
        client.send(6, b"")
        self.assertEqual(client.reply().dones, [(DONE, ATTN, 0, 0)])


class Life(unittest.TestCase):
    def test_sigterm(self) -> None:
        server = Server("--encrypt", "on")
        self.addCleanup(server.folder.cleanup)
        client, waiting = Client(server), Client(server)    # the second stays in the middle of its login
        self.addCleanup(client.close)
        self.addCleanup(waiting.close)
        client.login()
        self.assertEqual(client.batch(SESSION).rows, [(0, 150)])
        started = time.monotonic()
        self.assertEqual(server.stop(keep=True), 0)
        self.assertLess(time.monotonic() - started, LEAVE_S)       # no session was waited for in vain
        self.assertRaises(Closed, client.receive)
        self.assertEqual(sorted(os.listdir(server.folder.name)), ["log", "queue.db"])

    def test_files_that_are_wrong(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(SQL.parent, Path(folder) / "sql")
            (Path(folder) / "sql" / "sqlserver" / "get.sql").write_text("SELECT 1;\n")
            with open(os.devnull, "w", encoding="utf-8") as nowhere:
                code = subprocess.run(["python3", str(Path(__file__).with_name("tdsd.py")), "--db", f"{folder}/x.db",
                                       "--sql", f"{folder}/sql"], stderr=nowhere, check=False,
                                      timeout=LONG_S).returncode
            self.assertNotEqual(code, 0)

    def test_the_log_keeps_no_password(self) -> None:
        server = Server()
        client = Client(server)
        client.login()
        client.batch(SESSION)
        client.close()
        other = Client(server)
        other.login(password="other wörd")
        other.close()
        with open(server.log, encoding="utf-8") as file:
            text = file.read()
        server.stop()
        self.assertIn("login 'tester' 'test'", text)
        self.assertNotIn("wörd", text)


if __name__ == "__main__":
    unittest.main()
