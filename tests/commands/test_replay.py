"""python main.py record and replay: whole runs on a tiny pair, and files that cannot be used."""

import dataclasses
import gzip
import json
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import assert_refused
from toys import TINY, write_pair

import main
import utils
from encoder import END_OF_TEXT, Encoder
from experiments.commands import record as recording
from experiments.data import recordings as logs
from experiments.data.lines import Lines
from experiments.data.recordings import read_log
from experiments.measuring import replay as replaying
from utils import InputError

CONFIG = dataclasses.replace(TINY, n_ctx=64)
PROMPTS = "hello there\nthe the the the\nonce upon\n"


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = write_pair(tmp_path_factory.mktemp("models"), CONFIG)
    (folder / "prompts.txt").write_text(PROMPTS)
    return folder


@pytest.fixture
def cli(pair, capsys):
    """A function (command, *arguments) -> code, out, err: in this process, on a tiny pair."""

    def call(command, *arguments):
        arguments = [f"--models_dir={pair}", "--kernels=plain", *map(str, arguments)]
        if command != "replay":
            arguments += [f"--prompts={pair / 'prompts.txt'}", "--n_tokens_to_generate=20"]
        code = main.main([command, *arguments])
        return SimpleNamespace(code=code, **dict(zip(("out", "err"), capsys.readouterr())))

    return call


@pytest.fixture
def recorded(cli, tmp_path):
    """A function (*flags) -> the path of a log."""

    def record(*flags, name="log.jsonl.gz"):
        done = cli("record", "--out", tmp_path / name, *flags)
        assert done.code == 0 and done.err.endswith(": read 3 prompts, one a line\n")
        assert done.err.count("\n") == 1 and "3 texts of 20 tokens" in done.out
        return tmp_path / name

    return record


def replayed(cli, log, *flags):
    done = cli("replay", "--log", log, "--json", *flags)
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out, parse_constant=pytest.fail)


# ---------------------------------------------------------------- the commands


@pytest.mark.parametrize("temperature", [0, 1])
def test_replay_agrees_with_the_benchmark(cli, recorded, temperature):
    flags = ["--temperature", temperature]
    measured = json.loads(cli("benchmark", *flags, "--K=1..3", "--repeats=1", "--json").out)["rows"]
    result = replayed(cli, recorded(*flags), "--K=1..3")
    assert [(row["draft"], row["K"]) for row in result["rows"]] == [
        (row["draft"], row["K"]) for row in measured
    ]
    same = (
        "acceptance_rate",
        "tokens_per_target_pass",
        "accepted_histogram",
        "acceptance_by_position",
        "wasted_drafts",
    )
    for replay, live in zip(result["rows"], measured):
        if temperature == 0:
            assert {name: replay[name] for name in same} == {name: live[name] for name in same}
        assert (
            replay["tokens"] == live["tokens"] == 60
            and replay["temperature"] == live["temperature"]
        )
        assert (replay["expected_acceptance"] is not None) == (
            temperature == 1 and replay["draft"] == "0.7M-17M"
        )
    assert result["certainty"].startswith("exact" if temperature == 0 else "sampled")


def test_a_projection_is_what_its_model_says(cli, recorded):
    log = recorded()
    costs = ["--draft_cost=0.1", "--verify_cost=1.2,1.4"]
    rows = replayed(cli, log, "--K=2,4", *costs, "--draft_model_size=0.7M-17M")["rows"]
    for row, v in zip(rows, (1.2, 1.4)):
        n_rounds = sum(row["accepted_histogram"])
        n_full = n_rounds - 3  # the last round of each of three texts has room for fewer drafts
        drafting = 0.1 * row["drafted"]
        low, high = n_full * v + 3, n_rounds * v
        assert 60 / (high + drafting) <= row["projected_speedup"] <= 60 / (low + drafting)
    for row in replayed(cli, log, "--K=2")["rows"]:
        assert row["projected_speedup"] is None
        assert "give --costs" in row["withheld"]["projected_speedup"]


