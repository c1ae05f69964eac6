"""Many prompts: a line for each, in a file that grows and is gone on with."""

import json
import os
import shutil
import signal
import struct
import subprocess
from contextlib import suppress

import pytest
from command_line import (
    COMMAND,
    ENVIRONMENT,
    PROMPT,
    assert_refused,
    lines_in,
    running,
    shell,
    timeless,
    wait_until,
)
from hypothesis import example, given
from hypothesis import strategies as st

import main
from cli import batch as module
from cli.batch import decode_jobs, finished, identity_of, seed_of
from decoding.decode import load_pair

PROMPTS = [PROMPT, "the end", "a", "x" * 64, "é 日", "over there", "12"]  # the fourth is too long
FLAGS = "--n_tokens_to_generate=6", "--temperature=0.8", "--batch_size=2"
TOO_LONG = "the prompt has 64 tokens: expected less than 64"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("\n".join(PROMPTS) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def out(tmp_path):
    return tmp_path / "texts.jsonl"


@pytest.fixture
def batch(cli, file, out):
    """A function (*flags) -> code, out, err of a run over the prompts into the file."""
    return lambda *flags: cli(file, f"--out={out}", *FLAGS, *flags, command=["batch"])


def lines_of(path):
    return lines_in(path.read_text())


# ---------------------------------------------------------------- what a line holds


@pytest.mark.parametrize("flags", [(), ("--coupled",), ("--K=auto", "--draft_model_size=ngram")])
def test_a_line_is_what_generate_prints_for_its_prompt(batch, as_json, out, flags):
    done = batch(*flags)
    assert done.code == 0 and done.out == ""
    assert done.err == "note: 1 of 7 prompts were refused: see the error in each\n"
    for n, (line, prompt) in enumerate(zip(lines_of(out), PROMPTS, strict=True)):
        assert line["settings"]["prompt"] == prompt
        assert line["settings"]["seed"] == seed_of(123, n)
        if prompt == PROMPTS[3]:
            assert line.keys() == {"settings", "models", "error"} and line["error"] == TOO_LONG
            continue
        alone = as_json("--prompt", prompt, "--seed", seed_of(123, n), *FLAGS[:2], *flags)
        alone, settings, _ = timeless(alone), line.pop("settings"), line.pop("models")
        assert settings.items() <= alone.pop("settings").items()
        if "--K=auto" in flags:  # the times decide which K
            assert line["autoregressive"] == alone["autoregressive"]
        else:
            assert line == alone


def test_a_line_holds_the_flags_that_decide_a_text(batch, out):
    batch("--mode=autoregressive")
    flags = main.generate.__kwdefaults__.keys() - {"models_dir", "backend"}
    assert lines_of(out)[0]["settings"].keys() == flags - {"trace", "stream", "json"}


def test_without_a_file_lines_are_printed(cli, file, batch, out):
    done = cli(file, *FLAGS, command=["batch"])
    batch()
    assert lines_in(done.out) == lines_of(out)


@pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals on this system")
def test_on_a_terminal_the_bar_is_never_on_the_line_of_a_text(file, pair):
    import fcntl  # none of these is on every system
    import pty
    import termios

    command = [*COMMAND, "batch", str(file), *FLAGS, f"--models_dir={pair}"]
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    with os.fdopen(ours, "rb", buffering=0) as screen:
        process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=ENVIRONMENT)
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # the end, on Linux
            while more := screen.read(1 << 16):
                shown += more
    assert process.wait(timeout=60) == 0
    texts = [line for line in shown.split(b"\n") if b'{"settings"' in line]
    assert len(texts) == len(PROMPTS) and b"it/s" in shown
    for line in texts:
        assert not line.partition(b'{"settings"')[0].rpartition(b"\r")[2].strip()


@given(st.lists(st.tuples(st.integers(0, 2**70), st.integers(0, 99)), min_size=2, unique=True))
@example([(seed, n) for seed in range(20) for n in range(20)])
def test_no_two_prompts_of_neighbouring_seeds_share_a_seed(pairs):
    """A seed counted up would: prompt 2 of seed 5, and prompt 1 of seed 6."""
    assert len({seed_of(*pair) for pair in pairs}) == len(pairs)
    assert all(seed_of(seed, 0) == seed for seed, _ in pairs)


