"""The page in a headless browser: its numbers are those of main.py, and everybody can use it."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from browsers import assert_readable, wait_for
from heads import MEDUSA, toy_head
from live import PROMPT, RUNS, loaded, unheard

from cli.files import write_whole
from decoding.drafts import HeadDraft
from experiments.benchmark.statistics import drafting_share
from experiments.benchmark.theory import speedup
from page import rules, runs
from page.report import page_of
from page.runs import ANSWERS, Request, answers_of, finished_run

pytestmark = pytest.mark.browser

VIEWS = ("race", "microscope", "rules", "pays")
QUICK = "too-many-tokens"  # a mistake whose distribution is small
FEW = (
    "token rule",
    "match rule",
    "shared noise",
    QUICK,
    "end-ignored",
    "context-unchecked",
    "missing-bonus",
)
READY = "Boolean(state.base && !asking && state.costs)"


@pytest.fixture
def few_rules(monkeypatch):
    """A few rules: all have distributions that are quickly computed."""
    few = {name: rules.ALL_RULES[name] for name in rules.ALL_RULES if name in FEW}
    for module in (rules, runs):
        monkeypatch.setattr(module, "ALL_RULES", few)


@pytest.fixture
def live(new_page, serve, pair, monkeypatch):
    """A function (view, **options) -> (page, server) with the tiny pair, after its first run."""

    monkeypatch.setattr("decoding.clock.SETTLING", 0.0)

    def call(view="race", models=None, **options):
        served = serve(answers_of(*(models or loaded(pair))))
        options = {"reduced_motion": "reduce"} | options
        page = new_page(f"{served.server.address}#{view}", **options)
        wait_for(page, READY + (" && Boolean(state.rulesDone)" if view == "rules" else ""))
        return page, served

    return call


@pytest.fixture
def saved(new_page, written):
    """A function (*arguments) -> the page of --report, its run's JSON object."""

    def call(*arguments):
        path, result = written(*arguments)
        return new_page(path.as_uri() + "#microscope"), result

    return call


def what_if(page, folder, **changed):
    """The tokens of each round by the models in a folder if that is changed in a page's run."""
    request = Request(page.evaluate("state.base.settings.prompt"), **changed)
    data = ANSWERS["what_if"](*loaded(folder), request, unheard)
    return [one["tokens"] for one in data["rounds"]]


def assert_in_words(page):
    """No view shows what a missing number looks like."""
    for view in VIEWS:
        page.locator(f"#tab-{view}").click()
        text = page.locator(f"#{view}").inner_text()
        assert len(text) > 80 and not re.search("NaN|undefined|Infinity", text)
    assert page.locator("img").count() == 0


# ---------------------------------------------------------------- the race


def test_the_race_is_the_run_of_the_command_line(live, as_json):
    prompt = "</script><img src=x onerror=alert(1)>"
    values = {"prompt": prompt, "n_tokens_to_generate": 20, "K": 5, "temperature": 1.2, "seed": 7}
    page, _ = live()
    page.evaluate("window.before = state.base")
    for name, value in values.items():
        page.locator(f"#controls [name={name}]").fill(str(value))
    page.locator("#run").click()
    wait_for(page, f"{READY} && state.base !== window.before")
    page.locator("#play").click()  # without motion this is the end
    found = as_json(*(part for name in values for part in (f"--{name}", values[name])))
    assert page.evaluate("state.base.figures.token_ids") == found["speculative"]["token_ids"]
    score = float(page.locator("#score b").inner_text().removesuffix("×"))
    plain, rounds = page.evaluate("[state.base.plain, state.base.rounds]")
    # a round drafts for as long as the draft's passes take
    seconds = sum(sum([*one["passes"], *one["seconds"][1:]]) for one in rounds)
    lengths = len(found["speculative"]["token_ids"]) / len(plain["tokens"])
    assert score == pytest.approx(lengths * sum(plain["seconds"]) / seconds, abs=0.006)
    assert_in_words(page)


