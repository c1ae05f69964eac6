"""What generate prints, in this process, with a tiny pair of models."""

import io
import re
import sys

import pytest
from command_line import END, PROMPT, ROOT, TIMES, text_of, timeless

import main
import sampling
from decoding.decode import load_pair

pytestmark = pytest.mark.filterwarnings("error")

LENGTH = "--n_tokens_to_generate=30"
TEXT = "--prompt", PROMPT, LENGTH
FIGURES = {"rounds", "drafted", "examined", "accepted", "acceptance_rate", "tokens_per_target_pass"}

# ---------------------------------------------------------------- what a run prints


@pytest.mark.parametrize("command", [(), ("generate",)])
def test_prints_both_texts_and_the_comparison(cli, as_json, command):
    done, figures = cli(*TEXT, command=command), as_json(*TEXT)["speculative"]
    block = rf"\n-+\nText = {re.escape(PROMPT + figures['text'])}\n\n"
    time = r"Time = \d+\.\d\ds (\w+), \d+\.\d tokens/s after \d+\.\d\ds of prefill\n"
    counts = "{accepted} of {examined} examined, of {drafted} drafted tokens".format(**figures)
    rate = rf"Acceptance rate = {figures['acceptance_rate']:.3f} \({counts}\)\n"
    passes = rf"Tokens per target pass = {figures['tokens_per_target_pass']:.2f}\n"
    # of a busy machine, three lines say that there is no speedup
    end = r"Speedup(?s:.*)\(median of 3 turns, (?s:.*)\nThe two texts are identical\.\n"
    texts = f"Autoregressive Decode{block}Speculative Decode{block}"
    found = re.fullmatch(f"{texts}{time}{time}{rate}{passes}{end}", done.out)
    assert found and found.groups() == ("autoregressive", "speculative")
    assert (done.code, done.err) == (0, "") and figures["accepted"] > 0
    # underlines its titles
    assert [len(line) for line in done.out.splitlines() if set(line) == {"-"}] == [21, 18]


@pytest.mark.parametrize(
    "mode, other", [("autoregressive", "speculative"), ("speculative", "autoregressive")]
)
def test_one_mode_leaves_the_other_out(cli, as_json, mode, other):
    more = ("--draft_model_size=no such",) if mode == "autoregressive" else ()
    arguments = *TEXT, "--mode", mode, *more
    result, done, both = as_json(*arguments), cli(*arguments), as_json(*TEXT)
    assert result.keys() == {"settings", "prompt_token_ids", mode}
    assert timeless(result)[mode] == timeless(both)[mode]
    assert f"{mode.capitalize()} Decode" in done.out
    assert f"{other.capitalize()} Decode" not in done.out
    assert "Speedup" not in done.out and "identical" not in done.out
    assert ("Tokens per target pass" in done.out) == (mode == "speculative")


def test_texts_that_take_long_are_timed_in_one_turn(cli, as_json, monkeypatch):
    monkeypatch.setattr(main, "LONG", 0)
    assert len(as_json(*TEXT)["speedups"]) == 1 and "(one turn)" in cli(*TEXT).out


@pytest.mark.parametrize("draft, n", [("ngram", 1), ("0.7M-17M", 2), ("0.7M-17M", 30)])
@pytest.mark.parametrize("K, temperature", [("1", 0), ("50", 1), ("auto", 0)])
def test_json(as_json, pair, n, K, draft, temperature):
    length = "--prompt", PROMPT, "--n_tokens_to_generate", n
    result = as_json(*length, "--K", K, "--draft_model_size", draft, "--temperature", temperature)
    plain, fast = result.pop("autoregressive"), result.pop("speculative")
    assert result.keys() == {"settings", "prompt_token_ids", "speedup", "speedups", "identical"}
    assert text_of(pair, result["prompt_token_ids"]) == PROMPT
    for decoder in plain, fast:
        assert decoder.keys() == TIMES - {"speedup", "speedups"} | FIGURES | {"text", "token_ids"}
        assert len(decoder["token_ids"]) == n
        assert decoder["text"] == text_of(pair, decoder["token_ids"])
        assert decoder["seconds"] > 0 and decoder["prefill_seconds"] > 0
        assert decoder["tokens_per_second"] * decoder["seconds"] == pytest.approx(n)
        assert decoder["accepted"] + decoder["rounds"] == n
        assert decoder["accepted"] <= decoder["examined"]
    assert plain["rounds"] == n and plain["acceptance_rate"] is None
    assert sorted(result["speedups"])[1] == result["speedup"]
    assert result["identical"] == (plain["token_ids"] == fast["token_ids"])
    assert result["identical"] or temperature


