"""Several prompts in one run: each is what it is alone, in order, in a file that an interruption
does not spoil.
"""

import dataclasses
import itertools
import json

import pytest
from command_line import CONFIG, assert_refused
from toys import random_tensors, write_checkpoint

from experiments.data.lines import Failed, Lines, SomeFailed
from experiments.decoding import batching, session
from utils import InputError

TEXTS = ["hello", "the end", "a", "over there", "12", "the the", "hello again"]
SHORT = ["--n_tokens_to_generate=12", "--batch_size=3"]
T_1 = "--temperature=1"
TIMES = ("seconds", "prefill_seconds", "tokens_per_second", "speedup")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    return path


def timeless(found):
    """Without what a clock says, at any depth; other fractions to six digits."""
    kept = {name: x for name, x in found.items() if name not in TIMES}
    return {
        name: timeless(x)
        if isinstance(x, dict)
        else float(f"{x:.6g}")
        if isinstance(x, float)
        else x
        for name, x in kept.items()
    }


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]


KINDS = [
    [],
    ["--temperature=1"],
    ["--temperature=1", "--coupled"],
    ["--temperature=1", "--verification=block"],
    ["--draft_model_size=ngram"],
    ["--target_model_size=ends"],
]


@pytest.mark.parametrize(
    "kind",
    [*KINDS, ["--mode=speculative", "--temperature=0.7", "--draft_confidence=0.1", "--top_p=0.9"]],
)
def test_every_prompt_is_what_it_is_alone(cli, as_json, file, kind):
    done = cli("--json", "--prompts", file, *SHORT, "--seed=5", *kind)
    assert done.code == 0
    for i, (found, text) in enumerate(zip(lines_of(done.out), TEXTS, strict=True)):
        alone = as_json("--prompt", text, "--n_tokens_to_generate=12", f"--seed={5 + i}", *kind)
        assert timeless(found) == timeless(alone)


def test_a_prompt_given_again_is_another(cli):
    done = cli(
        "--json",
        "--prompt=hello",
        "--prompt",
        "the end",
        "--prompt=hello",
        *SHORT,
        "--temperature=1",
    )
    first, second, third = lines_of(done.out)
    assert [one["settings"]["prompt"] for one in (first, second, third)] == [
        "hello",
        "the end",
        "hello",
    ]
    assert first["autoregressive"]["text"] != third["autoregressive"]["text"]  # another seed


def test_blocks_for_people_and_the_speed_of_all(cli, file):
    done = cli("--prompts", file, *SHORT)
    assert done.code == 0 and "Prompt 7\n--------\n" in done.out
    assert (
        done.out.count("Text = hello again") == 2
        and done.out.count("The two texts are identical.") == 7
    )
    assert "\nAutoregressive, 3 prompts at a time: 84 tokens in " in done.out


def test_at_most_batch_size_texts_share_a_pass(cli, file, monkeypatch):
    shared, serve = [], batching.serve
    monkeypatch.setattr(
        batching, "serve", lambda requests: shared.append(len(requests)) or serve(requests)
    )
    assert cli("--prompts", file, *SHORT).code == 0
    assert max(shared) == 3


# ---------------------------------------------------------------- a file of results