def test_costs_from_a_benchmark(cli, recorded, tmp_path):
    rows = [
        {
            "draft": "0.7M-17M",
            "target": "17M",
            "K": K,
            "draft_cost": 0.1,
            "verify_cost": 1 + 0.1 * K,
        }
        for K in (1, 3)
    ]
    (tmp_path / "r.json").write_text(json.dumps({"rows": rows}))
    flags = ["--K=1..4", "--costs", tmp_path / "r.json"]
    found = {(row["draft"], row["K"]): row for row in replayed(cli, recorded(), *flags)["rows"]}
    assert [found["0.7M-17M", K]["verify_cost"] for K in (1, 2, 3)] == pytest.approx(
        [1.1, 1.2, 1.3]
    )
    assert "no costs of draft 0.7M-17M" in found["0.7M-17M", 4]["withheld"]["projected_speedup"]
    assert found["ngram", 1]["projected_speedup"] is None


def test_a_foreign_log(cli, pair, recorded, tmp_path):
    """The same texts as texts of another program give the same rounds, where its tokenizer cuts
    them the same way.
    """
    encoder, own = utils.load_encoder(pair / "17M"), tmp_path / "foreign.jsonl"
    texts = ["the cat the cat the cat", "hello", "another one"]
    own.write_text(
        "".join(json.dumps({"prompt": "the ", "completion": text}) + "\n" for text in texts)
    )
    log = read_log(own, lambda: encoder)
    assert log.foreign and [text["tokens"] for text in log.texts] == [
        encoder.encode(text) for text in texts
    ]
    result = replayed(cli, own, "--K=1,3")
    assert "log of another program" in result["certainty"] and result["rows"][0]["tokens"] == sum(
        len(t["tokens"]) for t in log.texts
    )
    assert max(row["acceptance_rate"] for row in result["rows"] if row["draft"] == "ngram") > 0.5
    assert cli("replay", "--log", own, "--draft_model_size=ngram", "--K=1").code == 0
    assert (
        cli("replay", "--log", own, "--draft_model_size=ngram", "--K=1", "--tokenizer=17M").code
        == 0
    )


def test_a_foreign_log_whose_vocabulary_has_no_end(tmp_path):
    """An empty prompt begins with <|endoftext|>, if there is one."""
    log, letters = tmp_path / "foreign.jsonl", {"a": 0, "b": 1}
    log.write_text('{"prompt": "", "output": "ab"}\n')
    (text,) = read_log(log, lambda: Encoder(letters | {END_OF_TEXT: 2}, [])).texts
    assert text["prompt"] == [2]
    with pytest.raises(InputError, match="line 1: the prompt is empty; expected text"):
        read_log(log, lambda: Encoder(letters, []))


@pytest.mark.parametrize(
    "flags", [(), ("--temperature=1",), ("--temperature=1", "--top_p=0.9", "--top=3")]
)
def test_the_format(recorded, pair, flags):
    plain, packed = recorded(*flags, name="a.jsonl"), recorded(*flags)
    lines = gzip.decompress(packed.read_bytes()).decode().splitlines()
    assert plain.read_text().splitlines() == lines
    header, *texts, end = map(json.loads, lines)
    assert (header["version"], header["target"], end) == (1, "17M", {"end": 3})
    assert header["tokenizer"] == utils.load_encoder(pair / "17M").fingerprint
    for text in texts:
        assert text.keys() == {"prompt", "tokens", *(logs.PROBABILITIES if flags else ())}
        for i in range(20 if flags else 0):
            assert sum(text["top_p"][i]) + text["rest"][i] == pytest.approx(1, abs=1e-4)
            assert (
                text["top_p"][i] == sorted(text["top_p"][i], reverse=True)
                and len(text["top_p"][i]) <= 50
            )
            known = dict(zip(text["top_ids"][i], text["top_p"][i]))
            assert text["p"][i] == known.get(text["tokens"][i], text["p"][i]) > 0


