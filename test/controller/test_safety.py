"""test_safety.py: what is refused at the start and by whom the service can be reached; one owner of an SQLite file;
output paths; how it stops."""
import fcntl
import json
import os
import re
import socket
import subprocess
import threading
import time
import unittest

from service import PROGRAM, WAIT_S, Case, until

TOKEN = "a-token-of-some-length"


class Start(Case):
    def refused(self, *args, code=2, env=None):
        done = subprocess.run([PROGRAM, *args], capture_output=True, text=True, check=False, timeout=60,
                              env={"PATH": os.environ["PATH"], **(env or {})})
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr

    def write(self, name, text, mode=0o600):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def test_wrong_usage(self):
        db = "sqlite:" + os.path.join(self.folder, "q.db")
        short = self.write("short", "secret\n")
        for args, said in (
                ((), "--db"), (("--db", db, "x"), '"x"'), (("--db", db, "--lease", "0"), "--lease"),
                (("--db", db, "--scan", "x"), "--scan"), (("--db", db, "--cache", "1001"), "--cache"),
                (("--db", db, "--listen", "8080"), "ADDRESS:PORT"), (("--db", db, "--listen", "::1:80"), "[ ]"),
                (("--db", db, "--listen", "127.0.0.1:70000"), "65535"),
                (("--db", db, "--listen", "0.0.0.0:0"), "--token-file"),
                (("--db", db, "--listen", "[::]:0"), "--token-file"),
                (("--db", db, "--token-file", "/none"), "/none"), (("--db", db, "--token-file", short), "16"),
                (("--db", db, "--token-file", self.write("empty", "\n\n")), "no token"),
                (("--db", db, "--token-file", self.write("odd", "a token with some blanks\n")), "blanks"),
                (("--db", db, "--tls-cert", short), "--tls-key")):
            self.assertIn(said, self.refused(*args), args)
        for args, said in (
                (("--db", "nothing:x"), "nothing"), (("--db", db), "--create"),
                (("--db", db, "--create", "--outputs", "/none"), "/none"),
                (("--db", "sqlite:/none/q.db", "--create"), "/none"),
                (("--db", db, "--create", "--queue", "a..b"), "empty part")):
            self.assertIn(said, self.refused(*args, code=1), args)

    def test_the_password_is_never_told(self):
        self.refused("--db", "sqlserver://sa:hunter2@127.0.0.1:99999/x", code=1)
        said = self.refused("--db", "sqlserver://sa:hun/ter2@127.0.0.1:1/x", code=1)
        self.assertNotIn("ter2", said)

    def test_everybody_s_token_file(self):
        tokens = self.write("tokens", "first-token-of-two-tokens\n\n  second-token-of-two-tokens \r\n", mode=0o644)
        s = self.service("--token-file", tokens, listen="0.0.0.0:0")
        self.assertIn("can be read or written by everybody", s.said())
        self.assertIn("without TLS", s.said())
        s.url = "http://127.0.0.1:%d" % s.port
        for token, code in (("first-token-of-two-tokens", 200), ("second-token-of-two-tokens", 200), ("", 401),
                            ("first-token-of-two-token", 401), ("first-token-of-two-tokensf", 401)):
            s.token = token
            self.assertEqual(s.get("/v1/queues").code, code, token)
        # With a token in hand, the name does not matter.
        s.token = "first-token-of-two-tokens"
        self.assertEqual(s.get("/v1/queues", headers=("Host: jobs.example",)).code, 200)

    def test_tls(self):
        cert, key = os.path.join(self.folder, "crt"), os.path.join(self.folder, "key")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", key, "-out", cert], check=True, capture_output=True)
        os.chmod(key, 0o600)
        s = self.service("--tls-cert", cert, "--tls-key", key, "--timeout", "10", curl=("--cacert", cert))
        self.assertTrue(s.url.startswith("https://"))
        self.assertNotIn("warning", s.said())
        job_id = s.enqueue()
        self.assertEqual(s.take()["id"], job_id)
        old = subprocess.run(["curl", "-sS", "--cacert", cert, "--tls-max", "1.1", s.url + "/healthz"],
                             capture_output=True, check=False)
        self.assertNotEqual(old.returncode, 0)
        plain = subprocess.run(["curl", "-sS", "--max-time", "30", s.url.replace("https", "http") + "/healthz"],
                               capture_output=True, check=False)
        self.assertNotEqual(plain.returncode, 0)
        self.assertEqual(s.get("/healthz").code, 200)
        self.assertEqual(s.stop(), 0)
        wrong = self.write("wrong", "-----BEGIN CERTIFICATE-----\nxx\n-----END CERTIFICATE-----\n")
        said = self.refused("--db", "sqlite:" + s.file, "--listen", "127.0.0.1:0", "--tls-cert", wrong,
                            "--tls-key", key, code=1, env={"ASAN_OPTIONS": "detect_leaks=0"})    # GnuTLS has some
        self.assertIn("--tls-cert", said)

    def test_names(self):
        s = self.service("--host", "jobs.example")
        for host, code in (("localhost", 200), ("LOCALHOST:1", 200), ("127.0.0.1:%d" % s.port, 200), ("[::1]:80", 200),
                           ("jobs.example", 200), ("jobs.example:8080", 200), ("jobs.example.evil.example", 421),
                           ("evil.example", 421), ("127.0.0.1.evil.example", 421), ("jobs", 421)):
            self.assertEqual(s.get("/v1/queues", headers=("Host: " + host,)).code, code, host)
        page = ("Host: evil.example", "Origin: http://evil.example", "Sec-Fetch-Site: same-origin")
        self.assertEqual(s.post("/v1/next", {"worker": "x"}, headers=page).code, 421)
        self.assertEqual(s.get("/v1/form-token", headers=page).code, 421)

    def test_a_whole_url_in_the_request_line(self):
        """As it is sent to proxies; its host counts, and not the header's."""
        s = self.service("--host", "jobs.example")
        for target, host, code in (
                ("http://jobs.example/healthz", "evil.example", 200), ("HTTP://localhost:1/v1/queues?x=/y", "x", 200),
                ("http://jobs.example", "jobs.example", 200), ("https://jobs.example/v1/nothing", "jobs.example", 404),
                ("http://evil.example/v1/queues", "jobs.example", 421), ("http:///healthz", "jobs.example", 421),
                ("http://jobs.example@evil.example/healthz", "jobs.example", 421)):
            answer = s.get("/", headers=("Host: " + host,), curl=("--request-target", target), check=False)
            self.assertEqual(answer.code, code, target)

    def test_one_owner(self):
        s = self.service()
        link = os.path.join(self.folder, "link.db")
        os.symlink(s.file, link)
        os.symlink(self.folder, self.folder + "-link")
        self.addCleanup(os.unlink, self.folder + "-link")
        for db in (s.file, link, self.folder + "-link/queue.db", self.folder + "/./queue.db",
                   s.file + "?synchronous=normal", s.file.replace("queue", "%71ueue")):
            said = self.refused("--db", "sqlite:" + db, "--listen", "127.0.0.1:0", code=1)
            self.assertIn("process %d owns" % s.process.pid, said)
        s.kill()
        self.assertEqual(self.service().get("/readyz").code, 200)

    def test_one_owner_of_a_file_that_a_link_leads_to(self):
        """It is made by the first one, so that the link led nowhere when that came."""
        real = os.path.join(self.folder, "real")
        os.mkdir(real)
        os.symlink("more.db", os.path.join(self.folder, "link.db"))
        os.symlink("real/q.db", os.path.join(self.folder, "more.db"))
        s = self.service(db="sqlite:" + os.path.join(self.folder, "link.db"))
        for db in ("link.db", "more.db", "real/q.db"):
            said = self.refused("--db", "sqlite:" + os.path.join(self.folder, db), "--listen", "127.0.0.1:0", code=1)
            self.assertIn("process %d owns" % s.process.pid, said)
        os.symlink("round.db", os.path.join(self.folder, "round.db"))
        self.refused("--db", "sqlite:" + os.path.join(self.folder, "round.db"), "--create", code=1)

    def test_a_port_in_use(self):
        s = self.service()
        said = self.refused("--db", "sqlite:" + os.path.join(self.folder, "other.db"), "--create", "--listen",
                            "127.0.0.1:%d" % s.port, code=1)
        self.assertIn("cannot listen", said)


