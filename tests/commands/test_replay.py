"""record and replay: rounds on a recorded text are those of the live run, exactly at temperature 0
and in law above.
"""

import dataclasses
import gzip
import itertools
import json
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest
from test_exact import TableModel, chain_rule, law
from toys import NUMPY, TINY, write_pair

import main
import utils
from experiments.commands.replay import CoinDrafter, acceptance_of, replay_text
from experiments.data import recordings as logs
from experiments.data.recordings import probabilities, read_log
from sampling import Filter, NeuralDrafter, NGramDrafter, speculative

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
        assert (done.code, done.err) == (0, "") and "3 texts of 20 tokens" in done.out
        return tmp_path / name

    return record


def replayed(cli, log, *flags):
    done = cli("replay", "--log", log, "--json", *flags)
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out, parse_constant=pytest.fail)


# ---------------------------------------------------------------- exactness


@pytest.mark.parametrize("K", [1, 2, 4, 9, 30])
@pytest.mark.parametrize("size", ["0.7M", "7M", None])
def test_greedy_replay_is_the_live_run_round_by_round(pair, recorded, size, K):
    target = utils.load_model(pair / "7M", NUMPY)
    draft = size and utils.load_model(pair / size, NUMPY)
    texts = read_log(recorded(), None).texts
    assert len(texts) == 3
    for text in texts:
        drafters = [
            NeuralDrafter(draft, Filter(), None) if draft else NGramDrafter(CONFIG.n_vocab)
            for _ in range(2)
        ]
        live = list(
            speculative(
                target, drafters[0], text["prompt"], 20, K, Filter(), np.random.default_rng(0)
            )
        )[1:]
        assert replay_text(text, drafters[1], K) == live
        assert sum((one.tokens for one in live), []) == text["tokens"]


@pytest.mark.parametrize("temperature", [0.7, 1.5])
@pytest.mark.parametrize("K", [1, 3])
def test_rounds_of_n_grams_follow_from_the_text_at_any_temperature(pair, K, temperature):
    target, ids = utils.load_model(pair / "7M", NUMPY), [5, 6, 5, 6, 5]
    drafter, filter = NGramDrafter(CONFIG.n_vocab), Filter(temperature, top_k=3)
    live = list(speculative(target, drafter, ids, 40, K, filter, np.random.default_rng(1)))[1:]
    text = {"prompt": ids, "tokens": sum((one.tokens for one in live), [])}
    assert replay_text(text, drafter, K) == live and any(one.accepted for one in live)


def structure(rounds):
    return tuple((tuple(one.tokens), one.drafted, one.accepted) for one in rounds)


@pytest.mark.parametrize(
    "filter", [Filter(1.0), Filter(0.7, top_k=2), Filter(1.0, top_p=0.8)], ids=str
)
@pytest.mark.parametrize("K", [1, 2])
def test_the_law_of_sampled_rounds(monkeypatch, K, filter):
    """Over all texts and coins, a replay has the rounds of the live loop with the same
    probabilities: no sampling, 1e-9.
    """
    monkeypatch.setattr(logs, "digits", list)
    target, draft, ids, n = TableModel(1), TableModel(2), [0, 1], 3

    def live():
        drafter = NeuralDrafter(draft, filter, None)
        return structure(speculative(target, drafter, ids, n, K, filter, None))

    found = defaultdict(float)
    for tokens, probability in chain_rule(target, ids, n, filter, lambda generated: False).items():
        rows = [
            filter(target.read(ids + list(tokens[:i]), target.new_cache()))[0] for i in range(n)
        ]
        text = {"prompt": ids, "tokens": list(tokens), **probabilities(rows, tokens, 2)}
        accepts, *_ = acceptance_of(draft, text, filter)
        for coins in itertools.product([False, True], repeat=n):
            drafter = CoinDrafter(
                ids + list(tokens), [False] * len(ids) + list(coins), 3, draft.config.n_ctx
            )
            odds = np.prod([a if coin else 1 - a for a, coin in zip(accepts, coins)])
            found[(((), 0, 0), *structure(replay_text(text, drafter, K)))] += probability * odds
    expected = law(live)
    assert {rounds for rounds, p in found.items() if p > 1e-15} == expected.keys()
    assert all(found[rounds] == pytest.approx(p, abs=1e-9) for rounds, p in expected.items())


@pytest.mark.parametrize("top", [1, 2, 5])
def test_bounds_of_the_common_mass(monkeypatch, top):
    """sum(min(p, q)) lies within the bounds, and is known where nothing is left out."""
    target, draft, ids, filter = (
        TableModel(3, n_vocab=5),
        TableModel(4, n_vocab=5),
        [0, 1],
        Filter(1.0),
    )
    tokens, common = [2, 3, 1], 0
    rows = [filter(target.read(ids + tokens[:i], target.new_cache()))[0] for i in range(3)]
    for i, p in enumerate(rows):
        common += np.minimum(p, filter(draft.read(ids + tokens[:i], draft.new_cache()))[0]).sum()
    _, (low, high), n = acceptance_of(
        draft, {"prompt": ids, "tokens": tokens, **probabilities(rows, tokens, top)}, filter
    )
    assert n == 3 and low - 1e-5 <= common <= high + 1e-5
    assert (high - low < 1e-9) == (top == 5)


