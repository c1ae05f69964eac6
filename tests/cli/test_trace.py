"""The trace in the terminal: the text of the run, round by round, in marks and colours."""

import re
import sys

import pytest
from command_line import PROMPT

from checkpoints.vocabulary import load_encoder
from cli.trace import Trace
from sampling import Round


@pytest.fixture
def traced(pair, monkeypatch, capsys):
    """A function (*(tokens, draft, accepted)) -> what a Trace prints of such rounds."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    encoder = load_encoder(pair / "17M")
    ids = lambda what: encoder.encode(what) if isinstance(what, str) else list(what)

    def call(*rounds, terminal=False):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
        trace = Trace(encoder)
        for tokens, draft, accepted in rounds:
            trace(Round(ids(tokens), ids(draft), accepted))
        trace(None)
        return capsys.readouterr().out

    return call


def test_every_source_has_its_mark(traced):
    out = traced(("ab", "az", 1), ("xyz", "xy", 2), ("c", "", 0), ("d", "dvw", 1))
    legend, *lines = out.splitlines()
    assert legend.endswith("accepted draft|  [correction]  (bonus)  {target alone}")
    assert lines == [
        '    1       1/2  a|[b]  not "z"',
        "    2       2/2  x|y|(z)",
        "    3       0/0  {c}",
        "    4       1/1  d|",  # the text ended inside the accepted run
    ]


def test_a_character_may_be_split_over_tokens_and_rounds(traced, pair):
    first, *middle, last = load_encoder(pair / "17M").encode("é日")
    plain = [([token], "", 0) for token in (first, last, first)]
    out = traced(plain[0], (middle, middle[:2], 2), *plain[1:])
    pieces = [line[17:] for line in out.splitlines()[1:]]
    assert pieces == ["{}", "é||()", "{日}", "{}", "\ufffd"]


def test_text_cannot_break_lines_or_command_the_terminal(traced):
    out = traced(*((c, c, 0) for c in "\n\x1b[2J\t"), ("\u202e", "\u202e", 2))
    assert out.count("\n") == 8 and "\x1b" not in out and r"\x1b" in out and r"\u202e" in out


def test_colour_is_for_terminals_that_want_it(traced, monkeypatch):
    rounds = ("ab", "a", 1), ("c", "d", 0)
    plain, coloured = (traced(*rounds, terminal=terminal) for terminal in (False, True))
    assert "\x1b" not in plain and "\x1b[32m" in coloured
    # the marks stay: colour is never the only sign
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    assert coloured.count("\x1b[0m") == coloured.count("\x1b[") / 2
    monkeypatch.setenv("NO_COLOR", "1")
    assert traced(*rounds, terminal=True) == plain


# ---------------------------------------------------------------- the command


def text_of_trace(out):
    """The text that the lines of a trace add up to; for text without the marks' characters."""
    lines = re.findall(r"(?m)^ *\d+ +\d+/\d+  (.*?)(?:  not \".*\")?$", out)
    return "".join(re.sub(r"[|\[\](){}]", "", line) for line in lines)


@pytest.mark.parametrize(
    "more", [["--coupled"], ["--draft_model_size=ngram"], ["--mode=speculative"]]
)
def test_a_trace_is_the_text_of_the_same_run(cli, as_json, more):
    arguments = ["--prompt", PROMPT, "--n_tokens_to_generate", 30, "--temperature", 1, *more]
    done, figures = cli(*arguments, "--trace"), as_json(*arguments)["speculative"]
    assert (done.code, done.err) == (0, "")
    assert text_of_trace(done.out) == figures["text"]
    assert f"Text = {PROMPT}{figures['text']}\n" in done.out
    counts = re.findall(r"(?m)^ *\d+ +(\d+)/(\d+)  ", done.out)
    accepted, examined = (sum(map(int, column)) for column in zip(*counts))
    names = "accepted", "examined", "rounds"
    assert [accepted, examined, len(counts)] == [figures[name] for name in names]
