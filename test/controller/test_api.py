"""test_api.py: every path, method and status of controller/openapi.yaml, asked by curl; and what the calls do."""
import json
import os
import subprocess
import threading
import time
import unittest

import spec
from service import PROGRAM, WAIT_S, Case, until

NONE = "00000000-0000-0000-0000-000000000001"
TOKEN = "a-token-of-some-length"
CALLS = {"renew": {}, "complete": {}, "fail": {}, "release": {}}
NDJSON = ("Content-Type: application/x-ndjson",)


def lines(*jobs):
    return "".join(job + "\n" for job in jobs)


class Routes(unittest.TestCase):
    def test_the_service_and_the_file_have_the_same(self):
        said = subprocess.run([PROGRAM, "--routes"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(sorted(said.splitlines()), sorted("%s %s" % key for key, _ in spec.operations()))


class Calls(Case):
    def setUp(self):
        super().setUp()
        with open(os.path.join(self.folder, "token"), "w", encoding="utf-8") as file:
            file.write(TOKEN + "\n")
        self.s = self.service("--queue", "Other Jobs", "--token-file", os.path.join(self.folder, "token"),
                              "--max-body", "100000", "--host", "127.0.0.1", "--lease", "100", "--cache", "4",
                              token=TOKEN)

    def form(self):
        return ("X-Form-Token: " + self.s.get("/v1/form-token").json["form_token"],)

    # -- the paths that need nothing --

    def open_paths(self):
        s = self.s
        page = s.get("/", token=False)
        self.assertEqual(page.code, 200)
        self.assertIn("default-src 'none'", page.headers["content-security-policy"])
        self.assertEqual(s.ask("HEAD", "/").headers["content-length"], page.headers["content-length"])
        self.assertEqual(s.get("/healthz", token=False).code, 200)
        self.assertEqual(s.get("/readyz", token=False).code, 200)
        self.assertEqual(s.get("/v1/queues").json["queues"], ["VideoRenderJobs", "Other Jobs"])
        self.assertEqual(s.get("/nothing").code, 404)
        self.assertEqual(s.get("/v1/nothing").error, "not_found")
        self.assertEqual(s.get("/v1/jobs/" + NONE + "/").error, "not_found")
        for method, path, allow in (("DELETE", "/v1/jobs/" + NONE, "GET, HEAD"), ("GET", "/v1/next", "POST"),
                                    ("POST", "/v1/stats", "GET, HEAD"),
                                    ("PUT", "/v1/queues/Other%20Jobs/jobs", "POST")):
            answer = s.ask(method, path)
            self.assertEqual((answer.code, answer.headers["allow"]), (405, allow))

    def queue_paths(self, path):
        """(method, path, body) of all that is about one queue."""
        yield "POST", path + "/next", {"worker": "node-1"}
        yield "POST", path + "/jobs", {"composition_id": "x", "payload": {}}
        yield "GET", path + "/jobs/" + NONE, None
        for call, more in CALLS.items():
            yield "POST", path + "/jobs/%s/%s" % (NONE, call), dict(more, lease=NONE)
        yield "POST", path + "/jobs/%s/retry" % NONE, {}
        yield "GET", path + "/stats", None
        yield "GET", path + "/dead", None

    def refusals(self):
        s = self.s
        for method, path, body in [*self.queue_paths("/v1"), ("GET", "/metrics", None), ("GET", "/v1/queues", None),
                                   ("GET", "/v1/form-token", None)]:
            for wrong in ((), ("Authorization: Bearer " + TOKEN + "x",), ("Authorization: Bearer x",),
                          ("Authorization: Bearer ",), ("Authorization: Basic " + TOKEN,)):
                answer = s.ask(method, path, body, token=False, headers=wrong)
                self.assertEqual((answer.code, answer.error), (401, "unauthorized"), path)
            answer = s.ask(method, path, body, headers=("Host: evil.example",))
            self.assertEqual((answer.code, answer.error), (421, "wrong_host"))
            if method == "POST":
                self.refuse_browsers(path, body)
        # Who has no token does not learn what there is.
        for method, path in (("GET", "/nothing"), ("GET", "/v1/queues/Nothing/stats"), ("GET", "/v1/jobs/x"),
                             ("DELETE", "/v1/stats"), ("POST", "/v1/queues/Other%20Jobs/nothing")):
            answer = s.ask(method, path, token=False, check=False)
            self.assertEqual((answer.code, answer.error), (401, "unauthorized"), path)
            self.assertNotIn("allow", answer.headers)
        self.assertEqual(s.get("/v1/form-token", headers=("Sec-Fetch-Site: cross-site",)).error, "other_origin")
        self.assertEqual(s.get("/v1/form-token", headers=("Origin: http://evil.example",)).error, "other_origin")
        self.assertEqual(s.get("/", headers=("Host: evil.example",)).code, 421)
        for method, path, body in self.queue_paths("/v1/queues/Nothing"):
            self.assertEqual(s.ask(method, path, body, headers=self.form()).error, "no_such_queue")

    def refuse_browsers(self, path, body):
        s, form = self.s, self.form()
        own = "Origin: http://127.0.0.1:%d" % s.port
        for headers, error in (
                (("Origin: http://evil.example", *form), "other_origin"),
                (("Origin: null", *form), "other_origin"),
                (("Origin: http://127.0.0.1:1", *form), "other_origin"),
                (("Sec-Fetch-Site: cross-site", *form), "other_origin"),
                (("Sec-Fetch-Site: same-site", own, *form), "other_origin"),
                ((own,), "form_token"),
                (("Sec-Fetch-Site: same-origin",), "form_token"),
                ((own, "X-Form-Token: 00"), "form_token"),
                ((own, form[0][:-1]), "form_token")):
            answer = s.post(path, body, headers=headers)
            self.assertEqual((answer.code, answer.error), (403, error), headers)

    def bad_bodies(self):
        s = self.s
        for path in ["/v1/next", "/v1/jobs"] + ["/v1/jobs/%s/%s" % (NONE, call) for call in [*CALLS, "retry"]]:
            answer = s.post(path, '{"worker": "node-1",\n  "x": }', headers=self.form())
            self.assertEqual((answer.code, answer.error), (400, "bad_json"), path)
            self.assertEqual((answer.json["error"]["line"], answer.json["error"]["column"]), (2, 8), path)
            self.assertIn("line 2, column 8", answer.json["error"]["message"])
            for body in ("[]", "3", '"x"', "null", '{"nothing": 1}'):
                answer = s.post(path, body, headers=self.form())
                self.assertEqual((answer.code, answer.error), (400, "bad_request"), path + body)
            self.assertEqual(s.post(path, "x" * 200000, headers=self.form()).code, 413)
            self.assertEqual(s.post(path, "x" * 200000, headers=(*self.form(), "Transfer-Encoding: chunked")).code, 413)
            if path != "/v1/jobs/%s/retry" % NONE:
                self.assertEqual(s.post(path, "", headers=self.form()).error, "bad_json")
        for body, said in (({}, "worker is missing"), ({"worker": 1}, "a string is expected"),
                           ({"worker": ""}, "empty"), ({"worker": "x" * 129}, "too long"),
                           ({"worker": "x "}, "blank"), ({"worker": "\U0001f600" * 65}, "too long"),
                           ({"worker": "x", "wait_s": 61}, "from 0 to 60"), ({"worker": "x", "wait_s": "1"}, "number"),
                           ('{"worker": "x", "worker": "y"}', "line 1"), ('{"worker": "a\\u0000"}', "line 1")):
            answer = s.post("/v1/next", body)
            self.assertEqual(answer.code, 400, body)
            self.assertIn(said, answer.json["error"]["message"])
        for call, body in (("renew", {}), ("complete", {"lease": 1}), ("fail", {"lease": "x"}),
                           ("fail", {"lease": NONE, "retry_ms": "later"}), ("fail", {"lease": NONE, "retry_ms": -1}),
                           ("fail", {"lease": NONE, "retry_ms": 1.5}), ("release", {"lease": NONE, "delay_ms": -1}),
                           ("release", {"lease": NONE, "delay_ms": 10 ** 15}), ("complete", {"lease": NONE, "x": 1})):
            self.assertEqual(s.post("/v1/jobs/%s/%s" % (NONE, call), body).error, "bad_request", (call, body))
        for job, said in (({}, "composition_id"), ({"composition_id": "x"}, "payload is missing"),
                          ({"composition_id": "x", "payload": 1}, "object"),
                          ({"composition_id": "", "payload": {}}, "empty"),
                          ({"composition_id": "x" * 201, "payload": {}}, "composition_id"),
                          ({"composition_id": "x", "payload": {}, "priority": 3000000000}, "priority"),
                          ({"composition_id": "x", "payload": {}, "titel": 1}, "titel"),
                          ({"composition_id": "x", "payload": {}, "dedup_key": "x "}, "dedup")):
            answer = s.post("/v1/jobs", job)
            self.assertEqual((answer.code, answer.error), (400, "bad_request"), job)
            self.assertIn(said, answer.json["error"]["message"])
        for path in ("/v1/stats?minutes=0", "/v1/stats?minutes=x", "/v1/stats?minutes=1441", "/v1/dead?limit=201",
                     "/v1/dead?offset=-1", "/v1/jobs/x", "/v1/jobs/" + NONE + "x", "/v1/jobs/%00"):
            self.assertEqual(s.get(path).error, "bad_request", path)

    # -- a job's life --

    def life(self):
        s = self.s
        self.assertEqual(s.next().code, 204)
        text = '{"n":1.50,"big":123456789012345678901234567890,"s":" a b"}'
        body = '{"composition_id": "intro", "payload": {"n": 1.50, "big": 123456789012345678901234567890, ' \
               '"s": " a b"}, "output_url": "a/intro.mp4", "dedup_key": "webhook-1", "priority": -7, "max_retries": 0}'
        made = s.post("/v1/jobs", body)
        self.assertEqual((made.code, made.json["status"]), (201, "OK"))
        again = s.post("/v1/jobs", body)
        self.assertEqual((again.code, again.json), (200, {"id": made.json["id"], "status": "DUPLICATE"}))
        taken = s.take(worker="node \U0001f600")
        self.assertEqual(taken["id"], made.json["id"])
        self.assertEqual(taken["payload_json"], text)
        self.assertEqual([taken[name] for name in ("composition_id", "output_url", "dedup_key", "priority",
                                                   "max_retries", "retry_count", "worker", "queue")],
                         ["intro", "a/intro.mp4", "webhook-1", -7, 0, 0, "node \U0001f600", "VideoRenderJobs"])
        self.assertTrue(61000 < taken["lease_left_ms"] <= 100000)      # and not that of the cache
        self.assertEqual(s.next().code, 204)
        path = "/v1/jobs/" + taken["id"]
        seen = s.get(path.lower()).json
        self.assertEqual((seen["state"], seen["worker"], seen["payload_json"]), ("Processing", "node \U0001f600", text))
        self.assertNotIn("lease", seen)
        self.assertIsNotNone(seen["started_at"])
        renewed = s.post(path + "/renew", {"lease": taken["lease"], "progress": "frame 7"})
        self.assertTrue(61000 < renewed.json["lease_left_ms"] <= 100000)
        self.assertEqual(s.get(path).json["progress"], "frame 7")
        self.workers()
        self.assertEqual(s.post(path + "/complete", {"lease": NONE}).error, "lost")
        done = s.post(path + "/complete", {"lease": taken["lease"].lower(), "output_url": "a/other.mp4"})
        self.assertEqual(done.json, {"id": taken["id"], "status": "OK"})
        self.assertEqual(s.get(path).json["state"], "Completed")
        self.assertEqual(s.get(path).json["output_url"], "a/other.mp4")
        # An answer may be lost: the same again is answered alike, and another call is not.
        self.assertEqual(s.post(path + "/complete", {"lease": taken["lease"]}).code, 200)
        for call in ("renew", "fail", "release"):
            self.assertEqual(s.post(path + "/" + call, {"lease": taken["lease"]}).error, "lost")
        self.assertEqual(s.get("/v1/jobs/" + NONE).error, "no_such_job")

    def workers(self):
        """The stats show who holds what, and not what lies in the cache."""
        for i in range(3):
            self.s.enqueue(composition_id="held %d" % i, priority=5)
        mine = [self.s.take(worker="machine-9") for _ in range(2)]

        def shown():
            stats = self.s.get("/v1/stats?minutes=3").json
            return stats if stats["workers_total"] == 2 and stats["totals"]["handed_out"] == 3 else None
        stats = until(shown, "the stats show both workers")
        held = {worker["worker"]: worker for worker in stats["workers"]}
        self.assertEqual(sorted(hold["id"] for hold in held["machine-9"]["holds"]), sorted(job["id"] for job in mine))
        self.assertEqual(held["machine-9"]["jobs"], 2)
        self.assertEqual(held["node \U0001f600"]["holds"][0]["progress"], "frame 7")
        self.assertEqual(len(stats["throughput"]), 3)
        self.assertEqual(sum(minute["handed_out"] for minute in stats["throughput"]), 3)
        self.assertEqual(stats["counts"]["Processing"] + stats["counts"]["Queued"], 4)
        for job in mine:
            self.assertEqual(self.s.post("/v1/jobs/%s/complete" % job["id"], {"lease": job["lease"]}).code, 200)
        rest = self.s.take()
        self.assertEqual(self.s.post("/v1/jobs/%s/complete" % rest["id"], {"lease": rest["lease"]}).code, 200)

    def failures(self):
        s = self.s
        job_id = s.enqueue(max_retries=1)
        taken = s.take()
        path = "/v1/jobs/" + job_id
        failed = {"lease": taken["lease"], "error": "disk full", "retry_ms": 0}
        self.assertEqual(s.post(path + "/fail", failed).code, 200)
        self.assertEqual(s.post(path + "/fail", {"lease": taken["lease"]}).code, 200)
        seen = s.get(path).json
        self.assertEqual((seen["retry_count"], seen["last_error"]), (1, "disk full"))
        taken = s.take(wait_s=WAIT_S)
        self.assertEqual((taken["id"], taken["retry_count"], taken["last_error"]), (job_id, 1, "disk full"))
        self.assertEqual(s.post(path + "/release", {"lease": taken["lease"]}).code, 200)
        taken = s.take(wait_s=WAIT_S)
        self.assertEqual(taken["retry_count"], 1)
        self.assertEqual(s.post(path + "/release", {"lease": taken["lease"], "delay_ms": 3600000}).code, 200)
        self.assertEqual(s.get(path).json["state"], "Scheduled")
        self.assertEqual(s.post(path + "/retry", headers=self.form()).error, "wrong_state")
        never = s.enqueue(composition_id="bad", dedup_key="k")
        taken = s.take()
        self.assertEqual(s.post("/v1/jobs/%s/fail" % never, {"lease": taken["lease"], "error": "\U0001f600" * 5000,
                                                             "retry_ms": "never"}).code, 200)
        backoff = s.enqueue(composition_id="slow")
        taken = s.take()
        failed = {"lease": taken["lease"], "retry_ms": "backoff"}
        self.assertEqual(s.post("/v1/jobs/%s/fail" % backoff, failed).code, 200)
        self.assertEqual(s.get("/v1/jobs/" + backoff).json["state"], "Scheduled")
        taken = s.take(wait_s=WAIT_S)
        self.assertEqual((taken["id"], taken["retry_count"]), (backoff, 1))
        self.assertEqual(s.post("/v1/jobs/%s/complete" % backoff, {"lease": taken["lease"]}).code, 200)
        self.dead_letters(never)

    def dead_letters(self, job_id):
        s = self.s
        path = "/v1/jobs/%s/retry" % job_id
        dead = s.get("/v1/dead").json
        self.assertEqual([job["id"] for job in dead["jobs"]], [job_id])
        self.assertIsNone(dead["next"])
        self.assertEqual(s.post(path).error, "form_token")
        holder = s.enqueue(dedup_key="k")
        answer = s.post(path, headers=self.form())
        self.assertEqual((answer.code, answer.error, answer.json["error"]["holder"]), (409, "duplicate", holder))
        taken = s.take()
        s.post("/v1/jobs/%s/complete" % holder, {"lease": taken["lease"]})
        own = ("Origin: http://127.0.0.1:%d" % s.port, "Sec-Fetch-Site: same-origin", *self.form())
        self.assertEqual(s.post(path, headers=own).json, {"id": job_id, "status": "OK"})
        self.assertEqual(s.post(path, {}, headers=own).code, 200)
        self.assertEqual(s.post("/v1/jobs/%s/retry" % NONE, headers=own).error, "no_such_job")
        self.assertEqual(s.take(wait_s=WAIT_S)["retry_count"], 0)

    def pages(self):
        s = self.s
        path = "/v1/queues/Other%20Jobs"
        body = lines(*['{"composition_id": "%d", "payload": {}}' % i for i in range(5)])
        self.assertEqual(s.post(path + "/jobs", body, headers=NDJSON).code, 200)
        for _ in range(5):
            job = s.take(queue="Other Jobs")
            self.assertEqual(job["queue"], "Other Jobs")
            self.assertEqual(s.post("%s/jobs/%s/fail" % (path, job["id"]), {"lease": job["lease"], "retry_ms": "never"})
                             .code, 200)
        self.assertEqual(s.get("/v1/dead").json["jobs"], [])
        found, offset = [], 0
        while offset is not None:
            page = s.get("%s/dead?limit=2&offset=%d" % (path, offset)).json
            found += [job["composition_id"] for job in page["jobs"]]
            offset = page["next"]
        self.assertEqual(sorted(found), ["0", "1", "2", "3", "4"])

        def counted():
            return s.get(path + "/stats").json["counts"]["DeadLetter"] == 5
        until(counted, "the other queue's stats count its dead letters")

    def bulk(self):
        s = self.s
        answer = s.post("/v1/jobs", lines(
            '{"composition_id": "1", "payload": {"a": 1}, "priority": 9}', "", '{"composition_id": 2}', "{",
            '{"composition_id": "%s", "payload": {}}' % ("x" * 201), '{"composition_id": "3", "payload_json": "text", '
            '"dedup_key": "twice", "priority": 9}', '{"composition_id": "4", "payload": {}, "dedup_key": "twice"}',
            '{"composition_id": "5", "payload": {}, "output_url": "../x"}')
            + '{"composition_id": "6", "payload": {}, "priority": 9}', headers=NDJSON)
        self.assertEqual(answer.code, 200)
        got = [json.loads(line) for line in answer.body.splitlines()]
        self.assertEqual([(one["line"], one["status"]) for one in got],
                         [(1, "OK"), (3, "INVALID"), (4, "INVALID"), (5, "INVALID"), (6, "OK"), (7, "DUPLICATE"),
                          (8, "INVALID"), (9, "OK")])
        self.assertEqual(got[5]["id"], got[4]["id"])
        self.assertIn("composition_id", got[3]["error"])
        self.assertIn("..", got[6]["error"])
        for wanted in ("1", "3", "6"):
            job = s.take()
            self.assertEqual(job["composition_id"], wanted)
            s.post("/v1/jobs/%s/complete" % job["id"], {"lease": job["lease"]})
        self.assertEqual(s.post("/v1/jobs", "\n\n", headers=NDJSON).body, "")
        many = s.post("/v1/jobs", lines(*['{"composition_id": "%d", "payload": {}, "delay_ms": 3600000}' % i
                                          for i in range(1500)]), headers=NDJSON)
        self.assertEqual(many.body.count('"status":"OK"'), 1500)

    def waiting(self):
        s = self.s
        began = time.monotonic()
        self.assertEqual(s.next(wait_s=0.5).code, 204)
        self.assertGreaterEqual(time.monotonic() - began, 0.5)
        got = []
        threads = [threading.Thread(target=lambda: got.append(s.next(wait_s=WAIT_S))) for _ in range(3)]
        for thread in threads:
            thread.start()
        until(lambda: s.get("/v1/stats").json["waiting"] == 3, "three clients wait")
        made = [s.enqueue() for _ in range(3)]
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(answer.json["id"] for answer in got), sorted(made))
        for answer in got:
            s.post("/v1/jobs/%s/complete" % answer.json["id"], {"lease": answer.json["lease"]})

    def metrics(self):
        text = self.s.get("/metrics").body
        self.assertIn("\nrenderq_up 1\n", text)
        self.assertIn('renderq_jobs{queue="Other Jobs",state="DeadLetter"} 5\n', text)
        self.assertRegex(text, r'renderq_handed_out_total\{queue="VideoRenderJobs"\} [1-9]')
        self.assertRegex(text, r'renderq_http_answers_total\{code="401"\} [1-9]')
        for line in text.splitlines():
            self.assertRegex(line, r'^(# (TYPE|HELP) renderq_\w+ .+|'
                                   r'renderq_\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? [0-9.]+)$')

    def without_the_table(self):
        """The database does not do what it should: 503 everywhere, and all is well when it is mended."""
        s = self.s

        def rename(old, new):
            with s.sql() as db:
                db.execute("DROP VIEW IF EXISTS VideoRenderJobs_View")
                db.execute('ALTER TABLE "%s" RENAME TO "%s"' % (old, new))
        rename("VideoRenderJobs", "away")
        until(lambda: s.get("/v1/stats").code == 503, "what was counted is no longer good")
        for method, path, body in self.queue_paths("/v1"):
            answer = s.ask(method, path, body, headers=self.form())
            self.assertEqual(answer.code, 503, path)
            self.assertGreater(int(answer.headers["retry-after"]), 0)
        self.assertEqual(s.post("/v1/jobs", lines('{"composition_id": "1", "payload": {}}'), headers=NDJSON).code, 503)
        self.assertEqual(s.get("/readyz").code, 503)
        self.assertEqual(s.get("/healthz").code, 200)
        self.assertIn("\nrenderq_up 0\n", s.get("/metrics").body)
        rename("away", "VideoRenderJobs")
        until(lambda: s.get("/readyz").code == 200, "it is ready again")
        until(lambda: s.next().code == 204, "it hands out again")

    def test_all_of_it(self):
        self.open_paths()
        self.refusals()
        self.bad_bodies()
        self.life()
        self.failures()
        self.pages()
        self.bulk()
        self.waiting()
        self.metrics()
        self.without_the_table()
        self.assertEqual(list(spec.missing()), [])
        self.assertEqual(self.s.stop(), 0)
        with open(self.s.access, encoding="utf-8") as log:
            access = log.read()
        with open(self.s.log, encoding="utf-8") as log:
            access += log.read()
        self.assertGreater(access.count("\n"), 300)
        self.assertNotIn(TOKEN, access)
        self.assertNotIn("Bearer", access)


if __name__ == "__main__":
    unittest.main()
