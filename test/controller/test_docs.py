"""test_docs.py: renderq-controller(8) has the options that the program has, its example works, and systemd takes the
unit."""
import os
import re
import shutil
import subprocess
import unittest

from service import PROGRAM, SOURCE, Case

MAN = os.path.join(SOURCE, "man", "renderq-controller.8")


class Docs(Case):
    def test_options(self):
        text = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True).stdout
        with open(MAN, encoding="utf-8") as page:
            described = set(re.findall(r"Fl -([a-z-]+)", page.read()))
        offered = set(re.findall(r"--([a-z-]+)", text))
        self.assertEqual(described, offered)
        for line in text.splitlines():
            self.assertLess(len(line), 90, line)

    def test_the_first_example(self):
        with open(MAN, encoding="utf-8") as page:
            example = re.search(r"^\.Sh EXAMPLES.*?^\.Bd.*?\n(.*?)^\.Ed", page.read(), re.M | re.S).group(1)
        s = self.service()
        lines = example.replace("\\e\n", "\\\n").split("\n")
        # The service is this test's, on another port.
        script = "\n".join(["url=" + s.url] + lines[2:])
        os.mkdir(os.path.join(self.folder, "videos"))
        done = subprocess.run(["sh", "-e"], input=script, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"output_url":"intro.mp4"', done.stdout)
        self.assertIn('"worker":"machine-1"', done.stdout)

    def test_the_unit(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("there is no systemd-analyze")
        with open(os.path.join(SOURCE, "controller", "renderq-controller.service"), encoding="utf-8") as unit:
            text = unit.read().replace("@SBINDIR@", os.path.dirname(PROGRAM))
        path = os.path.join(self.folder, "renderq-controller.service")
        with open(path, "w", encoding="utf-8") as unit:
            unit.write(text)
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True,
                              check=False)
        self.assertNotIn("renderq-controller.service", done.stderr)


if __name__ == "__main__":
    unittest.main()
