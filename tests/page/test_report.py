"""--report: the data in the page, and how the file is written."""

import re
import shlex

import pytest
from cli.flags import DEFAULTS, Settings
from command_line import ROOT, assert_refused, process
from live import RUNS, data_of

from checkpoints.tokenizer import load_encoder
from page import report

# ---------------------------------------------------------------- the data


@pytest.mark.parametrize("arguments", RUNS.values(), ids=RUNS)
def test_the_data_are_those_of_the_run(written, pair, arguments):
    path, result = written(*arguments)
    data, figures = data_of(path), result["speculative"]
    assert [token for row in data["rounds"] for token in row["tokens"]] == figures["token_ids"]
    assert sum(row["accepted"] for row in data["rounds"]) == figures["accepted"]
    assert data["prompt"] == load_encoder(pair / "17M").decode(result["prompt_token_ids"])
    text = "".join(shown for row in data["rounds"] for shown in row["shown"])
    assert text.removesuffix("<|endoftext|>") == figures["text"]
    assert data["figures"] == figures and data["speedup"] == result["speedup"]
    for row in data["rounds"]:
        tokens = {x for likely in row["likely"] for x, _, _ in likely} | {*row["draft"]}
        assert {str(token) for token in tokens} <= data["words"].keys()


@pytest.mark.parametrize("name", ["coupled", "ngram", "nasty", "folders"])
def test_the_command_reproduces_the_run_without_a_path_of_this_machine(
    written, as_json, pair, name
):
    folders = "--target_model_size", pair / "17M", "--draft_model_size", f"{pair}/0.7M-17M/"
    path, result = written(*(folders if name == "folders" else RUNS[name]))
    assert str(path.parent) not in path.read_text() and str(pair) not in path.read_text()
    words = shlex.split(data_of(path)["command"])
    assert words[:2] == ["python", "main.py"]
    again = as_json(*words[2:])
    assert again["speculative"]["token_ids"] == result["speculative"]["token_ids"]


def test_the_file_of_a_rule_is_named_without_its_folder(tmp_path):
    settings = Settings(rule=str(tmp_path / "mine.py")).as_json("a", 0)
    description = report.describe_run(settings, [13], DEFAULTS, {})
    assert str(tmp_path) not in str(description)
    assert description["settings"]["rule"] == "mine.py"
    assert "--rule mine.py" in description["command"]


def test_the_page_names_every_kernel_of_the_run(written):
    """With other kernels, the same command can write another text."""
    path, result = written("--kernels", "64x1")
    kernels = result["kernels"]
    for line, model in zip(data_of(path)["kernels"], kernels, strict=True):
        assert line.startswith(f"{model}: ")
        assert all(kernel in line for kernel in kernels[model].values())
    kernel_of = {"a": "plain", "b": "tiles of 64", "c": "plain"}
    assert report.describe_kernels("17M", kernel_of) == "17M: a, c: plain. b: tiles of 64"
    assert report.describe_kernels("17M", {"a": "plain", "b": "plain"}) == "17M: plain"


@pytest.mark.parametrize("prompt", ["-", None, "a\0b", "a\u202eb", "a\u2066b", "a\x1bb"])
def test_the_command_gives_the_ids_of_a_prompt_that_a_shell_or_a_reader_would_mistake(prompt):
    assert report.command({"prompt": prompt}, [13], {}) == "python main.py --prompt_ids 13"
    assert report.command({"prompt": "a\n\tב"}, [13], {}).endswith("'a\n\tב'")


# ---------------------------------------------------------------- the file


def test_a_page_asks_for_nothing(written):
    path, _ = written(*RUNS["nasty"])
    page = path.read_text(encoding="utf-8")
    assert "<img" not in page and page.count("</script>") == 2 and "{{" not in page
    foreign = r"(?i)(src|href)\s*=\s*[\"']?(https?:)?//|@import|\burl\((?!#)"
    assert not re.search(foreign, page)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'") and not re.search("unsafe|http|[*]", policy)


def test_a_report_is_named_nothing_else_is_left_and_it_is_not_overwritten(cli, tmp_path):
    path = tmp_path / "x.html"
    done = cli("--report", path, "--n_tokens_to_generate", 5)
    assert (done.code, done.err) == (0, "") and done.out.endswith(f"Report: {path}\n")
    before = path.read_text()
    assert_refused(cli("--report", path), "--report", path.name)
    assert [*tmp_path.iterdir()] == [path] and path.read_text() == before


def test_a_run_is_printed_also_where_its_report_does_not_fit_on_the_disk(pair, tmp_path):
    resource = pytest.importorskip("resource")
    path = tmp_path / "x.html"
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    flags = [f"--report={path}", "--kernels=plain", "--n_tokens_to_generate=5"]
    for more in ([], ["--json"]):
        environment = {"PYTHONDONTWRITEBYTECODE": "1"}
        done = process(pair, *flags, *more, environment=environment, preexec_fn=limit)
        assert done.returncode == 2 and str(path).encode() in done.stderr
        assert done.stderr.count(b"\n") == 1 and [*tmp_path.iterdir()] == []
        words = b'"speedup"' if more else b"Speedup = "
        assert words in done.stdout and b"Report" not in done.stdout


def test_the_saved_page_in_the_docs_has_todays_scripts():
    """After a change to the page, make docs/live.html again, as docs/live.md says."""
    saved = (ROOT / "docs" / "live.html").read_text(encoding="utf-8")
    for name in (*report.SCRIPTS, "page.css"):
        assert (report.WEB / name).read_text(encoding="utf-8").strip() in saved, name
