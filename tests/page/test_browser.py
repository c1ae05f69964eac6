"""The live page in a headless browser: its numbers are those of main.py, it asks its own server for
all it needs and nobody else, and everybody can use it.
"""

import json

import pytest
from browsers import assert_readable, wait_for
from command_line import PROMPT
from playing import Replaced, by_hand, session_of

import main
from experiments.measuring.statistics import drafting_share
from experiments.measuring.theory import speedup
from experiments.playing import rules
from experiments.playing.questions import questions_of
from sampling import Filter

pytestmark = pytest.mark.browser

NASTY = "</script><img src=x onerror=alert(1)>"
VIEWS = ("race", "microscope", "rules", "pays")
QUICK = "too-many-tokens"  # a mistake whose law is small
READY = "Boolean(state.base && !asking && state.costs)"


@pytest.fixture
def few_rules(monkeypatch):
    """Three rules: all have laws that are quickly computed."""
    names = ("token rule", "shared noise", QUICK, "end-ignored", "context-unchecked")
    names += ("missing-bonus",)
    few = [rule for rule in rules.RULES if rule.name in names]
    monkeypatch.setattr(rules, "RULES", few)
    monkeypatch.setattr("experiments.playing.questions.RULES", few)


@pytest.fixture
def live(new_page, serve, pair):
    """A function (view, **options) -> (page, session) of a server with the tiny pair, after its
    first run.
    """

    def call(view="race", session=None, **options):
        session = session or session_of(pair)
        served = serve(questions_of(session))
        options = {"reduced_motion": "reduce"} | options
        page = new_page(f"{served.address}#{view}", **options)
        wait_for(page, READY)
        return page, served

    return call


def run(page, **values):
    """Fill in the form and wait for the run."""
    page.evaluate("window.before = state.base")
    for name, value in values.items():
        page.locator(f"#controls [name={name}]").fill(str(value))
    page.locator("#run").click()
    wait_for(page, f"{READY} && state.base !== window.before")


def flags_of(**values):
    return [part for name, value in values.items() for part in (f"--{name}", value)]


RUNS = [
    {"prompt": PROMPT, "n_tokens_to_generate": 25, "K": 3, "temperature": 0, "seed": 1},
    {"prompt": NASTY, "n_tokens_to_generate": 20, "K": 5, "temperature": 1.2, "seed": 7},
]


@pytest.mark.parametrize("values", RUNS)
def test_the_race_ends_with_the_texts_of_the_command_line(live, as_json, values):
    page, _ = live()
    run(page, **values)
    page.locator("#play").click()  # without motion this is the end
    found = as_json(*flags_of(**values))
    lanes = page.locator(".race-text")
    for i, decoder in enumerate(("autoregressive", "speculative")):
        text = found[decoder]["text"].replace("\n", "⏎\n")
        spans = (
            "e => [...e.querySelectorAll('.token:not(.to-come)')].map(s => s.textContent).join('')"
        )
        assert lanes.nth(i).evaluate(spans).replace("·", "") == text
    assert page.locator("img").count() == 0
    assert page.evaluate("state.base.figures.token_ids") == found["speculative"]["token_ids"]
    shown = page.locator("#score b").inner_text()
    assert float(shown.removesuffix("×")) == pytest.approx(
        page.evaluate("state.base.speedup"), rel=0.05
    )


def test_the_race_is_stepped_rewound_and_slowed(live):
    page, _ = live()
    page.locator("#rewind").click()
    shown = lambda: page.locator(".lane").nth(1).locator(".token:not(.to-come)").count()
    assert shown() == 0 and page.locator("#score b").inner_text() == "–"
    n_passes = page.evaluate("state.base.rounds[0].passes.length + 2")
    for _ in range(n_passes):
        assert shown() == 0
        page.locator("#step").click()
    assert shown() == page.evaluate("state.base.rounds[0].tokens.length")
    page.locator("#step-back").click()
    assert shown() == 0
    page.locator("#clock").press("End")
    assert page.evaluate("race.time === race.length")
    assert shown() == page.evaluate("state.base.figures.token_ids.length")
    page.locator("#slow").press("Home")
    assert page.locator("#slow-now").inner_text() == "1 ×"


def test_with_motion_the_race_plays_and_pauses(live):
    page, _ = live(reduced_motion="no-preference")
    page.locator("#slow").press("End")
    wait_for(page, "race.playing && race.time > 0")
    page.locator("#play").click()
    time = page.evaluate("race.time")
    page.wait_for_timeout(100)
    assert page.evaluate("race.time") == time and not page.evaluate("race.playing")


