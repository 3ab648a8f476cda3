"""service.py: a renderq-controller of a test's own, and questions to it by curl. Whatever it is asked here is held
against controller/openapi.yaml: the status must be one that the file gives for the path, and the body must have the
shape that it gives."""
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
import unittest
import urllib.parse

import spec

SOURCE = os.environ.get("SOURCE", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.path.abspath(os.environ.get("BUILD", os.path.join(SOURCE, "build")))
PROGRAM = os.path.join(BUILD, "renderq-controller")
# Memory checkers are slow; everything here waits for something to happen, and this long at most.
PATIENCE_S = 60
# The longest that a client may wait for a job: what has to come comes earlier.
WAIT_S = 60


class Answer:
    def __init__(self, code, headers, body):
        self.code, self.headers, self.body = code, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]["code"]

    def __repr__(self):
        return "%s %s" % (self.code, self.body[:300])


def until(condition, what):
    """Waits for what is bound to happen."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        got = condition()
        if got:
            return got
        time.sleep(0.02)
    raise AssertionError("this did not happen: " + what)


class Service:
    """One process. `args` are added to those that every test wants."""

    def __init__(self, folder, *args, db=None, token=None, listen="127.0.0.1:0", curl=()):
        self.folder, self.token, self.curl = folder, token, list(curl)
        self.file = os.path.join(folder, "queue.db")
        self.outputs = os.path.join(folder, "outputs")
        os.makedirs(self.outputs, exist_ok=True)
        self.log = os.path.join(folder, "log")
        self.access = os.path.join(folder, "access")
        # It must not outlive the test, whatever ends that.
        # The tests write to the file, too, and the machine may stand still while they do.
        db = db or "sqlite:%s?busy_timeout_ms=%d" % (self.file, PATIENCE_S * 1000)
        self.command = ["setpriv", "--pdeathsig", "KILL", PROGRAM, "--db", db, "--create", "--listen", listen,
                        "--outputs", self.outputs, *args]
        self.process = None
        self.out = None                 # where its access log goes instead

    def start(self):
        with open(self.log, "ab") as err, open(self.access, "ab") as out:
            begin = err.tell()
            self.process = subprocess.Popen(self.command, stdout=self.out or out, stderr=err)

        def listening():
            if self.process.poll() is not None:
                raise AssertionError("it ended with %d: %s" % (self.process.returncode, self.said(begin)))
            return re.search(r"renderq-controller: listening on (\S+)", self.said(begin))
        self.url = until(listening, "it listens").group(1)
        self.port = int(self.url.rsplit(":", 1)[1])

    def start_again(self):
        """On the port that it had, which somebody else may have for a moment."""
        self.command[self.command.index("--listen") + 1] = "127.0.0.1:%d" % self.port
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.start()
                return
            except AssertionError as e:
                if "cannot listen" not in str(e) or time.monotonic() > end:
                    raise
                time.sleep(0.5)

    def said(self, begin=0):
        with open(self.log, encoding="utf-8") as log:
            log.seek(begin)
            return log.read()

    def stop(self):
        """SIGTERM; returns the exit code. What it gives those who are asking, and then the database, fits in twice."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(2 * PATIENCE_S)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def ask(self, method, path, body=None, headers=(), token=True, check=True, curl=()):
        """By curl, which waits longer than the longest wait_s. A body that is no text is sent as JSON."""
        command = ["curl", "-sS", "-i", "-X", method, "--max-time", str(WAIT_S + PATIENCE_S), *self.curl, *curl]
        if method == "HEAD":
            command[3:5] = ["--head"]
        if self.token and token:
            command += ["-H", "Authorization: Bearer " + self.token]
        for header in headers:
            command += ["-H", header]
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
            command += ["--data-binary", "@-"]
            if not any(header.lower().startswith("content-type:") for header in headers):
                command += ["-H", "Content-Type: application/json"]
        done = subprocess.run(command + [self.url + path], input=data, capture_output=True, check=False)
        if done.returncode != 0:
            raise AssertionError("curl: " + done.stderr.decode())
        raw = done.stdout
        while True:                             # "100 Continue" comes before the answer
            head, _, raw = raw.partition(b"\r\n\r\n")
            lines = head.decode().split("\r\n")
            code = int(lines[0].split()[1])
            if code != 100:
                break
        headers = {line.split(":", 1)[0].lower(): line.split(":", 1)[1].strip() for line in lines[1:]}
        answer = Answer(code, headers, raw.decode())
        if check and method != "HEAD":
            spec.check(method, path.split("?")[0], answer)
        return answer

    def get(self, path, **more):
        return self.ask("GET", path, **more)

    def post(self, path, body=None, **more):
        return self.ask("POST", path, body, **more)

    def enqueue(self, **job):
        job.setdefault("composition_id", "intro")
        if "payload_json" not in job:
            job.setdefault("payload", {"title": "HELLO"})
        answer = self.post("/v1/jobs", job)
        assert answer.code == 201, answer
        return answer.json["id"]

    def next(self, worker="node-1", wait_s=0, queue=None):
        path = "/v1/queues/%s/next" % urllib.parse.quote(queue, safe="") if queue else "/v1/next"
        return self.post(path, {"worker": worker, "wait_s": wait_s})

    def take(self, **more):
        """A job that has to be there."""
        answer = self.next(**more)
        assert answer.code == 200, answer
        return answer.json

    def sql(self, **more):
        """The file, as somebody else opens it."""
        return sqlite3.connect(self.file, timeout=PATIENCE_S, **more)

    def run_out(self):
        """All leases have run out."""
        with self.sql() as db:
            db.execute("UPDATE VideoRenderJobs SET LockedAtUtc = 1000, LeasedAtUtc = 1000 WHERE Status = 'Processing'")

    def row(self, job_id, *columns, table="VideoRenderJobs"):
        """Columns of a job as they are in the file."""
        names = ["JobId", "Status", "WorkerNodeId", "StartedAtUtc", "RetryCount", "LeaseToken", "LeaseSeconds"]
        with self.sql() as db:
            for found in db.execute('SELECT %s FROM "%s_View"' % (", ".join(columns), table) +
                                    " WHERE JobId = ?", (job_id,)):
                return found if len(columns) > 1 else found[0]
        raise AssertionError("no job %s among %s" % (job_id, names))

    def state(self, job_id, path="/v1/jobs/"):
        return self.get(path + job_id).json["state"]


class Case(unittest.TestCase):
    """A test with a folder; services that it makes are ended."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.services = []
        self.addCleanup(self.clean)

    def clean(self):
        for service in self.services:
            if service.process and service.process.poll() is None:
                service.process.kill()
                service.process.wait()
        shutil.rmtree(self.folder)

    def service(self, *args, **more):
        made = Service(more.pop("folder", self.folder), *args, **more)
        self.services.append(made)
        made.start()
        return made
