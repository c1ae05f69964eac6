"""The race is main.py's run, and a changed coin gives the text of the same coins in the loop."""

import numpy as np
import pytest
from live import ASKED, Replaced, by_hand, session_of

from experiments.page.request import Change, Request
from experiments.page.runs import Schedule, costs, race, what_if
from sampling import Filter

SETTINGS = {name: value for name, value in ASKED.items() if name != "prompt"}
drafts = pytest.mark.parametrize("draft", ["0.7M-17M", "ngram"])


def asked(coins=None, changes=(), **settings):
    return Request(ASKED["prompt"], SETTINGS | settings, coins or {}, changes)


def nothing(n=None):
    """An advance that is not told anywhere."""


RUNS = [
    {"temperature": 0.7, "top_k": 5, "K": 2},
    {"temperature": 1.3, "top_p": 0.9, "K": 7, "seed": 2**50},
    {"temperature": 0.0, "n_tokens_to_generate": 1},
]


@drafts
@pytest.mark.parametrize("settings", RUNS)
def test_the_race_has_the_texts_of_the_command_line(pair, as_json, settings, draft):
    data = race(session_of(pair, draft_model_size=draft), asked(**settings), nothing)
    flags = [part for name, value in (SETTINGS | settings).items() for part in (f"--{name}", value)]
    found = as_json("--prompt", ASKED["prompt"], "--draft_model_size", draft, *flags)
    assert data["plain"]["tokens"] == found["autoregressive"]["token_ids"]
    assert data["figures"]["token_ids"] == found["speculative"]["token_ids"]
    assert "".join(data["plain"]["shown"]) == found["autoregressive"]["text"]
    assert data["figures"]["accepted"] == found["speculative"]["accepted"]
    assert data["settings"]["seed"] == found["settings"]["seed"]


def test_every_pass_of_the_race_was_timed(pair):
    heard = []
    data = race(session_of(pair), asked(), heard.append)
    plain, figures = data["plain"], data["figures"]
    assert sum(heard) == len(plain["tokens"]) + len(figures["token_ids"])
    assert plain["timed"] and len(plain["seconds"]) == len(plain["tokens"])
    assert min(plain["seconds"]) > 0
    for one in data["rounds"]:
        assert len(one["passes"]) == len(one["draft"])
        assert min(one["seconds"][1:]) > 0 and all(seconds > 0 for seconds in one["passes"])
        # what the draft samples with counts as the loop's: the race is drawn from its passes
        assert one["seconds"][0] == pytest.approx(sum(one["passes"]), rel=1e-4)
    total = sum(sum(one["seconds"]) for one in data["rounds"])
    assert total <= figures["seconds"]


# ---------------------------------------------------------------- changed on the way


@drafts
def test_a_changed_coin_gives_the_text_of_the_same_coins(pair, draft):
    session = session_of(pair, draft_model_size=draft)
    before = what_if(session, asked(), nothing)
    coins = {index: u for one in before["rounds"] for index, u in zip(one["numbers"], one["coins"])}
    text = lambda coins: what_if(session, asked(coins=coins), nothing)["figures"]["token_ids"]
    # the coins that fell change nothing
    assert text(dict(list(coins.items())[:20])) == before["figures"]["token_ids"]
    n_changed = 0
    for index in list(coins)[:12]:
        for value in (0.0, 0.999):
            after = text({index: value})
            rng = Replaced(SETTINGS["seed"], index, value)
            assert after == by_hand(session, rng, 4, Filter(1.0), 30)
            n_changed += after != before["figures"]["token_ids"]
    assert n_changed > 3


def test_K_and_temperature_change_from_a_round_on(pair):
    session = session_of(pair)
    before = what_if(session, asked(), nothing)
    after = what_if(session, asked(changes=(Change(2, 1, 0.0),)), nothing)
    tokens = lambda data, n: [one["tokens"] for one in data["rounds"][:n]]
    assert tokens(after, 2) == tokens(before, 2)
    rng, n_rounds = np.random.default_rng(SETTINGS["seed"]), 0

    def K(last):
        nonlocal n_rounds
        n_rounds += 1
        return 4 if n_rounds <= 2 else 1

    def filter(logits):
        return Filter(1.0 if n_rounds <= 2 else 0.0)(logits)

    assert after["figures"]["token_ids"] == by_hand(session, rng, K, filter, 30)


def test_a_schedule_takes_the_last_of_its_changes(pair):
    settings = session_of(pair).settings
    schedule = Schedule(settings, [Change(1, 2, 0.5), Change(1, 3, 0.7), Change(4, 5, 0.0)])
    assert [schedule.next_K(None) for _ in range(6)] == [4, 3, 3, 3, 5, 5]
    assert schedule.current.temperature == 0


# ---------------------------------------------------------------- costs


@drafts
def test_costs_are_in_passes_over_one_row(pair, draft):
    checked = []
    found = costs(session_of(pair, draft_model_size=draft), lambda: checked.append(1))
    assert found["v"][0] == 1 and len(found["v"]) == 9 and min(found["v"]) > 0
    assert found["c"] > 0 and found["target_seconds"] > 0 and len(checked) >= 9
