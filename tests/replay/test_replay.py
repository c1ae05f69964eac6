"""python main.py record and replay: whole runs on a tiny pair."""

import gzip
import json

import pytest
from cli.resumable_output import ResumableLines
from command_line import assert_refused
from decoding.clock import Seconds
from decoding.load import load
from decoding.metrics import Tally
from decoding.run import Run
from toys import NUMPY

from checkpoints.vocabulary import load_encoder

PROMPTS = "hello there\nthe the the the\nonce upon\n"


@pytest.fixture
def record(cli, tmp_path):
    """A function (out, *flags) -> what record did."""
    path = tmp_path / "prompts.txt"
    path.write_text(PROMPTS)
    which = f"--prompts={path}", "--n_tokens_to_generate=20"
    return lambda out, *flags: cli(*which, f"--out={out}", *flags, command=["record"])


@pytest.fixture
def recorded(record, tmp_path):
    """A function (*flags) -> the path of a log."""

    def recorded(*flags, name="log.jsonl.gz"):
        done = record(tmp_path / name, *flags)
        assert done.code == 0 and ": read 3 prompts, one a line\n" in done.err
        assert "3 texts of 20 tokens" in done.out
        return tmp_path / name

    return recorded


@pytest.fixture
def replayed(as_json):
    """A function (log, *flags) -> the JSON object of replay."""
    return lambda log, *flags: as_json("--log", log, *flags, command=["replay"])


def test_replay_is_the_live_run(recorded, replayed, pair):
    result = replayed(recorded(), "--K=1..3")
    names = ["0.7M-17M", "ngram"]
    models = load("17M", names, pair, NUMPY)
    keys = [(row["draft"], row["K"]) for row in result["rows"]]
    assert keys == [(name, K) for name in names for K in (1, 2, 3)]
    for row in result["rows"]:
        tally = Tally()
        for prompt in PROMPTS.splitlines():
            run = Run(models.pair(row["draft"]), models.encoder.encode(prompt), 20, row["K"])
            for this_round in [*run.rounds()][1:]:
                tally.add(this_round, Seconds(0, 0, 0))
        live = tally.speculative_figures()
        for name in ("acceptance_rate", "tokens_per_target_pass", "drafted"):
            assert row[name] == live[name]
        assert sum(row["accepted_histogram"]) == live["rounds"]
        assert (row["tokens"], row["temperature"]) == (60, 0)
    assert result["certainty"].startswith("exact")
    assert str(pair) not in json.dumps(result) and result["settings"]["K"] == "1..3"


def test_a_projection_is_what_its_model_says(recorded, replayed, tmp_path):
    costs = {"draft": "0.7M-17M", "target": "17M", "draft_cost": 0.1}
    costs = [costs | {"K": 2, "verify_cost": 1.2}, costs | {"K": 4, "verify_cost": 1.4}]
    (tmp_path / "r.json").write_text(json.dumps({"rows": costs}))
    flags = [f"--costs={tmp_path / 'r.json'}", "--draft_model_size=0.7M-17M"]
    rows = replayed(recorded(), "--K=2,4", *flags)["rows"]
    for row, v in zip(rows, (1.2, 1.4)):
        n_rounds = sum(row["accepted_histogram"])
        n_full = n_rounds - 3  # the last round of each of three texts has room for fewer drafts
        drafting = 0.1 * row["drafted"]
        low, high = n_full * v + 3, n_rounds * v
        assert 60 / (high + drafting) <= row["projected_speedup"] <= 60 / (low + drafting)


def test_a_sampled_log_without_costs(recorded, replayed):
    result = replayed(recorded("--temperature=1"), "--K=2")
    assert result["certainty"].startswith("sampled")
    assert 0 < result["rows"][0]["acceptance_rate"] < 1
    for row in result["rows"]:
        assert row["projected_speedup"] is None
        assert "give --costs" in row["withheld"]["projected_speedup"]


def test_a_foreign_log(pair, replayed, tmp_path):
    """Texts of another program, cut by the draft's tokenizer, or that of --tokenizer."""
    encoder, log = load_encoder(pair / "17M"), tmp_path / "foreign.jsonl"
    texts = ["the cat the cat the cat", "hello", "another one"]
    lines = [json.dumps({"prompt": "the ", "completion": text}) for text in texts]
    log.write_text("\n".join(lines))
    result = replayed(log, "--K=1,3")
    assert "log of another program" in result["certainty"]
    assert result["rows"][0]["tokens"] == sum(len(encoder.encode(text)) for text in texts)
    assert max(row["acceptance_rate"] for row in result["rows"] if row["draft"] == "ngram") > 0.5
    for more in ([], ["--tokenizer=17M"]):
        assert replayed(log, "--draft_model_size=ngram", "--K=1", *more)["rows"]