class Outputs(Case):
    def test_paths_that_leave_the_folder(self):
        s = self.service()
        os.makedirs(s.outputs + "/inner")
        os.symlink("/etc", s.outputs + "/out")
        os.symlink("inner", s.outputs + "/in")
        os.symlink("/etc/passwd", s.outputs + "/passwd")
        for url in ("../x", "a/../../x", "a/..", "..", "", ".", "a/", "/", "/etc/passwd", s.outputs, s.outputs + "/",
                    s.outputs + "/../x", s.outputs + "x/y", "file:///etc/passwd", "file:/etc/passwd",
                    "file://localhost/etc/x",
                    "file://" + s.outputs + "/%2e%2e/x", "file://" + s.outputs + "/%00", "file://" + s.outputs + "/%zz",
                    "FILE:///etc/passwd", "out/x", "passwd", "in/x", "./../x", "inner/../../x",
                    "x" * 2000 + "/../../" + "y"):
            answer = s.post("/v1/jobs", {"composition_id": "x", "payload": {}, "output_url": url})
            self.assertEqual(answer.code, 400, url)
            self.assertIn("output_url", answer.json["error"]["message"])
        for url in ("a", "a/b/c.mp4", "..a", "a..", "a/...", "./a", "inner/x", "a b", "take:1.mp4", s.outputs + "/a",
                    "file://" + s.outputs + "/a%20b", "file://localhost" + s.outputs + "/a",
                    "https://example.com/x/../y", "s3://bucket/key", None):
            job = {"composition_id": "x", "payload": {}, "delay_ms": 3600000}
            if url is not None:
                job["output_url"] = url
            self.assertEqual(s.post("/v1/jobs", job).code, 201, url)
        job_id = s.enqueue()
        job = s.take()
        answer = s.post("/v1/jobs/%s/complete" % job_id, {"lease": job["lease"], "output_url": "out/x"})
        self.assertIn("symbolic link", answer.json["error"]["message"])
        self.assertEqual(s.post("/v1/jobs/%s/complete" % job_id, {"lease": job["lease"], "output_url": "x"}).code, 200)


