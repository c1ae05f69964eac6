"""What generate refuses: with exit code 2 and one line that names the flag and its value."""

import io
import sys

import pytest
from command_line import assert_refused

from decoding.load import ModelSpec

LONG = "x" * 300
TWO = "--prompt=a --prompt=b"
ABOUT = ["--trace", "--report=x.html", "--mistake=stale-cache", "--rule=exercises.mine"]
ONE_PROMPT_FLAGS = ["--stream", "--trace", "--report=x.html"]  # what shows one text
VALUES = {  # flag: values that make no sense
    "K": ["0", "1.5", "4\n5", "\udcff", "automatic"],
    "temperature": ["-1", "nan", "inf", "0,1"],
    "top_p": ["0", "nan"],
    "top_k": ["-1"],
    "draft_confidence": ["1.01", "nan"],
    "n_tokens_to_generate": ["0", "inf"],
    "seed": ["-1"],
    "mode": ["both "],
    "verification": ["tree"],
    "prompt_ids": ["1,,2", "1.5", "[1]"],
    "batch_size": ["0", str(10**22)],
    "json": ["maybe"],
    "out": ["x.txt", "a.jsonl/", "/proc/x.jsonl", "/dev/null/x.jsonl"],
    "report": ["nowhere/x.html"],
}
WORDS = {  # what is given: how the refusal begins
    "--K": "--K: expected a value",
    "--foo=1": "unknown flag '--foo': expected --prompt",
    "-K 3": "unknown flag '-K'",
    "--k 3": "unknown flag '--k'",
    "-- --help": "unknown flag '--'",
    "--json true": "unknown argument 'true'",
    "--K=3 \udcff": r"unknown argument '\udcff'",
    f"--prompts={LONG}": LONG,
    f"--out={LONG}.jsonl": "--out 'xxx",
    # flags that cannot go together
    "--trace --json": "--trace with --json",
    "--stream --json": "--stream with --json",
    "--prompt_ids=1 --prompt=a": "--prompt_ids with --prompt:",
    "--prompt_ids=1 --prompts=a": "--prompt_ids with --prompts:",
    "--prompts=x --prompt=b": "--prompts with --prompt:",
    "--draft_confidence=0.5 --draft_model_size=ngram": "--draft_confidence with --draft_model_size",
    "--coupled --verification=block": "--coupled with --verification block",
    "--coupled --rule=exercises.mine": "--coupled with --rule",
    **{f"{flag} --mode=autoregressive": f"{flag.partition('=')[0]} with --mode" for flag in ABOUT},
    "--rule=exercises.mine --mistake=reseed": "--mistake reseed",
    "--rule=exercises.mine --mistake=residual-nan": "--mistake residual-nan",
    "--coupled --mistake=reseed": "--mistake reseed",
    "--coupled --mistake=block-unclipped": "--mistake block-unclipped",
    "--mistake=reseed --verification=block": "--mistake reseed with --verification block",
    "--mistake=greedy-draft --draft_model_size=ngram": "--mistake greedy-draft",
    "--mistake=no_such --mode=speculative": "mistake 'no_such': expected one of greedy-ratio",
    "--cluster=local:2": "--cluster local:2: expected several prompts",
    f"{TWO} --cluster=local:2 --mistake=reseed": "--cluster with --mistake",
    f"{TWO} --cluster=local:2 --rule=exercises.mine": "--cluster with --rule",
    **{
        f"{TWO} {flag}": f"{flag.partition('=')[0]} with several prompts"
        for flag in ONE_PROMPT_FLAGS
    },
    "--trace --out=x.jsonl": "--trace with several prompts",
    f"{TWO} --mistake=reseed --coupled --out=x.jsonl": "--mistake reseed",
}


@pytest.fixture
def no_work(monkeypatch, tmp_path):
    """Loading a model is work that must not have begun, and no file must be there in the end."""
    monkeypatch.setattr(ModelSpec, "load", lambda *a, **named: pytest.fail("it has begun"))
    monkeypatch.chdir(tmp_path)
    yield
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name, value", [(name, value) for name in VALUES for value in VALUES[name]]
)
def test_a_value_that_makes_no_sense(cli, no_work, name, value):
    assert_refused(cli(f"--{name}={value}"), f"--{name} ", ascii(value)[1:-1])


@pytest.mark.parametrize("words", WORDS, ids=ascii)
def test_words_that_cannot_be_given(cli, no_work, words):
    assert_refused(cli(*words.split(" ")), f"error: {WORDS[words]}")


ONE_TOO_MANY = "64 tokens: expected at most 63"


@pytest.mark.parametrize(
    "words, fragments",
    [
        (["--target_model_size=9B"], ["'9B'", "17M"]),
        (["--draft_model_size=9B"], ["'9B'", "17M"]),
        (["--target_model_size=ngram"], ["'ngram'"]),
        (["--target_model_size=a\nb"], [r"'a\nb'"]),
        (["--target_model_size=\udcff"], [r"'\udcff'"]),
        (["--target_model_size=no weights"], ["no weights", "model.safetensors"]),
        (["--draft_model_size=other words"], ["other words", "17M", "different vocabularies"]),
        (["--draft_model_size=more words"], ["more words", "17M", "different vocabularies"]),
        *(([f"--{role}_model_size=wide"], ["wide", "260", "259"]) for role in ("target", "draft")),
        *(([f"--{role}_model_size={LONG}"], [LONG]) for role in ("target", "draft")),
        *(
            ([f"--models_dir={name}"], [ascii(name)[1:-1], "17M"])
            for name in ("none", "a\nb", LONG)
        ),
        ([f"--mistake={LONG}"], [LONG]),
        (["--backend=torch"], ["'torch'"]),
        (["--kernels=64x2x2"], ["'64x2x2'"]),
        (["--stop=a\udcff"], ["--stop", "U+DCFF"]),
        (["--prompt=a\udcff"], ["--prompt", "U+DCFF"]),
        (["--prompt", "x" * 64], [f"prompt 1 has {ONE_TOO_MANY}"]),
        (["--prompt=a", "--prompt", "x" * 64], [f"prompt 2 has {ONE_TOO_MANY}"]),
        (["--prompt_ids", ",".join(["1"] * 64)], [ONE_TOO_MANY]),
        (["--prompt_ids=1,259"], ["--prompt_ids 259: expected a whole number from 0 to 258"]),
        (["--prompt_ids=-1"], ["--prompt_ids -1: expected a whole number from 0 to 258"]),
    ],
)
def test_a_model_or_a_text_that_cannot_be_used(cli, words, fragments):
    assert_refused(cli(*words), *fragments)


FILES = ("config.json", "vocab.json", "merges.txt", "model.safetensors")


@pytest.mark.parametrize("name", FILES)
def test_a_model_that_may_not_be_read(cli, pair, unreadable, name):
    path = pair / "17M" / name
    unreadable(path)
    assert_refused(cli("--prompt=a"), f"error: {path}: Permission denied; use one that you may")


def test_standard_input_that_is_not_utf8(cli, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\xffb")))
    assert_refused(cli("--prompt", "-"), "standard input", "UTF-8", "byte 1")
