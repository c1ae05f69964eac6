"""The command line by what it prints, mostly in this process, with a tiny pair of models."""

import dataclasses
import io
import json
import os
import re
import signal
import subprocess
import sys

import pytest
from cli.flags import Settings
from command_line import (
    COMMAND,
    CONFIG,
    END,
    ENVIRONMENT,
    PROMPT,
    ROOT,
    TIMES,
    embedded,
    likely,
    process,
    python,
    running,
    shell,
    text_of,
    timeless,
)
from toys import random_tensors, write_checkpoint

import sampling

pytestmark = pytest.mark.filterwarnings("error")

LENGTH = "--n_tokens_to_generate=30"
TEXT = "--prompt", PROMPT, LENGTH
COUNTS = {"rounds", "drafted", "examined", "accepted", "acceptance_rate", "tokens_per_target_pass"}
COUNTS |= {"draft_lengths"}

# ---------------------------------------------------------------- what a run prints


@pytest.mark.parametrize("command", [(), ("generate",)])
def test_prints_both_blocks_and_the_comparison(cli, as_json, command):
    done, figures = cli(*TEXT, command=command), as_json(*TEXT)["speculative"]
    text = re.escape(PROMPT + figures["text"])
    block = (
        rf"\n-+\nTime = \d+\.\d\ds.* \d+\.\d tokens/s(, the median of 3 runs)?\nText = {text}\n\n"
    )
    counts = rf"{figures['accepted']} of {figures['examined']} .*"
    rate = rf"Acceptance rate = {figures['acceptance_rate']:.3f} \({counts}\)\n"
    passes = rf"Tokens per target pass = {figures['tokens_per_target_pass']:.2f}\n"
    rest = r"Speedup = \d+\.\d\d \(one prompt; .*\)\nThe two texts are identical\.\n"
    pattern = f"Autoregressive Decode{block}Speculative Decode{block}{rate}{passes}{rest}"
    assert re.fullmatch(pattern, done.out) and (done.code, done.err) == (0, "")
    assert figures["accepted"] > 0
    # underlines its title
    assert [len(line) for line in done.out.splitlines() if set(line) == {"-"}] == [21, 18]


@pytest.mark.parametrize(
    "mode, other", [("autoregressive", "speculative"), ("speculative", "autoregressive")]
)
def test_one_mode_leaves_the_other_out(cli, as_json, mode, other):
    more = ("--draft_model_size=no such",) if mode == "autoregressive" else ()
    arguments = *TEXT, "--mode", mode, *more
    result, done, both = as_json(*arguments), cli(*arguments), as_json(*TEXT)
    assert result[other] is None and result["speedup"] is None and result["identical"] is None
    assert timeless(result)[mode] == timeless(both)[mode]
    assert f"{mode.capitalize()} Decode" in done.out
    assert f"{other.capitalize()} Decode" not in done.out
    assert "Speedup" not in done.out and "identical" not in done.out
    assert ("Tokens per target pass" in done.out) == (mode == "speculative")


@pytest.mark.parametrize(
    "target, prompt, temperature",
    [("17M", "é\n\n日", 0), ("bytes", "", 1), ("ends", "é\n\n日", 1), ("17M", "", 1)],
)
def test_stream_shows_the_same_text(cli, as_json, target, prompt, temperature):
    settings = "--target_model_size", target, "--temperature", temperature
    arguments = LENGTH, "--prompt", prompt, *settings
    plain, streamed, result = cli(*arguments), cli(*arguments, "--stream"), as_json(*arguments)
    begin = prompt or "<|endoftext|>"
    texts = [begin + result[decoder]["text"] for decoder in ("autoregressive", "speculative")]
    assert ("\ufffd" in texts[0]) == (target == "bytes")
    assert streamed.code == 0 and streamed.err == ""
    assert re.findall(r"\nText = (.*?)\nTime = ", streamed.out, re.DOTALL) == texts
    assert re.findall(r"\nText = (.*?)\n\n(?=Spec|Acc|Tok)", plain.out, re.DOTALL) == texts


# ---------------------------------------------------------------- the JSON object