def test_the_race_is_stepped_rewound_slowed_and_played(live):
    page, _ = live(reduced_motion="no-preference")
    page.locator("#slow").press("End")
    wait_for(page, "race.playing && race.time > 0")
    page.locator("#play").click()
    time = page.evaluate("race.time")
    page.wait_for_timeout(100)
    assert page.evaluate("race.time") == time and not page.evaluate("race.playing")
    page.locator("#rewind").click()
    shown = lambda: page.locator(".lane").nth(1).locator(".token:not(.to-come)").count()
    assert shown() == 0 and page.locator("#score b").inner_text() == "–"
    for _ in range(page.evaluate("state.base.rounds[0].passes.length + 2")):
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


def test_a_saved_race_opens_where_its_first_lane_has_finished(saved):
    page, _ = saved(*RUNS["sampled"])
    page.locator("#tab-race").click()
    for plain, fast in ((3, 1), (1, 3)):  # seconds of a pass: either can win
        page.evaluate(f"""state.base.plain.seconds.fill({plain} * 1e-2);
            for (const round of state.base.rounds) round.seconds = [0, {fast} * 5e-2, 0];
            showRace(state.base)""")
        n_tokens = page.evaluate("race.lanes.map(lane => lane.tokens.length)")
        lanes = page.locator(".lane")
        shown = [lanes.nth(i).locator(".token:not(.to-come)").count() for i in (0, 1)]
        first = page.evaluate("Number(race.lanes[1].end < race.lanes[0].end)")
        assert shown[first] == n_tokens[first] and 0 < shown[1 - first] < n_tokens[1 - first]
        page.locator("#finish").click()  # the passes of both stay in sight
        for i in (0, 1):
            strip, last = (lanes.nth(i).locator(part) for part in (".strip", ".strip i >> nth=-1"))
            box, passed = strip.bounding_box(), last.bounding_box()
            assert box["x"] < passed["x"] + passed["width"] < box["x"] + box["width"]


# ---------------------------------------------------------------- the microscope


def test_a_dragged_coin_gives_the_text_of_the_same_coins(live, pair):
    page, _ = live("microscope")
    before = page.evaluate("state.base.rounds.map(one => one.tokens)")
    page.locator("#rounds button.rejected").first.click()
    place = page.evaluate("[selected.r, selected.i]")
    index = page.evaluate("state.run.rounds[selected.r].numbers[selected.i]")
    page.locator("#coin").press("Home")  # u = 0: accepted, whatever the ratio
    wait_for(page, "!asking && state.run !== state.base")
    after = page.evaluate("state.run.rounds.map(one => one.tokens)")
    assert after == what_if(page, pair, coins={index: 0.0}) != before
    assert page.locator(".verdict").inner_text() == "accepted draft"
    assert page.evaluate("[selected.r, selected.i]") == place
    assert page.evaluate("document.activeElement.id") == "coin"
    assert page.locator("#edits").is_visible() and page.locator("#text .parting").count() == 1
    page.locator("#original").click()
    assert page.evaluate("state.run === state.base") and page.locator("#edits").is_hidden()


def test_a_coin_that_changes_nothing_leaves_what_was_changed_before(live):
    page, _ = live("microscope")
    page.evaluate("select(items.findLast(item => item.kind === 'rejected'))")
    page.locator("#coin").press("Home")
    wait_for(page, "!asking && state.run !== state.base")
    page.evaluate("window.before = state.run; select(items.find(item => item.kind === 'draft'))")
    page.locator("#coin").press("Home")  # accepted, as it was
    assert "The text stays as it is." in page.locator("#would").inner_text()
    assert page.evaluate("!asking && state.run === window.before")


