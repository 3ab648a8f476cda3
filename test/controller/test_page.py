"""test_page.py: the page at /, in a headless Chromium: what it shows, what its buttons do, and that nothing which comes
from a job is ever more than text."""
import base64
import os
import shutil
import subprocess
import time
import unittest

from browser import PROGRAM, Browser, Page
from service import BUILD, Case, until

HOSTILE = "<img src=x onerror=alert(1)>"
SCRIPT = "</script><script>alert(2)</script>"
TOKEN = "a-token-of-some-length"


def setUpModule():
    """Without a browser nothing is tested, which is a failure where CI is set."""
    if not shutil.which(PROGRAM):
        lacking = AssertionError if os.environ.get("CI") == "true" else unittest.SkipTest
        raise lacking("there is no chromium; the page was not tested")


class PageCase(Case):
    def browse(self):
        browser = Browser(self.folder)
        self.addCleanup(browser.end)        # before the folder goes
        return browser

    def fill(self, s):
        """A queue with jobs in each state; returns their ids."""
        ids = {"dead": s.enqueue(composition_id=HOSTILE, payload={"title": SCRIPT})}
        job = s.take(worker="node-0")
        s.post("/v1/jobs/%s/fail" % job["id"], {"lease": job["lease"], "error": HOSTILE, "retry_ms": "never"})
        ids["completed"] = s.enqueue()
        job = s.take(worker="node-0")
        s.post("/v1/jobs/%s/complete" % job["id"], {"lease": job["lease"], "output_url": "done.mp4"})
        ids["held"] = [s.enqueue(composition_id="outro") for _ in range(2)]
        for _ in range(2):
            job = s.take(worker="node-" + HOSTILE)
            s.post("/v1/jobs/%s/renew" % job["id"], {"lease": job["lease"], "progress": "frame 7 <b>"})
        ids["cancelled"] = s.enqueue()
        subprocess.run([os.path.join(BUILD, "renderq"), "cancel", "--db", "sqlite:" + s.file, ids["cancelled"]],
                       check=True, capture_output=True)
        ids["queued"] = [s.enqueue() for _ in range(3)]
        ids["scheduled"] = s.enqueue(delay_ms=3600000)
        return ids

    def counts(self, page):
        return page.run("Object.fromEntries(Array.from(document.querySelectorAll('#counts .tile'),"
                        " t => [t.querySelector('dt').textContent, t.querySelector('dd').textContent]))")

    def picture(self, page, name):
        """For people: PICTURES names a folder that takes the pictures."""
        folder = os.environ.get("PICTURES")
        if folder:
            time.sleep(1)                       # until it is painted
            data = page.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
            with open(os.path.join(folder, name + ".png"), "wb") as file:
                file.write(base64.b64decode(data))

    def noted(self, page):
        """What the browser complains about; it may do so later than the page shows it."""
        return until(page.complaints, "the browser notes it")

    def check_own(self, page, s):
        """No script of a job has run, nothing was loaded from elsewhere, nothing was complained about."""
        self.assertEqual(page.happened("Page.javascriptDialogOpening"), [])
        self.assertEqual(page.run("document.querySelectorAll('img, b, script').length"), 1)
        asked = page.requests()
        self.assertGreater(len(asked), 3)
        self.assertEqual([url for url in asked if not url.startswith((s.url + "/", "data:,"))], [])
        self.assertEqual(page.complaints(), [])


