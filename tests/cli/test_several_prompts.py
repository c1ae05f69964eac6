"""Several prompts in one run: each is what it is alone, in order, also after an interruption."""

import dataclasses
import itertools
import json

import pytest
from command_line import CONFIG, assert_refused, partial_lines, timeless
from toys import random_tensors, write_checkpoint

from checkpoints.errors import InputError
from cli import several_prompts as cli_several_prompts
from decoding import several_prompts
from decoding.cluster.failed import Failed
from decoding.run import Run

TEXTS = ["hello", "the end", "a", "over there", "12", "the the", "hello again"]
SHORT = ["--n_tokens_to_generate=12", "--batch_size=3"]
T_1 = "--temperature=1"
MISTAKE = "--mistake=first-draft-unverified"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    return path


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    "kind",
    [
        "--temperature=0",
        "--temperature=1 --coupled",
        "--temperature=1 --verification=block",
        "--draft_model_size=ngram",
        "--target_model_size=ends",
        "--mode=speculative --temperature=1 --draft_confidence=0.1",
        # a mistake is made in one text at a time
        "--temperature=1 --mistake=first-draft-unverified",
        "--temperature=1 --coupled --mistake=stale-cache",
        "--mistake=bonus-from-wrong-row --K=2",
        "--temperature=1 --mistake=block-coin-is-p",
        "--temperature=1 --rule=exercises.solutions",
    ],
)
def test_every_prompt_is_what_it_is_alone(cli, as_json, file, kind):
    kind = kind.split()
    done = cli("--json", "--prompts", file, *SHORT, "--seed=5", *kind)
    assert done.code == 0
    for i, (result, text) in enumerate(zip(lines_of(done.out), TEXTS, strict=True)):
        alone = as_json("--prompt", text, "--n_tokens_to_generate=12", f"--seed={5 + i}", *kind)
        assert timeless(result) == timeless(alone)


def test_blocks_for_people_and_the_speed_of_all(cli, file):
    done = cli("--prompts", file, *SHORT)
    assert done.code == 0 and "Prompt 7\n--------\n" in done.out
    assert done.out.count("Text = hello again") == 2
    assert done.out.count("The two texts are identical.") == 7
    assert "\n3 prompts at a time, with prefill:\nAutoregressive: 84 tokens in " in done.out
    # the times of a prompt in a batch are those of its neighbours, too
    assert done.out.count("Speedup = ") == 1 and "Time = " not in done.out
    assert "gains less in a batch" in done.out


