"""The race is main.py's run, and a changed coin gives the text of the same coins in the loop."""

import pytest
from cli.flags import Settings
from live import PROMPT, SETTINGS, Replaced, by_hand, loaded, unheard

from page.runs import ANSWERS, FIELDS, Request, measure_pair
from sampling import Rng, SamplingParams

drafts = pytest.mark.parametrize("draft", ["0.7M-17M", "ngram"])
RUNS = [
    {"temperature": 0.7, "top_k": 5, "K": 2},
    {"temperature": 1.3, "top_p": 0.9, "K": 7, "seed": 2**50},
    {"temperature": 0.0, "n_tokens_to_generate": 1},
]


def test_the_limits_of_the_form_are_within_those_of_the_flags():
    for name, field in FIELDS.items():
        for value in (field["least"], field["value"], field["most"]):
            assert vars(Settings(**{name: value}))[name] == value


def race(models, tell=unheard, **settings):
    return ANSWERS["race"](*models, Request(PROMPT, SETTINGS | settings), tell)


def what_if(models, coins=(), changes=None):
    request = Request(PROMPT, SETTINGS, dict(coins), changes or {})
    return ANSWERS["what_if"](*models, request, unheard)


@drafts
@pytest.mark.parametrize("settings", RUNS)
def test_the_race_has_the_texts_of_the_command_line(pair, as_json, settings, draft):
    data = race(loaded(pair, draft_model_size=draft), **settings)
    flags = [part for name, value in (SETTINGS | settings).items() for part in (f"--{name}", value)]
    result = as_json("--prompt", PROMPT, "--draft_model_size", draft, *flags)
    assert data["plain"]["tokens"] == result["autoregressive"]["token_ids"]
    assert data["figures"]["token_ids"] == result["speculative"]["token_ids"]
    assert "".join(data["plain"]["shown"]) == result["autoregressive"]["text"]
    assert data["figures"]["accepted"] == result["speculative"]["accepted"]


def test_every_pass_of_the_race_was_timed(pair, monkeypatch):
    monkeypatch.setattr("page.runs.TELL_SECONDS", 0.0)
    told = []
    data = race(loaded(pair), lambda **line: told.append(line))
    plain, figures = data["plain"], data["figures"]
    assert told[-1] == {"done": len(plain["tokens"] + figures["token_ids"]), "total": 60}
    assert plain["timed"] and len(plain["seconds"]) == len(plain["tokens"])
    assert min(plain["seconds"]) > 0
    for this_round in data["rounds"]:
        assert len(this_round["seconds"]) == 3 and min(this_round["seconds"]) > 0
    seconds = sum(sum(this_round["seconds"]) for this_round in data["rounds"])
    assert seconds == pytest.approx(figures["seconds"], rel=1e-4)  # nothing else is counted


def test_the_page_knows_how_many_tokens_the_context_leaves(pair):
    """The prompt has 9 tokens, the context 64."""
    assert race(loaded(pair), n_tokens_to_generate=2)["room"] == 55


@drafts
def test_what_the_rules_keep_on_average_is_the_sum_over_all_tokens(pair, draft):
    """With top-k 4, those that a page shows of a position are all there are."""
    n_drafted = 0
    for one in race(loaded(pair, draft_model_size=draft), top_k=4)["rounds"]:
        for rows, overlap in zip(one["likely"], one["overlap"][: one["examined"]]):
            n_drafted += 1
            assert overlap == pytest.approx(sum(min(p, q) for _, p, q in rows), rel=1e-3)
    assert n_drafted > 5


@drafts
def test_a_changed_coin_gives_the_text_of_the_same_coins(pair, draft):
    models = loaded(pair, draft_model_size=draft)
    before = what_if(models)
    coins = {
        index: u
        for this_round in before["rounds"]
        for index, u in zip(this_round["numbers"], this_round["coins"])
    }
    assert [*coins] == list(range(len(coins)))  # each examined draft has one; none is left out
    text = lambda coins: what_if(models, coins)["figures"]["token_ids"]
    # the coins that fell change nothing
    assert text(list(coins.items())[:20]) == before["figures"]["token_ids"]
    n_changed = 0
    for index in list(coins)[:12]:
        for value in (0.0, 0.999):
            after = text({index: value})
            rng = Replaced(SETTINGS["seed"], index, value)
            assert after == by_hand(models[1], rng, 4, SamplingParams(1.0), 30)
            n_changed += after != before["figures"]["token_ids"]
    assert n_changed > 3


def test_K_and_temperature_change_from_a_round_on(pair):
    models = loaded(pair)
    after = what_if(models, changes={2: {"K": 1, "temperature": 0.0}})
    n_rounds = 0

    def K(last):
        nonlocal n_rounds
        n_rounds += 1
        return 4 if n_rounds <= 2 else 1

    def to_probs(logits):
        return SamplingParams(1.0 if n_rounds <= 2 else 0.0)(logits)

    expected = by_hand(models[1], Rng(SETTINGS["seed"]), K, to_probs, 30)
    assert after["figures"]["token_ids"] == expected


@drafts
def test_costs_are_in_passes_over_one_row(pair, draft):
    measured = measure_pair(*loaded(pair, draft_model_size=draft), Request(), unheard)
    assert measured["v"][0] == 1 and len(measured["v"]) == 9 and min(measured["v"]) > 0
    assert measured["c"] > 0 and measured["target_seconds"] > 0


def test_a_pass_over_more_tokens_never_costs_less(pair, monkeypatch):
    """Whatever the turns measured: a v below 1 would promise a speedup without one right guess."""
    found = {1: [(0.1, 0.8), (0.3, 1.4)], 2: [(0.1, 0.7), (0.1, 1.2)], 3: [(0.2, 1.3), (0.2, 1.5)]}
    monkeypatch.setattr("page.runs.measure_costs_in_turns", lambda *_: ([0.1, 0.2], found))
    measured = measure_pair(*loaded(pair), Request(), unheard)
    assert measured["v"] == pytest.approx([1, 1.1, 1.1, 1.4])
    first, second = measured["turns"]
    assert first == {"c": 0.1, "v": [1, 1, 1, 1.3]} and second == {
        "c": 0.2,
        "v": [1, 1.4, 1.4, 1.5],
    }
