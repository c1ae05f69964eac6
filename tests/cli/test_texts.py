"""What generate refuses before its work begins."""

import pytest
from command_line import assert_refused

LONG = "x" * 300


@pytest.fixture
def no_work(monkeypatch):
    """Loading a model is work that must not have begun."""

    def load(*arguments, **named):
        raise AssertionError("the work has begun")

    monkeypatch.setattr("experiments.cli.start.load_pair", load)


@pytest.mark.parametrize(
    "arguments, fragments",
    [
        (["--out", f"{LONG}.jsonl"], ["--out", "xxx"]),
        (["--out", ".jsonl/"], ["--out '.jsonl/'", "ends in .jsonl"]),
        (["--out", "a.jsonl/"], ["--out 'a.jsonl/'", "ends in .jsonl"]),
        (["--out", "/proc/x.jsonl"], ["--out '/proc/x.jsonl'", "cannot be written"]),
        (["--out", "/dev/null/x.jsonl"], ["--out '/dev/null/x.jsonl'", "cannot be written"]),
        (["--out", "nowhere/x.jsonl"], ["--out 'nowhere/x.jsonl'", "cannot be written"]),
        (["--report", f"{LONG}.html"], ["--report", "xxx"]),
        (["--report", ".html/"], ["--report '.html/'", "ends in .html"]),
        (["--report", "/proc/x.html"], ["--report '/proc/x.html'", "cannot be written"]),
        (["--report", "nowhere/x.html"], ["--report 'nowhere/x.html'", "cannot be written"]),
        (["--prompts", LONG], [LONG, "expected"]),
        (["--trace", "--json"], ["--trace with --json"]),
        (["--batch_size", 10**22], [f"--batch_size {10**22}: expected at most 1000"]),
        (["--prompt_ids=1", "--prompt=a"], ["--prompt_ids with --prompt"]),
        (["--prompt_ids=1", "--prompts=a"], ["--prompt_ids with --prompts"]),
    ],
)
def test_what_cannot_be_is_refused_before_the_work(
    cli, no_work, tmp_path, monkeypatch, arguments, fragments
):
    monkeypatch.chdir(tmp_path)
    assert_refused(cli(*arguments), *fragments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "flag", ["--models_dir", "--target_model_size", "--draft_model_size", "--mistake"]
)
def test_a_name_that_no_file_can_have_is_refused(cli, flag):
    assert_refused(cli(f"{flag}={LONG}"), LONG)
