"""--report: the data in the page, how the file is written, and the page itself in a headless
browser.
"""

import json
import re
import shlex

import pytest
from browsers import assert_readable
from command_line import PROMPT, ROOT, assert_refused, embedded

from experiments.data.files import whole
from experiments.showing import page as report
from utils import load_encoder

NASTY = "</script><img src=x>é\n\u2028&lt;"  # 30 tokens


def data_of(path):
    """The JSON in a page."""
    page = path.read_text(encoding="utf-8")
    (found,) = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL
    )
    return json.loads(found, parse_constant=pytest.fail)


@pytest.fixture
def written(cli, as_json, tmp_path):
    """A function (*arguments) -> the path of a report, and the JSON object of its run."""

    def call(*arguments, **more):
        path = tmp_path / "report.html"
        prompt = () if "--prompt" in arguments else ("--prompt", PROMPT)
        arguments = (*prompt, "--n_tokens_to_generate", 30, *arguments)
        return path, as_json(*arguments, "--report", path, **more)

    return call


# ---------------------------------------------------------------- the data

RUNS = {
    "sampled": ["--temperature", 1],
    "greedy": [],
    "coupled": ["--temperature", 1, "--coupled"],
    "block": ["--temperature", 1, "--verification", "block"],
    "ngram": ["--draft_model_size", "ngram", "--temperature", 0.7],
    "alone": ["--mode", "speculative", "--K", 1],
    "bytes": ["--target_model_size", "bytes", "--temperature", 1.2],
    "ends": ["--target_model_size", "ends", "--prompt", "x"],
    "nasty": ["--prompt", NASTY, "--stop", "</script>"],
    "one": ["--n_tokens_to_generate", 1],
}


@pytest.mark.parametrize("arguments", RUNS.values(), ids=RUNS)
def test_the_data_are_those_of_the_run(written, pair, arguments):
    path, result = written(*arguments)
    data, one = data_of(path), result["speculative"]
    assert [token for row in data["rounds"] for token in row["tokens"]] == one["token_ids"]
    assert sum(row["accepted"] for row in data["rounds"]) == one["accepted"]
    assert data["prompt"] == load_encoder(pair / "17M").decode(result["prompt_token_ids"])
    text = "".join(shown for row in data["rounds"] for shown in row["shown"]).removesuffix(
        "<|endoftext|>"
    )
    assert text == one["text"]
    assert data["figures"] == one and data["speedup"] == result["speedup"]
    assert str(pair) not in str(data["settings"])
    for row in data["rounds"]:
        tokens = {*row["draft"], *row["tokens"]} | {
            x for likely in row["likely"] for x, _, _ in likely
        }
        assert {str(token) for token in tokens} <= data["words"].keys()
        if "verification" in data["settings"]:
            assert len(row["support"]) == len(row["draft"]) and row["coins"] == []
        elif not data["coupled"]:
            for i, (u, p, q) in enumerate(zip(row["coins"], row["p"], row["q"])):
                assert (u < p / q) == (i < row["accepted"])
            assert (row["residual"] is not None) == (row["accepted"] < row["examined"])


@pytest.mark.parametrize(
    "arguments", [RUNS["sampled"], RUNS["coupled"], RUNS["ngram"], RUNS["nasty"]]
)
def test_the_command_reproduces_the_run(written, as_json, pair, arguments):
    path, result = written(*arguments)
    words = shlex.split(data_of(path)["command"])
    assert words[:2] == ["python", "main.py"]
    # a page does not say where this machine keeps its models
    again = as_json(*words[2:], models_dir=pair)
    assert again["speculative"]["token_ids"] == result["speculative"]["token_ids"]


def test_a_page_has_no_path_of_the_machine(written, as_json, pair):
    sizes = ("--target_model_size", pair / "17M", "--draft_model_size", f"{pair}/0.7M-17M/")
    path, result = written(*sizes, models_dir="elsewhere")
    words = shlex.split(data_of(path)["command"])
    assert str(path.parent) not in path.read_text() and str(pair) not in path.read_text()
    again = as_json(*words[2:], models_dir=pair)
    assert again["speculative"]["token_ids"] == result["speculative"]["token_ids"]


def test_a_prompt_from_a_pipe_is_in_the_command():
    settings = {
        "prompt": "it's\ntext",
        "K": 4,
        "stream": True,
        "trace": False,
        "stop": "",
        "top_p": 0.5,
    }
    assert shlex.split(report.command(settings, [7]))[2:] == [
        "--prompt",
        "it's\ntext",
        "--K",
        "4",
        "--stream",
        "--top_p",
        "0.5",
    ]
    # "-" would read standard input
    assert shlex.split(report.command({"prompt": "-"}, [13]))[2:] == ["--prompt_ids", "13"]


