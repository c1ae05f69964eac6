"""The museum of mistakes: each is a small change of the right code, and a test catches it."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from cli.flags import Settings
from cli.from_flags import config_from
from command_line import ROOT
from decoding.drafts import ModelDraft
from decoding.load import Pair
from decoding.prompt import Prompt
from table_models import TableModel
from toys import refusal, tokens_of

import sampling
from checkpoints.errors import InputError
from proving.distance import collect_tokens, distance_and_errors, toy_distributions
from proving.mistakes import ERRORS, MISTAKES, Mistake, loop_with_mistake
from proving.patching import apply_mistake, patch_source
from sampling import RULES, NeuralDrafter, SamplingParams

EXACT = 1e-12
each = pytest.mark.parametrize("name", MISTAKES)


@each
def test_is_caught_by_the_test_it_names(name):
    """On the right code the suite runs that test; here it runs with the mistake made."""
    with apply_mistake(MISTAKES[name]):
        # in this process, where the mistake is made
        flags = ["-x", "-n0", "-p", "no:cacheprovider"]
        code = pytest.main([str(ROOT / MISTAKES[name].caught_by), *flags])
    assert code == pytest.ExitCode.TESTS_FAILED


@each
def test_is_a_small_difference_of_code_that_is_given_back(name):
    changes = MISTAKES[name].changes
    for function, pieces in changes.items():
        right, wrong, _ = patch_source(function, *pieces.items())
        pairs = list(zip(right.splitlines(), wrong.splitlines(), strict=True))
        assert 1 <= sum(a != b for a, b in pairs) <= 2
    if {*changes} == {NeuralDrafter.propose}:  # which look-up does not call
        assert "ngram" in MISTAKES[name].not_by
    before = {function: function.__code__ for function in changes}
    with pytest.raises(KeyboardInterrupt), apply_mistake(MISTAKES[name]):
        assert all(function.__code__ is not code for function, code in before.items())
        raise KeyboardInterrupt
    assert all(function.__code__ is code for function, code in before.items())
    assert not vars(sampling).keys() & MISTAKES[name].helpers.keys()


# ---------------------------------------------------------------- in a run

ENCODER = SimpleNamespace(encode=list, decode=str, without_end=list, ends=(), n_vocab=3)
PAIR = Pair(TableModel(1), ModelDraft(TableModel(2)), ENCODER)
PROMPT = Prompt(1, None, [0, 1], 5)


def run_with(mistake, **settings):
    """The Run of PAIR with a mistake, as the settings ask for it."""
    settings = {"temperature": 1.0, "n_tokens_to_generate": 30} | settings
    return config_from(Settings(mistake=mistake, **settings)).new_run(PAIR, PROMPT)


@pytest.mark.parametrize("asked", ["token", "block"])
def test_a_mistake_is_made_in_the_rule_that_it_changes(asked):
    rules = {"block-coin-is-p": "block", "stale-cache": asked, "residual-nan": asked}
    rules |= {"resample-from-p": "token"} if asked == "token" else {}
    for name, rule in rules.items():
        settings = Settings(mistake=name, verification=asked)
        assert settings.rule_name == rule
        assert settings.as_json("", 0).get("verification", "token") == rule
        assert run_with(name, verification=asked).rule is RULES[rule]
    if asked == "block":  # on purpose
        made_there = lambda: Settings(mistake="resample-from-p", verification="block")
        assert "made in the token rule" in refusal(made_there)


@pytest.mark.parametrize("name", ["stale-cache", "block-coin-is-p", "resample-from-p"])
def test_a_mistake_is_made_in_the_rounds_and_not_between_them(name, monkeypatch):
    """Also beside a right text, in turns; and after a text that nobody reads to its end."""
    functions = [*MISTAKES[name].changes]
    right_code = [function.__code__ for function in functions]
    is_right = lambda: [function.__code__ is code for function, code in zip(functions, right_code)]
    during, run = [], run_with(name)
    to_probs = lambda logits: during.append(is_right()) or run.to_probs(logits)
    n_rounds = 0
    for this_round in replace(run, to_probs=to_probs).rounds():
        assert all(is_right()) and (this_round.tokens or not n_rounds)
        n_rounds += 1
    assert n_rounds > 5 and during and not any(map(any, during))
    rounds = run.rounds()
    assert len([next(rounds) for _ in range(3)]) == 3
    rounds.close()
    assert all(is_right())


@pytest.mark.parametrize("error", [*ERRORS, InputError, KeyboardInterrupt])
def test_an_error_of_a_watcher_is_its_own(error):
    def watch(this_round, *moment):
        raise error("of the watcher")

    text, changes = tokens_of(run_with("").rounds()), MISTAKES["stale-cache"].changes
    before = {function: function.__code__ for function in changes}
    with pytest.raises(error) as raised:
        run_with("stale-cache").finish(watch)
    assert raised.type is error and "of the watcher" in str(raised.value)
    assert all(function.__code__ is code for function, code in before.items())
    assert tokens_of(run_with("").rounds()) == text


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_in_its_rounds_is_one_line_that_names_the_mistake(error):
    def to_probs(logits):
        raise error("because")

    rounds = replace(run_with("stale-cache"), to_probs=to_probs).rounds()
    message = refusal(lambda: list(rounds))
    assert message.startswith("--mistake stale-cache: it makes the program fail (")
    assert f"{error.__name__}: " in message and "because" in message


def test_what_a_rule_of_the_reader_says_is_not_blamed_on_the_mistake():
    def rule(draft, p, q, rng):
        raise InputError("--rule mine.py: verify_7 fails; try another")

    loop = loop_with_mistake("stale-cache")
    rounds = replace(run_with(""), rule=rule, loop=loop).rounds()
    assert refusal(lambda: list(rounds)).startswith("--rule mine.py: ")


# ---------------------------------------------------------------- the code it changes


def test_code_that_moved_is_noticed():
    for piece in ("no such code", "draft"):  # neither none nor several
        mistake = Mistake("", "", {sampling.verify: {piece: ""}})
        with pytest.raises(LookupError, match="expected once"), apply_mistake(mistake):
            pass


# ---------------------------------------------------------------- how wrong it is


@pytest.mark.parametrize(
    "case", dict.fromkeys(mistake.case for mistake in MISTAKES.values()), ids=str
)
def test_the_right_code_has_distance_0(case):
    distance, errors = distance_and_errors(*toy_distributions(case))
    assert distance < EXACT and not errors


def test_a_crash_is_an_outcome_and_is_counted_beside_the_distance():
    def rounds():
        yield sampling.Round([1, 2])
        raise IndexError

    assert collect_tokens(rounds()) == (1, 2, "IndexError")
    right = {(0,): 0.5, (1,): 0.5}
    distribution = {(0,): 0.2, (0, "IndexError"): 0.5, ("IndexError",): 0.3}
    assert distance_and_errors(distribution, right) == (pytest.approx(0.5), pytest.approx(0.8))
    assert distance_and_errors({("IndexError",): 1.0}, right) == (None, 1.0)


FILTERS = [
    SamplingParams(0.0),
    SamplingParams(1.0),
    SamplingParams(0.7),
    SamplingParams(1.0, top_k=2),
    SamplingParams(1.0, top_p=0.8),
]


@each
@pytest.mark.parametrize("to_probs", FILTERS, ids=str)
def test_whether_a_mistake_can_show_with_a_filter(name, to_probs):
    mistake = MISTAKES[name]
    assert mistake.shows_with(mistake.case.to_probs)
    case = replace(mistake.case, to_probs=to_probs)
    distance, errors = distance_and_errors(*toy_distributions(case, mistake))
    assert mistake.shows_with(to_probs) or distance < EXACT and not errors