@pytest.mark.parametrize(
    "n, K, draft, temperature",
    [(1, 1, "0.7M-17M", 0), (2, 50, "ngram", 1), (30, 4, "0.7M-17M", 0), (30, 10**30, "ngram", 1)],
)
def test_json(as_json, pair, n, K, draft, temperature):
    length = "--prompt", PROMPT, "--n_tokens_to_generate", n
    result = as_json(*length, "--K", K, "--draft_model_size", draft, "--temperature", temperature)
    parts = {"settings", "kernels", "prompt_token_ids", "autoregressive", "speculative"}
    models = {"17M"} if draft == "ngram" else {"17M", draft}
    assert result["kernels"].keys() == models
    assert {len(kernels) for kernels in result["kernels"].values()} == {5}  # four weights, a head
    assert set(result) == parts | {"speedup", "identical"}
    plain, fast = result["autoregressive"], result["speculative"]
    assert set(plain) == TIMES | {"text", "token_ids"} and set(fast) == set(plain) | COUNTS
    assert text_of(pair, result["prompt_token_ids"]) == PROMPT
    for decoder in plain, fast:
        assert len(decoder["token_ids"]) == n
        assert decoder["text"] == text_of(pair, decoder["token_ids"])
        assert decoder["seconds"] > 0 and decoder["prefill_seconds"] > 0
        assert decoder["tokens_per_second"] * decoder["seconds"] == pytest.approx(n)
    assert 0 <= fast["accepted"] <= fast["examined"] <= fast["drafted"] <= K * fast["rounds"]
    assert fast["accepted"] + fast["rounds"] == n
    lengths = {int(length): rounds for length, rounds in fast["draft_lengths"].items()}
    assert sum(lengths.values()) == fast["rounds"]
    assert sum(length * rounds for length, rounds in lengths.items()) == fast["drafted"]
    speedup = fast["tokens_per_second"] / plain["tokens_per_second"]
    assert result["speedup"] == pytest.approx(speedup)
    assert result["identical"] == (plain["token_ids"] == fast["token_ids"])
    assert result["identical"] or temperature


def test_json_repeats_the_settings(as_json, pair):
    models = dict(draft_model_size="ngram", target_model_size="bytes", kernels="16x1")
    sampling = dict(temperature=0.5, top_k=7, top_p=0.9, seed=99, K=3, mode="speculative")
    chosen = dict(prompt="x", n_tokens_to_generate=3, stop="a=b") | models | sampling
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in chosen.items()]
    settings = as_json(*arguments, "--exact")["settings"]
    assert settings.keys() == Settings().as_dict().keys() | {"prompt", "prompt_ids"}
    assert settings | chosen | {"models_dir": str(pair), "exact": True} == settings
    assert all(type(settings[name]) is type(value) for name, value in chosen.items())


@pytest.mark.parametrize("prompt", [PROMPT, "", "123 é\n\t!"])
@pytest.mark.parametrize("draft, K", [("0.7M-17M", 8), ("bytes", 4), ("ngram", "auto")])
def test_greedy_texts_are_identical(as_json, prompt, draft, K):
    arguments = LENGTH, "--prompt", prompt, "--draft_model_size", draft, "--K", K
    results = [as_json(*arguments, "--seed", seed) for seed in (0, 1)]
    assert all(result["identical"] is True and "difference" not in result for result in results)
    assert all(result["settings"]["K"] == K for result in results)
    assert results[0]["autoregressive"]["token_ids"] == results[1]["autoregressive"]["token_ids"]


@pytest.mark.parametrize("mode", ["autoregressive", "speculative"])
def test_the_seed_decides_the_text(as_json, mode):
    arguments = *TEXT, "--temperature=1", "--mode", mode, "--seed"
    first, again, other = (as_json(*arguments, seed) for seed in (7, 7, 8))
    assert timeless(first) == timeless(again)
    assert first[mode]["token_ids"] != other[mode]["token_ids"]


@pytest.mark.parametrize("target, verdict", [("17M", "bug"), ("flat", "tie")])
def test_greedy_texts_that_differ_are_explained(cli, as_json, monkeypatch, target, verdict):
    wrong = lambda draft, p, q, rng: (0, 9)
    monkeypatch.setattr(sampling.verify, "__code__", wrong.__code__)
    arguments = ["--target_model_size", target, "--n_tokens_to_generate", 5]
    result, done = as_json(*arguments), cli(*arguments)
    assert result["identical"] is False and result["difference"]["position"] == 0
    assert result["difference"]["verdict"] == verdict
    assert (result["difference"]["gap"] > 0) == (verdict == "bug")
    assert "identical" not in done.out
    assert re.search(rf"differ from token 0\b.*\b{verdict}\b", done.out)


@pytest.mark.parametrize(
    "more",
    ["--K=auto", "--draft_confidence=0.2", "--report=run.html", "--rule=exercises.solutions"],
)
def test_block_verification(as_json, tmp_path, monkeypatch, more):
    """The settings name it, and a nearly greedy text is the same; the default is not named."""
    monkeypatch.chdir(tmp_path)
    arguments = ["--verification=block", "--n_tokens_to_generate=20"]
    nearly_greedy = as_json("--temperature=1e-5", *arguments, more)
    assert nearly_greedy["identical"] and nearly_greedy["settings"]["verification"] == "block"
    assert len(as_json("--temperature=1", *arguments)["speculative"]["token_ids"]) == 20
    assert as_json("--n_tokens_to_generate", 3)["settings"]["verification"] == "token"