def test_a_page_asks_for_nothing(written):
    path, _ = written(*RUNS["nasty"])
    page = path.read_text(encoding="utf-8")
    assert "<img" not in page and page.count("</script>") == 2 and "{{" not in page
    assert "default-src 'none'" in page and not re.search(
        r"(?i)(src|href)\s*=\s*[\"']?(https?:)?//|@import|\burl\(", page
    )
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "unsafe" not in policy and "http" not in policy


@embedded
def test_a_page_of_200_tokens_is_small(as_json, tmp_path):
    path = tmp_path / "report.html"
    arguments = [
        "--report",
        path,
        "--n_tokens_to_generate",
        200,
        "--temperature",
        0.8,
        "--mode",
        "speculative",
    ]
    result = as_json(*arguments, models_dir=ROOT / "models")
    assert len(result["speculative"]["token_ids"]) == 200 and path.stat().st_size < 500_000


# ---------------------------------------------------------------- the file


@pytest.mark.parametrize(
    "name", ["", "none/x.html", "x.txt", "folder.html", "x.html", "x.html/y.html"]
)
def test_a_path_that_cannot_be_written_is_refused_before_the_run(cli, tmp_path, monkeypatch, name):
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "x.html").write_text("before")
    monkeypatch.setattr("utils.load_pair", lambda *arguments: pytest.fail("models were read"))
    assert_refused(cli("--report", f"{tmp_path}/{name}"), "--report", name or str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"folder.html", "x.html"}
    assert (tmp_path / "x.html").read_text() == "before"


