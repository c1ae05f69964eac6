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
    if isinstance(found, dict):
        return {name: timeless(x) for name, x in found.items() if name not in TIMES}
    return float(f"{found:.6g}") if isinstance(found, float) else found


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    "kind",
    [
        [],
        [T_1],
        [T_1, "--coupled"],
        [T_1, "--verification=block"],
        ["--draft_model_size=ngram"],
        ["--target_model_size=ends"],
        ["--mode=speculative", "--temperature=0.7", "--draft_confidence=0.1", "--top_p=0.9"],
    ],
)
def test_every_prompt_is_what_it_is_alone(cli, as_json, file, kind):
    done = cli("--json", "--prompts", file, *SHORT, "--seed=5", *kind)
    assert done.code == 0
    for i, (found, text) in enumerate(zip(lines_of(done.out), TEXTS, strict=True)):
        alone = as_json("--prompt", text, "--n_tokens_to_generate=12", f"--seed={5 + i}", *kind)
        assert timeless(found) == timeless(alone)


def test_a_prompt_given_again_is_another(cli):
    texts = ["hello", "the end", "hello"]
    found = lines_of(cli("--json", *(f"--prompt={text}" for text in texts), *SHORT, T_1).out)
    assert [one["settings"]["prompt"] for one in found] == texts
    first, _, third = (one["autoregressive"]["text"] for one in found)
    assert first != third  # another seed


def test_blocks_for_people_and_the_speed_of_all(cli, file):
    done = cli("--prompts", file, *SHORT)
    assert done.code == 0 and "Prompt 7\n--------\n" in done.out
    assert done.out.count("Text = hello again") == 2
    assert done.out.count("The two texts are identical.") == 7
    assert "\nAutoregressive, 3 prompts at a time: 84 tokens in " in done.out


def test_at_most_batch_size_texts_share_a_pass(cli, file, monkeypatch):
    shared, serve = [], batching.serve
    noted = lambda requests: shared.append(len(requests)) or serve(requests)
    monkeypatch.setattr(batching, "serve", noted)
    assert cli("--prompts", file, *SHORT).code == 0
    assert max(shared) == 3


# ---------------------------------------------------------------- a file of results


@pytest.fixture
def out(tmp_path):
    return tmp_path / "found.jsonl"


@pytest.fixture
def partial(out):
    return out.with_name("found.jsonl.partial")


@pytest.fixture
def unfinished(cli, out, partial, monkeypatch):
    """A function (*flags) -> the lines of the partial file of a run that was interrupted after its
    last prompt.
    """

    def interrupted(lines):
        raise KeyboardInterrupt

    def run(*flags):
        with monkeypatch.context() as patch:
            patch.setattr(Lines, "close", interrupted)
            assert cli(*flags, "--out", out, *SHORT).code == 130 and not out.exists()
        return partial.read_text().splitlines(keepends=True)

    return run


def test_an_interrupted_run_goes_on(cli, file, out, partial, unfinished, monkeypatch):
    """Cut in the middle of a line after two whole ones: those stay, the others follow."""
    header, *whole = unfinished("--prompts", file)
    partial.write_text("".join([header, *whole[:2]]) + whole[2][:100])
    texts, together = [], session.Session.decode_batch
    noted = lambda self, decoder, batch: texts.extend(batch) or together(self, decoder, batch)
    monkeypatch.setattr(session.Session, "decode_batch", noted)
    assert cli("--prompts", file, "--out", out, *SHORT).code == 0
    assert len(texts) == 2 * 5 and not partial.exists()
    found, before = lines_of(out.read_text()), [json.loads(line)[1] for line in whole]
    assert [one["settings"]["prompt"] for one in found] == TEXTS and found[:2] == before[:2]
    assert [*map(timeless, found)] == [*map(timeless, before)]


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("n_runs", range(0, 14, 2))
def test_an_interruption_loses_one_batch_at_most(
    cli, file, out, partial, monkeypatch, batch_size, n_runs
):
    """Interrupted after so many runs, two of which make a prompt."""
    begun, finish = itertools.count(), session.Run.finish

    def stops(*arguments, **named):
        if next(begun) == n_runs:
            raise KeyboardInterrupt
        return finish(*arguments, **named)

    monkeypatch.setattr(session.Run, "finish", stops)
    flags = ["--n_tokens_to_generate=2", f"--batch_size={batch_size}"]
    assert cli("--prompts", file, "--out", out, *flags).code == 130
    kept = lines_of(partial.read_text())[1:] if partial.exists() else []
    n_kept = n_runs // 2 // batch_size * batch_size
    assert [one["settings"]["prompt"] for _, one in kept] == TEXTS[:n_kept]


def test_what_is_there_is_not_lost(cli, file, out, partial, unfinished):
    before = "".join(unfinished("--prompts", file))
    done = cli("--prompts", file, "--out", out, *SHORT, "--K=2")
    assert done.code == 2 and "other settings or prompts" in done.err
    assert partial.read_text() == before
    out.write_text("mine")
    done = cli("--prompts", file, "--out", out, *SHORT)
    assert done.code == 2 and "is there already" in done.err and out.read_text() == "mine"