@pytest.mark.parametrize("flags", [(), ("--temperature=1",), ("--temperature=1", "--top_p=0.9")])
def test_the_format(recorded, pair, flags):
    plain, packed = recorded(*flags, name="a.jsonl"), recorded(*flags)
    lines = gzip.decompress(packed.read_bytes()).decode().splitlines()
    assert plain.read_text().splitlines() == lines
    header, *texts, end = [json.loads(line) for line in lines]
    assert (header["version"], header["target"], end["end"]) == (1, "17M", 3)
    assert header["tokenizer"] == load_encoder(pair / "17M").fingerprint
    for text in texts:
        assert text.keys() == {"prompt", "tokens", "checksum"} | ({"p"} if flags else set())
        if flags:
            assert len(text["p"]) == 20 and all(0 < p <= 1 for p in text["p"])


def test_a_recording_names_no_place_of_this_machine(record, pair, tmp_path, replayed, cli):
    """Its target is known by its name, also to results that were measured with the whole path."""
    log, target = tmp_path / "log.jsonl", pair / "17M"
    assert record(log, f"--target_model_size={target}").code == 0
    (tmp_path / "prompts.txt").unlink()  # it is not needed any more
    text = log.read_text()
    assert str(pair) not in text and str(tmp_path) not in text
    header = json.loads(text.splitlines()[0])
    assert header["target"] == "17M" == header["settings"]["target_model_size"]
    assert [*header["fingerprints"]] == ["17M"] and header["settings"]["n_tokens_to_generate"] == 20
    costs = {"draft": "ngram", "K": 4, "draft_cost": 0.0, "verify_cost": 1.5}
    rows = [costs | {"target": str(target)}, costs | {"target": "7M", "verify_cost": 9}]
    (tmp_path / "r.json").write_text(json.dumps({"rows": rows}))
    flags = [f"--costs={tmp_path / 'r.json'}", "--draft_model_size=ngram", "--K=4"]
    (row,) = replayed(log, *flags)["rows"]
    assert row["verify_cost"] == 1.5


def test_a_log_of_record_needs_no_tokenizer(cli, recorded):
    done = cli("--log", recorded(), "--tokenizer=17M", command=["replay"])
    assert_refused(done, "--tokenizer 17M", "leave it out")


def test_an_interrupted_recording_goes_on(record, recorded, tmp_path, interrupted):
    """The same command writes what it would have written."""
    whole = recorded("--temperature=1", name="whole.jsonl").read_bytes()
    out, partial = tmp_path / "log.jsonl", tmp_path / "log.jsonl.partial"
    interrupted(lambda: record(out, "--temperature=1"))
    kept = partial.read_bytes()
    assert kept.count(b"\n") == 2 and not out.exists()  # the header and a text
    assert_refused(record(out, "--temperature=1", "--seed=5"), "other settings or prompts")
    (tmp_path / "prompts.txt").write_text(PROMPTS.replace("hello", "goodbye"))
    assert_refused(record(out, "--temperature=1"), "other settings or prompts")
    (tmp_path / "prompts.txt").write_text(PROMPTS)
    assert partial.read_bytes() == kept and record(out, "--temperature=1").code == 0
    assert out.read_bytes() == whole and not partial.exists()


def test_recordings_that_cannot_be(record, tmp_path):
    assert_refused(record(tmp_path / "log.txt"), "--out", "log.txt")
    with ResumableLines(tmp_path / "log.jsonl", "of another run"):
        assert_refused(record(tmp_path / "log.jsonl"), "being written by another run")
    assert {path.name for path in tmp_path.iterdir()} == {"prompts.txt"}


@pytest.mark.parametrize(
    "flags, shown",
    [
        ("--draft_model_size=more words", "different vocabularies"),
        ("--draft_model_size=eagle", "--draft_model_size eagle"),
        ("--verification=token,block", "--verification"),
        ("--K=1..2000", "1..2000"),
        ("--log=missing.jsonl", "missing.jsonl"),
        ("--costs=missing.json", "missing.json"),
    ],
)
def test_replays_that_cannot_be(cli, recorded, flags, shown):
    assert_refused(cli("--log", recorded(), flags, command=["replay"]), shown)
