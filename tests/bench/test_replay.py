"""python main.py replay: the rounds of drafts along texts, without their target."""

import json

import numpy as np
import pytest

from bench.replay import Text, drafts_along, read_texts, replay, rounds_along
from checkpoints.registry import MODELS_DIR
from decoding.decode import begin, decode, load_pair

SETTINGS = '{"settings": {"n_tokens_to_generate": 9}, '
PROMPTS = ["The fox and the fox", "Once upon a time", "A king"]


@pytest.fixture
def replayed(pair, tmp_path, capsys):
    """A function (lines, **flags) -> the rows of replay."""

    def call(lines, **flags):
        path = tmp_path / "texts.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        replay(str(path), json=True, **{"models_dir": str(pair), **flags})
        return list(map(json.loads, capsys.readouterr().out.splitlines()))

    return call


FULL = "old " * 504 + "The king said"  # the context has room for four tokens


@pytest.mark.parametrize("n_tokens, stop, prompts, ks", [
    pytest.param(20, "", PROMPTS, [1, 2, 3, 7], marks=pytest.mark.slow),
    pytest.param(60, ",", PROMPTS, [3], marks=pytest.mark.slow),
    (60, " Frog", [FULL], [2, 7]),
])  # fmt: skip
def test_replay_tells_the_rounds_of_the_live_run(replayed, n_tokens, stop, prompts, ks):
    """Of lines as batch writes them, for a model and for n-grams, and every K."""
    lines, live = [], {}
    settings = {"n_tokens_to_generate": n_tokens, "stop": stop}
    for name in ("0.7M-17M", "ngram"):
        target, draft, encoder = load_pair("17M", name, MODELS_DIR)
        for K in ks:
            sums = np.zeros(3)
            for ids in map(encoder.encode, prompts):
                rounds = begin("speculative", target, draft, encoder, ids, n_tokens, K=K, stop=stop)
                done = decode(rounds, encoder)
                sums += [done[figure] for figure in ("accepted", "examined", "rounds")]
                lines += [{"settings": settings, "prompt_token_ids": ids, "speculative": done}]
            live[name, K] = sums[0] / sums[1], sums[2]
    flags = {"draft_model_size": "0.7M-17M,ngram", "models_dir": MODELS_DIR}
    rows = replayed(lines[: len(prompts)], K=",".join(map(str, ks)), **flags)
    assert [(row["draft"], row["K"]) for row in rows] == [*live]
    for row in rows:
        acceptance, n_rounds = live[row["draft"], row["K"]]
        assert row["acceptance_rate"] == pytest.approx(acceptance)
        assert row["tokens"] / row["tokens_per_target_pass"] == pytest.approx(n_rounds)


def test_a_draft_model_is_silent_after_its_context(pair):
    model = load_pair("17M", "0.7M-17M", str(pair))[1]
    prompt, text = [1] * 60, [2] * 10
    drafts = drafts_along(model, Text(prompt, text, ended=False), 4, model.config.n_vocab)
    assert [length for length, _ in drafts] == [4, 4, 3, 2, 1, 0, 0, 0, 0, 0]
    assert len(list(rounds_along([(0, 0)] * 5, 3))) == 5


def test_texts_of_another_program(replayed):
    lines = [{"prompt": "the ", "output": text} for text in ("the cat the cat the cat", "in")]
    rows = replayed(lines, K="1..3")
    assert [row["K"] for row in rows] == [1, 2, 3] * 2
    assert max(row["acceptance_rate"] for row in rows if row["draft"] == "ngram") > 0.5
    with_field = replayed([lines[0] | {"error": None}, lines[1]], K="3,99999999999999999999999")
    assert [row["tokens"] for row in with_field] == [rows[0]["tokens"]] * 4


def test_a_table_for_people(pair, tmp_path, capsys):
    path = tmp_path / "texts.jsonl"
    path.write_text('{"prompt": "a", "output": "b a b a"}\n{"settings": {}, "error": "too long"}\n')
    replay(str(path), models_dir=str(pair), K="2", draft_model_size="ngram")
    assert capsys.readouterr().out.startswith("| draft | K | acceptance | tokens/pass |\n")


@pytest.mark.parametrize("line", [
    "hello", "[1]", "{}", '"error"', '["settings", "error"]', '{"prompt": "a", "error": "b"}',
    '{"prompt": "a"}', '{"prompt": 3, "output": "b"}',
    '{"prompt": "a", "output": ""}', '{"settings": {}, "speculative": {"token_ids": [1]}}',
    SETTINGS + '"prompt_token_ids": [1], "speculative": {"token_ids": [9999]}}',
    SETTINGS + '"prompt_token_ids": [1], "speculative": {"token_ids": [1.5]}}',
    SETTINGS + '"prompt_token_ids": [], "speculative": {"token_ids": [1]}}', "[" * 100000,
])  # fmt: skip
def test_a_line_that_holds_no_text_is_named(pair, tmp_path, line):
    encoder = load_pair("17M", "ngram", str(pair))[2]
    path = tmp_path / "texts.jsonl"
    path.write_text('{"prompt": "a", "output": "b"}\n' + line + "\n")
    with pytest.raises(ValueError, match="texts.jsonl, text 2: expected"):
        read_texts(str(path), "17M", encoder, 512)


def test_texts_that_were_sampled_are_noted(replayed):
    settings = {"n_tokens_to_generate": 2, "temperature": 0.7}
    line = {"settings": settings, "prompt_token_ids": [1], "speculative": {"token_ids": [2, 3]}}
    with pytest.warns(UserWarning, match="1 of 2 texts were sampled"):
        replayed([{"prompt": "a", "output": "b"}, line])


def test_a_draft_without_probabilities_is_refused(replayed):
    with pytest.raises(FloatingPointError, match="NaN or infinite"):
        replayed([{"prompt": "a", "output": "b"}], draft_model_size="huge")


@pytest.mark.parametrize("flags, shown", [
    ({"K": "0"}, "--K '0'"),
    ({"K": "1..999999999999"}, "at most 1000 values"),
    ({"draft_model_size": "eagle"}, "a head needs to see its target"),
    ({"draft_model_size": "other words"}, "different vocabularies"),
])  # fmt: skip
def test_what_cannot_be_tried_is_refused(replayed, flags, shown):
    with pytest.raises(ValueError, match=shown):
        replayed([{"prompt": "a", "output": "b"}], **flags)


def test_texts_of_another_target_are_refused(replayed):
    """Its end of text and its context decide where a text ended by itself, and so the figures."""
    settings = {"n_tokens_to_generate": 9, "target_model_size": "other words"}
    line = {"settings": settings, "prompt_token_ids": [1], "speculative": {"token_ids": [9999]}}
    with pytest.raises(ValueError, match="text 2: was written by other words, not 17M; give --tar"):
        replayed([{"prompt": "a", "output": "b"}, line])