def test_an_interrupted_run_goes_on(cli, file, tmp_path, monkeypatch):
    """Cut in the middle of a line after two whole ones: those stay, the others follow."""
    out = tmp_path / "found.jsonl"
    assert cli("--prompts", file, "--out", out, *SHORT).code == 0
    whole = out.read_text().splitlines(keepends=True)
    assert [one["settings"]["prompt"] for one in map(json.loads, whole)] == TEXTS
    partial = tmp_path / "found.jsonl.partial"
    out.rename(partial)
    partial.write_text("".join(whole[:2]) + whole[2][:100])
    texts, run = [], session.Session.run
    monkeypatch.setattr(
        session.Session, "run", lambda self, *a, **b: texts.append(a[1]) or run(self, *a, **b)
    )
    assert cli("--prompts", file, "--out", out, *SHORT).code == 0
    assert len(texts) == 2 * 5 and not partial.exists()
    again = out.read_text().splitlines(keepends=True)
    assert again[:2] == whole[:2]
    assert [timeless(json.loads(line)) for line in again] == [
        timeless(json.loads(line)) for line in whole
    ]


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("n_runs", range(0, 14, 2))
def test_an_interruption_loses_one_batch_at_most(
    cli, file, tmp_path, monkeypatch, batch_size, n_runs
):
    """Interrupted after so many runs, two of which make a prompt."""
    out, begun, run = tmp_path / "found.jsonl", itertools.count(), session.Session.run

    def stops(*arguments, **named):
        if next(begun) == n_runs:
            raise KeyboardInterrupt
        return run(*arguments, **named)

    monkeypatch.setattr(session.Session, "run", stops)
    flags = ["--n_tokens_to_generate=2", f"--batch_size={batch_size}"]
    assert cli("--prompts", file, "--out", out, *flags).code == 130
    partial = tmp_path / "found.jsonl.partial"
    kept = lines_of(partial.read_text()) if partial.exists() else []
    n_kept = n_runs // 2 // batch_size * batch_size
    assert [one["settings"]["prompt"] for one in kept] == TEXTS[:n_kept]


def test_what_is_there_is_not_lost(cli, file, tmp_path):
    out, partial = tmp_path / "found.jsonl", tmp_path / "found.jsonl.partial"
    assert cli("--prompts", file, "--out", out, *SHORT).code == 0
    before = out.read_text()
    done = cli("--prompts", file, "--out", out, *SHORT)
    assert done.code == 2 and "is there already" in done.err and out.read_text() == before
    out.rename(partial)
    done = cli("--prompts", file, "--out", out, *SHORT, "--K=2")
    assert (
        done.code == 2 and "other settings or prompts" in done.err and partial.read_text() == before
    )


def test_token_ids_of_another_prompt_are_not_taken(cli, tmp_path):
    out, partial = tmp_path / "found.jsonl", tmp_path / "found.jsonl.partial"
    assert cli("--prompt_ids=1,2,3", "--out", out, *SHORT).code == 0
    out.rename(partial)
    done = cli("--prompt_ids=40,50", "--out", out, *SHORT)
    assert done.code == 2 and "other settings or prompts" in done.err
    assert cli("--prompt_ids=1,2,3", "--out", out, *SHORT).code == 0


def test_json_has_a_line_for_each_prompt_also_of_those_that_were_done(cli, file, tmp_path):
    out, partial = tmp_path / "found.jsonl", tmp_path / "found.jsonl.partial"
    whole = cli("--prompts", file, "--out", out, "--json", *SHORT).out.splitlines()
    partial.write_text("".join(out.read_text().splitlines(keepends=True)[:2]))
    out.unlink()
    again = cli("--prompts", file, "--out", out, "--json", *SHORT).out.splitlines()
    assert [timeless(json.loads(line)) for line in again] == [
        timeless(json.loads(line)) for line in whole
    ]


def test_json_has_the_lines_of_a_run_in_which_some_failed(cli, file, tmp_path, monkeypatch):
    out, run = tmp_path / "found.jsonl", session.Session.run_together

    def failing(self, prompts, batch_size):
        results = [*run(self, prompts, batch_size)]
        yield from [Failed("because"), *results[1:]]
        raise SomeFailed({"prompt 1": "because"})

    with monkeypatch.context() as patched:
        patched.setattr(session.Session, "run_together", failing)
        done = cli("--prompts", file, "--out", out, "--json", *SHORT)
    texts = lambda done: [json.loads(line)["settings"]["prompt"] for line in done.out.splitlines()]
    assert done.code == 2 and "1 prompt failed" in done.err and texts(done) == TEXTS[1:]
    done = cli("--prompts", file, "--out", out, "--json", *SHORT)
    assert done.code == 0 and texts(done) == TEXTS  # in order, not the one that was missing last