def test_an_interrupted_recording_goes_on(cli, pair, recorded, tmp_path, monkeypatch):
    """Interrupted in the second text; then the same command writes what it would have written."""
    whole = recorded("--temperature=1", name="whole.jsonl").read_bytes()
    out, partial = tmp_path / "log.jsonl", tmp_path / "log.jsonl.partial"
    arguments = ["--temperature=1", "--out", out]
    record_text, calls = replaying.record_text, []

    def stops(*arguments):
        if len(calls) == 1:
            raise KeyboardInterrupt
        calls.append(arguments)
        return record_text(*arguments)

    monkeypatch.setattr(recording, "record_text", stops)
    assert cli("record", *arguments).code == 130 and not out.exists()
    kept = partial.read_bytes()
    assert whole.startswith(kept) and kept.count(b"\n") == 2
    monkeypatch.setattr(recording, "record_text", record_text)
    done = cli("record", *arguments, "--seed=5")
    assert done.code == 2 and "other settings" in done.err and partial.read_bytes() == kept
    (pair / "prompts.txt").write_text(PROMPTS.replace("hello", "goodbye"))
    done = cli("record", *arguments)
    (pair / "prompts.txt").write_text(PROMPTS)
    assert done.code == 2 and "other prompts" in done.err and partial.read_bytes() == kept
    assert cli("record", *arguments).code == 0
    assert out.read_bytes() == whole and not partial.exists()


def test_a_recording_that_was_killed_leaves_nothing_after_the_next(pair, cli, tmp_path):
    """Killed while it wrote: the next run of the same command clears what is left."""
    out = tmp_path / "log.jsonl.gz"
    arguments = [f"--models_dir={pair}", "--kernels=plain", "--n_tokens_to_generate=20"]
    arguments += [f"--prompts={pair / 'prompts.txt'}", "--out", str(out)]
    program = f"""
import os, signal, main
from experiments.commands import record
record_text = record.record_text
def stops(*arguments):
    if len(open({f"{out}.partial"!r}).readlines()) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return record_text(*arguments)
record.record_text = stops
main.main(["record", *{arguments!r}])
"""
    root = Path(utils.__file__).resolve().parent
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True)
    assert done.returncode == -signal.SIGKILL
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl.gz.partial"]
    assert cli("record", "--out", out).code == 0
    assert [*tmp_path.iterdir()] == [out] and len(read_log(out, None).texts) == 3


def test_a_recording_overwrites_nothing(cli, pair, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "hello"}\n')
    done = cli("record", f"--prompts={path}", "--out", path)
    assert (done.code, done.out) == (2, "") and "is there already" in done.err
    assert path.read_text() == '{"text": "hello"}\n' and [*tmp_path.iterdir()] == [path]


def test_one_recording_has_one_writer(cli, recorded, tmp_path):
    out = tmp_path / "log.jsonl"
    with Lines(out, {"format": "of another run"}):
        done = cli("record", "--out", out)
    assert_refused(done, "being written by another run")


# ---------------------------------------------------------------- logs that cannot be used


def changed(**values):
    """A change of the log: its first line with other values."""
    return lambda lines: [json.dumps(json.loads(lines[0]) | values), *lines[1:]]


BAD_LOGS = {
    "another version": (changed(version=2), "version 2"),
    "another format": (changed(format="diary"), "'diary'"),
    "no settings": (changed(settings={}), "first line"),
    "no vocabulary": (changed(n_vocab=None), "first line"),
    "another tokenizer": (changed(tokenizer="0" * 16), "different vocabularies"),
    "no end": (lambda lines: lines[:-1], "truncated after 3 texts"),
    "a text less": (lambda lines: lines[:-2] + lines[-1:], "truncated after 2 texts"),
    "cut in a line": (lambda lines: lines[:2] + [lines[2][:30]], "truncated after 1 texts"),
    "only a first line": (lambda lines: lines[:1], "truncated after 0"),
    "empty": (lambda lines: [], "is empty"),
    "two logs": (lambda lines: 2 * lines, "line 6"),
    "a text after the end": (lambda lines: lines + lines[1:2], "line 6"),
    "half a line after the end": (lambda lines: [*lines, lines[1][:9]], "line 6"),
    "too large an id": (
        lambda lines: [lines[0], '{"prompt": [1], "tokens": [259]}', *lines[2:]],
        "line 2",
    ),
    "no tokens": (lambda lines: [lines[0], '{"prompt": [1], "tokens": []}', *lines[2:]], "line 2"),
    "no object": (lambda lines: [lines[0], "[1, 2]", *lines[2:]], "line 2"),
    "probabilities missing": (
        changed(settings={"temperature": 1.0, "top_k": 0, "top_p": 1.0}),
        "line 2",
    ),
    "foreign without output": (
        lambda lines: ['{"prompt": "a", "output": "b"}', '{"prompt": "a"}'],
        "line 2",
    ),
    "foreign with an empty output": (lambda lines: ['{"prompt": "a", "output": ""}'], "line 1"),
    "no JSON": (lambda lines: ["hello"], "line 1"),
    "brackets": (lambda lines: ["[" * 200_000], "line 1"),
    "brackets in a text": (lambda lines: [lines[0], "[" * 200_000, *lines[2:]], "truncated"),
    "NaN": (lambda lines: [lines[0].replace("0.0", "NaN"), *lines[1:]], "line 1"),
    "settings that are none": (changed(settings="greedy"), "first line"),
    "a temperature of words": (
        changed(settings={"temperature": "warm", "top_k": 0, "top_p": 1.0}),
        "first line",
    ),
    "a temperature beyond floats": (
        changed(settings={"temperature": 10**400, "top_k": 0, "top_p": 1.0}),
        "first line",
    ),
    "half a top_k": (
        changed(settings={"temperature": 0.0, "top_k": 2.5, "top_p": 1.0}),
        "first line",
    ),
    "another vocabulary": (changed(n_vocab=4000), "different vocabularies"),
    "an absurd vocabulary": (changed(n_vocab=10**30), "first line"),
    "half a vocabulary": (changed(n_vocab=259.5), "first line"),
    "a target that is none": (changed(target=["17M"]), "first line"),
}