def test_a_confident_draft_and_shared_noise(as_json):
    """Drafting stops where the draft is not sure enough, and the texts stay the same."""
    arguments = *TEXT, "--temperature=1", "--coupled"
    results = [as_json(*arguments, f"--draft_confidence={least}") for least in (0, 0.6, 1)]
    assert all(result["identical"] for result in results)
    drafted = [result["speculative"]["drafted"] for result in results]
    assert drafted[0] > drafted[1] > drafted[2] == 0
    assert len({tuple(result["speculative"]["token_ids"]) for result in results}) == 1


@pytest.mark.parametrize("role", ["--target_model_size", "--draft_model_size"])
@pytest.mark.parametrize(
    "more",
    [
        "",
        "--temperature=1 --coupled",
        "--prompt=a --prompt=b",
        "--trace",
    ],
)
def test_a_model_whose_logits_are_no_numbers_ends_in_one_line(cli, role, more):
    done = cli(role, "huge", "--n_tokens_to_generate", 5, *more.split())
    assert done.code == 2 and len(done.err.splitlines()) == 1
    assert "error: the largest logit is NaN or infinite" in done.err


# ---------------------------------------------------------------- where a text ends


@pytest.mark.parametrize("mode", ["autoregressive", "speculative"])
@pytest.mark.parametrize("start, length", [(3, 1), (12, 9)])
def test_stop_ends_with_the_token_that_completes_it(as_json, pair, mode, start, length):
    arguments = *TEXT, "--mode", mode, "--temperature=1"
    whole = as_json(*arguments)[mode]
    stop = whole["text"][start : start + length]
    n = next(n for n in range(31) if stop in text_of(pair, whole["token_ids"][:n]))
    is_done = as_json(*arguments, "--stop", stop)[mode]
    assert is_done["token_ids"] == whole["token_ids"][:n] and n < 30
    assert is_done["text"].endswith(stop)


def test_end_of_text_ends_the_text_and_is_not_shown(cli, as_json):
    arguments = ["--target_model_size=ends", "--prompt=x"]
    result = as_json(*arguments)
    for decoder in ("autoregressive", "speculative"):
        assert result[decoder]["token_ids"] == [END] and result[decoder]["text"] == ""
    assert "<|endoftext|>" not in cli(*arguments).out


@pytest.mark.parametrize("n_prompt, n, n_made", [(60, 4, 4), (34, 31, 30), (63, 1000, 1)])
def test_the_context_ends_a_text_with_a_note(as_json, n_prompt, n, n_made):
    note = f"{n_made} of {n} tokens" if n_made < n else ""
    result = as_json("--prompt", "x" * n_prompt, "--n_tokens_to_generate", n, note=note)
    assert len(result["prompt_token_ids"]) == n_prompt and result["identical"]
    assert len(result["autoregressive"]["token_ids"]) == n_made


# ---------------------------------------------------------------- prompts

# what a shell, or a parser of flags, could take for something else
PROMPTS = [
    *"123 -5 1e5 None True [1,2] a,b {'a':1} a=b = -- --- -x --K --K=5 --help -h --json".split(),
    *r"--prompt --prompt=x generate ' 'quoted' \n $HOME %s @file __class__".split(),
    *("", " ", " two  spaces ", "two\nlines\n", "tab\t", "\0", "\x1b[0m", "\r\n", "- item"),
    *("é 日本 🎉", "e\u0301", "<|endoftext|>", "a<|endoftext|>b"),
]


@pytest.mark.parametrize("prompt", PROMPTS, ids=ascii)
def test_a_prompt_is_text_whatever_it_looks_like(as_json, pair, prompt):
    for arguments in ([f"--prompt={prompt}"], ["--prompt", prompt]):
        result = as_json("--mode", "autoregressive", "--n_tokens_to_generate", 1, *arguments)
        assert result["settings"]["prompt"] == prompt
        assert result["prompt_token_ids"] == [END] or END not in result["prompt_token_ids"]
        assert text_of(pair, result["prompt_token_ids"]) == (prompt or "<|endoftext|>")


@pytest.mark.parametrize(
    "piped, text",
    [
        (b"one", "one"),
        (b"one\n\n", "one\n"),
        ("é 日\nb\n".encode(), "é 日\nb"),
        (b"\n", "<|endoftext|>"),
        (b"-\n", "-"),
        (b"<|endoftext|>", "<|endoftext|>"),
    ],
)
def test_a_prompt_from_standard_input(as_json, pair, monkeypatch, piped, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped), encoding="ascii"))
    result = as_json("--prompt", "-", "--n_tokens_to_generate", 1)
    assert text_of(pair, result["prompt_token_ids"]) == text
    assert (END in result["prompt_token_ids"]) == (piped.strip() == b"")