def test_one_file_has_one_writer(cli, file, tmp_path, monkeypatch):
    monkeypatch.setattr(session.Session, "run", lambda *a, **b: pytest.fail("a text was written"))
    out = tmp_path / "found.jsonl"
    with Lines(out, {"format": "of another run"}):
        done = cli("--prompts", file, "--out", out, *SHORT)
    assert_refused(done, "found.jsonl.partial: is being written by another run")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--prompt=a", "--prompt=b", "--stream"], "--stream with several prompts"),
        (["--prompt=a", "--prompt=b", "--trace"], "--trace with several prompts"),
        (["--prompt=a", "--prompt=b", "--paths=2", T_1], "--paths with several prompts"),
        (["--prompt=a", "--out=x.jsonl", "--paths=2", T_1], "--paths with several prompts"),
        (["--paths=2", T_1, "--trace"], "--paths with --trace: expected one of the two"),
        (["--paths=2"], "--paths with greedy decoding: expected a temperature above 0"),
        (["--paths=2", T_1, "--top_k=1"], "--paths with greedy decoding"),
        (["--paths=2", T_1, "--mode=autoregressive"], "--paths with --mode autoregressive"),
        (["--paths=two"], "--paths 'two': expected one whole number"),
        (["--prompt=a", "--out=x.txt"], "expected a name that ends in .jsonl"),
        (["--prompt=-", "--prompt=-"], "standard input can be read once"),
        (["--prompts=x", "--prompt=b"], "--prompts 'x' with --prompt"),
        (["--prompts=none.txt"], "none.txt"),
        (["--batch_size=0"], "--batch_size 0"),
        (["--prompt=a", "--prompt=b", "--mistake=stale-cache"], "--mistake with several prompts"),
        (["--mistake=stale-cache", "--coupled"], "--mistake with --trace, --report or --coupled"),
        (["--draft_confidence=2"], "--draft_confidence 2.0"),
        (["--draft_confidence=0.1", "--coupled"], "--draft_confidence with --coupled"),
        (["--draft_confidence=0.1", "--draft_model_size=ngram"], "expected a draft model"),
        (["--coupled", "--verification=block"], "--verification with --coupled: expected token"),
        (["--mistake=reseed", "--mode=autoregressive"], "--mistake with --mode autoregressive"),
        (["--mistake=greedy-draft", "--draft_model_size=ngram"], "ngram cannot make it"),
        (["--mistake=draft-one-behind", "--draft_model_size=ngram"], "ngram cannot make it"),
        (["--mistake=draft-one-behind", "--draft_model_size=medusa"], "medusa cannot make"),
        (["--K=automatic"], "--K 'automatic': expected one whole number, or auto"),
        (["--prompt=a", "--prompt=" + "long " * 99], "tokens: expected at most 63"),
    ],
)
def test_what_cannot_be_is_one_line(cli, arguments, message):
    done = cli(*arguments)
    assert done.code == 2 and done.out == "" and done.err.count("\n") == 1 and message in done.err


def test_adaptive_k_leaves_the_greedy_text_as_it_is(as_json):
    found = as_json("--K=auto", "--prompt=hello", "--n_tokens_to_generate=40")
    assert found["identical"] and found["settings"]["K"] == "auto"


# ---------------------------------------------------------------- prompts of every kind


def test_token_ids_are_a_prompt_like_the_text_they_are(as_json):
    text = as_json("--prompt=hello", "--n_tokens_to_generate=9", "--temperature=1")
    ids = ",".join(map(str, text["prompt_token_ids"]))
    found = as_json("--prompt_ids", ids, "--n_tokens_to_generate=9", "--temperature=1")
    given = {"prompt": None, "prompt_ids": text["prompt_token_ids"]}
    assert found["settings"] == text["settings"] | given
    assert timeless(found) | {"settings": 0} == timeless(text) | {"settings": 0}


def test_token_ids_are_shown_as_their_text(cli):
    assert cli("--prompt_ids=64, 65", "--n_tokens_to_generate=2").out.count("Text = ab") == 2


