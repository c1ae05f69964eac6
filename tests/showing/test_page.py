"""--report: the data in the page, how the file is written, and the page itself in a headless
browser.
"""

import json
import os
import re
import shlex
import shutil

import pytest
from command_line import PROMPT, ROOT, assert_refused, embedded

import main
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
    assert data["prompt"] == load_encoder(pair / "7M").decode(result["prompt_token_ids"])
    text = "".join(shown for row in data["rounds"] for shown in row["shown"]).removesuffix(
        "<|endoftext|>"
    )
    assert text == one["text"]
    assert data["figures"] == one and data["speedup"] == result["speedup"]
    for row in data["rounds"]:
        tokens = {*row["draft"], *row["tokens"]} | {
            x for likely in row["likely"] for x, _, _ in likely
        }
        assert {str(token) for token in tokens} <= data["words"].keys()
        if not data["coupled"]:
            for i, (u, p, q) in enumerate(zip(row["coins"], row["p"], row["q"])):
                assert (u < p / q) == (i < row["accepted"])
            assert (row["residual"] is not None) == (row["accepted"] < row["examined"])


@pytest.mark.parametrize(
    "arguments", [RUNS["sampled"], RUNS["coupled"], RUNS["ngram"], RUNS["nasty"]]
)
def test_the_command_reproduces_the_run(written, cli, pair, monkeypatch, arguments):
    path, result = written(*arguments)
    words = shlex.split(data_of(path)["command"])
    assert words[:2] == ["python", "main.py"]
    path.unlink()
    assert main.main([*words[2:], "--json"]) == 0
    assert data_of(path)["figures"]["token_ids"] == result["speculative"]["token_ids"]


def test_a_prompt_from_a_pipe_is_in_the_command():
    settings = {
        "prompt": "it's\ntext",
        "K": 4,
        "stream": True,
        "trace": False,
        "stop": "",
        "top_p": 0.5,
    }
    assert shlex.split(report.command(settings))[2:] == [
        "--prompt",
        "it's\ntext",
        "--K",
        "4",
        "--stream",
        "--top_p",
        "0.5",
    ]


def test_a_page_asks_for_nothing(written):
    path, _ = written(*RUNS["nasty"])
    page = path.read_text(encoding="utf-8")
    assert "<img" not in page and page.count("</script>") == 2 and "DATA<" not in page
    assert "default-src 'none'" in page and not re.search(
        r"(?i)(src|href)\s*=\s*[\"']?(https?:)?//|@import|url\(", page
    )
    assert report.PAGE.read_text(encoding="utf-8").count("DATA") == 1


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


@pytest.mark.parametrize("name", ["", "none/x.html", "x.txt", "folder.html", "x.html/y.html"])
def test_a_path_that_cannot_be_written_is_refused_before_the_run(cli, tmp_path, monkeypatch, name):
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "x.html").write_text("before")
    monkeypatch.setattr("utils.load_pair", lambda *arguments: pytest.fail("models were read"))
    assert_refused(cli("--report", f"{tmp_path}/{name}"), "--report", name or str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"folder.html", "x.html"}


def test_a_page_is_written_whole_or_not_at_all(cli, tmp_path, monkeypatch):
    path = tmp_path / "x.html"
    path.write_text("before")
    monkeypatch.setattr(report, "report_data", lambda *run: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cli("--report", path, "--n_tokens_to_generate", 2)
    assert path.read_text() == "before" and [*tmp_path.iterdir()] == [path]
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


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium: Playwright's own, or one that is installed."""
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        pytest.skip("no browser: Playwright is not installed (requirements-browser.txt)")
    names = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")
    found = next(filter(None, map(shutil.which, names)), None)
    arguments = [
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
    ]
    # Chromium refuses root otherwise
    arguments += ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        try:
            running = playwright.chromium.launch(executable_path=found, args=arguments)
        except Error as error:
            pytest.skip(f"no browser: {str(error).splitlines()[0]}")
        yield running
        running.close()


@pytest.fixture
def opened(browser, written):
    """A function (*arguments, **page options) -> the page of such a run; it must ask for nothing
    and have no errors.
    """
    pages, wrong = [], []

    def call(*arguments, **options):
        path, result = written(*arguments)
        page = browser.new_page(**options)
        pages.append(page)
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.on(
            "request", lambda request: request.url == path.as_uri() or wrong.append(request.url)
        )
        page.goto(path.as_uri())
        return page, result

    yield call
    for page in pages:
        page.close()
    assert wrong == []


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
        and "drawn" in page.locator("#residual").inner_text()
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
    for _ in range(12):
        page.keyboard.press("Tab")
        seen.add(focused())
    assert {"text", "rounds", "panel", "command", "copy"} <= seen


CONTRAST = """() => {
  const parse = colour => colour.match(/[\\d.]+/g).map(Number);
  const linear = v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = colour => { const [r, g, b] = parse(colour).map(linear); return .2126 * r + .7152 * g + .0722 * b; };
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!text || !element.getClientRects().length || element.closest("script, noscript")) continue;
    let behind = element;
    while (behind && (parse(getComputedStyle(behind).backgroundColor)[3] ?? 1) === 0) behind = behind.parentElement;
    const [a, b] = [getComputedStyle(element).color, getComputedStyle(behind || document.body).backgroundColor].map(light);
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5 && !element.disabled) poor.push([element.className, element.textContent.slice(0, 20), ratio]);
  }
  return poor;
}"""


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 380])
def test_everybody_can_read_it(opened, scheme, width):
    """Contrast (WCAG 2.1, 1.4.3), names, headings, one language, no sideways scrolling."""
    page, _ = opened(
        *RUNS["sampled"], color_scheme=scheme, viewport={"width": width, "height": 800}
    )
    for kind in ("draft", "rejected", "unexamined", "correction"):
        page.locator(f"#rounds button.{kind}").first.click()
        assert page.evaluate(CONTRAST) == []
    dark = page.evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every(x => x < 100)"
    )
    assert dark == (scheme == "dark")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("document.documentElement.lang") == "en" and page.title()
    assert page.locator("h1").count() == 1 and page.locator("main").count() == 1
    assert page.evaluate(
        "[...document.querySelectorAll('button')].every(b => b.ariaLabel || b.textContent.trim())"
    )
    labels = page.evaluate(
        "[...document.querySelectorAll('[aria-labelledby]')].map(e => e.getAttribute('aria-labelledby'))"
    )
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert set(labels) <= set(ids) and len(set(ids)) == len(ids)
