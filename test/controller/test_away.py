"""test_away.py: the database goes away and comes back: locked by somebody else (SQLite), or stopped and started again
(SQL Server's driver, against the test server of test/tdsd)."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

from service import SOURCE, WAIT_S, Case, until


class Locked(Case):
    def locked(self, *args):
        """A service that waits for the file as long as it does by itself."""
        return self.service(*args, db="sqlite:" + os.path.join(self.folder, "queue.db"))

    def test_somebody_else_writes(self):
        s = self.locked()
        s.enqueue(composition_id="before")
        db = s.sql(isolation_level=None)
        db.execute("BEGIN IMMEDIATE")
        answer = s.next()
        self.assertEqual((answer.code, answer.error), (503, "busy"))
        self.assertGreater(int(answer.headers["retry-after"]), 0)
        self.assertEqual(s.post("/v1/jobs", {"composition_id": "x", "payload": {}}).code, 503)
        self.assertEqual(s.get("/healthz").code, 200)
        got = []
        waiting = threading.Thread(target=lambda: got.append(s.next(wait_s=WAIT_S)))
        waiting.start()
        time.sleep(2)
        self.assertEqual(got, [])
        db.execute("ROLLBACK")
        db.close()
        waiting.join()
        self.assertEqual((got[0].code, got[0].json["composition_id"]), (200, "before"))
        until(lambda: s.post("/v1/jobs", {"composition_id": "after", "payload": {}}).code == 201, "jobs get in again")
        self.assertEqual(s.take(wait_s=WAIT_S)["composition_id"], "after")

    def test_lines_while_locked(self):
        """One line is refused, so that each is sent by itself; but not to a database that is away."""
        s = self.service(db="sqlite:%s?busy_timeout_ms=300" % os.path.join(self.folder, "queue.db"))
        db = s.sql(isolation_level=None)
        db.execute("BEGIN IMMEDIATE")
        lines = ['{"composition_id": "%d", "payload": {}}' % i for i in range(1000)]
        lines[500] = '{"composition_id": "%s", "payload": {}}' % ("x" * 201)
        answer = s.post("/v1/jobs", "\n".join(lines), headers=("Content-Type: application/x-ndjson",))
        self.assertEqual((answer.code, answer.error), (503, "busy"))
        self.assertIn("locked", answer.json["error"]["message"])
        self.assertEqual(s.stop(), 0)
        db.close()

    def test_it_stops_while_locked(self):
        s = self.locked("--cache", "5")
        for i in range(4):
            s.enqueue(composition_id=str(i))
        s.take()
        until(lambda: s.get("/v1/stats").json["cached"] == 3, "the others are in the cache")
        db = s.sql(isolation_level=None)
        db.execute("BEGIN IMMEDIATE")
        waiting = threading.Thread(target=lambda: s.next(wait_s=WAIT_S))
        waiting.start()
        time.sleep(1)
        self.assertEqual(s.stop(), 0)
        waiting.join()
        self.assertIn("could not be given back", s.said())
        db.close()


class Server:
    """The test server, which can be stopped and started again on the same port, and misbehaves when it is asked to."""

    def __init__(self, folder):
        self.command = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-B",
                        os.path.join(SOURCE, "test", "tdsd", "tdsd.py"), "--db", os.path.join(folder, "server.db"),
                        "--control", os.path.join(folder, "server.ask")]
        self.control = self.command[-1]
        self.port, self.process = 0, None
        self.start()

    def start(self):
        """Its port may be somebody else's for a moment."""
        def listening():
            self.process = subprocess.Popen([*self.command, "--port", str(self.port)], stdout=subprocess.PIPE,
                                            text=True)
            found = re.search(r":(\d+)$", self.process.stdout.readline())
            if not found:
                self.stop()
            return found
        self.port = int(until(listening, "the server listens").group(1))

    def ask(self, *lines):
        for line in lines:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(self.control)
                client.sendall(line.encode() + b"\n")
                said = client.recv(1000).decode()
            if not said.startswith("ok"):
                raise AssertionError(line + ": " + said)

    def lose(self, request, when="after"):
        """The next one's reply, or itself; asking again is refused, so that what became of it stays uncertain."""
        self.ask("clear", "fault at=%s when=%s do=drop" % (request, when),
                 "fault at=%s nth=2 when=before do=error number=8134 severity=16 text=refused" % request)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