def test_K_and_temperature_change_for_the_rest(live, pair):
    page, _ = live("microscope")
    page.locator("#rounds .round").nth(1).locator("button").first.click()
    page.locator(".rest [name=K]").fill("1")
    page.locator(".rest [name=temperature]").fill("0")
    page.locator(".rest button").click()
    wait_for(page, "!asking && state.run !== state.base")
    expected = what_if(page, pair, changes={2: {"K": 1, "temperature": 0.0}})
    assert page.evaluate("state.run.rounds.map(one => one.tokens)") == expected


def test_in_a_saved_run_verdict_and_replacement_follow_the_coin(saved):
    page, _ = saved(*RUNS["sampled"])
    would = lambda: page.locator("#would").inner_text()
    page.locator("#rounds button.rejected").first.click()
    page.locator("#coin").press("Home")
    assert would().startswith("Below p/q: accepted.") and "python main.py play" in would()
    page.locator("#coin").press("End")
    assert would().startswith("Not below p/q: rejected.") and "stays as it is" in would()
    # read out: what fell, not the nearest step of the slider
    fell = "coinSlider({u: .7996, ratio: .7999, kind: 'draft'})[0].querySelector('input')"
    assert page.evaluate(fell + ".getAttribute('aria-valuetext')") == "0.800, accepted"
    rest = "items.find(i => i.kind === 'draft' && state.run.rounds[i.r].p[i.i] < "
    page.evaluate(f"select({rest} .9 * state.run.rounds[i.r].q[i.i]))")
    page.locator("#coin").press("End")
    assert would().startswith("Not below p/q: rejected.") and "residual" in would()
    assert page.evaluate("state.run === state.base")
    # what would replace a draft is computed from what is stored of p and q
    both = page.evaluate("""state.run.rounds.filter(round => round.residual).map(round =>
        [round.residual, residualAt(round, round.accepted)])""")
    for stored, computed in both:
        masses = dict(map(tuple, stored))
        assert computed[0][0] == stored[0][0]
        for token, mass in computed:
            assert token not in masses or mass == pytest.approx(masses[token], rel=0.01, abs=1e-4)


@pytest.mark.parametrize("name", ["sampled", "coupled", "block", "ngram", "alone", "bytes"])
def test_every_decision_of_every_run_opens(saved, name):
    page, result = saved(*RUNS[name])
    data = json.loads(page.locator("#data").text_content())
    chips = page.locator("#rounds button")
    assert chips.count() == sum(
        len(row["draft"]) + (len(row["tokens"]) > row["accepted"]) for row in data["rounds"]
    )
    assert page.locator("#text button").count() == len(result["speculative"]["token_ids"])
    # not by clicks: they take a third of a second each
    panels = page.evaluate("items.map(item => { select(item); return $('panel').innerText; })")
    assert len({*panels}) == len(panels) == chips.count()
    assert not re.search("NaN|undefined|Infinity", "".join(panels))
    assert page.locator("#plain").text_content().startswith(data["prompt"])
    assert page.evaluate("scrollY") == 0  # its address names a view
    assert_in_words(page)
    page.locator("#tab-race").click()
    if name != "alone":
        page.locator("#finish").click()
    texts = page.locator(".lane .written").all_inner_texts()
    decoders = () if name == "alone" else ("autoregressive", "speculative")
    found = [result[decoder]["text"].replace("\n", "⏎\n") for decoder in decoders]
    assert [text.removeprefix(PROMPT).replace("·", "") for text in texts] == found
    assert page.locator("#race-stage").is_hidden() == (name == "alone")
    assert page.locator("#controls").is_hidden() and page.locator("#save").is_hidden()


