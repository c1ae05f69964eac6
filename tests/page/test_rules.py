"""Rules side by side: the same draft and coins under each, and the law that `mistakes` computes."""

import dataclasses
import json

import pytest
from playing import ASKED, session_of

import sampling
from experiments.playing import rules
from experiments.playing.jobs import Cancelled
from experiments.playing.request import Request
from experiments.playing.rules import RULES, Laws, law_row, parting, rule_rows
from experiments.proving import inexact
from experiments.proving.distance import distance
from experiments.proving.mistakes import MISTAKES

BY_NAME = {rule.name: rule for rule in RULES}


class NoLaws:
    def of(self, rule):
        return {"distance": 0.0, "law": []}


def rows_of(pair, check=lambda: None, **settings):
    asked = {name: value for name, value in ASKED.items() if name != "prompt"} | settings
    request = Request(ASKED["prompt"], asked)
    rows = rule_rows(session_of(pair), request, NoLaws(), check)
    return {row["name"]: row for row in rows}


def test_every_mistake_of_the_museum_is_there():
    assert BY_NAME.keys() >= MISTAKES.keys() | inexact.RULES.keys()
    assert RULES[0].decide is sampling.verify


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_is_what_its_rule_writes(pair, temperature):
    rows = rows_of(pair, temperature=temperature)
    token = rows["token rule"]
    assert rows.keys() == BY_NAME.keys()
    assert token["parts"] is None and token["error"] is None
    assert len(token["tokens"]) == ASKED["n_tokens_to_generate"] == len(token["shown"])
    for row in rows.values():
        place = row["parts"]
        assert place == parting(token["tokens"], row["tokens"])
        if place is not None:
            assert row["tokens"][:place] == token["tokens"][:place]
            assert row["tokens"][place : place + 1] != token["tokens"][place : place + 1]
        json.dumps(row, allow_nan=False)
    if temperature == 0:
        assert rows["block verification"]["parts"] is None
        assert rows["shared noise"]["parts"] is None and rows["missing-bonus"]["parts"] is None
    else:
        assert rows["first-draft-unverified"]["parts"] is not None
    for name, mistake in MISTAKES.items():
        assert rows[name]["seen_in"] == mistake.seen_in and rows[name]["pieces"]
    # an error of a mistake is an outcome, in one line
    assert "\n" not in "".join(row["error"] or "" for row in rows.values())


def test_a_cascade_is_told_what_the_draft_expects_after_its_tokens(pair, monkeypatch):
    """In a text and in the law on the toy: without that, the bonus token is the target's."""
    cascade, rows = inexact.cascade, []

    def watched(draft, q, p, rng):
        rows.append((len(q), len(draft) + 1))
        return cascade(draft, q, p, rng)

    monkeypatch.setattr(inexact, "cascade", watched)
    rule = dataclasses.replace(BY_NAME["speculative cascade"], decide=watched)
    session = session_of(pair, n_tokens_to_generate=12)
    list(rules.rounds_of(rule, session, session.prompt(ASKED["prompt"])))
    law_row(rule)
    assert rows and all(found == expected for found, expected in rows)


def test_two_rules_meet_the_same_draft_and_coins(pair):
    """A mistake that first shows after a full accept parts nowhere before."""
    rows = rows_of(pair)
    row, token = rows["bonus-from-wrong-row"], rows["token rule"]
    if row["parts"] is not None:
        assert row["sources"][row["parts"]] == "bonus" == token["sources"][row["parts"]]
    row = rows["resample-from-p"]
    assert row["sources"][row["parts"]] == "correction" == token["sources"][row["parts"]]


def test_what_was_switched_on_is_switched_off_again(pair):
    right = sampling.verify.__code__, sampling.speculative.__code__
    rows_of(pair)
    assert (sampling.verify.__code__, sampling.speculative.__code__) == right
    n_checks = [0]

    def check():
        n_checks[0] += 1
        if n_checks[0] == 60:
            raise Cancelled

    with pytest.raises(Cancelled):
        rows_of(pair, check)
    assert (sampling.verify.__code__, sampling.speculative.__code__) == right


@pytest.mark.parametrize("name", ["too-many-tokens", "top-p-argsort"])
def test_the_law_of_a_mistake_is_that_of_the_museum(name):
    row = law_row(BY_NAME[name])
    assert row["distance"] == distance(MISTAKES[name].setting, MISTAKES[name]) > 0.1
    assert sum(right for _, right, _ in row["law"]) == pytest.approx(1)
    assert sum(rule for _, _, rule in row["law"]) == pytest.approx(1)
    half = sum(abs(right - rule) for _, right, rule in row["law"]) / 2
    assert half == pytest.approx(row["distance"])


@pytest.mark.parametrize("name", [rule.name for rule in RULES if rule.kind in ("right", "noise")])
def test_a_right_rule_has_the_law_of_the_target(name):
    row = law_row(BY_NAME[name])
    assert row["distance"] < 1e-12 and len(row["law"]) == 27


def test_a_law_is_computed_once(monkeypatch):
    laws, asked = Laws(), []
    monkeypatch.setattr(rules, "law_row", lambda rule: asked.append(rule) or {"distance": 0.0})
    assert laws.of(RULES[0]) is laws.of(RULES[0]) and asked == [RULES[0]]


def test_parting():
    assert parting([1, 2], [1, 2]) is None
    assert parting([1, 2], [1, 3]) == 1
    assert parting([1, 2], [1]) == 1 == parting([1], [1, 2])
