"""The museum of mistakes: each is a change of the right code that an existing test catches, and the
right code has none.
"""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from toys import TINY, tiny_model, write_checkpoint

import gpt2
import main
import sampling
from experiments.proving.distance import N_TOKENS, distance, text_of
from experiments.proving.enumeration import law
from experiments.proving.mistakes import MISTAKES, Mistake, committing
from experiments.proving.patching import changed, made
from sampling import Filter

ROOT = Path(main.__file__).resolve().parent
EXACT = 1e-12
KEYS = ["name", "seen_in", "total_variation", "first_difference", "caught_by"]

embedded = pytest.mark.skipif(
    not all((ROOT / "models" / size / "model.safetensors").is_file() for size in ("7M", "0.7M")),
    reason="the embedded pair of models is not there",
)
each = pytest.mark.parametrize("name", MISTAKES)


@pytest.fixture
def cli(capsys):
    """A function (*arguments) -> (exit code, stdout, stderr) of main.main."""

    def call(*arguments):
        capsys.readouterr()
        return main.main(list(map(str, arguments))), *capsys.readouterr()

    return call


# ---------------------------------------------------------------- every one is caught


@each
def test_is_caught_by_the_test_it_names(name):
    """That test passes when the suite runs it on the right code; here it runs with the mistake
    made.
    """
    with made(MISTAKES[name]):
        found = pytest.main([str(ROOT / MISTAKES[name].caught_by), "-x", "-p", "no:cacheprovider"])
    assert found == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize(
    "setting", dict.fromkeys(mistake.setting for mistake in MISTAKES.values()), ids=str
)
def test_the_right_code_has_distance_0(setting):
    assert distance(setting) < EXACT


def test_one_distance_by_hand():
    """Resampling from p: what was rejected comes back, x gets min(p, q) + P(rejected) p instead of
    p.
    """
    p, q = np.array([0.1, 0.2, 0.7]), np.array([0.6, 0.3, 0.1])

    def token():
        draft = sampling.sample(q, None)
        n, last = sampling.verify([draft], q[None], np.stack([p, p]), None)
        return draft if n else last

    with made(MISTAKES["resample-from-p"]):
        wrong = law(token)
    assert [wrong[x] for x in range(3)] == pytest.approx(np.minimum(p, q) + 0.6 * p)
    right = law(token)
    assert [right[x] for x in range(3)] == pytest.approx(p)


# ---------------------------------------------------------------- switching on and off


@each
def test_changes_the_code_and_gives_it_back(name):
    changes = MISTAKES[name].changes
    before = {function: function.__code__ for function in changes}
    with pytest.raises(KeyboardInterrupt), made(MISTAKES[name]):
        assert all(function.__code__ is not code for function, code in before.items())
        raise KeyboardInterrupt
    assert all(function.__code__ is code for function, code in before.items())


@each
def test_is_a_small_difference(name):
    for function, pieces in MISTAKES[name].changes.items():
        right, wrong, _ = changed(function, pieces)
        pairs = list(zip(right.splitlines(), wrong.splitlines(), strict=True))
        assert 1 <= sum(a != b for a, b in pairs) <= 2


def test_code_that_moved_is_noticed():
    for piece in ("no such code", "draft"):  # neither none nor several
        with pytest.raises(LookupError, match="expected once"):
            with made(Mistake("", "", "", {sampling.verify: {piece: ""}})):
                pass


def test_everybody_who_holds_the_function_has_the_mistake():
    model, held = tiny_model(1), gpt2.Model.read
    with made(MISTAKES["whole-text-with-cache"]):
        cache = model.new_cache()
        held(model, [1, 2], cache), held(model, [1, 2, 3], cache)
        assert cache.length == 5
    cache = model.new_cache()
    held(model, [1, 2], cache), held(model, [1, 2, 3], cache)
    assert cache.length == 3


def test_a_mistake_of_the_block_rule_is_made_in_it():
    """Also where the run asks for the token rule, in which there is nothing to change."""
    asked = []

    def decode(decoder, **named):
        asked.append(named)
        return []

    for name in ("resample-from-p", "block-coin-is-p"):
        list(committing(name, decode)("speculative", verification="token"))
    assert asked == [{"verification": "token"}, {"verification": "block"}]


