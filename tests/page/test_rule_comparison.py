"""Rules side by side: the same draft and coins under each, and the distribution of each."""

import dataclasses
import json

import numpy as np
import pytest
from live import PROMPT, SETTINGS, loaded, unheard

from decoding.text_difference import first_difference
from page import rule_comparison
from page.rule_comparison import ALL_RULES, compare_rules, distribution_row
from page.runs import Request
from proving import inexact_rules
from proving.distance import distance_and_errors, toy_distributions
from proving.enumeration import enumerate_branches
from proving.mistakes import MISTAKES


def asked(folder, draft="0.7M-17M", **settings):
    """(GenerationConfig, Pair, Prompt) of a request."""
    _, pair = loaded(folder, draft_model_size=draft)
    request = Request(PROMPT, SETTINGS | settings)
    return request.config(), pair, request.to_prompt(pair)


def rows_of(pair, **settings):
    with pytest.MonkeyPatch.context() as patch:
        no_row = lambda name: {}  # a row takes seconds
        patch.setattr(rule_comparison, "distribution_row", no_row)
        return {row["name"]: row for row in compare_rules(*asked(pair, **settings), unheard)}


@pytest.fixture(scope="module")
def sampled(pair):
    return rows_of(pair, seed=126)  # with which the mistakes below show


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_is_what_its_rule_writes(pair, sampled, temperature):
    rows = sampled if temperature else rows_of(pair, temperature=0.0)
    compared = inexact_rules.COMPARED.keys() | {"shared noise", "match rule"}
    assert rows.keys() == MISTAKES.keys() | compared
    token = rows["token rule"]
    assert token["parts"] is None and token["error"] is None
    assert len(token["tokens"]) == SETTINGS["n_tokens_to_generate"] == len(token["shown"])
    for row in rows.values():
        assert row["parts"] == first_difference(token["tokens"], row["tokens"])
        json.dumps(row, allow_nan=False)
    parted = {name for name, row in rows.items() if row["parts"] is not None}
    if temperature:
        assert "first-draft-unverified" in parted
    else:
        assert not parted & {"block verification", "shared noise", "missing-bonus"}
    for name, mistake in MISTAKES.items():
        assert rows[name]["seen_in"] == mistake.seen_in and rows[name]["changes"]
    # an error of a mistake is an outcome, in one line
    assert "\n" not in "".join(row["error"] or "" for row in rows.values())


@pytest.mark.parametrize("draft", ["ngram", "0.7M-17M"])
def test_shared_noise_has_the_text_of_the_command(pair, as_json, draft):
    given = asked(pair, draft, n_tokens_to_generate=20)
    row = rule_comparison.decode_with_rule(ALL_RULES["shared noise"], *given, unheard)
    flags = ("--temperature", 1.0, "--coupled", "--draft_model_size", draft)
    result = as_json("--prompt", PROMPT, "--n_tokens_to_generate", 20, *flags)
    assert row["tokens"] == result["speculative"]["token_ids"]


def test_a_cascade_is_told_what_the_draft_expects_after_its_tokens(pair, monkeypatch):
    """In a text and in the exact distribution: without that, the bonus token is the target's."""
    cascade, rows = inexact_rules.cascade, []

    def watched(draft, p, q, rng):
        rows.append(len(q) - len(draft))
        return cascade(draft, p, q, rng)

    monkeypatch.setattr(inexact_rules, "cascade", watched)
    rule = dataclasses.replace(ALL_RULES["speculative cascade"], decide=watched)
    given = asked(pair, temperature=0.0, n_tokens_to_generate=12)
    list(rule_comparison.rounds_with_rule(rule, *given))
    monkeypatch.setitem(ALL_RULES, rule.name, rule)
    distribution_row.__wrapped__(rule.name)
    assert {*rows} == {1}


def test_two_rules_meet_the_same_draft_and_coins(sampled):
    """A mistake that first shows after a full accept, or a rejection, parts nowhere before."""
    token = sampled["token rule"]
    for name, source in (("bonus-from-wrong-row", "bonus"), ("resample-from-p", "correction")):
        row = sampled[name]
        assert row["parts"] is not None
        assert row["sources"][row["parts"]] == source == token["sources"][row["parts"]]


@pytest.mark.parametrize("name", ["too-many-tokens", "top-p-argsort"])
def test_the_distance_of_a_mistake_is_that_of_the_museum_with_its_errors_beside(name):
    row, mistake = distribution_row(name), MISTAKES[name]
    wrong, right = toy_distributions(mistake.case, mistake)
    assert row["distance"] == distance_and_errors(wrong, right)[0] > 0.1
    for column in (1, 2):
        assert sum(text[column] for text in row["distribution"]) == pytest.approx(1)
    ours = [text[1] for text in row["distribution"]]  # likeliest first
    assert ours == sorted(ours, reverse=True)
    is_error = lambda text: any(isinstance(token, str) for token in text)
    assert row["errors"] == sum(mass for text, mass in wrong.items() if is_error(text))


@pytest.mark.parametrize("name", ALL_RULES)
def test_a_rule_is_described_in_one_plain_line(name):
    what = ALL_RULES[name].what
    assert what and not set("`\n") & set(what) and len(what) < 140
    assert not what.endswith(".") and "arXiv" not in what


def test_the_match_rule_keeps_a_drafted_token_with_probability_p():
    p, q = np.array([[0.5, 0.3, 0.2], [1, 0, 0]]), np.array([[0.2, 0.7, 0.1]])
    for token in range(3):
        found = enumerate_branches(lambda rng: rule_comparison.verify_match([token], p, q, rng))
        replaced = {(0, y): p[0, y] for y in range(3) if y != token}
        assert found == pytest.approx({(1, 0): p[0, token]} | replaced)


def test_shared_noise_has_no_enumerated_distribution():
    assert distribution_row("shared noise") == {"distribution": None}


@pytest.mark.parametrize("name", ["token rule", "match rule", "block verification"])
def test_a_right_rule_has_the_distribution_of_the_target(name):
    row = distribution_row(name)
    assert row["distance"] < 1e-12 and row["errors"] == 0 and len(row["distribution"]) == 27