# ---------------------------------------------------------------- interrupted, and gone on with


def test_any_cut_of_a_file_is_recognised(tmp_path):
    jobs = [{"prompt": prompt, "K": 4} for prompt in PROMPTS]
    lines = [json.dumps({"settings": job, "x": 1}).encode() + b"\n" for job in jobs]
    path, whole = tmp_path / "f", b"".join(lines)
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        n_whole = whole[: cut + 1].count(b"\n")  # the last may lack its end
        assert len(finished(path, jobs)) == n_whole
        assert path.read_bytes() == b"".join(lines[:n_whole])
    for foreign in (
        b"mine\n", b"mine", b"\n", b"{", whole + b"\n", whole + b"m", whole + lines[0],
        lines[0] + b"mine", lines[1], lines[0][:30] + b"\n", whole.replace(b"4", b"5"),
    ):  # fmt: skip
        path.write_bytes(foreign)
        if foreign == b"{":  # every line begins so
            continue
        with pytest.raises(ValueError, match="has lines of other settings or prompts"):
            finished(path, jobs)
        assert path.read_bytes() == foreign
    broken = lines[0] + lines[1][:-3] + b"\n" + lines[2]  # as an editor ends a piece of a line
    path.write_bytes(broken)
    with pytest.raises(ValueError, match="f, line 2: is not whole"):
        finished(path, jobs)
    assert path.read_bytes() == broken


def test_the_file_of_the_prompts_is_no_output(cli, file):
    before = file.read_bytes()
    done = cli(file, f"--out={file}", *FLAGS, command=["batch"])
    assert_refused(done, "--out", "give another name")
    assert file.read_bytes() == before


@pytest.mark.parametrize("flag", [
    "--temperature=0.7", "--n_tokens_to_generate=7", "--seed=1", "--K=3",
    "--draft_model_size=ngram", "--mode=speculative", "--stop=q", "--coupled",
    "--verification=block",
])  # fmt: skip
def test_other_settings_are_refused_and_the_file_is_kept(batch, out, flag):
    batch()
    before = out.read_bytes()
    out.write_bytes(before[:-30])
    assert_refused(batch(flag), f"{out}: has lines of other settings or prompts; give another name")
    assert out.read_bytes() == before[:-30]


def test_other_files_under_the_same_name_are_refused_and_the_file_is_kept(
    batch, out, pair, tmp_path
):
    """Each of these changes texts, of which the weights are only one."""
    models = tmp_path / "models"
    shutil.copytree(pair, models)
    flag = f"--models_dir={models}"
    assert batch(flag).code == 0
    whole = lines_of(out)
    kept = b"".join(out.read_bytes().splitlines(True)[:4])
    target, draft = models / "17M", models / "0.7M-17M"
    changes = {  # a path: its new content
        target / "model.safetensors": lambda raw: raw[:-4] + b"\0\0\0\0",
        draft / "model.safetensors": lambda raw: raw[:-4] + b"\0\0\0\0",
        target / "config.json": lambda raw: b'{"activation_function": "gelu",' + raw[1:],
        target / "generation_config.json": lambda raw: b'{"eos_token_id": 17}',
        target / "added_tokens.json": lambda raw: b'{"the": 256}',
        draft / "config.json": lambda raw: b'{"layer_norm_epsilon": 1e-3,' + raw[1:],
    }
    for path, change in changes.items():
        out.write_bytes(kept)
        before = path.read_bytes() if path.exists() else None
        path.write_bytes(change(before))
        load_pair.cache_clear(), identity_of.cache_clear()
        done = batch(flag)
        assert done.code == 2 and "17M or 0.7M-17M has other files" in done.err, path
        assert out.read_bytes() == kept
        path.unlink() if before is None else path.write_bytes(before)
        load_pair.cache_clear(), identity_of.cache_clear()
    assert batch(flag).code == 0 and lines_of(out) == whole