# ---------------------------------------------------------------- the command


@embedded
def test_the_table_and_its_json(cli):
    code, out, err = cli("mistakes", "--json")
    rows = json.loads(out, parse_constant=pytest.fail)["mistakes"]
    assert (code, err, out.count("\n")) == (0, "", 1)
    assert [row["name"] for row in rows] == list(MISTAKES) and all(
        list(row) == KEYS for row in rows
    )
    for row in rows:
        mistake, first = MISTAKES[row["name"]], row["first_difference"]
        assert (row["seen_in"], row["caught_by"]) == (mistake.seen_in, mistake.caught_by)
        assert (first is None) if mistake.cost else 0 <= first <= N_TOKENS
        far = row["total_variation"]  # 0 only where a mistake costs something else
        assert far < EXACT if mistake.cost else 0.001 < far <= 1 + EXACT
    code, out, err = cli("mistakes", *list(MISTAKES)[:3])
    assert (code, err) == (0, "") and out.splitlines()[0].split()[:2] == ["mistake", "distance"]
    for row in rows[:3]:
        shown = next(line for line in out.splitlines() if line.startswith(row["name"]))
        assert shown.split()[1:3] == [f"{row['total_variation']:.4f}", str(row["first_difference"])]
    assert "-            return i, sample(residual(p[i], q[i]), rng)" in out
    assert "+            return i, sample(p[i], rng)" in out


@embedded
@pytest.mark.parametrize("name", ["bonus-from-wrong-row", "stale-cache"])
def test_generation_with_a_mistake(cli, name):
    """The autoregressive text stays right, so the program itself shows where the mistake begins."""
    arguments = ["--kernels", "plain", "--json"]
    right, wrong = (json.loads(cli(*arguments, *more)[1]) for more in ((), ("--mistake", name)))
    row = json.loads(cli("mistakes", name, "--json")[1])["mistakes"][0]
    assert wrong["settings"]["mistake"] == name
    assert wrong["autoregressive"]["token_ids"] == right["autoregressive"]["token_ids"]
    assert right["identical"] and not wrong["identical"]
    assert (
        wrong["difference"]["verdict"] == "bug"
        and wrong["difference"]["position"] == row["first_difference"]
    )


@embedded
def test_a_mistake_that_only_costs(cli):
    arguments = ["--kernels", "plain", "--json"]
    right, wrong = (
        json.loads(cli(*arguments, *more)[1]) for more in ((), ("--mistake", "draft-one-behind"))
    )
    assert wrong["identical"]
    assert wrong["speculative"]["acceptance_rate"] < right["speculative"]["acceptance_rate"]


@embedded
def test_a_mistake_that_makes_the_program_fail_is_one_line(cli):
    code, out, err = cli("--kernels", "plain", "--json", "--mistake", "divide-by-temperature-0")
    assert (
        (code, out, err.count("\n")) == (2, "", 1)
        and "makes the program fail" in err
        and "try another" in err
    )


@pytest.mark.parametrize("arguments", [["mistakes", "no such"], ["--mistake", "no such"]])
def test_an_unknown_mistake_is_refused_with_the_names(cli, arguments):
    code, out, err = cli(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "'no such'" in err and all(name in err for name in MISTAKES)


def test_a_draft_without_a_model_is_refused(cli):
    code, out, err = cli("mistakes", "--draft_model_size", "ngram")
    assert (code, out, err.count("\n")) == (2, "", 1) and "'ngram'" in err and "expected" in err


def test_a_context_that_is_too_short_is_refused(cli, tmp_path):
    write_checkpoint(tmp_path / "short", dataclasses.replace(TINY, n_ctx=10))
    where = "--models_dir", tmp_path, "--target_model_size=short", "--draft_model_size=short"
    code, out, err = cli("mistakes", *where)
    assert (code, out, err.count("\n")) == (
        2,
        "",
        1,
    ) and "a context of 10 tokens: expected more than" in err


def test_a_crash_is_an_outcome():
    def rounds():
        yield sampling.Round([1, 2])
        raise IndexError

    assert text_of(rounds()) == (1, 2, "IndexError")
    assert text_of([sampling.Round([3])]) == (3,)
    assert Filter(0.0) == MISTAKES["greedy-ratio"].setting.filter  # shows at temperature 0 only