class Stop(Case):
    def test_it_answers_gives_back_and_ends(self):
        s = self.service("--cache", "10")
        first = s.enqueue()
        self.assertEqual(s.take()["id"], first)
        ids = [s.enqueue() for _ in range(8)]
        taken = s.take()
        cached = [job_id for job_id in ids if job_id != taken["id"]]
        for job_id in cached:
            self.assertEqual(s.row(job_id, "Status", "StartedAtUtc"), ("Processing", None))
        got = []
        waiting = [threading.Thread(target=lambda: got.append(s.next(wait_s=WAIT_S))) for _ in range(4)]
        for job_id in cached:
            s.take()
        began = time.monotonic()
        for thread in waiting:
            thread.start()
        until(lambda: s.get("/v1/stats").json["waiting"] == 4, "four clients wait")
        more = [s.post("/v1/jobs", {"composition_id": "later", "payload": {}, "delay_ms": 3600000}).json["id"]]
        self.assertEqual(s.stop(), 0)
        for thread in waiting:
            thread.join()
        self.assertEqual([answer.code for answer in got], [204] * 4)
        self.assertLess(time.monotonic() - began, WAIT_S)       # it is the stop that ended the wait
        self.assertEqual(s.row(taken["id"], "Status"), "Processing")
        self.assertEqual(s.row(more[0], "Status"), "Scheduled")
        self.assertIn("stopped", s.said())

    def test_the_cache_is_given_back(self):
        s = self.service("--cache", "10")
        s.post("/v1/jobs", "".join('{"composition_id": "%d", "payload": {}}\n' % i for i in range(8)),
               headers=("Content-Type: application/x-ndjson",))
        taken = s.take()
        until(lambda: s.get("/v1/stats").json["cached"] == 7, "the others are in the cache")
        self.assertEqual(s.stop(), 0)
        s.start()
        stats = s.get("/v1/stats").json
        self.assertEqual((stats["counts"]["Queued"], stats["counts"]["Processing"]), (7, 1))
        again = [s.take() for _ in range(7)]
        self.assertNotIn(taken["id"], [job["id"] for job in again])
        self.assertEqual([job["retry_count"] for job in again], [0] * 7)

    def test_under_load(self):
        """Requests that were read are answered, whenever the signal comes."""
        s = self.service("--cache", "5")
        s.post("/v1/jobs", "".join('{"composition_id": "%d", "payload": {}}\n' % i for i in range(3000)),
               headers=("Content-Type: application/x-ndjson",))
        client = subprocess.Popen([os.path.join(os.path.dirname(PROGRAM), "test", "controller", "client"), "--port",
                                   str(s.port), "--requests", "3000", "--at-a-time", "16", "--until-closed", "next"],
                                  stdout=subprocess.PIPE, text=True)
        until(lambda: s.get("/v1/stats").json["totals"]["handed_out"] > 100, "it is at work")
        self.assertEqual(s.stop(), 0)
        out = client.communicate()[0]
        self.assertEqual(client.returncode, 0, out)
        told = json.loads(out)
        self.assertEqual(told["half_answers"], 0, out)
        s.start()
        stats = s.get("/v1/stats").json
        # Every job that was handed out has a client that knows it; the others are in the queue.
        self.assertEqual(stats["counts"]["Processing"], told["ok"])
        self.assertEqual(stats["counts"]["Queued"], 3000 - told["ok"])