def test_a_file_of_an_older_version_is_gone_on_with(batch, out):
    batch()
    whole = lines_of(out)
    older = [{name: x for name, x in line.items() if name != "models"} for line in whole]
    out.write_text("".join(json.dumps(line) + "\n" for line in older[:4]))
    done = batch()
    assert done.code == 0 and lines_of(out) == older[:4] + whole[4:]
    assert f"note: {out}: does not say which models wrote its lines" in done.err
    assert "which models" not in batch().err


@pytest.mark.parametrize("n", range(8))
def test_a_resumed_run_decodes_the_groups_of_an_uninterrupted_one(batch, out, n, monkeypatch):
    """Other groups would round otherwise."""
    groups = []
    keep = lambda models_dir, backend, jobs: (
        groups.append(jobs) or decode_jobs(models_dir, backend, jobs)
    )
    monkeypatch.setattr(module, "decode_jobs", keep)
    batch("--batch_size=3")
    whole, lines = [*groups], out.read_bytes().splitlines(True)
    assert [len(group) for group in groups] == [3, 3, 1]
    expected = lines_of(out)
    groups.clear()
    out.write_bytes(b"".join(lines[:n]))
    batch("--batch_size=3")
    assert groups == (whole[n // 3 :] if n < 7 else []) and lines_of(out) == expected


def test_other_prompts_are_refused_and_more_of_them_are_not(batch, out, file):
    batch()
    expected, prompts = lines_of(out), file.read_text()
    file.write_text(prompts + "one more\n")
    done = batch()
    assert done.code == 0 and lines_of(out)[:-1] == expected
    assert "1 of 8 prompts were refused" in done.err  # by this run or the one before
    file.write_text(prompts)
    assert batch().code == 2
    file.write_text("another\n" + prompts)
    assert batch().code == 2 and lines_of(out)[:-1] == expected


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.parametrize("number, code", [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
def test_what_a_killed_run_has_written_is_kept(batch, pair, file, out, number, code):
    flags = [f"--models_dir={pair}", f"--out={out}", *FLAGS]
    file.write_text("hello there\n" * 400)
    with running(
        [*COMMAND, "batch", str(file), *flags], env=ENVIRONMENT, stderr=subprocess.PIPE
    ) as writer:
        wait_until(lambda: out.exists() and out.read_bytes().count(b"\n") > 3, writer)
        writer.send_signal(number)
        assert writer.wait(60) == code and b"Traceback" not in writer.stderr.read()
    kept = out.read_bytes()
    lines = kept[: kept.rfind(b"\n") + 1]
    n = lines.count(b"\n") + 2
    file.write_text("hello there\n" * n)
    assert batch().code == 0
    assert out.read_bytes().startswith(lines) and len(lines_of(out)) == n


def test_a_full_disk_is_one_line_and_what_fitted_is_gone_on_with(batch, out, full_disk):
    with full_disk(3000):
        done = batch()
    assert (done.code, done.out, done.err) == (2, "", f"error: {out}: File too large\n")
    kept = out.read_bytes()
    assert 0 < len(kept) <= 3000 and kept.endswith(b"\n")
    assert batch().code == 0 and len(lines_of(out)) == len(PROMPTS)
    assert out.read_bytes().startswith(kept)


def test_a_device_is_not_read(batch):
    done = batch("--out=/dev/full")
    assert (done.code, done.err) == (2, "error: /dev/full: No space left on device\n")


@pytest.mark.skipif(os.name != "posix", reason="needs named pipes")
def test_a_named_pipe_gets_every_line(batch, file, out, pair, tmp_path):
    batch()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    done = shell(f'cat {pipe} & "$0" "$@"; wait', pair, "batch", str(file), f"--out={pipe}", *FLAGS)
    assert lines_in(done.stdout.decode()) == lines_of(out)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("flags, said", [
    ("--batch_size=0", "--batch_size 0: expected 1 or more"),
    ("--K=0", "K = 0: expected 1 or more"),
    ("--target_model_size=9B", "9B"),
    ("--target_model_size=huge", "the largest logit is NaN or infinite: expected"),
])  # fmt: skip
def test_what_cannot_be_used_is_one_line(batch, out, flags, said):
    done = batch(flags)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err and not out.exists()