def test_a_click_on_a_token_opens_its_numbers(saved):
    page, _ = saved(*RUNS["sampled"])
    rows = enumerate(json.loads(page.locator("#data").text_content())["rounds"])
    r, row = next((r, row) for r, row in rows if 0 < row["accepted"] < row["examined"])
    shown = lambda x: page.evaluate("x => number(x)", x)
    chips = page.locator(".round").nth(r).locator("button")
    for i, verdict in ((0, "accepted draft"), (row["accepted"], "rejected draft")):
        chips.nth(i).click()
        p, q, u = row["p"][i], row["q"][i], row["coins"][i]
        assert page.locator("#numbers dd").all_inner_texts() == list(map(shown, (p, q, p / q, u)))
        assert page.locator(".verdict").inner_text() == verdict
        assert page.locator("#likely tbody tr").count() == len(row["likely"][i])
        assert page.locator("#residual").count() == (verdict == "rejected draft")
        rules = ((min(1, p / q), row["overlap"][i]), (p, row["matching"][i]))
        kept = page.locator("#keeping td.number").all_inner_texts()
        assert kept == [shown(x) for both in rules for x in both]
    about = page.locator(".round").nth(r).locator(".about").inner_text()
    assert f"{row['accepted']} of {row['examined']} examined" in about
    chips.last.click()  # the correction: the same residual, and the token that came out of it
    assert page.locator(".verdict").inner_text() == "correction"
    *_, mass = page.locator("#likely .chosen td.number").all_inner_texts()
    assert float(mass) == pytest.approx(dict(row["residual"])[row["tokens"][-1]], rel=0.01)


@pytest.mark.parametrize("kind", ["draft", "rejected", "correction"])
def test_the_areas_of_the_picture_are_those_of_p_and_q(saved, kind):
    """As they are drawn, in shares of the picture: of each token, how wide and where."""
    page, _ = saved(*RUNS["sampled"])
    page.evaluate(f"select(items.find(item => item.kind === '{kind}'))")
    drawn = page.evaluate("""[...$("more").querySelectorAll("rect")].map(rect =>
        [rect.classList[0], ...["y", "x", "width"].map(name => rect[name].baseVal.value
            / $("more").querySelector("svg")[name === "y" ? "clientHeight" : "clientWidth"])])""")
    rows = page.evaluate("state.run.rounds[selected.r].likely[selected.i]")
    most, expected = max(max(p, q) for _, p, q in rows), []
    for i, (_, p, q) in enumerate(sorted(rows, key=lambda row: row[1] - row[2])):
        areas = (("accepted", 0, min(p, q)), ("rejected", p, q), ("residual", q, p))
        for name, low, high in areas:
            expected += [(name, i / len(rows), low / most, (high - low) / most)] * (high > low)
    assert [row[0] for row in drawn] == [row[0] for row in expected]
    for (_, *found), (_, *right) in zip(drawn, expected):
        assert found == pytest.approx(right, abs=0.01)
    picture = page.locator("#more svg.areas")
    assert picture.locator("title").text_content() == "p and q over the same tokens"
    assert "residual" in picture.locator("desc").text_content()
    assert "rejected: q’s excess" in page.locator("#more .legend").inner_text()


# ---------------------------------------------------------------- rules, costs


def test_the_distance_of_a_mistake_is_that_of_the_museum(live, few_rules):
    page, _ = live("rules")
    page.locator(".rule", has_text="too many tokens").click()
    row = rules.distribution_row(QUICK)
    assert page.locator("#distance").inner_text() == f"{row['distance']:.4f}"
    assert page.locator("#errors").count() == (row["errors"] > 0)
    page.locator(".rule").first.click()
    assert page.locator("#distance").inner_text() == "0"
    page.locator(".rule").first.press("ArrowDown")
    assert page.evaluate("chosenRule === state.rules[1]")
    assert page.locator("#distance").inner_text() == "0"  # of the match rule


def test_shared_noise_shows_no_distance_that_was_not_computed(live, few_rules):
    page, _ = live("rules")
    page.locator(".rule", has_text="Shared noise").click()
    assert page.locator("#distance").count() == 0
    assert "cannot be enumerated" in page.locator("#distribution").inner_text()
    assert page.locator('[aria-checked="true"] .badge').inner_text() == "not enumerated"


