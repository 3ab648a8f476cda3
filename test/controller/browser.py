"""browser.py: a headless Chromium of a test's own, spoken to over a pipe (--remote-debugging-pipe: JSON, each message
ended by a NUL)."""
import json
import os
import subprocess
import threading
import time

from service import PATIENCE_S, until

PROGRAM = "chromium"


class Browser:
    """One process and what its pages did. `folder` is where it keeps its files."""

    def __init__(self, folder):
        home = os.path.join(folder, "browser")
        os.mkdir(home)
        theirs_in, self.to = os.pipe()
        self.back, theirs_out = os.pipe()
        # bash puts the pipes where Chromium looks for them. It must not outlive the test, whatever ends that.
        command = ["setpriv", "--pdeathsig", "KILL", "bash", "-c",
                   'exec "$@" 3<&%d 4>&%d' % (theirs_in, theirs_out), "bash", PROGRAM, "--headless=new",
                   "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--no-first-run", "--disable-background-networking", "--disable-component-update",
                   "--disable-sync", "--user-data-dir=" + home, "about:blank"]
        with open(os.path.join(folder, "browser.log"), "wb") as log:
            self.process = subprocess.Popen(command, pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, env={**os.environ, "HOME": home, "TZ": "UTC",
                                                                         "LC_ALL": "C.UTF-8", "LANGUAGE": "en"})
        os.close(theirs_in)
        os.close(theirs_out)
        self.changed = threading.Condition()
        self.calls, self.answers, self.events, self.ended = 0, {}, [], False
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        with os.fdopen(self.back, "rb") as pipe:
            rest = b""
            while True:
                got = pipe.read1(1 << 16)
                *messages, rest = (rest + got).split(b"\0")
                with self.changed:
                    for message in map(json.loads, messages):
                        if "id" in message:
                            self.answers[message["id"]] = message
                        else:
                            self.events.append(message)
                    self.ended = not got
                    self.changed.notify_all()
                if not got:
                    return

    def call(self, method, session=None, **params):
        self.calls += 1
        number = self.calls
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        with self.changed:
            self.changed.wait_for(lambda: number in self.answers or self.ended, PATIENCE_S)
            answer = self.answers.pop(number, None)
        if not answer or "error" in answer:
            raise AssertionError("%s: %s" % (method, answer["error"] if answer else "the browser does not answer"))
        return answer["result"]

    def end(self):
        try:
            self.call("Browser.close")
            self.process.wait(PATIENCE_S)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.reader.join(PATIENCE_S)
        os.close(self.to)


class Page:
    """A tab. Its events are kept from its beginning on."""

    def __init__(self, browser, width=1100, height=900, mobile=False):
        self.browser = browser
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Network", "Runtime", "Log", "Page"):
            self.call(domain + ".enable")
        self.resize(width, height, mobile)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def resize(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def open(self, url):
        before = len(self.happened("Page.loadEventFired"))
        failed = self.call("Page.navigate", url=url).get("errorText")
        if failed:
            raise AssertionError("%s: %s" % (url, failed))
        until(lambda: len(self.happened("Page.loadEventFired")) > before, "the page is loaded")

    def run(self, script):
        """The value of an expression in the page."""
        got = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in got:
            raise AssertionError("%s: %s" % (script, got["exceptionDetails"]))
        return got["result"].get("value")

    def until(self, script):
        """Waits until an expression is true."""
        try:
            return until(lambda: self.run("!!(%s)" % script), script)
        except AssertionError as e:
            raise AssertionError("%s; the page says: %s" % (e, self.run("document.body.innerText")[:2000])) from None

    def text(self, selector):
        return self.run("document.querySelector(%s).innerText" % json.dumps(selector))

    def click(self, selector):
        """As a person does: where it is on the screen."""
        x, y = self.run("(() => { const e = document.querySelector(%s); e.scrollIntoView({ block: 'center' });"
                        " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
                        % json.dumps(selector))
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, selector, text):
        """Into a field, with Enter behind it."""
        self.run("document.querySelector(%s).select()" % json.dumps(selector))
        self.run("document.querySelector(%s).focus()" % json.dumps(selector))
        self.call("Input.insertText", text=text)
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r",
                      windowsVirtualKeyCode=13)

    def happened(self, *methods):
        """The parameters of such events so far."""
        with self.browser.changed:
            return [e["params"] for e in self.browser.events
                    if e.get("sessionId") == self.session and e["method"] in methods]

    def requests(self):
        return [e["request"]["url"] for e in self.happened("Network.requestWillBeSent")]

    def complaints(self):
        """Errors and warnings: of the script, of the policy, of the network."""
        return ([e["exceptionDetails"] for e in self.happened("Runtime.exceptionThrown")] +
                [e for e in self.happened("Runtime.consoleAPICalled") if e["type"] in ("error", "warning", "assert")] +
                [e["entry"] for e in self.happened("Log.entryAdded") if e["entry"]["level"] in ("error", "warning")])

    def quiet(self, seconds):
        """How many requests there are while nobody asks for any."""
        before = len(self.requests())
        time.sleep(seconds)
        return len(self.requests()) - before
