"""test_clients.py: clients that send slowly, half, too much or nothing, that hang up, or that do not read; and that the
others do not notice."""
import http.client
import json
import socket
import threading
import time
import unittest

from service import PATIENCE_S, WAIT_S, Case, until

NEXT = b'{"worker": "node-1", "wait_s": %d}' % WAIT_S
# What a client may take to ask. Ours may be slow, too, when the machine is.
TIMEOUT_S = 6


def request(body, path="/v1/next", more=""):
    head = "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%s\r\n" % (path, len(body), more)
    return head.encode() + body


class Clients(Case):
    def setUp(self):
        super().setUp()
        self.s = self.service("--timeout", str(TIMEOUT_S), "--connections", "100", "--max-body", "50000", "--cache",
                              "4")
        self.sockets = []
        self.addCleanup(lambda: [s.close() for s in self.sockets])

    def connect(self):
        made = socket.create_connection(("127.0.0.1", self.s.port))
        made.settimeout(PATIENCE_S)
        self.sockets.append(made)
        return made

    def ended(self, client):
        """Whether the service closes the connection; what it sent before."""
        got = b""
        try:
            while True:
                piece = client.recv(65536)
                if not piece:
                    return got
                got += piece
        except ConnectionResetError:
            return got

    def answers(self):
        """The others are served."""
        self.assertEqual(self.s.get("/readyz").code, 200)
        self.assertEqual(self.s.next().code, 204)

    def half_open(self):
        """Nothing, half a header, half a body."""
        silent = [self.connect() for _ in range(30)]
        for client, part in ((silent[0], b"POST /v1/next HT"), (silent[1], b"POST /v1/next HTTP/1.1\r\nHost: x\r\n"),
                             (silent[2], request(NEXT)[:-5]), (silent[3], b"\r\n"), (silent[4], b"\x16\x03\x01\x02")):
            client.sendall(part)
        return silent

    def test_half_open_nobody_notices(self):
        """Not even if they stay for longer than anybody waits."""
        self.s.stop()
        self.s = self.service("--timeout", "3600")
        self.half_open()
        self.answers()

    def test_half_open(self):
        """Each is cut off, also if a byte comes now and then."""
        silent = self.half_open()
        drips = [self.connect() for _ in range(10)]
        stop = threading.Event()

        def drip():
            text = b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 1000
            for at in range(len(text)):
                for client in drips:
                    try:
                        client.send(text[at:at + 1])
                    except OSError:
                        pass
                if stop.wait(0.2):
                    return
        thread = threading.Thread(target=drip)
        thread.start()
        for client in silent + drips:
            self.ended(client)
        stop.set()
        thread.join()
        self.answers()

    def test_a_slow_body(self):
        """Each byte comes in time, and the whole does not."""
        client = self.connect()
        client.sendall(request(b"x" * 1000)[:-1000])
        began = time.monotonic()
        with self.assertRaises(OSError):
            while True:
                client.sendall(b" ")
                time.sleep(0.1)
                if time.monotonic() - began > PATIENCE_S:
                    return
        self.answers()

    def test_too_many_connections(self):
        for _ in range(150):
            self.connect()
        answer = until(lambda: self.s.get("/healthz"), "the service comes round to us")
        self.assertEqual(answer.code, 200)

    def test_too_large(self):
        client = self.connect()
        client.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999999\r\n\r\n")
        self.assertIn(b" 413 ", self.ended(client).split(b"\r\n")[0])
        client = self.connect()
        client.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(100):
            client.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")
        client.sendall(b"0\r\n\r\n")
        self.assertIn(b" 413 ", client.recv(65536))
        client = self.connect()
        try:
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100000 + b"\r\n\r\n")
        except OSError:
            pass
        self.assertRegex(self.ended(client) or b"HTTP/1.1 431", rb"^HTTP/1.1 (431|413|400)")
        client = self.connect()
        try:
            client.sendall(b"GET /" + b"x" * 100000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
        except OSError:
            pass
        self.assertRegex(self.ended(client) or b"HTTP/1.1 414", rb"^HTTP/1.1 4")
        self.answers()

    def test_no_http(self):
        for text in (b"\x00" * 1000, b"HELO\r\n\r\n", b"GET\r\n\r\n", b"POST /v1/next HTTP/1.1\r\nHost: x\r\n"
                     b"Content-Length: -1\r\n\r\n", b"POST /v1/next HTTP/1.1\r\nContent-Length: x\r\nHost: x\r\n\r\n",
                     b"GET / HTTP/9.9\r\n\r\n", b"GET /v1/jobs/%zz HTTP/1.1\r\nHost: localhost\r\n\r\n"):
            client = self.connect()
            client.sendall(text)
            client.settimeout(3 * TIMEOUT_S)
            try:
                self.assertNotRegex(client.recv(65536), rb"^HTTP/1.1 [25]00")
            except (ConnectionResetError, socket.timeout):
                pass
        self.answers()

    def test_pipelined(self):
        ids = [self.s.enqueue() for _ in range(3)]
        client = self.connect()
        client.sendall(request(NEXT) * 3)
        got, piece = b"", b"-"
        while piece and got.count(b'"lease_left_ms"') < 3:
            piece = client.recv(65536)
            got += piece
        for job_id in ids:
            self.assertIn(job_id.encode(), got)

    def test_who_hangs_up_gets_nothing(self):
        """A client that waits and goes is handed no job, which would have to run out and count."""
        gone = [self.connect() for _ in range(5)]
        for client in gone:
            client.sendall(request(NEXT))
        until(lambda: self.s.get("/v1/stats").json["waiting"] == 5, "five clients wait")
        for client in gone:
            client.close()
        job_id = self.s.enqueue()
        self.assertEqual(self.s.take(wait_s=WAIT_S)["id"], job_id)
        self.assertEqual(self.s.get("/v1/stats").json["totals"]["handed_out"], 1)

    def test_who_sends_no_more_gets_nothing(self):
        """It could read on, but looks like one that has hung up."""
        client = self.connect()
        client.sendall(request(NEXT))
        until(lambda: self.s.get("/v1/stats").json["waiting"] == 1, "it waits")
        client.shutdown(socket.SHUT_WR)
        job_id = self.s.enqueue()
        self.assertRegex(self.ended(client), rb"\A(HTTP/1\.1 204 |\Z)")
        self.assertEqual(self.s.take(wait_s=WAIT_S)["id"], job_id)

    def test_who_hangs_up_while_it_is_served_gets_nothing(self):
        """The job was handed out, and the answer would seem to be sent: it is given back, uncounted."""
        ids = [self.s.enqueue(max_retries=0) for _ in range(2)]
        self.assertEqual(self.s.take()["id"], ids[0])
        until(lambda: self.s.get("/v1/stats").json["cached"] == 1, "the other one is in the cache")
        db = self.s.sql(isolation_level=None)
        db.execute("BEGIN IMMEDIATE")
        client = self.connect()
        client.sendall(request(NEXT))
        time.sleep(1)                           # so that the clerk waits for the file; if it does not, it is no worse
        client.close()
        db.execute("ROLLBACK")
        db.close()
        again = self.s.take(wait_s=WAIT_S)
        self.assertEqual((again["id"], again["retry_count"]), (ids[1], 0))

    def test_who_does_not_read(self):
        """Large answers that are not taken: the client is cut off, and what it was handed comes back at once."""
        self.s.stop()
        self.s = self.service("--max-body", "8000000")
        payload = "x" * 6000000
        job_id = self.s.enqueue(payload_json=payload)
        self.s.stop()
        self.s = self.service("--timeout", str(TIMEOUT_S))
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", self.s.port))
        self.sockets.append(client)
        client.sendall(request(NEXT))
        until(lambda: self.s.get("/v1/stats").json["totals"]["handed_out"] == 1, "it is handed out")
        again = self.s.take(wait_s=WAIT_S)
        self.assertEqual((again["id"], again["retry_count"], len(again["payload_json"])), (job_id, 0, len(payload)))
        self.assertEqual(self.s.get("/v1/stats").json["totals"]["released"], 1)

    def test_the_wait_is_no_slow_client(self):
        """Waiting for a job may take longer than a client may take to ask."""
        client = self.connect()
        client.sendall(request(NEXT))
        time.sleep(TIMEOUT_S + 2)
        job_id = self.s.enqueue()
        answer = http.client.HTTPResponse(client)
        answer.begin()
        self.assertEqual(json.loads(answer.read())["id"], job_id)


if __name__ == "__main__":
    unittest.main()