# ---------------------------------------------------------------- real processes


def test_an_output_that_knows_only_ascii(pair):
    flags = "--prompt=é 日", "--n_tokens_to_generate=3", "--stream"
    done = process(pair, *flags, environment={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.count(b"Text = ? ?") == 2


def test_a_pipe_that_is_closed_early(pair):
    reader, writer = os.pipe()
    os.close(reader)
    done = process(pair, "--n_tokens_to_generate", "5", stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_interrupted_while_it_writes(tmp_path):
    # takes seconds to fill, and less than an output buffer
    config = dataclasses.replace(CONFIG, n_ctx=4000, n_layer=8)
    write_checkpoint(tmp_path / "17M", config, likely(random_tensors(config), list(range(64, 90))))
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": ENVIRONMENT}
    # a background job may ignore it
    options["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    flags = "--draft_model_size=ngram --stream --prompt= --n_tokens_to_generate=3900".split()
    command = [*COMMAND, f"--models_dir={tmp_path}", "--kernels=plain", *flags]
    with running(command, **options) as writer:
        # the title, and the first words: they arrive while the rest is written
        begin = writer.stdout.read(80)
        writer.send_signal(signal.SIGINT)
        # communicate() would lose what read(80) has buffered
        out, err = writer.stdout.read(), writer.stderr.read()
        writer.wait(60)
    assert begin.startswith(b"Autoregressive Decode\n") and b"Text = <|endoftext|>" in begin
    assert (writer.returncode, err) == (130, b"") and b"Time = " not in out


@pytest.mark.parametrize("missing", ["numpy", "regex", "tqdm"])
def test_what_is_not_installed_is_named(missing):
    program = f"import runpy, sys; sys.modules[{missing!r}] = None; "
    program += "runpy.run_path('main.py', run_name='__main__')"
    done = python("-c", program)
    message = f"error: {missing} is not installed: pip install -r requirements.txt\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


@pytest.mark.parametrize(
    "stream, said", [("<&-", b""), (">&-", b""), (">/dev/full", b"standard output: No space")]
)
def test_a_stream_that_is_closed_or_full(pair, stream, said):
    done = shell(f'"$0" "$@" {stream}', pair, "--n_tokens_to_generate=2", "--prompt=-")
    assert bool(done.returncode) == done.stderr.count(b"\n") == bool(said)
    assert said in done.stderr and b"Traceback" not in done.stderr


FLUSHED = ["--prompt=a --prompt=b", "--trace", "--stream", "--json", "--prompt=a --prompt=b --json"]


@pytest.mark.parametrize("flags", FLUSHED)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_output_has_its_name_wherever_it_is_flushed(pair, flags, unbuffered):
    begin = f'PYTHONUNBUFFERED={unbuffered} "$0" "$@" {flags} >/dev/full'
    done = shell(begin, pair, "--n_tokens_to_generate=2")
    said = b"error: standard output: No space left on device; make room, then try again\n"
    assert (done.returncode, done.stderr) == (2, said)


def test_notes_do_not_go_to_stdout_where_stderr_is_closed(pair):
    done = shell('"$0" "$@" 2>&-', pair, "--n_tokens_to_generate=90", "--prompt=the end", "--json")
    assert done.returncode == 0 and done.stdout.count(b"\n") == 1 and json.loads(done.stdout)


# ---------------------------------------------------------------- the embedded pair


@embedded
def test_the_embedded_pair_out_of_the_box(tmp_path):
    done = subprocess.run(COMMAND, cwd=tmp_path, capture_output=True, timeout=300, env=ENVIRONMENT)
    out = done.stdout.decode()
    assert done.returncode == 0 and done.stderr == b""
    assert out.count("\nText = Once upon a time") == 2 and "The two texts are identical." in out


@embedded
@pytest.mark.parametrize(
    "draft, temperature, at_least", [("0.7M-17M", 0, 1.5), ("0.7M-17M", 1, 1.3), ("ngram", 0, 1)]
)
def test_the_embedded_pair_pays(as_json, draft, temperature, at_least):
    arguments = "--draft_model_size", draft, "--temperature", temperature
    result = as_json(*arguments, "--n_tokens_to_generate=40", models_dir=ROOT / "models")
    two = result["speculative"]
    assert result["identical"] or temperature
    assert "\ufffd" not in two["text"] and 0 < len(two["token_ids"]) <= 40
    assert two["tokens_per_target_pass"] >= at_least


def test_k_auto_says_how_many_it_drafted(cli, as_json):
    lengths = as_json(*TEXT, "--K=auto")["speculative"]["draft_lengths"]
    assert lengths and {*map(int, lengths)} <= {*range(9)}
    assert re.search(
        r"\nDrafted tokens, as --K auto chose = \d in \d+ round", cli(*TEXT, "--K=auto").out
    )