def test_of_several_prompts_it_is_named_which_the_context_ends_early(cli, tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("\n".join(["a", "x" * 60, "b", "y" * 63]))
    done = cli("--prompts", path, *SHORT)
    notes = [line for line in done.err.splitlines() if "the context ends" in line]
    ends = "note: prompt {}: the context ends after {} of 12 tokens".format
    assert done.code == 0 and notes == [ends(2, 4), ends(4, 1)]


def test_a_mistake_is_in_the_speculative_texts_only(cli, file):
    flags = "--prompts", file, *SHORT, "--temperature=1", "--json"
    right, wrong = (lines_of(cli(*flags, *more).out) for more in ((), (MISTAKE,)))
    texts = lambda results, decoder: [result[decoder]["token_ids"] for result in results]
    assert texts(wrong, "autoregressive") == texts(right, "autoregressive")
    assert texts(wrong, "speculative") != texts(right, "speculative")
    done = cli("--prompts", file, *SHORT, MISTAKE)
    assert "\n1 prompt at a time, with prefill:\n" in done.out
    assert "\nSpeculative: 84 tokens in " in done.out and "in a batch" not in done.out


# ---------------------------------------------------------------- a file of results


@pytest.fixture
def out(tmp_path):
    return tmp_path / "found.jsonl"


@pytest.fixture
def partial(out):
    return out.with_name("found.jsonl.partial")


@pytest.fixture
def write(cli, out):
    """A function (*flags) -> what generate did, with that file to write."""
    return lambda *flags: cli("--out", out, *SHORT, *flags)


def test_an_interrupted_run_goes_on(write, file, out, partial, interrupted, monkeypatch):
    """Cut in the middle of a line after two whole ones: those stay, the others follow."""
    interrupted(lambda: write("--prompts", file), len(TEXTS))
    before = [line for _, line in partial_lines(partial)[1:]]
    header, *whole = partial.read_text().splitlines(keepends=True)
    partial.write_text("".join([header, *whole[:2]]) + whole[2][:100])
    decoded, decode = [], several_prompts.decode_together
    noted = lambda task, runs: decoded.extend(runs) or decode(task, runs)
    monkeypatch.setattr(several_prompts, "decode_together", noted)
    done = write("--prompts", file, "--json")
    assert done.code == 0 and len(decoded) == 2 * 5 and not partial.exists()
    assert done.out == out.read_text()  # those that were done before, too
    results = lines_of(out.read_text())
    assert [result["settings"]["prompt"] for result in results] == TEXTS
    assert results[:2] == before[:2]
    assert [*map(timeless, results)] == [*map(timeless, before)]


def test_a_run_that_finds_all_results_stored_claims_no_speed(write, file, out, interrupted):
    interrupted(lambda: write("--prompts", file), len(TEXTS))
    assert write("--prompts", file).out == f"Written: {out}\n"


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("n_runs", range(0, 14, 2))
def test_an_interruption_loses_one_batch(write, file, partial, monkeypatch, batch_size, n_runs):
    """Interrupted after so many runs, two of which make a prompt."""
    begun, finish = itertools.count(), Run.finish

    def stops(*arguments, **named):
        if next(begun) == n_runs:
            raise KeyboardInterrupt
        return finish(*arguments, **named)

    monkeypatch.setattr(Run, "finish", stops)
    flags = ["--n_tokens_to_generate=2", f"--batch_size={batch_size}"]
    assert write("--prompts", file, *flags).code == 130
    kept = partial_lines(partial)[1:] if partial.exists() else []
    n_kept = n_runs // 2 // batch_size * batch_size
    assert [result["settings"]["prompt"] for _, result in kept] == TEXTS[:n_kept]


@pytest.mark.parametrize("other", ["--prompt_ids=40,50", "--prompt_ids=1,2,3 --K=2"])
def test_what_is_there_is_not_lost(write, out, partial, interrupted, other):
    interrupted(lambda: write("--prompt_ids=1,2,3"))
    before = partial.read_text()
    assert_refused(write(*other.split()), "other settings or prompts")
    assert partial.read_text() == before and not out.exists()
    assert write("--prompt_ids=1,2,3").code == 0
    whole = out.read_text()
    assert_refused(write("--prompt_ids=1,2,3"), "is there already")
    assert out.read_text() == whole


def test_json_has_the_lines_of_a_run_in_which_some_failed(write, file, monkeypatch):
    decode_in_batches = cli_several_prompts.decode_in_batches

    def failing(*arguments, **named):
        results = [*decode_in_batches(*arguments, **named)]
        yield from [Failed("because"), *results[1:]]

    with monkeypatch.context() as patched:
        patched.setattr(cli_several_prompts, "decode_in_batches", failing)
        done = write("--prompts", file, "--json")
    texts = lambda done: [result["settings"]["prompt"] for result in lines_of(done.out)]
    assert done.code == 2 and "1 prompt failed" in done.err and texts(done) == TEXTS[1:]
    done = write("--prompts", file, "--json")
    assert done.code == 0 and texts(done) == TEXTS  # in order, not the one that was missing last


def test_a_prompt_that_fails_is_named_without_a_file_too(cli, file, monkeypatch):
    decode_in_batches = cli_several_prompts.decode_in_batches

    def failing(*arguments, **named):
        _, *others = decode_in_batches(*arguments, **named)
        yield from [Failed("because"), *others]

    monkeypatch.setattr(cli_several_prompts, "decode_in_batches", failing)
    done = cli("--prompts", file, *SHORT, "--json")
    assert done.code == 2 and "1 prompt failed: prompt 1: because" in done.err
    assert [line["settings"]["prompt"] for line in lines_of(done.out)] == TEXTS[1:]


# ---------------------------------------------------------------- prompts of every kind


def test_token_ids_are_a_prompt_like_the_text_they_are(as_json):
    text = as_json("--prompt=hello", "--n_tokens_to_generate=9", "--temperature=1")
    ids = ",".join(map(str, text["prompt_token_ids"]))
    result = as_json("--prompt_ids", ids, "--n_tokens_to_generate=9", "--temperature=1")
    given = {"prompt": None, "prompt_ids": text["prompt_token_ids"]}
    assert result["settings"] == text["settings"] | given
    assert timeless(result) | {"settings": 0} == timeless(text) | {"settings": 0}


def test_prompts_of_a_file_that_are_too_long_are_skipped_and_named(write, as_json, file, out):
    texts = ["hello", "x" * 64, "a", "y" * 99, "12"]
    file.write_text("\n".join(texts) + "\n")
    done = write("--prompts", file, T_1)
    assert done.code == 0
    assert done.err.endswith(": skipped 2 prompts of more than 63 tokens: line 2, line 4\n")
    # each has the seed of its place in the file
    for result, i in zip(lines_of(out.read_text()), (0, 2, 4), strict=True):
        text, seed = f"--prompt={texts[i]}", f"--seed={123 + i}"
        alone = as_json(text, seed, T_1, "--n_tokens_to_generate=12")
        assert timeless(result) == timeless(alone) | {"fingerprints": result["fingerprints"]}


NO_TOKEN = "the vocabulary has no token for the byte 0x58 of 'ACDX'"


@pytest.fixture(scope="module")
def proteins(tmp_path_factory):
    """A models folder whose model has letters and words in brackets for tokens, and no merges."""
    folder = tmp_path_factory.mktemp("proteins")
    vocabulary = {symbol: i for i, symbol in enumerate(["[PAD]", "[UNK]", *"ACDEFGHIKL"])}
    config = dataclasses.replace(CONFIG, n_vocab=len(vocabulary))
    for seed, size in enumerate(("17M", "0.7M-17M")):
        model = write_checkpoint(folder / size, config, random_tensors(config, seed))
        (model / "vocab.json").write_text(json.dumps(vocabulary))
        (model / "merges.txt").write_text("#version: 0.2\n")
    return folder


def test_a_vocabulary_that_lacks_bytes_takes_what_it_has(as_json, cli, proteins):
    result = as_json("--prompt=ACDC", "--n_tokens_to_generate=9", models_dir=proteins)
    assert result["prompt_token_ids"] == [2, 3, 4, 3] and result["identical"]
    done = cli("--prompt=ACDX", models_dir=proteins)
    assert_refused(done, "--prompt", NO_TOKEN)
    assert_refused(cli("--prompt=", models_dir=proteins), "--prompt ''", "<|endoftext|>")


@pytest.mark.parametrize("command", ["generate", "benchmark", "record"])
def test_the_prompt_of_a_file_that_needs_a_missing_byte_is_named(cli, proteins, tmp_path, command):
    file = tmp_path / "prompts.txt"
    file.write_text("ACDC\nACDX\n")
    flags = ["--prompts", file, "--n_tokens_to_generate=9"]
    flags += ["--out", tmp_path / "log.jsonl"] if command == "record" else []
    done = cli(*flags, models_dir=proteins, command=[command])
    assert_refused(done, f"{file}, line 2: {NO_TOKEN}")
    assert [*tmp_path.iterdir()] == [file]


def test_a_batch_for_which_there_is_no_memory(cli, file, monkeypatch):
    def refuse(models, n_texts, n_positions):
        raise InputError(f"{n_texts} texts need more memory")

    monkeypatch.setattr(several_prompts, "require_cache_memory", refuse)
    done = cli("--prompts", file, "--batch_size=9", "--json", "--n_tokens_to_generate=12")
    assert (done.code, done.out) == (2, "") and "7 texts" in done.err


@pytest.mark.parametrize(
    "flags, noted",
    [
        (["--K=auto"], True),
        (["--K=auto", "--batch_size=1"], False),
        (["--K=auto", "--mode=autoregressive"], False),
        (["--K=3"], False),
    ],
)
def test_k_auto_decodes_one_text_at_a_time(cli, file, monkeypatch, flags, noted):
    decode, batches = several_prompts.decode_together, []
    counted = lambda task, runs: batches.append(len(runs)) or decode(task, runs)
    monkeypatch.setattr(several_prompts, "decode_together", counted)
    done = cli("--prompts", file, "--json", *SHORT, *flags)
    assert done.code == 0 and len(lines_of(done.out)) == len(TEXTS)
    assert ({*batches} == {1}) == (noted or "--batch_size=1" in flags)
    assert ("note: --K auto decodes one text at a time\n" in done.err) == noted