# ---------------------------------------------------------------- the microscope


def test_a_dragged_coin_gives_the_text_of_the_same_coins(live, pair):
    """Against the loop in Python, with a generator that gives that number in its place."""
    page, served = live("microscope")
    before = page.evaluate("state.base.figures.token_ids")
    rejected = page.locator("#rounds button.rejected").first
    rejected.click()
    place = page.evaluate("[selected.r, selected.i]")
    index = page.evaluate("state.run.rounds[selected.r].numbers[selected.i]")
    page.locator("#coin").press("Home")  # u = 0: accepted, whatever the ratio
    wait_for(page, "!asking && state.run !== state.base")
    session = session_of(pair)
    rng = Replaced(123, index, 0.0)
    settings = page.evaluate("state.base.settings")
    filter = Filter(settings["temperature"])
    after = page.evaluate("state.run.figures.token_ids")
    assert after != before
    prompt = session.prompt(settings["prompt"])
    assert after == by_hand(session, rng, 4, filter, len(before), prompt.ids)
    assert page.locator(".verdict").inner_text() == "accepted draft"
    assert page.evaluate("[selected.r, selected.i]") == place
    assert page.evaluate("document.activeElement.id") == "coin"
    assert page.locator("#edits").is_visible() and page.locator("#text .parting").count() == 1
    page.locator("#original").click()
    assert page.evaluate("state.run === state.base") and page.locator("#edits").is_hidden()


def test_K_and_temperature_change_for_the_rest(live):
    page, _ = live("microscope")
    page.locator("#rounds .round").nth(1).locator("button").first.click()
    page.locator(".rest [name=K]").fill("1")
    page.locator(".rest [name=temperature]").fill("0")
    page.locator(".rest button").click()
    wait_for(page, "!asking && state.run !== state.base")
    rounds = page.evaluate("state.run.rounds")
    base = page.evaluate("state.base.rounds")
    assert [one["tokens"] for one in rounds[:2]] == [one["tokens"] for one in base[:2]]
    assert all(len(one["draft"]) <= 1 for one in rounds[2:])
    assert all(row[0][1] == 1 for one in rounds[2:] for row in one["likely"])


# ---------------------------------------------------------------- rules and costs


def test_the_distance_of_a_mistake_is_that_of_the_command(live, few_rules, pair, capsys):
    page, _ = live("rules")
    wait_for(page, "Boolean(state.rulesDone)")
    page.locator(".rule", has_text="too many tokens").click()
    assert page.locator("#distance").count() == 0  # not before the question
    page.locator("#show-laws").click()
    capsys.readouterr()
    sizes = ["--target_model_size=17M", "--draft_model_size=0.7M-17M"]
    assert main.main(["mistakes", QUICK, "--json", f"--models_dir={pair}", *sizes]) == 0
    (found,) = json.loads(capsys.readouterr().out)["mistakes"]
    distance = page.evaluate("chosenRule.distance")
    assert distance == found["total_variation"] and distance > 0
    assert page.locator("#distance").inner_text() == f"{distance:.4f}"
    page.locator(".rule").first.click()
    assert page.locator("#distance").inner_text() == "0"
    page.locator(".rule").first.press("ArrowDown")
    assert page.evaluate("chosenRule === state.rules[1]")


def test_the_expected_speedup_is_that_of_the_theory(live):
    page, _ = live("pays")
    costs, a = page.evaluate("state.costs"), page.evaluate("acceptance(state.base)")
    for K in (1, 4, 8):
        page.evaluate(f"knobs.K = {K}; showMoved()")
        expected = speedup(a, K, costs["c"], costs["v"][K])
        assert page.evaluate("standing(state.base).by")[K - 1] == pytest.approx(expected)
    page.locator("#knob-a").press("Home")
    assert "loses" in page.locator("#verdict").inner_text()
    assert page.locator("table.map td.here").count() == 1
    page.locator("#as-measured").click()
    assert page.evaluate("knobs.a") is None


def test_look_up_drafts_in_a_share_of_the_rounds(live, pair):
    page, _ = live("pays", session_of(pair, draft_model_size="ngram"))
    costs, a = page.evaluate("state.costs"), page.evaluate("acceptance(state.base)")
    settings, lengths = page.evaluate(
        "[state.base.settings, state.base.rounds.map(round => round.draft.length)]"
    )
    K = settings["K"]
    h = drafting_share(False, K, sum(lengths), len(lengths))
    assert 0 < h < 1
    expected = speedup(a, K, costs["c"], costs["v"][K], h)
    assert page.evaluate("standing(state.base).by")[K - 1] == pytest.approx(expected)
    assert "Look-up filled" in page.locator("#pays-lead").inner_text()


