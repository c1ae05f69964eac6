"""What generate refuses: with exit code 2 and one line that names the flag and its value."""

import io
import sys
from importlib.util import find_spec

import pytest
from command_line import assert_refused

LONG = "x" * 300
TWO = ("--prompt=a", "--prompt=b")


@pytest.fixture
def no_work(monkeypatch):
    """Loading a model is work that must not have begun."""
    monkeypatch.setattr("experiments.cli.start.load_pair", lambda *a: pytest.fail("it has begun"))


@pytest.mark.parametrize(
    "arguments, fragment",
    [
        # a value
        (["--K=0"], "--K 0: expected"),
        (["--K=1.5"], "--K '1.5': expected"),
        (["--K", "4\n5"], r"--K '4\n5': expected"),
        (["--K=\udcff"], r"--K '\udcff': expected"),
        (["--K=automatic"], "--K 'automatic': expected"),
        (["--temperature=-1"], "--temperature -1.0: expected"),
        (["--temperature=nan"], "--temperature nan: expected"),
        (["--temperature=1e400"], "--temperature inf: expected"),
        (["--temperature=0,1"], "--temperature '0,1': expected"),
        (["--top_p=0"], "--top_p 0.0: expected"),
        (["--top_p=nan"], "--top_p nan: expected"),
        (["--top_k=-1"], "--top_k -1: expected"),
        (["--n_tokens_to_generate", "inf"], "--n_tokens_to_generate 'inf': expected"),
        (["--seed", "-1"], "--seed -1: expected"),
        (["--mode=both "], "--mode 'both ': expected"),
        (["--verification=tree"], "--verification 'tree': expected"),
        (["--paths=two"], "--paths 'two': expected"),
        *(([f"--prompt_ids={x}"], f"--prompt_ids '{x}': expected") for x in ("1,,2", "1.5", "[1]")),
        (["--batch_size=0"], "--batch_size 0: expected"),
        (["--batch_size", 10**22], f"--batch_size {10**22}: expected at most 1000"),
        (["--json=maybe"], "--json 'maybe': expected"),
        *(([f"--{name}"], f"--{name}: expected a value") for name in ("K", "stop", "prompt")),
        # a flag
        (["--foo=1"], "unknown flag '--foo': expected --prompt"),
        (["-K", "3"], "unknown flag '-K'"),
        (["--k", "3"], "unknown flag '--k'"),
        (["--", "--help"], "unknown flag '--'"),
        (["--json", "true"], "unknown argument 'true'"),
        (["--K=3", "a\nb"], r"unknown argument 'a\nb'"),
        (["--K=3", "\udcff"], r"unknown argument '\udcff'"),
        # some that cannot go together
        (["--trace", "--json"], "--trace with --json"),
        (["--trace", "--mode=autoregressive"], "--trace with --mode autoregressive"),
        (["--prompt_ids=1", "--prompt=a"], "--prompt_ids with --prompt:"),
        (["--prompt_ids=1", "--prompts=a"], "--prompt_ids with --prompts:"),
        (["--prompts=x", "--prompt=b"], "--prompts with --prompt:"),
        (["--prompt=-", "--prompt=-"], "--prompt - twice: expected once"),
        ([*TWO, "--stream"], "--stream with several prompts"),
        ([*TWO, "--mistake=stale-cache"], "--mistake with several prompts"),
        (["--out=x.jsonl", "--paths=2", "--temperature=1"], "--paths with several prompts"),
        (["--mistake=greedy-draft", "--draft_model_size=ngram"], "ngram cannot make it"),
        # a file
        (["--prompts", LONG], LONG),
        (["--out=x.txt"], "--out 'x.txt': expected a name that ends in .jsonl"),
        (["--out=a.jsonl/"], "--out 'a.jsonl/': expected a name that ends in .jsonl"),
        (["--out", f"{LONG}.jsonl"], "--out 'xxx"),
        (["--out=/proc/x.jsonl"], "--out '/proc/x.jsonl': cannot be written"),
        (["--out=/dev/null/x.jsonl"], "--out '/dev/null/x.jsonl': cannot be written"),
        (["--report=nowhere/x.html"], "--report 'nowhere/x.html': cannot be written"),
    ],
)
def test_what_is_refused_before_the_work(cli, no_work, tmp_path, monkeypatch, arguments, fragment):
    monkeypatch.chdir(tmp_path)
    assert_refused(cli(*arguments), fragment)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments, fragments",
    [
        (["--target_model_size=9B"], ["'9B'", "17M"]),
        (["--draft_model_size=9B"], ["'9B'", "17M"]),
        (["--target_model_size=ngram"], ["'ngram'"]),
        (["--target_model_size", "a\nb"], [r"'a\nb'"]),
        (["--target_model_size", "\udcff"], [r"'\udcff'"]),
        (["--target_model_size", "no weights"], ["no weights", "model.safetensors"]),
        (["--draft_model_size", "other words"], ["other words", "17M", "different vocabularies"]),
        (["--draft_model_size", "more words"], ["more words", "17M", "different vocabularies"]),
        (["--target_model_size=wide"], ["wide", "260", "259"]),
        (["--draft_model_size=wide"], ["wide", "260", "259"]),
        *(([f"--{name}_model_size", LONG], [LONG]) for name in ("target", "draft")),
        (["--models_dir", LONG], [LONG]),
        (["--mistake", LONG], [LONG]),
        (["--backend=torch"], ["'torch'"]),
        (["--kernels=64x2x2"], ["'64x2x2'"]),
        (["--stop", "a\udcff"], ["--stop", "U+DCFF"]),
        (["--prompt", "a\udcff"], ["--prompt", "U+DCFF"]),
        (["--prompt", "x" * 64], ["prompt 1 has 64 tokens: expected at most 63"]),
        (["--prompt=a", "--prompt", "x" * 99], ["prompt 2 has 99 tokens: expected at most 63"]),
        (["--prompt_ids", ",".join(["1"] * 64)], ["64 tokens: expected at most 63"]),
        (["--prompt_ids=1,259"], ["--prompt_ids 259: expected at most 258"]),
        (["--prompt_ids=-1"], ["--prompt_ids -1: expected 0 or more"]),
    ],
)
def test_a_model_or_a_text_that_cannot_be_used(cli, arguments, fragments):
    assert_refused(cli(*arguments), *fragments)


@pytest.mark.parametrize("name", ["none", "a\nb"])
def test_a_models_folder_that_is_not_there(cli, tmp_path, name):
    assert_refused(cli(models_dir=tmp_path / name), repr(name)[1:-1], "17M")


@pytest.mark.skipif(find_spec("cupy") is not None, reason="CuPy is installed")
def test_a_backend_that_is_not_installed(cli):
    assert_refused(cli("--backend", "cupy"), "cupy", "install")


def test_standard_input_that_is_not_utf8(cli, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\xffb")))
    assert_refused(cli("--prompt", "-"), "standard input", "UTF-8", "byte 1")


def test_an_endless_standard_input(cli, monkeypatch):
    monkeypatch.setattr("experiments.cli.texts.MOST_BYTES", 1 << 20)
    with open("/dev/zero", encoding="utf-8") as zeros:
        monkeypatch.setattr(sys, "stdin", zeros)
        assert_refused(cli("--prompt", "-"), "standard input: is longer than 1 MiB")