class Shown(PageCase):
    def test_it_shows_and_retries(self):
        s = self.service("--cache", "0", "--queue", "other jobs/ä")
        ids = self.fill(s)
        page = Page(self.browse())
        page.open(s.url + "/")
        page.until("document.getElementById('state').textContent === 'Live'")
        self.assertEqual(self.counts(page), {"Scheduled": "1", "Queued": "3", "Processing": "2", "Completed": "1",
                                             "Dead letters": "1", "Cancelled": "1"})
        # The chart: a bar of what was completed, one of what failed, a line of what was put in.
        bars = page.run("Array.from(document.querySelectorAll('#chart rect'), r => [r.getAttribute('class'),"
                        " r.getBoundingClientRect().height])")
        self.assertEqual({name for name, height in bars if height > 2}, {"completed", "failed"}, bars)
        self.assertRegex(page.run("document.getElementById('chart').getAttribute('aria-label')"),
                         "1 completed, 1 failed, 9 put in")
        # The worker and what it holds.
        held = page.text("#workers")
        self.assertIn("node-" + HOSTILE, held)
        self.assertIn("2 jobs", held)
        self.assertIn("frame 7 <b>", held)
        for job_id in ids["held"]:
            self.assertIn(job_id, held)
        # The dead letter, with its error as it is.
        self.assertEqual(page.text("#dead pre"), HOSTILE)
        self.assertIn(ids["dead"], page.text("#dead"))
        self.picture(page, "desktop")
        self.check_own(page, s)

        # What happens elsewhere is seen without a click.
        s.enqueue()
        page.until("document.querySelector('#counts').innerText.includes('4')")
        self.assertEqual(self.counts(page)["Queued"], "4")

        # A search, by the form and by a press on an id.
        page.type("#id", " {%s} " % ids["dead"].upper())
        page.until("document.querySelector('#found pre')")
        found = page.text("#found")
        for text in ("Dead letter", HOSTILE, SCRIPT, "1, at most 3 retries"):
            self.assertIn(text, found)
        page.click("#workers .held button")
        page.until("document.querySelector('#found').innerText.includes('Processing')")
        page.type("#id", "00000000-0000-0000-0000-000000000000")
        page.until("document.querySelector('#found').innerText.includes('no such job')")
        page.type("#id", "x")
        page.until("document.querySelector('#found').innerText.includes('is no id')")
        # A job that is not there is a 404, which the browser notes; nothing else is.
        noted = self.noted(page)
        self.assertEqual([(e["source"], "404" in e["text"]) for e in noted], [("network", True)], noted)

        # The retry, after the service was started again: the page gets itself a new form token.
        page.run("ask('v1/form-token').then(got => { formToken = got.form_token; })")
        page.run("formToken = 'of-another-start'")
        page.click("#dead button[aria-label^=Retry]")
        page.until("document.getElementById('dead-said').textContent.includes('is queued again')")
        page.until("document.querySelectorAll('#dead li').length === 0")
        page.until("!document.getElementById('dead-none').hidden")
        self.assertEqual(s.row(ids["dead"], "Status"), "Queued")
        page.until("document.querySelector('#counts').innerText.includes('5')")
        self.assertEqual(self.counts(page)["Dead letters"], "0")

        # The other queue is empty.
        self.assertEqual(page.run("Array.from(document.getElementById('queue').options, o => o.text)"),
                         ["VideoRenderJobs", "other jobs/ä"])
        page.run("const pick = document.getElementById('queue'); pick.value = 'other jobs/ä';"
                 "pick.dispatchEvent(new Event('change'))")
        page.until("document.querySelector('#workers').children.length === 0")
        self.assertEqual(set(self.counts(page).values()), {"0"})
        self.assertEqual(page.run("document.querySelectorAll('img, b, script').length"), 1)

    def test_on_a_phone(self):
        s = self.service("--cache", "0")
        ids = self.fill(s)
        job_id = s.enqueue(composition_id="y" * 200, priority=1)
        job = s.take(worker="w" * 128)
        self.assertEqual(job["id"], job_id)
        s.post("/v1/jobs/%s/fail" % job_id, {"lease": job["lease"], "error": "z" * 8000, "retry_ms": "never"})
        page = Page(self.browse(), 360, 640, mobile=True)
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        page.open(s.url + "/")
        page.until("document.querySelectorAll('#dead li').length === 2")
        page.type("#id", ids["dead"])
        page.until("document.querySelector('#found pre')")
        self.assertEqual(page.run("innerWidth"), 360)
        self.assertLessEqual(page.run("document.documentElement.scrollWidth"), 360)
        wide = page.run("Array.from(document.querySelectorAll('body *')).filter(e =>"
                        " e.getBoundingClientRect().right > 360.5 && !e.closest('svg')).map(e => e.outerHTML)")
        self.assertEqual(wide, [])
        red, green, blue = page.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        self.assertLess(red + green + blue, 200)
        # Everything that takes an entry or a press has a name.
        self.assertEqual(page.run("Array.from(document.querySelectorAll('input, select, button')).filter(e =>"
                                  " !(e.labels && e.labels.length) && !e.getAttribute('aria-label') &&"
                                  " !e.textContent.trim()).length"), 0)
        self.picture(page, "phone")
        self.check_own(page, s)

    def test_pages_of_dead_letters(self):
        s = self.service("--cache", "0")
        for _ in range(30):
            s.enqueue()
            job = s.take()
            s.post("/v1/jobs/%s/fail" % job["id"], {"lease": job["lease"], "retry_ms": "never"})
        page = Page(self.browse())
        page.open(s.url + "/")
        page.until("document.querySelectorAll('#dead li').length === 25")
        self.assertIn("1 to 25 of 30", page.text("#dead-h"))
        page.click("#on")
        page.until("document.querySelectorAll('#dead li').length === 5")
        self.assertIn("26 to 30 of 30", page.text("#dead-h"))
        page.click("#back")
        page.until("document.querySelectorAll('#dead li').length === 25")
        self.check_own(page, s)


