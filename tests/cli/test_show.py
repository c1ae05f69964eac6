"""What is printed of a text: at its end, while it is written, round by round."""

import re
import sys

import pytest
from toys import tiny_vocabulary

from cli import show, trace
from encoder import Encoder
from sampling import Round

ENCODER = Encoder(*tiny_vocabulary())


@pytest.fixture
def printed(monkeypatch, capsys):
    """A function (watcher, *(tokens, draft, accepted)) -> what it prints of such rounds."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    ids = lambda what: ENCODER.encode(what) if isinstance(what, str) else list(what)

    def call(watch, *rounds, terminal=False):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
        rounds = [Round([]), *(Round(ids(tokens), ids(d), n) for tokens, d, n in rounds)]
        passed_on = list(watch(ENCODER, "Text = ", iter(rounds)))
        assert all(one is other for one, other in zip(passed_on, rounds, strict=True))
        return capsys.readouterr().out

    return call


def trace_lines(out):
    return [line for line in out.splitlines() if re.match(r" *\d+ +\d+/\d+  ", line)]


def test_every_source_has_its_mark(printed):
    out = printed(trace.trace, ("ab", "az", 1), ("xyz", "xy", 2), ("c", "", 0), ("d", "dvw", 1))
    assert out.splitlines()[0].endswith("accepted draft|  [correction]  (bonus)  {target alone}")
    assert trace_lines(out) == [
        '    1       1/2  a|[b]  not "z"',
        "    2       2/2  x|y|(z)",
        "    3       0/0  {c}",
        "    4       1/1  d|",  # the text ended inside the accepted run
    ]
    assert out.splitlines()[-1] == "Text = abxyzcd"


def test_a_character_may_be_split_over_tokens_and_rounds(printed):
    first, *middle, last = ENCODER.encode("é日")
    rounds = ([first], "", 0), (middle, middle[:2], 2), ([last], "", 0), ([first], "", 0)
    pieces = [line[17:] for line in trace_lines(printed(trace.trace, *rounds))]
    assert pieces == ["{}", "é||()", "{日}", "{}"]
    for watch in (trace.stream, show.at_end):
        assert printed(watch, *rounds) == "Text = é日\ufffd\n"


def test_the_end_of_a_text_is_not_shown(printed):
    for watch in (trace.stream, show.at_end):
        assert printed(watch, ("a", "", 0), ([ENCODER.end_of_text], "", 0)) == "Text = a\n"


def test_a_trace_cannot_break_lines_or_command_the_terminal(printed):
    rounds = [(c, c, 0) for c in "\n\x1b[2J\t"] + [("\u202e", "\u202e", 2)]
    *lines, text = printed(trace.trace, *rounds).split("\nText = ")
    assert all(line.isprintable() for line in "".join(lines).splitlines())
    assert r"\x1b" in lines[0] and r"\u202e" in lines[0]


def test_colour_is_for_terminals_that_want_it(printed, monkeypatch):
    rounds = ("ab", "a", 1), ("c", "d", 0)
    plain, coloured = (printed(trace.trace, *rounds, terminal=one) for one in (False, True))
    assert "\x1b" not in plain and "\x1b[32m" in coloured
    # the marks stay: colour is never the only sign
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    assert coloured.count("\x1b[0m") == coloured.count("\x1b[") / 2
    monkeypatch.setenv("NO_COLOR", "1")
    assert printed(trace.trace, *rounds, terminal=True) == plain


def test_a_stream_is_flushed_round_by_round(capsys):
    rounds = trace.stream(ENCODER, "Text = ", iter([Round([]), Round([65]), Round([66])]))
    seen = []
    for _ in rounds:
        seen.append(capsys.readouterr().out)
    assert seen == ["", "Text = b", "c"] and capsys.readouterr().out == "\n"


@pytest.mark.parametrize("target, temperature", [("17M", 0), ("bytes", 1), ("ends", 1)])
def test_a_stream_is_the_text_of_the_same_run(cli, as_json, target, temperature):
    arguments = "--prompt=é\n日", "--target_model_size", target, "--temperature", temperature
    streamed, result = cli(*arguments, "--stream"), as_json(*arguments)
    texts = ["é\n日" + result[decoder]["text"] for decoder in ("autoregressive", "speculative")]
    assert ("\ufffd" in texts[0]) == (target == "bytes")
    shown = re.findall(r"(?s)-\nText = (.*?)\n\n(?=Spec|Time = )", streamed.out)
    assert shown == texts and streamed.err == ""


# ---------------------------------------------------------------- the comparison

SPECULATED = {
    "seconds": 1.0, "prefill_seconds": 0.1, "tokens_per_second": 9.0, "acceptance_rate": 0.5,
    "accepted": 5, "examined": 10, "drafted": 20, "tokens_per_target_pass": 3.75,
}  # fmt: skip


def comparison(capsys, *speedups, **figures):
    results = {"autoregressive": SPECULATED, "speculative": SPECULATED | figures}
    median = sorted(speedups)[len(speedups) // 2]
    compared = {"speedup": median, "speedups": speedups, "identical": True}
    show.comparison(results, compared)
    return capsys.readouterr().out


def test_a_speedup_above_the_tokens_per_pass_is_none(capsys):
    """A pass of the target over several rows takes no less time than one over a single row."""
    out = comparison(capsys, 3.76, 9.0, 1.58)
    assert "Speedup = " not in out and "machine busy" in out and "3.76" in out
    out = comparison(capsys, 3.75, 9.0, 1.58)
    assert "Speedup = 3.75 (median of 3 turns, 1.58 to 9.00)" in out
    assert "A turn above 3.75 was disturbed" in out
    assert "disturbed" not in comparison(capsys, 3.75, 3.75, 1.58)


def test_drafted_tokens_beside_the_examined_say_what_was_wasted(capsys):
    out = comparison(capsys, 1.0)
    assert "= 0.500 (5 of 10 examined, of 20 drafted tokens)" in out and "smaller K" not in out
    # after a rejection, or the end of the text
    assert "drafted tokens were not examined: a smaller K" in comparison(capsys, 1.0, drafted=21)
    none = dict.fromkeys(("drafted", "examined", "accepted"), 0)
    assert "nothing was drafted" in comparison(capsys, 1.0, **none, acceptance_rate=None)