def test_the_end_of_the_drafts_context():
    """What a live draft with a shorter context drafts, the replay drafts: K, then what fits, then
    nothing.
    """
    draft, ids = TableModel(2, n_ctx=5), [0, 1]
    text = {
        "prompt": ids,
        "tokens": [1] * 6,
        "p": [1.0] * 6,
        "top_ids": [[1]] * 6,
        "top_p": [[1.0]] * 6,
        "rest": [0.0] * 6,
    }
    accepts, _, n = acceptance_of(draft, text, Filter(1.0))
    assert n == 4 and list(accepts[4:]) == [0, 0] and min(accepts[:4]) > 0
    drafter = CoinDrafter(ids + [1] * 6, [False] * 8, 3, 5)
    live = NeuralDrafter(draft, Filter(1.0), np.random.default_rng(0))
    for end in range(2, 8):
        assert len(drafter.propose(ids + [1] * (end - 2), 3)[0]) == len(
            live.propose(ids + [1] * (end - 2), 3)[0]
        )


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
            temperature == 1 and replay["draft"] == "0.7M"
        )
    assert result["certainty"].startswith("exact" if temperature == 0 else "sampled")


def test_a_projection_is_what_its_model_says(cli, recorded):
    rows = replayed(
        cli,
        recorded(),
        "--K=2,4",
        "--draft_cost=0.1",
        "--verify_cost=1.2,1.4",
        "--draft_model_size=0.7M",
    )["rows"]
    for row, v in zip(rows, (1.2, 1.4)):
        n_rounds = sum(row["accepted_histogram"])
        n_full = n_rounds - 3  # the last round of each of three texts has room for fewer drafts
        low, high = n_full * v + 3, n_rounds * v
        assert (
            60 / (high + 0.1 * row["drafted"])
            <= row["projected_speedup"]
            <= 60 / (low + 0.1 * row["drafted"])
        )
    assert all(row["projected_speedup"] is None and "give --costs" in row["withheld"]["projected_speedup"]
               for row in replayed(cli, recorded(), "--K=2")["rows"])  # fmt: skip


def test_costs_from_a_benchmark(cli, recorded, tmp_path):
    rows = [
        {"draft": "0.7M", "target": "7M", "K": K, "draft_cost": 0.1, "verify_cost": 1 + 0.1 * K}
        for K in (1, 3)
    ]
    (tmp_path / "r.json").write_text(json.dumps({"rows": rows}))
    flags = ["--K=1..4", "--costs", tmp_path / "r.json"]
    found = {(row["draft"], row["K"]): row for row in replayed(cli, recorded(), *flags)["rows"]}
    assert [found["0.7M", K]["verify_cost"] for K in (1, 2, 3)] == pytest.approx([1.1, 1.2, 1.3])
    assert "no costs of draft 0.7M" in found["0.7M", 4]["withheld"]["projected_speedup"]
    assert found["ngram", 1]["projected_speedup"] is None


def test_a_foreign_log(cli, pair, recorded, tmp_path):
    """The same texts as texts of another program give the same rounds, where its tokenizer cuts
    them the same way.
    """
    encoder, own = utils.load_encoder(pair / "7M"), tmp_path / "foreign.jsonl"
    texts = ["the cat the cat the cat", "hello", "another one"]
    own.write_text(
        "".join(json.dumps({"prompt": "the ", "completion": text}) + "\n" for text in texts)
    )
    log = read_log(own, lambda: encoder)
    assert log.foreign and [text["tokens"] for text in log.texts] == [
        encoder.encode(text) for text in texts
    ]
    result = replayed(cli, own, "--K=1,3")
    assert "foreign" in result["certainty"] and result["rows"][0]["tokens"] == sum(
        len(t["tokens"]) for t in log.texts
    )
    assert max(row["acceptance_rate"] for row in result["rows"] if row["draft"] == "ngram") > 0.5
    assert cli("replay", "--log", own, "--draft_model_size=ngram", "--K=1").code == 0
    assert (
        cli("replay", "--log", own, "--draft_model_size=ngram", "--K=1", "--tokenizer=7M").code == 0
    )


@pytest.mark.parametrize(
    "flags", [(), ("--temperature=1",), ("--temperature=1", "--top_p=0.9", "--top=3")]
)
def test_the_format(recorded, pair, flags):
    plain, packed = recorded(*flags, name="a.jsonl"), recorded(*flags)
    lines = gzip.decompress(packed.read_bytes()).decode().splitlines()
    assert plain.read_text().splitlines() == lines
    header, *texts, end = map(json.loads, lines)
    assert (header["version"], header["target"], end) == (1, "7M", {"end": 3})
    assert header["tokenizer"] == utils.load_encoder(pair / "7M").fingerprint
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
}


@pytest.mark.parametrize("name", BAD_LOGS)
def test_logs_that_cannot_be_used(cli, recorded, name):
    change, shown = BAD_LOGS[name]
    path = recorded(name="log.jsonl")
    path.write_text("\n".join(change(path.read_text().splitlines())))
    done = cli("replay", "--log", path)
    assert (done.code, done.out) == (2, "") and done.err.count("\n") == 1 and shown in done.err


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