class Away(PageCase):
    def test_it_says_so_and_comes_back(self):
        s = self.service()
        page = Page(self.browse())
        page.open(s.url + "/")
        page.until("document.getElementById('state').textContent === 'Live'")
        self.assertEqual(s.stop(), 0)
        page.until("document.getElementById('state').textContent === 'Not reachable'")
        self.assertIn("cannot be reached", page.text("#alarm"))
        s.start_again()
        page.until("document.getElementById('state').textContent === 'Live'")
        self.assertTrue(page.run("document.getElementById('alarm').hidden"))
        noted = self.noted(page)
        self.assertEqual({e.get("source") for e in noted}, {"network"}, noted)

    def test_hidden_it_rests(self):
        s = self.service()
        page = Page(self.browse())
        page.open(s.url + "/")
        page.until("document.getElementById('state').textContent === 'Live'")
        hide = ("Object.defineProperty(document, 'hidden', { value: %s, configurable: true });"
                "document.dispatchEvent(new Event('visibilitychange'))")
        page.run(hide % "true")
        self.assertEqual(page.text("#state"), "Paused")
        until(lambda: page.quiet(5) == 0, "it asks no more")       # but for what was on its way
        page.run(hide % "false")
        page.until("document.getElementById('state').textContent === 'Live'")
        until(lambda: page.quiet(1) > 0, "it asks again")


class Token(PageCase):
    def test_it_asks_for_the_token(self):
        tokens = os.path.join(self.folder, "tokens")
        with open(tokens, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(TOKEN + "\n")
        s = self.service("--cache", "0", "--token-file", tokens, token=TOKEN)
        ids = self.fill(s)
        page = Page(self.browse())
        page.open(s.url + "/")
        page.until("!document.getElementById('ask').hidden")
        self.assertTrue(page.run("document.getElementById('all').hidden"))
        self.picture(page, "token")
        page.type("#token", "a wrong one")
        page.until("document.getElementById('ask-said').textContent.includes('without blanks')")
        page.type("#token", "a-wrong-token-of-some-length")
        page.until("document.getElementById('ask-said').textContent.includes('does not take')")
        page.type("#token", TOKEN)
        page.until("document.getElementById('state').textContent === 'Live'")
        self.assertTrue(page.run("document.getElementById('ask').hidden"))
        self.assertEqual(self.counts(page)["Queued"], "3")
        self.assertEqual(page.run("[localStorage.length, document.cookie]"), [0, ""])
        page.click("#dead button[aria-label^=Retry]")
        page.until("document.querySelectorAll('#dead li').length === 0")
        self.assertEqual(s.row(ids["dead"], "Status"), "Queued")
        # It is kept while the tab is open.
        page.open(s.url + "/")
        page.until("document.getElementById('state').textContent === 'Live'")
        self.assertEqual([url for url in page.requests() if TOKEN in url], [])
        noted = self.noted(page)
        self.assertEqual({(e.get("source"), "401" in e.get("text", "")) for e in noted}, {("network", True)}, noted)


if __name__ == "__main__":
    unittest.main()