def test_a_page_is_written_whole_or_not_at_all(cli, tmp_path, monkeypatch):
    path = tmp_path / "x.html"
    monkeypatch.setattr(report, "report_data", lambda *run: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cli("--report", path, "--n_tokens_to_generate", 2)
    assert [*tmp_path.iterdir()] == []
    path.write_text("before")
    with pytest.raises(ZeroDivisionError), whole(path) as temporary:
        temporary.write_text("half")
        1 / 0
    assert path.read_text() == "before" and [*tmp_path.iterdir()] == [path]


def test_the_program_says_where_the_report_is(cli, tmp_path):
    path = tmp_path / "x.html"
    done = cli("--report", path, "--n_tokens_to_generate", 5)
    assert (
        (done.code, done.err) == (0, "")
        and done.out.endswith(f"Report: {path}\n")
        and [*tmp_path.iterdir()] == [path]
    )


# ---------------------------------------------------------------- the page in a browser


@pytest.fixture
def opened(new_page, written):
    """A function (*arguments, **page options) -> the page of such a run, at the microscope."""

    def call(*arguments, **options):
        path, result = written(*arguments)
        return new_page(path.as_uri() + "#microscope", **options), result

    return call


@pytest.mark.browser
@pytest.mark.parametrize("arguments", RUNS.values(), ids=RUNS)
def test_every_decision_of_every_run_opens(opened, arguments):
    page, result = opened(*arguments)
    data = json.loads(page.locator("#data").text_content())
    chips = page.locator("#rounds button")
    assert chips.count() == sum(
        len(row["draft"]) + (len(row["tokens"]) > row["accepted"]) for row in data["rounds"]
    )
    assert page.locator("#text button").count() == len(result["speculative"]["token_ids"])
    for i in range(0, chips.count(), 5):
        chips.nth(i).click()
        assert chips.nth(i).get_attribute("aria-pressed") == "true"
        assert page.locator('#rounds [aria-pressed="true"]').count() == 1
        detail = page.locator("#detail").inner_text()
        assert detail and "NaN" not in detail and "undefined" not in detail
    assert not re.search("NaN|undefined|Infinity", page.locator("body").inner_text())
    assert page.locator("#plain").text_content().startswith(data["prompt"])
    assert page.locator("img").count() == 0


@pytest.mark.browser
def test_a_click_on_a_token_opens_its_numbers(opened):
    page, _ = opened(*RUNS["sampled"])
    data = json.loads(page.locator("#data").text_content())
    r, row = next(
        (r, row) for r, row in enumerate(data["rounds"]) if 0 < row["accepted"] < row["examined"]
    )
    shown = lambda x: page.evaluate("x => number(x)", x)
    chips = page.locator(".round").nth(r).locator("button")
    for i, verdict in ((0, "accepted draft"), (row["accepted"], "rejected draft")):
        chips.nth(i).click()
        numbers = page.locator("#numbers dd").all_inner_texts()
        assert numbers == [
            shown(x) for x in (row["p"][i], row["q"][i], row["p"][i] / row["q"][i], row["coins"][i])
        ]
        assert page.locator(".verdict").inner_text() == verdict
        assert page.locator("#likely tbody tr").count() == len(row["likely"][i])
        assert page.locator("#residual").count() == (verdict == "rejected draft")
    masses = [text.split()[0] for text in page.locator("#residual td.number").all_inner_texts()]
    assert masses == [shown(mass) for _, mass in row["residual"]]
    chips.last.click()  # the correction: the same residual, and the token that came out of it
    assert (
        page.locator(".verdict").inner_text() == "correction"
        and "sampled" in page.locator("#residual").inner_text()
    )
    token = page.locator("#text button.correction").first
    token.click()
    assert (
        token.get_attribute("aria-pressed") == "true"
        and page.locator(".verdict").inner_text() == "correction"
    )


@pytest.mark.browser
def test_the_keyboard_reaches_everything(opened):
    page, _ = opened(*RUNS["sampled"])
    heading = lambda: page.locator("#h-panel").inner_text()
    focused = lambda: page.evaluate(
        "document.activeElement.closest('#text, #rounds, #panel, #command, #copy')?.id"
    )
    for group in ("text", "rounds"):
        # one stop of the tab key for all its tokens
        assert page.locator(f'#{group} button[tabindex="0"]').count() == 1
        page.locator(f'#{group} button[tabindex="0"]').focus()
        page.keyboard.press("Home")
        first = heading()
        page.keyboard.press("ArrowRight")
        second = heading()
        assert first != second and focused() == group
        page.keyboard.press("ArrowLeft")
        assert heading() == first
        page.keyboard.press("ArrowDown")
        assert "round 2" in page.locator("#detail").inner_text()
        page.keyboard.press("End")
        page.keyboard.press("ArrowRight")  # nothing after it
        assert page.locator("#after").is_disabled() or group == "text"
    page.locator("#text button").nth(3).focus()
    page.keyboard.press("Enter")
    assert page.locator("#text button").nth(3).get_attribute("aria-pressed") == "true"
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    page.keyboard.press("ArrowRight")
    assert page.evaluate(outline) != "none"
    page.locator("#before").click()
    page.locator("#before").focus()
    page.keyboard.press("Space")
    seen = set()
    page.evaluate("document.activeElement.blur()")
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.add(focused())
    assert {"text", "rounds", "panel", "command", "copy"} <= seen


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_everybody_can_read_it(opened, scheme, width):
    page, _ = opened(
        *RUNS["sampled"], color_scheme=scheme, viewport={"width": width, "height": 800}
    )
    for kind in ("draft", "rejected", "unexamined", "correction"):
        page.locator(f"#rounds button.{kind}").first.click()
        assert_readable(page, scheme)


@pytest.mark.browser
def test_a_report_has_its_race_and_says_what_it_lacks(opened):
    page, result = opened(*RUNS["sampled"])
    assert page.locator("#controls").is_hidden() and page.locator("#save").is_hidden()
    assert page.locator("#coin").is_disabled()
    page.locator("#tab-race").click()
    texts = page.locator(".race-text").all_inner_texts()
    assert [text.removeprefix(PROMPT) for text in texts] == [
        result["autoregressive"]["text"].replace("\n", "⏎\n"),
        result["speculative"]["text"].replace("\n", "⏎\n"),
    ]
    page.locator("#tab-rules").click()
    assert "python main.py play" in page.locator("#rules-missing").inner_text()
    page.locator("#tab-pays").click()
    assert page.locator("table.map td").count() == 21 * 8


@pytest.mark.browser
def test_a_report_of_one_decoder_has_no_race(opened):
    page, _ = opened(*RUNS["alone"])
    page.locator("#tab-race").click()
    assert page.locator("#race-stage").is_hidden()
    assert "--mode speculative" in page.locator("#race-lead").inner_text()


def test_the_saved_page_in_the_docs_has_todays_scripts():
    """After a change to the page, save a run of `python main.py play` as docs/live.html again."""
    saved = (ROOT / "docs" / "live.html").read_text(encoding="utf-8")
    older = [
        name
        for name in (*report.SCRIPTS, "page.css")
        if (report.WEB / name).read_text(encoding="utf-8").strip() not in saved
    ]
    assert not older, f"docs/live.html has another {', '.join(older)}: save it again"
    # a browser runs the script only if the page's policy names it
    (script,) = re.findall(r"<script>(.*?)</script>", saved, re.DOTALL)
    assert report.allowed(script) in saved