class OverTheWire(Case):
    def setUp(self):
        super().setUp()
        self.server = Server(self.folder)
        self.addCleanup(self.server.stop)
        self.db = "sqlserver://renderq:renderq@127.0.0.1:%d/renderq" % self.server.port
        environment = dict(FREETDSCONF=os.path.join(self.folder, "none.conf"))
        for name, value in environment.items():
            os.environ[name] = value

    def test_away_and_back(self):
        s = self.service("--cache", "10", "--scan", "1", "--lease", "1000", db=self.db)
        for i in range(6):
            s.enqueue(composition_id=str(i), output_url="%d.mp4" % i)
        first = s.take()
        self.assertEqual(s.get("/readyz").code, 200)
        self.server.stop()
        until(lambda: s.get("/readyz").code == 503, "it is not ready")
        for path in ("/v1/stats", "/v1/dead", "/v1/jobs/" + first["id"]):
            until(lambda at=path: s.get(at).code == 503, path)
        answer = s.next()
        self.assertEqual(answer.code, 503)
        self.assertIn(answer.error, ("unavailable", "uncertain"))
        self.assertGreater(int(answer.headers["retry-after"]), 0)
        self.assertEqual(s.post("/v1/jobs/%s/complete" % first["id"], {"lease": first["lease"]}).code, 503)
        self.assertEqual(s.next(wait_s=1).code, 503)
        self.assertEqual(s.get("/healthz").code, 200)
        self.assertIn("\nrenderq_up 0\n", s.get("/metrics").body)
        got = []
        waiting = threading.Thread(target=lambda: got.append(s.next(wait_s=WAIT_S)))
        waiting.start()
        time.sleep(3)
        self.server.start()
        waiting.join()
        self.assertEqual(got[0].code, 200)
        taken = {first["id"], got[0].json["id"]}
        until(lambda: s.get("/readyz").code == 200, "it is ready again")
        self.assertEqual(s.post("/v1/jobs/%s/complete" % first["id"], {"lease": first["lease"]}).code, 200)
        for _ in range(4):
            taken.add(s.take(wait_s=WAIT_S)["id"])
        self.assertEqual(len(taken), 6)
        self.assertEqual(s.next().code, 204)
        for i in range(6):
            with open(os.path.join(s.outputs, "%d.mp4" % i), "w", encoding="utf-8") as file:
                file.write("video")
        until(lambda: s.get("/v1/stats").json["counts"]["Completed"] == 6, "the scan is at work again")
        self.assertEqual(s.stop(), 0)
        self.assertNotIn("renderq:renderq", s.said())

    def test_a_hand_out_whose_reply_is_lost(self):
        """Its jobs are handed out when that can be asked again, and have not failed."""
        s = self.service("--cache", "4", db=self.db)
        ids = [s.enqueue(max_retries=0) for _ in range(3)]
        self.server.lose("start")
        got = [s.take(wait_s=WAIT_S) for _ in range(3)]
        self.assertEqual([job["id"] for job in got], ids)
        for job in got:
            self.assertEqual(s.post("/v1/jobs/%s/complete" % job["id"], {"lease": job["lease"]}).code, 200)
        self.assertEqual(s.stop(), 0)

    def test_an_end_whose_reply_is_lost(self):
        """503, and asked again as that says: what it was."""
        s = self.service("--cache", "0", db=self.db)
        wrong = {"complete": {"output_url": "https://x/z"}}
        for call, body, state in (("complete", {"output_url": "https://x/y"}, "Completed"),
                                  ("fail", {"retry_ms": 3600000}, "Scheduled"), ("fail", {"retry_ms": 0}, "Queued"),
                                  ("fail", {"retry_ms": "never"}, "DeadLetter"),
                                  ("release", {"delay_ms": 3600000}, "Scheduled"), ("release", {}, "Queued")):
            job_id = s.enqueue()
            job = s.take(wait_s=WAIT_S)
            path, body = "/v1/jobs/%s/" % job_id, dict(body, lease=job["lease"])
            self.server.lose(call)
            answer = s.post(path + call, body)
            self.assertEqual((answer.code, answer.error), (503, "uncertain"))
            until(lambda: s.get("/readyz").code == 200, "it is ready again")
            self.assertEqual(s.state(job_id), state)
            for other in ("complete", "fail", "release"):
                if other != call or call in wrong:
                    said = s.post(path + other, dict(wrong.get(other, {}), lease=job["lease"]))
                    self.assertEqual((said.code, said.error), (409, "lost"), (call, other))
            for _ in range(2):
                self.assertEqual(s.post(path + call, body).code, 200, call)
            if state == "Queued":               # and also when somebody else has it by now
                s.take(wait_s=WAIT_S)
                self.assertEqual(s.post(path + call, body).code, 200, call)
        totals = s.get("/v1/stats").json["totals"]
        self.assertEqual([totals[name] for name in ("completed", "failed", "released")], [1, 3, 2])

    def test_an_end_that_is_lost_and_did_not_count(self):
        s = self.service("--cache", "0", db=self.db)
        for call, state in (("complete", "Completed"), ("fail", "Scheduled"), ("release", "Queued")):
            job_id = s.enqueue()
            job = s.take(wait_s=WAIT_S)
            path = "/v1/jobs/%s/" % job_id
            self.server.lose(call, when="before")
            self.assertEqual(s.post(path + call, {"lease": job["lease"]}).code, 503)
            until(lambda: s.get("/readyz").code == 200, "it is ready again")
            self.assertEqual(s.post(path + call, {"lease": job["lease"]}).code, 200)
            self.assertEqual(s.state(job_id), state)
            if state == "Queued":
                s.take(wait_s=WAIT_S)

    def test_lines_while_the_database_goes(self):
        """Each line is told what became of it, and why."""
        s = self.service(db=self.db)
        lines = ['{"composition_id": "%s", "payload": {}}' % text for text in ("1", "x" * 201, "3", "4", "5", "6")]
        self.server.ask("clear", "fault at=enqueue nth=2 when=after do=drop",
                        "fault at=enqueue nth=3 when=before do=error number=8134 severity=16 text=refused")
        answer = s.post("/v1/jobs", "\n".join(lines), headers=("Content-Type: application/x-ndjson",))
        got = [json.loads(line) for line in answer.body.splitlines()]
        self.assertEqual([one["status"] for one in got],
                         ["OK", "INVALID", "UNCERTAIN", "DISCONNECTED", "DISCONNECTED", "DISCONNECTED"])
        self.assertEqual(["id" in one for one in got], [True, False, True, False, False, False])
        self.assertEqual([bool(one.get("error")) for one in got], [False, True, True, True, True, True])
        until(lambda: s.get("/readyz").code == 200, "it is ready again")
        self.assertEqual(s.state(got[2]["id"]), "Queued")
        self.assertEqual(s.get("/v1/stats").json["counts"]["Queued"], 2)

    def test_away_at_the_start(self):
        self.service(db=self.db).stop()         # the queue is made
        self.server.stop()
        s = self.service(db=self.db)
        self.assertIn("tries again", s.said())
        self.assertEqual(s.next().code, 503)
        self.server.start()
        until(lambda: s.get("/readyz").code == 200, "it is ready")
        job_id = s.enqueue()
        self.assertEqual(s.take()["id"], job_id)

    def test_it_stops_while_away(self):
        s = self.service("--cache", "5", db=self.db)
        for i in range(3):
            s.enqueue(composition_id=str(i))
        s.take()
        self.server.stop()
        self.assertEqual(s.stop(), 0)


if __name__ == "__main__":
    unittest.main()
