"""What generate refuses: with exit code 2 and one line that names the flag and its value."""

import io
import sys

import pytest
from command_line import assert_refused

LONG = "x" * 300
TWO = "--prompt=a --prompt=b"
PATHS = "--paths=2 --temperature=1"
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
    "paths": ["two", "0", "17"],
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
    "--trace --mode=autoregressive": "--trace with --mode autoregressive",
    "--prompt_ids=1 --prompt=a": "--prompt_ids with --prompt:",
    "--prompt_ids=1 --prompts=a": "--prompt_ids with --prompts:",
    "--prompts=x --prompt=b": "--prompts with --prompt:",
    "--draft_confidence=0.5 --coupled": "--draft_confidence with --coupled",
    "--coupled --verification=block": "--coupled with --verification block",
    "--rule=exercises.mine --mistake=reseed": "--rule with --mistake",
    "--mistake=greedy-draft --draft_model_size=ngram": "",
    "--paths=2": "--paths with greedy decoding",
    f"{PATHS} --top_k=1": "--paths with greedy decoding",
    f"{PATHS} --K=auto": "--paths with --K auto",
    f"{PATHS} --draft_model_size=eagle": "--paths with --draft_model_size eagle",
    f"{PATHS} --out=x.jsonl": "--paths with several prompts",
    "--cluster=local:2": "--cluster local:2: expected several prompts",
    f"{TWO} --stream": "--stream with several prompts",
    f"{TWO} --mistake=stale-cache": "--mistake with several prompts",
    f"{TWO} --rule=exercises.solutions": "--rule with several prompts",
}


@pytest.fixture
def no_work(monkeypatch, tmp_path):
    """Loading a model is work that must not have begun, and no file must be there in the end."""
    monkeypatch.setattr("experiments.cli.start.load_pair", lambda *a: pytest.fail("it has begun"))
    monkeypatch.chdir(tmp_path)
    yield
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name, value", [(name, one) for name in VALUES for one in VALUES[name]])
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
        (["--prompt_ids=1,259"], ["--prompt_ids 259: expected at most 258"]),
        (["--prompt_ids=-1"], ["--prompt_ids -1: expected 0 or more"]),
    ],
)
def test_a_model_or_a_text_that_cannot_be_used(cli, words, fragments):
    assert_refused(cli(*words), *fragments)


def test_standard_input_that_is_not_utf8(cli, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\xffb")))
    assert_refused(cli("--prompt", "-"), "standard input", "UTF-8", "byte 1")
