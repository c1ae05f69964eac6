"""A race has the texts of generate, and the times of every turn."""

import shlex

import pytest
from command_line import assert_refused
from live import ASKED, RUNS, SETTINGS, raced

from page import play, runs
from page.runs import FIELDS, form, parse, read_number


@pytest.mark.parametrize("name", RUNS)
def test_a_race_has_the_texts_of_its_command(pair, as_json, name):
    _, data = raced(pair, **RUNS[name])
    words = shlex.split(data["command"])
    assert words[:2] == ["python", "main.py"]
    result = as_json(*words[2:])
    tokens = [token for one in data["rounds"] for token in one["tokens"]]
    assert tokens == result["speculative"]["token_ids"]
    assert data["alone"]["tokens"] == result["autoregressive"]["token_ids"]
    assert sum(one["accepted"] for one in data["rounds"]) == result["speculative"]["accepted"]
    for shown, decoder in (
        ([text for one in data["rounds"] for text in one["shown"]], "speculative"),
        (data["alone"]["shown"], "autoregressive"),
    ):
        assert "".join(shown).removesuffix("<|endoftext|>") == result[decoder]["text"]
    for one in data["rounds"]:
        named = {x for rows in one["likely"] for x, _, _ in rows} | {*one["draft"]}
        assert named <= data["words"].keys()


def test_both_decoders_take_turns_and_the_median_turn_is_shown(pair, monkeypatch):
    """The turns' times are made up: those of the second are in the middle."""
    ratios = iter([1, 5, 2, 4, 3] * 2)
    taken, real = [], runs.take_turn

    def take_turn(*arguments):
        turn, ratio = real(*arguments), next(ratios)
        turn["seconds"] = [float(ratio)] + [0.0] * (len(turn["seconds"]) - 1)
        turn["rounds"] = [[0.0, 1 / len(turn["rounds"])]] * len(turn["rounds"])
        taken.append(turn)
        return turn

    monkeypatch.setattr(runs, "take_turn", take_turn)
    told = []
    settings, data = raced(pair, lambda **line: told.append(line))
    speedups = [round(alone / (draft + rest)) for alone, draft, rest in data["turns"]]
    assert speedups == [1, 5, 2, 4, 3]
    assert sum(data["alone"]["seconds"]) == 3
    assert len(data["alone"]["seconds"]) == len(data["alone"]["tokens"])
    rows = [line["row"] for line in told if "row" in line]
    assert len(rows) == 1 and len(rows[0]["turns"]) == 1 and rows[0]["settings"] == settings
    progress = [(line["done"], line["total"]) for line in told if "done" in line]
    assert progress == [(n, 10) for n in range(1, 11)]


def test_a_slow_text_has_three_turns(pair, monkeypatch):
    monkeypatch.setattr(runs, "LONG", 0.0)
    _, data = raced(pair, n_tokens_to_generate=3)
    assert len(data["turns"]) == len(data["other"]["turns"]) == 3


@pytest.mark.parametrize("temperature, other", [(0.0, runs.RANDOM_TEMPERATURE), (1.5, 0.0)])
def test_beside_the_likeliest_words_is_a_text_by_chance_or_reverse(pair, temperature, other):
    _, data = raced(pair, n_tokens_to_generate=3, temperature=temperature)
    found = data["settings"]["temperature"], data["other"]["settings"]["temperature"]
    assert found == (temperature, other)
    assert data["room"] == 55  # of the context of 64 tokens, the prompt has 9


def test_a_prompt_that_fills_the_context_is_refused_in_one_line(pair):
    with pytest.raises(ValueError, match="100 tokens") as refused:
        raced(pair, prompt="x" * 100)
    assert "\n" not in str(refused.value)


# ---------------------------------------------------------------- the form


def test_the_form_asks_for_the_settings_and_allows_their_defaults():
    filled = form(SETTINGS)
    assert filled["prompt"]["value"] == SETTINGS["prompt"]
    assert list(filled["fields"]) == list(FIELDS)
    for name, field in filled["fields"].items():
        assert read_number(name, SETTINGS[name]) == SETTINGS[name] == field["value"]


@pytest.mark.parametrize("value", [10**400, float("inf"), float("nan"), True, "1", None, -1])
def test_a_number_that_cannot_be_used_is_refused(value):
    with pytest.raises(ValueError, match="^seed .*: expected a whole number from 0 to"):
        read_number("seed", value)


def test_a_request_changes_no_setting_but_those_of_the_form():
    body = b'{"prompt": "a", "n_tokens_to_generate": 5, "K": 2, "temperature": 1, "top_k": 0, '
    body += b'"top_p": 1, "seed": 3, "target_model_size": "/etc", "stop": "x"}'
    changed = {"prompt": "a", "n_tokens_to_generate": 5, "K": 2, "temperature": 1.0, "seed": 3}
    assert parse(body, SETTINGS) == SETTINGS | changed
    assert {*ASKED} == {"prompt", *FIELDS}


@pytest.mark.parametrize("flag, said", [
    ("--K=13", "K 13: expected a whole number from 1 to 12"),
    ("--temperature=11", "temperature 11.0: expected a number from 0 to 10"),
    (f"--prompt={'x' * 4001}", "prompt: expected a text of at most 4000 characters"),
])  # fmt: skip
def test_what_the_page_would_refuse_is_refused_at_once(
    program, pair, monkeypatch, tmp_path, flag, said
):
    def serve(*arguments):
        raise ValueError("--port: expected no server")

    monkeypatch.setattr(play, "LiveServer", serve)
    for to_save in ([], ["--save", tmp_path / "x.html"]):
        assert_refused(program("play", f"--models_dir={pair}", flag, *to_save), said)
