"""Each mistake of the museum with what a run can be and with what looks at it: no crash. Either the
run is shown, or one line says why not.
"""

import re

import pytest
from command_line import PROMPT, assert_refused
from live import data_of

from proving.mistakes import MISTAKES

# those that a rule or a draft cannot make
TOKEN_RULE = (
    "greedy-ratio resample-from-p reseed missing-bonus bonus-from-wrong-row first-draft-unverified "
    "draft-noise-again"
).split()
BLOCK_RULE = (
    "block-whole-or-none block-coin-is-p block-unclipped block-residual-of-tokens"
).split()
RULES = [*TOKEN_RULE, *BLOCK_RULE, "residual-nan"]
DRAFT_MODEL = (
    "greedy-draft filter-on-target-only ratio-of-raw-q draft-one-behind draft-noise-again"
).split()
REFUSED = {  # {flags: the mistakes that cannot be made with them}
    "": [],
    "--coupled": RULES,
    "--draft_model_size=ngram": DRAFT_MODEL,
    "--verification=block": TOKEN_RULE,
}
REASON = r"cannot make it; expected |is made in the token rule; expected "
FAILS = r"error: --mistake {}: it makes the program fail \(\w+: .*\); try another\n"
FLAGS = ["--prompt", PROMPT, "--n_tokens_to_generate=12", "--temperature=1"]


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("more", REFUSED)
def test_a_mistake_runs_or_one_line_says_why_not(cli, tmp_path, mistake, more):
    path = tmp_path / "x.html"
    flags = ["--mistake", mistake, *FLAGS, *more.split()]
    done = cli(*flags, "--trace", "--report", path)
    if mistake in REFUSED[more]:
        assert_refused(done, f"--mistake {mistake}")
        assert re.search(REASON, done.err) and [*tmp_path.iterdir()] == []
        return
    if done.code:  # in the middle of its text
        assert done.code == 2 and re.fullmatch(FAILS.format(mistake), done.err)
        assert "Report: " not in done.out and [*tmp_path.iterdir()] == []
        return
    assert done.code == 0 and re.fullmatch(r"(note: .* cannot show .*; try .*\n)?", done.err)
    data = data_of(path)
    text = "".join(shown for row in data["rounds"] for shown in row["shown"])
    assert text == data["figures"]["text"] and f"Text = {PROMPT}{text}\n" in done.out
    counts = re.findall(r"(?m)^ *\d+ +(\d+)/(\d+)  ", done.out)
    rounds = [(str(row["accepted"]), str(row["examined"])) for row in data["rounds"]]
    assert counts == rounds and done.out.endswith(f"Report: {path}\n")
    assert data["settings"]["mistake"] == mistake
    assert f"--mistake {mistake}" in data["command"]
