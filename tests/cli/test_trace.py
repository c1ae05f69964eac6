"""The trace in the terminal: the text of the run, round by round, in marks and colours."""

import io
import re
from types import SimpleNamespace

import pytest
from command_line import PROMPT, assert_refused

from checkpoints.errors import printable
from experiments.showing.trace import Trace, in_colour
from sampling import Round
from utils import load_encoder


class Screen(io.StringIO):
    """A terminal, or a file; counts how often it is flushed."""

    def __init__(self, terminal=False):
        super().__init__()
        self.terminal, self.n_flushed = terminal, 0

    def isatty(self):
        return self.terminal

    def flush(self):
        self.n_flushed += 1


def traced(pair, *pieces, terminal=False):
    """What a Trace prints of rounds, given as (tokens or text, drafted, accepted, drafts)."""
    encoder, watch, out = load_encoder(pair / "17M"), SimpleNamespace(notes=[]), Screen(terminal)
    trace = Trace(watch, encoder, out)
    for tokens, drafted, accepted, draft in pieces:
        ids = lambda what: [
            token
            for one in what
            for token in ([one] if isinstance(one, int) else encoder.encode(one))
        ]
        watch.notes.append(SimpleNamespace(draft=ids(draft)))
        trace(Round(ids(tokens), drafted, accepted))
    trace()
    return out


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)


def test_every_source_has_its_mark(pair):
    out = traced(
        pair,
        (["a", "b"], 2, 1, ["a", "z"]),
        ("xyz", 2, 2, "xy"),
        ("c", 0, 0, ""),
        ("d", 3, 1, "dvw"),
    )
    lines = out.getvalue().splitlines()
    assert (
        lines[0]
        == "round  accepted  text    accepted draft|  [correction]  (bonus)  {target alone}"
    )
    assert lines[1:] == [
        '    1       1/2  a|[b]  not "z"',
        "    2       2/2  x|y|(z)",
        "    3       0/0  {c}",
        "    4       1/1  d|",  # the text ended inside the accepted run
    ]
    assert out.n_flushed == len(lines)  # each as soon as it is known


def test_a_character_may_be_split_over_tokens_and_rounds(pair):
    symbols = load_encoder(pair / "17M").encode("é日")
    assert len(symbols) == 5
    first, last = symbols[:1], symbols[4:]
    out = traced(
        pair,
        (first, 0, 0, ""),
        (symbols[1:4], 2, 2, symbols[1:3]),
        (last, 0, 0, ""),
        (first, 0, 0, ""),
    )
    pieces = [line[17:] for line in out.getvalue().splitlines()[1:]]
    assert pieces == ["{}", "é||()", "{日}", "{}", "\ufffd"]


def test_text_cannot_break_lines_or_command_the_terminal(pair):
    out = traced(pair, *((c, 2, 0, "") for c in "\n\x1b[2J\t"), ("\u202e", 3, 2, "")).getvalue()
    assert out.count("\n") == 8 and "\x1b" not in out and r"\x1b" in out and r"\u202e" in out
    assert printable("a\u00a0b") == r"a\xa0b" and printable("日 é") == "日 é"


def test_colour_is_for_terminals_that_want_it(pair, monkeypatch):
    pieces = ("ab", 1, 1, "a"), ("c", 1, 0, "d")
    plain, coloured = (
        traced(pair, *pieces, terminal=terminal).getvalue() for terminal in (False, True)
    )
    assert "\x1b" not in plain and "\x1b[32m" in coloured
    # the marks stay: colour is never the only sign
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    assert coloured.count("\x1b[0m") == coloured.count("\x1b[") / 2
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert traced(pair, *pieces, terminal=True).getvalue() == plain and not in_colour(
                Screen(True)
            )


# ---------------------------------------------------------------- the command


def text_of_trace(out, encoder):
    """The text that the lines of a trace add up to; for text without the marks' characters, line
    breaks and escapes.
    """
    lines = re.findall(r"(?m)^ *\d+ +\d+/\d+  (.*?)(?:  not \".*\")?$", out)
    return "".join(re.sub(r"[|\[\](){}]", "", line) for line in lines)


@pytest.mark.parametrize(
    "more",
    [[], ["--coupled"], ["--draft_model_size", "ngram"], ["--mode", "speculative"], ["--stream"]],
)
@pytest.mark.parametrize("temperature", [0, 1])
def test_a_trace_is_the_text_of_the_same_run(cli, as_json, pair, more, temperature):
    arguments = [
        "--prompt",
        PROMPT,
        "--n_tokens_to_generate",
        30,
        "--temperature",
        temperature,
        *more,
    ]
    done, one = cli(*arguments, "--trace"), as_json(*arguments)["speculative"]
    assert (done.code, done.err) == (0, "")
    assert text_of_trace(done.out, load_encoder(pair / "17M")) == one["text"]
    assert f"Text = {PROMPT}{one['text']}\n" in done.out
    found = [
        tuple(map(int, counts)) for counts in re.findall(r"(?m)^ *\d+ +(\d+)/(\d+)  ", done.out)
    ]
    assert (
        tuple(map(sum, zip(*found))) == (one["accepted"], one["examined"])
        and len(found) == one["rounds"]
    )


def test_a_trace_shows_the_end_of_the_text(cli):
    done = cli("--target_model_size", "ends", "--prompt", "x", "--trace")
    assert "<|endoftext|>" in done.out and "Text = x\n" in done.out


def test_a_trace_is_refused_where_there_is_nothing_to_trace_or_no_place_for_it(cli):
    assert_refused(cli("--trace", "--json"), "--trace", "--json")
    assert_refused(cli("--trace", "--mode", "autoregressive"), "--trace", "autoregressive")
    assert_refused(
        cli("--report", "x.html", "--mode", "autoregressive"), "--report", "autoregressive"
    )
    for value in ("yes", "1", ""):
        assert_refused(cli(f"--trace={value}"), "--trace", "expected")
        assert_refused(cli(f"--coupled={value}"), "--coupled", "expected")


def test_help_names_the_flags(cli):
    described = cli("--help").out.split()
    assert {"--trace", "--report", "--coupled"} <= {*described}


def test_watching_leaves_the_figures_as_they_are(cli, as_json, tmp_path):
    """The same JSON but for the settings, whatever is watched."""
    arguments = ["--prompt", PROMPT, "--n_tokens_to_generate", 30, "--temperature", 1]
    plain = as_json(*arguments)
    seen = as_json(*arguments, "--report", tmp_path / "x.html")
    for decoder in ("autoregressive", "speculative"):
        assert seen[decoder].keys() == plain[decoder].keys()
        assert seen[decoder]["token_ids"] == plain[decoder]["token_ids"]
    assert seen["speculative"]["accepted"] == plain["speculative"]["accepted"]