@pytest.mark.parametrize("ids", ["1,,2", "x", "1.5", "259", "-1", "1,259", "[1]"])
def test_what_are_no_token_ids(cli, ids):
    done = cli(f"--prompt_ids={ids}")
    assert done.code == 2 and "--prompt_ids" in done.err and "expected token ids, 0 to" in done.err


def test_too_many_token_ids(cli):
    done = cli("--prompt_ids", ",".join(["1"] * 64))
    assert done.code == 2 and "64 tokens: expected at most 63" in done.err


def test_prompts_of_a_file_that_are_too_long_are_skipped_and_named(cli, as_json, tmp_path):
    file = tmp_path / "prompts.txt"
    file.write_text("\n".join(["hello", "x" * 64, "a", "y" * 99, "12"]) + "\n")
    out = tmp_path / "found.jsonl"
    done = cli("--prompts", file, "--out", out, *SHORT, "--temperature=1")
    assert done.code == 0
    assert done.err == (
        f"note: {file}: skipped 2 prompts of more than 63 tokens: number 2, 4\n"
        f"note: {file}: read 5 prompts, one a line\n"
    )
    results = lines_of(out.read_text())
    assert [one["settings"]["prompt"] for one in results] == ["hello", "a", "12"]
    # each has the seed of its place in the file
    for one, number in zip(results, (1, 3, 5)):
        alone = as_json(
            "--prompt",
            one["settings"]["prompt"],
            f"--seed={122 + number}",
            "--temperature=1",
            "--n_tokens_to_generate=12",
        )
        assert timeless(one) == timeless(alone) | {"fingerprints": one["fingerprints"]}


def test_a_file_of_nothing_but_long_prompts(cli, tmp_path):
    file = tmp_path / "prompts.txt"
    file.write_text("x" * 64 + "\n" + "y" * 64)
    done = cli("--prompts", file)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "all 2 prompts have more than 63 tokens" in done.err


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


def test_a_vocabulary_that_lacks_bytes_takes_what_it_has(as_json, proteins):
    found = as_json("--prompt=ACDC", "--n_tokens_to_generate=9", models_dir=proteins)
    assert found["prompt_token_ids"] == [2, 3, 4, 3] and found["identical"]
    ids = as_json("--prompt_ids=2,3,4,3", "--n_tokens_to_generate=9", models_dir=proteins)
    assert ids["speculative"]["token_ids"] == found["speculative"]["token_ids"]


@pytest.mark.parametrize(
    "prompt, fragments",
    [("ACDX", ["--prompt", "0x58", "'ACDX'"]), ("", ["--prompt ''", "<|endoftext|>"])],
)
def test_a_vocabulary_that_lacks_bytes_names_what_it_cannot_read(cli, proteins, prompt, fragments):
    done = cli("--prompt", prompt, models_dir=proteins)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert all(fragment in done.err for fragment in fragments) and "expected" in done.err


@pytest.mark.parametrize("command", [[], ["benchmark"], ["record"], ["candidates"]])
def test_the_prompt_of_a_file_that_needs_a_missing_byte_is_named(cli, proteins, tmp_path, command):
    file = tmp_path / "prompts.txt"
    file.write_text("ACDC\nACDX\n")
    more = ["--n_tokens_to_generate=9"]
    more += ["--draft_model_size=17M"] if command == ["candidates"] else []
    more += ["--out", tmp_path / "log.jsonl"] if command == ["record"] else []
    done = cli("--prompts", file, *more, models_dir=proteins, command=command)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert f"{file}, prompt 2: the vocabulary has no token for the byte 0x58 of 'ACDX'" in done.err
    assert [*tmp_path.iterdir()] == [file]


def test_a_batch_for_which_there_is_no_memory(cli, file, monkeypatch):
    monkeypatch.setattr(batching, "require_caches", lambda *a: refuse(a[2]))
    done = cli("--prompts", file, "--batch_size=9", "--json", "--n_tokens_to_generate=12")
    assert (done.code, done.out) == (2, "") and "7 texts" in done.err


def refuse(n_texts):
    raise InputError(f"{n_texts} texts need more memory")