def test_token_ids_of_another_prompt_are_not_taken(cli, out, unfinished):
    unfinished("--prompt_ids=1,2,3")
    done = cli("--prompt_ids=40,50", "--out", out, *SHORT)
    assert done.code == 2 and "other settings or prompts" in done.err
    assert cli("--prompt_ids=1,2,3", "--out", out, *SHORT).code == 0


def test_json_has_a_line_for_each_prompt_also_of_those_that_were_done(
    cli, file, out, partial, unfinished
):
    header, *whole = unfinished("--prompts", file)
    partial.write_text("".join([header, *whole[:2]]))
    again = lines_of(cli("--prompts", file, "--out", out, "--json", *SHORT).out)
    assert [*map(timeless, again)] == [timeless(json.loads(line)[1]) for line in whole]


def test_json_has_the_lines_of_a_run_in_which_some_failed(cli, file, out, monkeypatch):
    run = session.Session.run_together

    def failing(self, prompts, batch_size):
        results = [*run(self, prompts, batch_size)]
        yield from [Failed("because"), *results[1:]]
        raise SomeFailed({"prompt 1": "because"})

    with monkeypatch.context() as patched:
        patched.setattr(session.Session, "run_together", failing)
        done = cli("--prompts", file, "--out", out, "--json", *SHORT)
    texts = lambda done: [one["settings"]["prompt"] for one in lines_of(done.out)]
    assert done.code == 2 and "1 prompt failed" in done.err and texts(done) == TEXTS[1:]
    done = cli("--prompts", file, "--out", out, "--json", *SHORT)
    assert done.code == 0 and texts(done) == TEXTS  # in order, not the one that was missing last


def test_one_file_has_one_writer(cli, file, out, monkeypatch):
    monkeypatch.setattr(session.Session, "run", lambda *a, **b: pytest.fail("a text was written"))
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
        (["--paths=two"], "--paths 'two'"),
        (["--prompt=a", "--out=x.txt"], ".jsonl"),
        (["--prompt=-", "--prompt=-"], "standard input can be read once"),
        (["--prompts=x", "--prompt=b"], "--prompts 'x' with --prompt"),
        (["--prompts=none.txt"], "none.txt"),
        (["--batch_size=0"], "--batch_size 0"),
        (["--batch_size=1001"], "--batch_size 1001"),
        (["--prompt_ids=" + ",".join(["1"] * 64)], "64 tokens: expected at most 63"),
        (["--prompt=a", "--prompt=b", "--mistake=stale-cache"], "--mistake with several prompts"),
        (["--mistake=greedy-draft", "--draft_model_size=ngram"], "ngram cannot make it"),
        (["--mistake=draft-one-behind", "--draft_model_size=medusa"], "medusa cannot make"),
        (["--K=automatic"], "--K 'automatic'"),
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


@pytest.mark.parametrize("ids", ["1,,2", "x", "1.5", "259", "-1", "[1]"])
def test_what_are_no_token_ids(cli, ids):
    done = cli(f"--prompt_ids={ids}")
    assert done.code == 2 and "--prompt_ids" in done.err and "expected token ids, 0 to" in done.err


def test_prompts_of_a_file_that_are_too_long_are_skipped_and_named(cli, as_json, file, out):
    file.write_text("\n".join(["hello", "x" * 64, "a", "y" * 99, "12"]) + "\n")
    done = cli("--prompts", file, "--out", out, *SHORT, T_1)
    assert done.code == 0
    assert done.err == (
        f"note: {file}: read 5 prompts, one a line\n"
        f"note: {file}: skipped 2 prompts of more than 63 tokens: number 2, 4\n"
    )
    results = lines_of(out.read_text())
    assert [one["settings"]["prompt"] for one in results] == ["hello", "a", "12"]
    # each has the seed of its place in the file
    for one, number in zip(results, (1, 3, 5)):
        prompt = f"--prompt={one['settings']['prompt']}"
        alone = as_json(prompt, f"--seed={122 + number}", T_1, "--n_tokens_to_generate=12")
        assert timeless(one) == timeless(alone) | {"fingerprints": one["fingerprints"]}


def test_a_file_of_nothing_but_long_prompts(cli, file):
    file.write_text("x" * 64 + "\n" + "y" * 64)
    done = cli("--prompts", file)
    assert_refused(done, "all 2 prompts have more than 63 tokens")


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


@pytest.mark.parametrize("command", [[], ["benchmark"], ["record"]])
def test_the_prompt_of_a_file_that_needs_a_missing_byte_is_named(cli, proteins, tmp_path, command):
    file = tmp_path / "prompts.txt"
    file.write_text("ACDC\nACDX\n")
    more = ["--n_tokens_to_generate=9"]
    more += ["--out", tmp_path / "log.jsonl"] if command == ["record"] else []
    done = cli("--prompts", file, *more, models_dir=proteins, command=command)
    what = f"{file}, prompt 2: the vocabulary has no token for the byte 0x58 of 'ACDX'"
    assert_refused(done, what)
    assert [*tmp_path.iterdir()] == [file]


def test_a_batch_for_which_there_is_no_memory(cli, file, monkeypatch):
    def refuse(models, n_texts, n_positions):
        raise InputError(f"{n_texts} texts need more memory")

    monkeypatch.setattr(session, "require_room", refuse)
    done = cli("--prompts", file, "--batch_size=9", "--json", "--n_tokens_to_generate=12")
    assert (done.code, done.out) == (2, "") and "7 texts" in done.err