def test_a_rule_says_in_one_line_what_it_does_and_where_its_text_differs(live, few_rules):
    page, _ = live("rules")
    rows = page.evaluate("state.rules")
    for row, shown in zip(rows, page.locator(".rule").all_inner_texts()):
        what = row["what"][0].upper() + row["what"][1:]
        assert f"\n{what}.\n" in shown
        place = None if row["parts"] is None else f"differs from token {row['parts'] + 1} on"
        assert (place or "the same text") in shown or row is rows[0]
    assert any(row["parts"] is not None for row in rows)


@pytest.mark.parametrize("draft", ["0.7M-17M", "ngram"])
def test_the_expected_speedup_is_that_of_the_theory(live, pair, draft):
    """Look-up drafts in a share of the rounds."""
    page, _ = live("pays", loaded(pair, draft_model_size=draft))
    costs, a = page.evaluate("[state.costs, acceptance(state.base)]")
    lengths = page.evaluate("state.base.rounds.map(round => round.draft.length)")
    h = drafting_share(draft != "ngram", 4, sum(lengths), len(lengths))
    for K in (1, 4, 8):
        page.evaluate(f"knobs.K = {K}; showMoved()")
        expected = speedup(a, K, costs["c"], costs["v"][K], h)
        assert page.evaluate("standing(state.base).by")[K - 1] == pytest.approx(expected)
    assert ("Look-up filled" in page.locator("#pays-lead").inner_text()) == (h < 1)
    page.locator("#knob-a").press("Home")
    assert ("loses" in page.locator("#verdict").inner_text()) or h < 1
    assert page.locator("table.map td.here").count() == 1
    page.locator("#as-measured").click()
    assert page.evaluate("knobs.a") is None


def test_no_more_drafts_are_expected_than_there_are_heads(live, pair):
    settings, models = loaded(pair)
    draft = HeadDraft(toy_head(MEDUSA, models.target, np.float32))  # two heads
    page, _ = live("pays", (settings, replace(models, draft=draft)))
    assert page.evaluate("[standing(state.base).K, standing(state.base).by.length]") == [2, 2]
    page.evaluate("state.costs = null; showPays(state.base)")  # those of the run's own passes
    assert page.locator("#pays-stage").is_visible()


def test_costs_of_a_run_alone_never_fall_with_K_and_need_one_K(saved):
    page, _ = saved(*RUNS["sampled"])
    page.evaluate(
        "state.base.plain.seconds.fill(1)"
    )  # a pass over one row, a thousand times slower
    assert page.evaluate("costsOf(state.base).v") == [1] * 9
    page.evaluate("state.base.settings.draft_confidence = .3; showAll(state.base)")
    assert page.evaluate("costsOf(state.base)") is None
    assert "draft confidence 0.3" in page.locator("#summary").inner_text()


# ---------------------------------------------------------------- runs


def test_a_new_run_takes_the_place_of_the_old_and_an_error_is_one_line(live):
    page, _ = live()
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


def test_a_run_that_fails_or_comes_between_takes_nothing_from_the_one_before(live, few_rules):
    page, _ = live()
    page.evaluate("state.costs = null")
    page.locator("#controls [name=prompt]").fill("x" * 100)
    page.locator("#run").click()
    wait_for(page, "!asking && !document.getElementById('error').hidden")
    wait_for(page, READY)
    page.locator("#controls [name=prompt]").fill(PROMPT)
    # a saved run has all its rules, and a newer one is not saved for it
    downloads = []
    page.on("download", lambda download: downloads.append(download))
    page.evaluate("window.saving = save(); askRace(); null")
    page.evaluate("window.saving")
    page.wait_for_timeout(100)
    assert downloads == []
    page.evaluate("window.saving = save(); askWhatIf({coins: [[0, 0, '']], changes: []}); null")
    page.evaluate("window.saving")
    assert page.evaluate("state.rulesDone !== null && state.run !== state.base")