@pytest.mark.parametrize("name", BAD_LOGS)
def test_logs_that_cannot_be_used(cli, recorded, name):
    change, shown = BAD_LOGS[name]
    path = recorded(name="log.jsonl")
    path.write_text("\n".join(change(path.read_text().splitlines())))
    done = cli("replay", "--log", path)
    assert (done.code, done.out) == (2, "") and done.err.count("\n") == 1 and shown in done.err


@pytest.mark.parametrize("name, value", [("p", 0), ("p", 2), ("rest", -1), ("top_p", "x")])
def test_probabilities_that_are_none(cli, recorded, name, value):
    path = recorded("--temperature=1", name="log.jsonl")
    lines = path.read_text().splitlines()
    text = json.loads(lines[1])
    text[name][0] = value
    path.write_text("\n".join([lines[0], json.dumps(text), *lines[2:]]))
    done = cli("replay", "--log", path)
    assert (done.code, done.out) == (2, "") and done.err.count("\n") == 1 and "line 2" in done.err


def test_a_packed_log_that_is_cut(cli, recorded):
    path = recorded()
    path.write_bytes(path.read_bytes()[:-20])
    done = cli("replay", "--log", path)
    assert (done.code, done.out) == (2, "") and "truncated" in done.err


@pytest.mark.parametrize(
    "command, flags, shown",
    [
        ("record", ["--out=log.txt"], "'log.txt'"),
        ("record", [], "--out"),
        ("record", ["--out=missing/log.jsonl"], "cannot be written"),
        ("record", ["--out=log.jsonl", "--top=0"], "--top 0"),
        ("record", ["--out=log.jsonl", "--temperature=-1"], "temperature -1"),
        ("replay", ["--draft_model_size=other words"], "different vocabularies"),
        ("replay", ["--K=0"], "'0'"),
        ("replay", ["--log="], "--log"),
        ("replay", ["--draft_cost=0.1"], "needs both"),
        ("replay", ["--draft_cost=x", "--verify_cost=1"], "'x'"),
        ("replay", ["--draft_cost=0.1", "--verify_cost=1,2", "--K=1..3"], "'1,2'"),
        ("replay", ["--costs=r.json", "--draft_cost=0.1", "--verify_cost=1"], "either"),
        ("replay", ["--costs=missing.json"], "missing.json"),
        ("replay", ["--log=missing.jsonl"], "missing.jsonl"),
    ],
)
def test_bad_input(cli, recorded, tmp_path, monkeypatch, command, flags, shown):
    log = recorded()
    monkeypatch.chdir(tmp_path)
    done = cli(command, *([f"--log={log}"] if command == "replay" else []), *flags)
    assert (done.code, done.out) == (2, "") and done.err.count("\n") == 1 and shown in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.jsonl.gz"]
