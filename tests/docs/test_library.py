"""The example of use from Python: it runs, and its own drafter changes the speed, not the text."""

import re
import subprocess
import sys

from command_line import ENVIRONMENT, ROOT, embedded


@embedded
def test_the_example_writes_one_text_with_both_drafters():
    command = [sys.executable, "-m", "docs.library"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120, env=ENVIRONMENT)
    assert (done.returncode, done.stderr) == (0, b"")
    lines = re.findall(r"([\d.]+) tokens per target pass: (.+)", done.stdout.decode())
    (fast, text), (slow, same) = lines
    assert text == same and len(text) > 80 and float(fast) > float(slow) >= 1