# ---------------------------------------------------------------- questions


def test_five_questions_are_answered_by_the_run(live, few_rules):
    page, _ = live("rules")
    wait_for(page, "Boolean(state.rulesDone)")
    names = {1: "race", 2: "race", 3: "microscope", 4: "microscope", 5: "rules"}
    for n, view in names.items():
        page.locator(f"#tab-{view}").click()
        form = page.locator("form.question").filter(has_text=f"{n} of 5")
        assert form.count() == 1
        form.locator("input").first.check()
        form.locator("button").click()
        assert form.locator(".answer").count() == 1
        assert form.locator(".because").inner_text().startswith(("Right.", "Not quite:"))
    assert page.locator(".hidden-law").count() == 0


# ---------------------------------------------------------------- runs


def test_a_new_run_cancels_the_old_and_an_error_is_one_line(live):
    # a browser notes that the server refused something
    page, served = live(expected="status of 400")
    page.locator("#controls [name=n_tokens_to_generate]").fill("40")
    page.evaluate("askRace(); askRace()")
    wait_for(page, f"{READY} && state.base.figures.token_ids.length === 40")
    assert page.locator("#error").is_hidden()
    page.locator("#controls [name=prompt]").fill("x" * 100)
    page.locator("#run").click()
    wait_for(page, "!document.getElementById('error').hidden")
    message = page.locator("#error").inner_text()
    assert "100 tokens" in message and "\n" not in message
    assert page.evaluate("state.base.figures.token_ids.length") == 40


def test_a_saved_run_needs_no_server(live, few_rules, new_page, tmp_path):
    page, served = live("microscope")
    run(page, prompt=NASTY, n_tokens_to_generate=20)
    with page.expect_download() as download:
        page.locator("#save").click()
    path = tmp_path / "run.html"
    download.value.save_as(path)
    assert path.stat().st_size < 400_000
    assert served.server.token not in path.read_text(encoding="utf-8")
    saved = new_page(path.as_uri() + "#race")
    assert saved.locator("#controls").is_hidden()
    ids = page.evaluate("state.base.figures.token_ids")
    assert saved.evaluate("state.base.figures.token_ids") == ids
    assert saved.evaluate("state.rules.length") == page.evaluate("state.rules.length") == 6
    for view in VIEWS:
        saved.locator(f"#tab-{view}").click()
        text = saved.locator(f"#{view}").inner_text()
        assert len(text) > 200 and not any(word in text for word in ("NaN", "undefined"))


# ---------------------------------------------------------------- for everybody


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 800, 360])
def test_everybody_can_read_every_view(live, few_rules, scheme, width):
    viewport = {"width": width, "height": 800}
    page, _ = live("rules", color_scheme=scheme, viewport=viewport)
    wait_for(page, "Boolean(state.rulesDone)")
    page.evaluate("revealLaws(); chooseRule(state.rules.at(-1))")
    for view in VIEWS:
        page.locator(f"#tab-{view}").click()
        assert_readable(page, scheme)
        if view == "pays":
            page.locator("#knob-a").press("Home")
            assert_readable(page, scheme)


def test_the_keyboard_reaches_everything(live, few_rules):
    page, _ = live("race")
    wanted = {
        "race": {"run", "save", "tab-race", "play", "step", "rewind", "slow", "clock", "copy"},
        "microscope": {"tab-microscope", "before", "after", "coin"},
        "rules": {"tab-rules"},
        "pays": {"knob-a", "knob-c", "knob-v", "knob-K", "as-measured"},
    }
    page.locator("#tab-race").focus()
    for i, view in enumerate(VIEWS):
        if i:
            page.locator(f"#tab-{VIEWS[i - 1]}").focus()
            page.keyboard.press("ArrowRight")
        if view == "rules":
            wait_for(page, "Boolean(state.rulesDone)")
        assert page.locator(f"#{view}").is_visible()
        if view == "microscope":
            page.locator("#rounds button.rejected").first.click()
        page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
        seen = set()
        for _ in range(45):
            page.keyboard.press("Tab")
            seen.add(page.evaluate("document.activeElement.id"))
        assert wanted[view] <= seen, wanted[view] - seen
