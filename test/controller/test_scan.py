"""test_scan.py: files make jobs done; leases that run out count where no file is; what lies in the cache never
counts."""
import json
import os
import threading
import time
import unittest

from service import WAIT_S, Case, until

FAR = ("--scan", "3600", "--second-look", "100ms")      # only the scan at the start


class Scan(Case):
    def write(self, s, name, text="video", age_s=0):
        path = os.path.join(s.outputs, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.utime(path, (time.time() - age_s,) * 2)
        return path

    def scans(self, s, more):
        """Waits until so many scans have been done from now on."""
        begin = s.get("/v1/stats").json["scan"]["scans"]
        until(lambda: s.get("/v1/stats").json["scan"]["scans"] >= begin + more, "%d scans" % more)

    def test_files_make_jobs_done(self):
        s = self.service("--scan", "1", "--lease", "3600", "--cache", "2")
        names = {name: s.enqueue(composition_id=name, output_url=url, priority=priority) for name, url, priority in (
            ("handed out", "a.mp4", 9), ("cached", "in/b.mp4", 8), ("queued", "file://%s/c%%20c.mp4" % s.outputs, 0),
            ("scheduled", s.outputs + "/d.mp4", 0), ("empty", "e.mp4", 0), ("folder", "f", 0), ("missing", "g.mp4", 0),
            ("elsewhere", "https://example.com/a.mp4", 0), ("cancelled", "h.mp4", 0), ("dead", "i.mp4", 0))}
        with s.sql() as db:
            for name, state, column in (("scheduled", "Scheduled", "DueAtUtc"),
                                        ("cancelled", "Cancelled", "EndedAtUtc"), ("dead", "DeadLetter", "EndedAtUtc")):
                db.execute("UPDATE VideoRenderJobs SET Status = ?, %s = 9000000000000 WHERE CompositionId = ?" % column,
                           (state, name))
        self.assertEqual(s.take()["composition_id"], "handed out")
        for name in ("a.mp4", "in/b.mp4", "c c.mp4", "d.mp4", "h.mp4", "i.mp4"):
            self.write(s, name)
        self.write(s, "e.mp4", "")
        os.mkdir(s.outputs + "/f")
        self.scans(s, 3)
        states = {name: s.state(job_id) for name, job_id in names.items()}
        done = {name for name, state in states.items() if state == "Completed"}
        self.assertEqual(done, {"handed out", "cached", "queued", "scheduled", "dead"}, states)
        self.assertEqual(states["cancelled"], "Cancelled")
        totals = s.get("/v1/stats").json["totals"]
        self.assertEqual((totals["settled"], totals["completed"]), (5, 0))
        # The cached one that was settled is not handed out.
        self.assertEqual({s.take()["composition_id"] for _ in range(4)}, {"empty", "folder", "missing", "elsewhere"})
        self.assertEqual(s.next().code, 204)

    def survives(self, s, job_id, change):
        """Whether the job is not done after some scans during which its file changes all the time."""
        stop = threading.Event()

        def keep_changing():
            number = 1
            while not stop.wait(0.01):
                number += 1
                change(number)
        change(1)
        thread = threading.Thread(target=keep_changing)
        thread.start()
        try:
            self.scans(s, 4)
            return s.row(job_id, "Status") == "Processing"
        finally:
            stop.set()
            thread.join()

    def not_done_while(self, change):
        """A file is not done while it changes, and done then. Where the machine stands still, two scans may see the
        same, and are right: then it is tried again. A service that does not compare what changes fails each time."""
        s = self.service("--scan", "1", "--lease", "3600")
        for number in range(10):
            name = "%d.mp4" % number
            job_id = s.enqueue(output_url=name)
            s.take()
            survived = self.survives(s, job_id, lambda i, name=name: change(s, name, i))
            until(lambda at=job_id: s.state(at) == "Completed", "the file is left alone")
            if survived:
                return
        self.fail("files are done while they change")

    def test_a_file_that_grows_is_not_done(self):
        self.not_done_while(lambda s, name, i: self.write(s, name, "x" * i))

    def test_a_file_that_is_touched_is_not_done(self):
        self.not_done_while(lambda s, name, i: self.write(s, name, "same", age_s=i))

    def test_who_renews_is_spared(self):
        s = self.service("--scan", "1", "--lease", "3600")
        job_id = s.enqueue(composition_id="x", output_url="a.mp4")
        job = s.take()
        with s.sql() as db:     # it was started a while ago
            db.execute("UPDATE VideoRenderJobs SET StartedAtUtc = StartedAtUtc - 60000")
        self.assertEqual(s.post("/v1/jobs/%s/renew" % job_id, {"lease": job["lease"]}).code, 200)
        self.write(s, "a.mp4")
        self.scans(s, 4)
        self.assertEqual(s.state(job_id), "Processing")
        self.assertEqual(s.post("/v1/jobs/%s/complete" % job_id, {"lease": job["lease"]}).code, 200)

    def test_links_are_not_followed(self):
        s = self.service("--scan", "1", "--lease", "3600")
        elsewhere = os.path.join(self.folder, "elsewhere")
        os.mkdir(elsewhere)
        self.write(s, "../elsewhere/a.mp4")
        # The links come after the jobs, which are refused otherwise.
        ids = [s.enqueue(output_url=url) for url in ("link/a.mp4", "file.mp4", "deep/er/a.mp4")]
        os.symlink(elsewhere, s.outputs + "/link")
        os.symlink(elsewhere + "/a.mp4", s.outputs + "/file.mp4")
        os.mkdir(s.outputs + "/deep")
        os.symlink(elsewhere, s.outputs + "/deep/er")
        # A row that was put in behind the service's back.
        with s.sql() as db:
            for url in ("../elsewhere/a.mp4", elsewhere + "/a.mp4", "link/../../elsewhere/a.mp4"):
                ids.append(s.enqueue(composition_id=url))
                db.execute("UPDATE VideoRenderJobs SET OutputUrl = ? WHERE CompositionId = ?", (url, url))
                db.commit()
        self.scans(s, 3)
        self.assertEqual([s.state(job_id) for job_id in ids], ["Queued"] * 6)

    def test_a_lease_that_runs_out(self):
        """Without a file the job comes round again, counted; with a file that nobody has looked at yet, it is done."""
        s = self.service("--scan", "2", "--lease", "3600", "--second-look", "200ms")
        without = s.enqueue(composition_id="without", output_url="a.mp4", max_retries=1)
        with_file = s.enqueue(composition_id="with", output_url="b.mp4")
        jobs = [s.take(), s.take()]
        self.assertEqual([job["id"] for job in jobs], [without, with_file])
        self.assertEqual(s.stop(), 0)           # so that the next scan sees both at once
        self.write(s, "b.mp4")
        s.run_out()
        s.start()
        until(lambda: s.state(with_file) == "Completed", "the file is seen")
        self.assertEqual(s.get("/v1/jobs/" + with_file).json["retry_count"], 0)
        again = s.take(wait_s=WAIT_S)
        self.assertEqual((again["id"], again["retry_count"]), (without, 1))
        self.assertEqual(s.post("/v1/jobs/%s/complete" % without, {"lease": jobs[0]["lease"]}).error, "lost")
        s.run_out()
        until(lambda: s.state(without) == "DeadLetter", "its retries are used up")
        dead = s.get("/v1/dead").json["jobs"]
        self.assertEqual([job["last_error"] for job in dead], ["the lease of node-1 ran out"])
        # The worker was slow, not dead.
        self.write(s, "a.mp4")
        until(lambda: s.state(without) == "Completed", "the late file is seen")

        def counted():
            totals = s.get("/v1/stats").json["totals"]
            return (totals["settled"], totals["returned"], totals["dead"]) == (2, 1, 1)
        until(counted, "two are settled, one came back, one is dead")

    def test_without_the_folder_nothing_is_reaped(self):
        s = self.service("--scan", "1")
        job_id = s.enqueue(output_url="a.mp4")
        s.take()
        os.rename(s.outputs, s.outputs + ".away")
        until(lambda: "the scan: FAILED: the outputs folder" in s.said(), "the scan complains")
        s.run_out()
        time.sleep(3)
        self.assertEqual(s.row(job_id, "Status", "RetryCount"), ("Processing", 0))
        os.rename(s.outputs + ".away", s.outputs)
        until(lambda: s.row(job_id, "RetryCount") == 1, "the lease is ended")

    def test_only_the_scan_reaps(self):
        s = self.service(*FAR)
        until(lambda: s.get("/v1/stats").json["scan"]["scans"], "the scan at the start")
        job_id = s.enqueue()
        s.take()
        s.run_out()
        for _ in range(3):
            self.assertEqual(s.next().code, 204)
        self.assertEqual(s.row(job_id, "Status", "RetryCount"), ("Processing", 0))
        until(lambda: s.get("/v1/stats").json["run_out"] == 1, "the stats count it")
        self.assertEqual(s.stop(), 0)
        s.start()                               # its first scan is at once
        until(lambda: s.row(job_id, "RetryCount") == 1, "the scan ends the lease")


class Cache(Case):
    def test_a_crash_counts_what_was_started_alone(self):
        s = self.service("--scan", "1", "--cache", "50")
        s.post("/v1/jobs", "".join('{"composition_id": "%d", "payload": {}}\n' % i for i in range(20)),
               headers=("Content-Type: application/x-ndjson",))
        started = [s.take()["id"] for _ in range(3)]
        until(lambda: s.get("/v1/stats").json["cached"] == 17, "the rest is in the cache")
        s.kill()
        with s.sql() as db:     # ten minutes later
            db.execute("UPDATE VideoRenderJobs SET LockedAtUtc = LockedAtUtc - 700000, "
                       "LeasedAtUtc = LeasedAtUtc - 700000")
        s.start()
        until(lambda: s.get("/v1/stats").json["run_out"] == 0 and s.get("/v1/stats").json["scan"]["scans"], "the scan")
        with s.sql() as db:
            counted = dict(db.execute("SELECT JobId, RetryCount FROM VideoRenderJobs_View").fetchall())
        self.assertEqual(sorted(counted.values()), [0] * 17 + [1] * 3)
        self.assertEqual([counted[job_id] for job_id in started], [1, 1, 1])
        again = [s.take(wait_s=WAIT_S)["id"] for _ in range(20)]
        self.assertEqual(len(set(again)), 20)

    def test_a_hand_out_is_in_the_database_before_the_answer(self):
        s = self.service("--lease", "77")
        s.enqueue()
        job = s.take(worker="machine-9")
        self.assertEqual(s.row(job["id"], "Status", "WorkerNodeId"), ("Processing", "machine-9"))
        with s.sql() as db:
            seconds, started, token = db.execute("SELECT LeaseSeconds, StartedAtUtc, hex(LeaseToken) "
                                                 "FROM VideoRenderJobs").fetchone()
        self.assertEqual(seconds, 77)
        self.assertIsNotNone(started)
        self.assertEqual(sorted(token), sorted(job["lease"].replace("-", "")))

    def test_a_worker_whose_name_the_table_does_not_take(self):
        """It alone is refused, by a table of somebody else's."""
        s = self.service()
        with s.sql() as db:
            db.execute("CREATE TRIGGER short BEFORE UPDATE ON VideoRenderJobs WHEN NEW.WorkerNodeId = 'odd' "
                       "BEGIN SELECT RAISE(ABORT, 'too long'); END")
        for i in range(6):
            s.enqueue(composition_id=str(i))
        names = ["odd", "even"] * 3
        got = []
        threads = [threading.Thread(target=lambda name=name: got.append((name, s.next(worker=name).code)))
                   for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(got), [("even", 200)] * 3 + [("odd", 503)] * 3)
        self.assertEqual([s.take()["worker"] for _ in range(3)], ["node-1"] * 3)

    def test_a_job_that_the_table_does_not_take(self):
        s = self.service()
        with s.sql() as db:
            db.execute("CREATE TRIGGER odd BEFORE INSERT ON VideoRenderJobs WHEN NEW.CompositionId = 'odd' "
                       "BEGIN SELECT RAISE(ABORT, 'too long'); END")
        got = []
        threads = [threading.Thread(target=lambda name=name: got.append((name, s.post("/v1/jobs", {
            "composition_id": name, "payload": {}}).code))) for name in ["odd", "even"] * 3]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(got), [("even", 201)] * 3 + [("odd", 503)] * 3)
        lines = '{"composition_id": "odd", "payload": {}}\n{"composition_id": "even", "payload": {}}\n'
        answer = s.post("/v1/jobs", lines, headers=("Content-Type: application/x-ndjson",))
        self.assertEqual([json.loads(line)["status"] for line in answer.body.splitlines()], ["SCHEMA", "OK"])

    def test_no_cache(self):
        s = self.service("--cache", "0")
        ids = [s.enqueue() for _ in range(3)]
        self.assertEqual(s.take()["id"], ids[0])
        self.assertEqual([s.row(job_id, "Status") for job_id in ids[1:]], ["Queued"] * 2)

    def test_priority_within_the_cache_s_bounds(self):
        s = self.service("--cache", "2")
        for i in range(6):
            s.enqueue(composition_id=str(i))
        order = [s.take()["composition_id"]]
        s.enqueue(composition_id="urgent", priority=9)
        order += [s.take()["composition_id"] for _ in range(6)]
        self.assertLessEqual(order.index("urgent"), 3, order)

    def test_jobs_that_are_cancelled_in_the_cache(self):
        s = self.service("--cache", "10")
        ids = [s.enqueue(composition_id=str(i)) for i in range(4)]
        s.take()
        until(lambda: s.get("/v1/stats").json["cached"] == 3, "the others are in the cache")
        with s.sql() as db:
            db.execute("UPDATE VideoRenderJobs SET Status = 'Cancelled', LeasedAtUtc = NULL, LeaseToken = NULL "
                       "WHERE CompositionId IN ('1', '3')")
        self.assertEqual(s.take()["id"], ids[2])
        self.assertEqual(s.next().code, 204)


class Foreign(Case):
    def test_names_of_workers_that_are_not_utf8(self):
        """Another program put them there: they are shown as they can be, and counted as they are shown."""
        s = self.service()
        ids = [s.enqueue() for _ in range(4)]
        for _ in ids:
            s.take()
        with s.sql() as db:
            rows = [row[0] for row in db.execute("SELECT rowid FROM VideoRenderJobs")]
            for row, name in zip(rows, (b"a\xff", b"a\xff", b"b\xed\xa0\x80", "c".encode())):
                db.execute("UPDATE VideoRenderJobs SET WorkerNodeId = CAST(? AS TEXT) WHERE rowid = ?", (name, row))
        stats = until(lambda: (lambda got: got if "c" in [one["worker"] for one in got["workers"]] else None)(
            s.get("/v1/stats").json), "the new names are shown")
        self.assertEqual((len(stats["workers"]), stats["workers_total"]), (3, 3))
        self.assertEqual(sorted(one["jobs"] for one in stats["workers"]), [1, 1, 2])


if __name__ == "__main__":
    unittest.main()
