"""test_away.py: the database goes away and comes back: locked by somebody else (SQLite), or stopped and started again
(SQL Server's driver, against the test server of test/tdsd)."""
import os
import re
import signal
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
    """The test server, which can be stopped and started again on the same port."""

    def __init__(self, folder):
        self.command = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-B",
                        os.path.join(SOURCE, "test", "tdsd", "tdsd.py"), "--db", os.path.join(folder, "server.db")]
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