def test_a_saved_run_needs_no_server(live, few_rules, new_page, pair, tmp_path):
    """Saved in the browser, or by the command without one: the same run."""
    page, served = live("microscope")
    with page.expect_download() as download:
        page.locator("#save").click()
    paths = [tmp_path / "run.html", tmp_path / "play.html"]
    download.value.save_as(paths[0])
    assert served.token not in paths[0].read_text(encoding="utf-8")
    write_whole(paths[1], page_of(finished_run(*loaded(pair))))
    kept = "[state.base.figures.token_ids, state.rules.map(row => row.tokens)]"
    for path in paths:
        assert path.stat().st_size < 400_000
        again = new_page(path.as_uri() + "#race")
        assert again.locator("#controls").is_hidden()
        assert again.evaluate(kept) == page.evaluate(kept)
        assert again.evaluate("state.rules.length") == len(FEW)
        assert_in_words(again)


# ---------------------------------------------------------------- for everybody


@pytest.mark.parametrize("width, scheme", [(1400, "light"), (800, "dark"), (360, "light")])
def test_everybody_can_read_every_view(live, few_rules, width, scheme):
    page, _ = live("rules", color_scheme=scheme, viewport={"width": width, "height": 800})
    page.evaluate("chooseRule(state.rules.at(-1))")
    for view in VIEWS:
        tab = page.locator(f"#tab-{view}")
        assert tab.bounding_box()["x"] + tab.bounding_box()["width"] <= width
        tab.click()
        assert_readable(page, scheme)
    page.locator("#tab-rules").click()
    page.locator(".rule").first.click()  # what a choice changes is in sight
    assert page.locator("#distance").bounding_box()["y"] < 800
    page.locator("#tab-pays").click()
    page.locator("#knob-a").press("Home")
    assert_readable(page, scheme)
    page.locator("#tab-microscope").click()
    for kind in ("draft", "rejected", "unexamined", "correction"):
        page.evaluate(f"select(items.find(item => item.kind === '{kind}') || items[0])")
        assert_readable(page, scheme)


def test_the_keyboard_reaches_everything(live, few_rules):
    page, _ = live("rules")
    wanted = {
        "race": {"run", "save", "tab-race", "play", "step", "rewind", "slow", "clock", "copy"},
        "microscope": {"tab-microscope", "before", "after", "coin", "command"},
        "rules": {"tab-rules"},
        "pays": {"knob-a", "knob-c", "knob-v", "knob-K", "as-measured"},
    }
    for i, view in enumerate(VIEWS):
        page.locator(f"#tab-{VIEWS[i - 1]}").focus()
        page.keyboard.press("ArrowRight" if i else "Home")
        assert page.locator(f"#{view}").is_visible()
        page.evaluate("select(items.find(item => item.kind === 'rejected'))")
        page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
        seen = set()
        for _ in range(45):
            page.keyboard.press("Tab")
            seen.add(page.evaluate("document.activeElement.id"))
        assert wanted[view] <= seen, wanted[view] - seen


def test_the_arrow_keys_go_from_token_to_token(saved):
    page, _ = saved(*RUNS["sampled"])
    heading = lambda: page.locator("#h-panel").inner_text()
    for group in ("text", "rounds"):
        # one stop of the tab key for all its tokens
        stop = page.locator(f'#{group} button[tabindex="0"]')
        assert stop.count() == 1
        stop.focus()
        page.keyboard.press("Home")
        first = heading()
        page.keyboard.press("ArrowRight")
        assert heading() != first
        assert page.evaluate(f"document.activeElement.closest('#{group}') !== null")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
        page.keyboard.press("ArrowLeft")
        assert heading() == first
        page.keyboard.press("ArrowDown")
        assert "round 2" in page.locator("#detail").inner_text()
        page.keyboard.press("End")
        page.keyboard.press("ArrowRight")  # nothing after it
    assert page.locator("#after").is_disabled()