class Log(Case):
    def test_lines(self):
        s = self.service()
        s.get("/v1/queues?token=secret")
        s.ask("GET", "/v1/%0a%1b31m", headers=("Authorization: Bearer secret",))
        lease = s.enqueue() and s.take()["lease"]
        self.assertEqual(s.stop(), 0)
        with open(s.access, encoding="utf-8") as log:
            text = log.read()
        self.assertNotIn("secret", text)
        self.assertNotIn(lease, text)
        for line in text.splitlines():
            self.assertRegex(line, r"^[0-9T:.-]+Z 127\.0\.0\.1 (GET|POST) /\S* \d+ \d+ [0-9.]+ms$")
        self.assertEqual(len(re.findall("\n", text)), 4)

    def test_no_bytes_for_a_terminal(self):
        s = self.service()
        for method, path in ((b"GET", b"/\x9b31m"), (b"GET\x9b", b"/x"), (b"GET", "/\u0085\u202e\u00e4".encode())):
            with socket.create_connection(("127.0.0.1", s.port)) as client:
                client.sendall(method + b" " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                while client.recv(1000):
                    pass
        self.assertEqual(s.stop(), 0)
        with open(s.access, "rb") as log:
            text = log.read()
        self.assertRegex(text, rb"\A[\n -~]+\Z")
        self.assertIn(rb" GET /\x9b31m ", text)

    def test_nobody_reads_it(self):
        """Nothing waits for the one who should; he hears how much he has missed."""
        s = self.service()
        s.stop()
        reader, s.out = os.pipe()
        os.set_blocking(reader, False)
        full = b"x" * (fcntl.fcntl(s.out, fcntl.F_GETPIPE_SZ) - 1) + b"\n"
        got = []

        def told():
            """How many requests have a line, or were counted."""
            try:
                got.append(os.read(reader, 1 << 20))
            except BlockingIOError:
                pass
            text = b"".join(got)
            return text.count(b" GET /healthz 200 ") + sum(map(int, re.findall(rb"(\d+) lines were left out", text)))
        s.start()
        os.write(s.out, full)
        for _ in range(3):
            self.assertEqual(s.get("/healthz").code, 200)
        self.assertEqual(os.read(reader, len(full)), full)
        self.assertEqual(s.get("/healthz").code, 200)
        until(lambda: told() == 4, "all are told")
        self.assertIn(b"lines were left out", b"".join(got))
        os.write(s.out, full)
        self.assertEqual(s.get("/healthz").code, 200)
        self.assertEqual(s.stop(), 0)
        os.close(reader)
        os.close(s.out)


if __name__ == "__main__":
    unittest.main()