def test_the_seed_decides_the_text(as_json):
    arguments = *TEXT, "--temperature=1", "--seed"
    first, again, other = (as_json(*arguments, seed) for seed in (7, 7, 10**30))
    assert timeless(first) == timeless(again)
    for decoder in ("autoregressive", "speculative"):
        assert first[decoder]["token_ids"] != other[decoder]["token_ids"]


@pytest.mark.parametrize("target, verdict", [("17M", "bug"), ("flat", "tie")])
def test_greedy_texts_that_differ_are_explained(cli, as_json, monkeypatch, target, verdict):
    wrong = lambda draft, p, q, rng: (0, 9)
    monkeypatch.setattr(sampling.verify, "__code__", wrong.__code__)
    arguments = ["--target_model_size", target, "--n_tokens_to_generate", 5]
    result, done = as_json(*arguments), cli(*arguments)
    assert result["identical"] is False and result["difference"]["position"] == 0
    assert result["difference"]["verdict"] == verdict
    assert "identical" not in done.out
    assert re.search(rf"differ from token 0\b.*\b{verdict}\b", done.out)
    sampled = cli(*arguments, "--temperature=1")
    assert "differ, as two samples from one distribution do" in sampled.out


# ---------------------------------------------------------------- prompts, and where a text ends


@pytest.mark.parametrize(
    "piped, text",
    [(b"one", "one"), (b"one\n\n", "one\n"), ("é 日\nb\n".encode(), "é 日\nb"), (b"-\n", "-")],
)
def test_a_prompt_from_standard_input(as_json, pair, monkeypatch, piped, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped), encoding="utf-8"))
    result = as_json("--prompt", "-", "--n_tokens_to_generate", 1)
    assert text_of(pair, result["prompt_token_ids"]) == result["settings"]["prompt"] == text


@pytest.mark.parametrize("stop", ["\n", r"\n"])
def test_a_stop_may_be_a_new_line_spelled_either_way(as_json, stop):
    arguments = "--target_model_size=lines", "--temperature=3", "--mode=autoregressive"
    whole, text = (as_json(*arguments, *end) for end in ([], [f"--stop={stop}"]))
    whole, text = whole["autoregressive"]["text"], text["autoregressive"]["text"]
    assert text == whole[: whole.index("\n") + 1] != whole


def test_end_of_text_ends_the_text_and_is_not_shown(cli, as_json):
    arguments = ["--target_model_size=ends", "--prompt=x"]
    result = as_json(*arguments)
    for decoder in ("autoregressive", "speculative"):
        assert result[decoder]["token_ids"] == [END] and result[decoder]["text"] == ""
    assert "<|endoftext|>" not in cli(*arguments).out


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("words, said", [
    (["--K=0"], "K = 0: expected 1 or more\n"),
    (["--temperature=nan"], "temperature nan: expected"),
    (["--json", "--trace"], "--json: expected no --trace"),
    (["--prompt=" + "x" * 64], "64 tokens: expected less than 64"),
    (["--prompt=a\udcff"], "U+DCFF"),
    (["--target_model_size=9B"], "17M"),
    (["--draft_model_size=eagle"], "eagle.safetensors: choose another draft"),
    (["--draft_model_size=other words"], "different vocabularies"),
    (["--models_dir=none", "--target_model_size=1M"], "'none' (which is no folder)"),
    (["--target_model_size=huge"], "the largest logit is NaN or infinite: expected"),
    (["--draft_model_size=huge"], "the largest logit is NaN or infinite: expected"),
    (["--draft_model_size=huge", "--trace", "--temperature=1", "--coupled"], "NaN or infinite"),
])  # fmt: skip
def test_what_cannot_be_used_is_one_line(cli, words, said):
    done = cli(*words)
    assert done.code == 2 and done.err.count("\n") == 1
    assert done.err.startswith("error: ") and said in done.err


@pytest.mark.parametrize("name", ["config.json", "vocab.json", "model.safetensors"])
def test_a_model_that_may_not_be_read(cli, pair, unreadable, name):
    load_pair.cache_clear()
    unreadable(pair / "17M" / name)
    done = cli("--prompt=a")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert f"error: {pair / '17M' / name}: Permission denied" in done.err


# ---------------------------------------------------------------- the embedded pair


@pytest.mark.parametrize(
    "draft, temperature, at_least", [("0.7M-17M", 0, 1.5), ("0.7M-17M", 1, 1.3), ("eagle", 0, 1.5)]
)
def test_the_embedded_pair_pays(as_json, draft, temperature, at_least):
    arguments = "--draft_model_size", draft, "--temperature", temperature, "--mode=speculative"
    result = as_json(*arguments, "--n_tokens_to_generate=30", models_dir=ROOT / "models")
    two = result["speculative"]
    assert "\ufffd" not in two["text"] and 0 < len(two["token_ids"]) <= 30
    assert two["tokens_per_target_pass"] >= at_least
