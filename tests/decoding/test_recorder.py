"""Watching a speculative run: the notes are the numbers of the loop, and the trace shows its text."""

# ruff: noqa: F401, F811 (fixtures)

import io
import re
import time
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_exact import FILTERS, TableModel, at_eos, never, tokens_of
from test_main import PROMPT, as_json, assert_refused, cli, pair

import sampling
from experiments.decoding.recorder import Trace, Watch, in_colour, likeliest, printable
from experiments.decoding.running import decode
from sampling import Round
from utils import load_encoder


def watched(target, draft, ids, n_tokens, K, filter, seed, ended=never, coupled=False):
    """(rounds, notes) of a watched run."""
    watch = Watch(coupled)
    rounds = list(watch.decode(target, draft, ids, n_tokens, K, filter, seed, ended))[1:]
    assert [note.round for note in watch.notes] == rounds
    return rounds, watch.notes


# ---------------------------------------------------------------- the notes


@settings(max_examples=60, deadline=None)
@given(
    tables=st.tuples(st.integers(0, 99), st.integers(0, 99) | st.none()),
    K=st.integers(1, 5),
    filter=st.sampled_from(list(FILTERS.values())),
    seed=st.integers(0, 2**70),
    ended=st.sampled_from([never, at_eos]),
)
def test_the_notes_are_the_numbers_of_the_loop(tables, K, filter, seed, ended):
    """Against p and q worked out anew for every prefix, and against what the rule was asked to
    toss.
    """
    target, draft = (
        TableModel(tables[0], zeros=True),
        None if tables[1] is None else TableModel(tables[1]),
    )
    text, tossed = [0, 1, 0], []
    with pytest.MonkeyPatch.context() as patch:
        toss = sampling.toss
        patch.setattr(
            sampling,
            "toss",
            lambda r, rng: tossed.append((float(r), toss(r, rng))) or tossed[-1][1],
        )
        rounds, notes = watched(target, draft, text, 12, K, filter, seed, ended)
    plain = decode("speculative", target, draft, text, 12, K, filter, seed, ended)
    assert rounds == list(plain)[1:]  # to be watched changes nothing
    row = lambda model, ids: filter(model.read(ids, model.new_cache()))[0]
    expected = []
    for one, note in zip(rounds, notes):
        assert len(note.draft) == len(note.p) == len(note.q) == len(note.overlap) == one.drafted
        for i, token in enumerate(note.draft):
            p = row(target, text + note.draft[:i])
            q = row(draft, text + note.draft[:i]) if draft else np.eye(3)[token]
            assert (note.p[i], note.q[i]) == (p[token], q[token])
            assert note.overlap[i] == pytest.approx(np.minimum(p, q).sum())
        assert len(note.coins) == one.examined and len(note.likely) == len(one.tokens)
        for i, (u, p, q) in enumerate(zip(note.coins, note.p, note.q)):
            expected.append((p / q, u < p / q))
            assert (u < p / q) == (i < one.accepted)
        for i, likely in enumerate(note.likely):
            p = row(target, text + one.tokens[:i])
            assert all(mass == p[x] for x, mass, _ in likely) and int(p.argmax()) == likely[0][0]
            assert one.tokens[i] in [x for x, _, _ in likely]
            assert all((share is None) == (i >= one.drafted) for _, _, share in likely)
        if one.accepted < one.examined:
            i = one.accepted
            q = row(draft, text + one.tokens[:i]) if draft else np.eye(3)[note.draft[i]]
            rest = sampling.residual(row(target, text + one.tokens[:i]), q)
            assert note.residual[0][0] == rest.argmax() and all(
                mass == rest[x] for x, mass in note.residual
            )
            assert one.tokens[i] in dict(note.residual)
        else:
            assert note.residual is None
        assert set(note.seconds) == {"draft", "target", "rule"} and min(note.seconds.values()) >= 0
        text = text + one.tokens
    # and after them what was tossed for drafts behind the end of the text
    assert tossed[: len(expected)] == expected
    assert len(tossed) == len(expected) or text[-1] == 2


def test_a_coupled_note_has_the_distributions_under_the_noise():
    target, draft, filter = TableModel(1), TableModel(2), FILTERS["T=0.7"]
    rounds, notes = watched(target, draft, [0], 30, 3, filter, 4, coupled=True)
    p, q = (filter(model.read([0], model.new_cache()))[0] for model in (target, draft))
    first = notes[0]
    assert (first.p[0], first.q[0]) == (p[first.draft[0]], q[first.draft[0]]) and 0 < first.p[0] < 1
    assert all(note.coins == [] and note.residual is None for note in notes)
    assert any(one.accepted < one.examined for one in rounds)


def test_the_likeliest_come_in_order_and_without_the_impossible():
    assert likeliest(np.array([0.1, 0.0, 0.4, 0.2, 0.05, 0.25])) == [2, 5, 3, 0]
    assert likeliest(np.array([0.0, 1.0, 0.0, 0.0, 0.0, 0.0])) == [1]
    assert likeliest(np.array([0.5, 0.5])) == [0, 1]


def test_the_clock_stands_still_while_notes_are_taken(monkeypatch):
    watch, noted = Watch(), Watch.note
    monkeypatch.setattr(Watch, "note", lambda *arguments: time.sleep(0.05) or noted(*arguments))
    begin, real = watch.clock(), time.perf_counter()
    rounds = list(watch.decode(TableModel(1), TableModel(2), [0], 8, 2, FILTERS["T=1"], 0, never))[
        1:
    ]
    slept = 0.05 * len(rounds)
    assert watch.aside >= slept and watch.clock() - begin <= time.perf_counter() - real - slept
    assert sum(sum(note.seconds.values()) for note in watch.notes) <= watch.clock() - begin


def test_a_second_run_forgets_the_first():
    watch = Watch()
    for n in (9, 3):
        rounds = list(watch.decode(TableModel(1), None, [0, 1], n, 2, FILTERS["T=1"], 0, never))[1:]
        assert [note.round for note in watch.notes] == rounds and len(tokens_of(rounds)) == n


# ---------------------------------------------------------------- the trace


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
    encoder, watch, out = load_encoder(pair / "7M"), SimpleNamespace(notes=[]), Screen(terminal)
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
    symbols = load_encoder(pair / "7M").encode("é日")
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
    assert text_of_trace(done.out, load_encoder(pair / "7M")) == one["text"]
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
    assert all(f"--{flag} " in cli("--help").out for flag in ("trace", "report", "coupled"))


def test_watching_leaves_the_figures_as_they_are(cli, as_json, tmp_path):
    """The same JSON but for the settings, whatever is watched."""
    arguments = ["--prompt", PROMPT, "--n_tokens_to_generate", 30, "--temperature", 1]
    plain = as_json(*arguments)
    seen = as_json(*arguments, "--report", tmp_path / "x.html")
    for decoder in ("autoregressive", "speculative"):
        assert seen[decoder].keys() == plain[decoder].keys()
        assert seen[decoder]["token_ids"] == plain[decoder]["token_ids"]
    assert seen["speculative"]["accepted"] == plain["speculative"]["accepted"]
