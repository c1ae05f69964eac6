"""The page in a headless browser: its numbers are those of main.py, and everybody can use it."""

import json
import re
from dataclasses import replace
from statistics import median_high

import numpy as np
import pytest
from browsers import assert_readable, wait_for
from decoding.drafts import HeadDraft
from experiments.benchmark.intervals import drafting_share
from heads import MEDUSA, toy_head
from live import PROMPT, RUNS, loaded, unheard

from checkpoints.output import write_atomically
from decoding.theory import speedup
from page import rule_comparison, runs
from page.report import page_of
from page.runs import ANSWERS, Request, answers_of, compute_saved_page

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
    few = {name: rule for name, rule in rule_comparison.ALL_RULES.items() if name in FEW}
    for module in (rule_comparison, runs):
        monkeypatch.setattr(module, "ALL_RULES", few)


@pytest.fixture
def live(new_page, serve, pair, monkeypatch):
    """A function (view, **options) -> (page, server) with the tiny pair, after its first run."""

    monkeypatch.setattr("decoding.costs.WARMUP_SECONDS", 0.0)
    monkeypatch.setitem(runs.FIELDS["temperature"], "value", 0.8)

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
        assert len(text) > 60 and not re.search("NaN|undefined|Infinity", text)
    assert page.locator("img").count() == 0


# ---------------------------------------------------------------- the race


def test_the_race_is_the_run_of_the_command_line(live, as_json):
    prompt = "</script><img src=x onerror=alert(1)>"
    values = {"prompt": prompt, "n_tokens_to_generate": 20, "K": 5, "temperature": 1.2, "seed": 7}
    page, _ = live()
    page.evaluate("window.before = state.base")
    page.locator("#controls summary").click()
    for name, value in values.items():
        page.locator(f"#controls [name={name}]").fill(str(value))
    page.locator("#run").click()
    wait_for(page, f"{READY} && state.base !== window.before")
    page.locator("#play").click()  # without motion this is the end
    found = as_json(*(part for name in values for part in (f"--{name}", values[name])))
    assert page.evaluate("state.base.figures.token_ids") == found["speculative"]["token_ids"]
    plain, rounds = page.evaluate("[state.base.plain, state.base.rounds]")
    seconds = sum(plain["seconds"]), sum(sum(one["seconds"]) for one in rounds)
    assert page.evaluate("race.lanes.map(lane => lane.end)") == pytest.approx(seconds)
    assert float(page.locator("#speedup b").inner_text().removesuffix("×")) == pytest.approx(
        page.evaluate("state.base.speedup"), abs=0.006
    )
    said = page.locator("#figures li").all_inner_texts()
    (passes, n, each, kept, own, _), (guesses, *fates, examined, _), _ = (
        [float(number) for number in re.findall(r"\d+(?:\.\d+)?", line)] for line in said
    )
    assert kept + own == n and each == pytest.approx(n / passes, abs=0.006)
    assert sum(fates) == guesses and fates[0] + fates[1] == examined
    assert_in_words(page)


def shown_in(page, lane):
    """What a lane has written at this moment: no guess, and none that was rejected."""
    not_written = ".ghost, .rejected, .unexamined"
    spans = f"race.lanes[{lane}].spans.filter(e => !e.hidden && !e.matches('{not_written}'))"
    return page.evaluate(f"{spans}.map(e => e.textContent)")


def test_the_race_is_played_paused_slowed_and_moved(live):
    page, _ = live(reduced_motion="no-preference")
    page.locator("#slow").press("End")
    wait_for(page, "race.playing && race.time > 0")
    page.locator("#play").click()
    time = page.evaluate("race.time")
    page.wait_for_timeout(100)
    assert page.evaluate("race.time") == time and not page.evaluate("race.playing")
    page.locator("#clock").press("Home")
    assert shown_in(page, 0) == shown_in(page, 1) == []
    # guesses show as such until their round ends
    drafted, first = page.evaluate("[state.base.rounds[0].draft.length, race.lanes[1].passes]")
    page.evaluate(f"jump({first[drafted]['end']})")
    assert page.locator("#texts .ghost:visible").count() == drafted and shown_in(page, 1) == []
    page.evaluate(f"jump({first[drafted + 1]['end']})")
    assert len(shown_in(page, 1)) == page.evaluate("state.base.rounds[0].tokens.length")
    page.locator("#clock").press("End")
    assert page.evaluate("race.time === race.length")
    assert len(shown_in(page, 1)) == page.evaluate("state.base.figures.token_ids.length")
    page.locator("#slow").press("Home")
    assert page.locator("#slow-now").inner_text() == "1 ×"


def test_a_race_ends_with_a_long_bar_beside_a_short_one_and_plays_from_zero(saved):
    page, _ = saved(*RUNS["sampled"])
    page.locator("#tab-race").click()
    for plain, fast in ((3, 1), (1, 3)):  # seconds of a pass: either can win
        page.evaluate(f"""state.base.plain.seconds.fill({plain} * 1e-2);
            for (const round of state.base.rounds) round.seconds = [0, {fast} * 5e-2, 0];
            showRace(state.base)""")
        ends = page.evaluate("race.lanes.map(lane => lane.end / race.length)")
        assert max(ends) == 1 and page.locator("#texts .ghost:visible").count() == 0
        for i, end in enumerate(ends):
            strip = page.locator(".strip").nth(i)
            box = strip.bounding_box()
            bars = [bar.bounding_box() for bar in strip.locator("i").all()]
            assert min(bar["x"] for bar in bars) == pytest.approx(box["x"], abs=2)
            right = max(bar["x"] + bar["width"] for bar in bars)
            flag = strip.locator(".flag")
            for x in (right, flag.bounding_box()["x"]):
                assert x == pytest.approx(box["x"] + end * box["width"], abs=2)
            assert flag.is_visible() and flag.inner_text().endswith("\u00a0ms")
            assert not strip.locator(".head").is_visible()  # it would cross out the time
    page.locator("#play").click()
    assert page.evaluate("race.playing && race.time < race.length / 2")
    assert not page.locator(".flag").first.is_visible()


def test_a_saved_race_plays_by_itself_once(new_page, written):
    address = written(*RUNS["sampled"])[0].as_uri()
    page = new_page(address)
    assert page.evaluate("race.playing") and page.locator("#play").inner_text() == "Pause"
    page.locator("#slow").press("Home")
    wait_for(page, "!race.playing")
    assert page.evaluate("race.time === race.length")
    assert page.locator("#play").inner_text() == "Play again"
    for stands in (new_page(address + "#pays"), new_page(address, reduced_motion="reduce")):
        assert stands.evaluate("!race.playing && race.time === race.length")


def test_one_round_is_told_in_four_steps(saved):
    page, _ = saved(*RUNS["sampled"])
    page.locator("#tab-race").click()
    r, i = page.evaluate("(({r, i}) => [r, i])(tellingItem(items))")
    row = page.evaluate(f"state.base.rounds[{r}]")
    wrong, instead = page.evaluate(f"[{row['draft'][i]}, {row['tokens'][i]}].map(quoted)")
    said, lit, passes, pressed, dropped, counted, written = [], [], [], [], [], [], []
    guess = page.evaluate(
        f"race.lanes[1].tokens.findIndex(t => t.r === {r} && t.kind === 'unexamined')"
    )
    for step in page.locator("#guide button").all():
        step.click()
        pressed += page.evaluate("""[...document.querySelectorAll("#guide button")].flatMap(
            (button, i) => button.ariaPressed === "true" ? [i] : [])""")
        dropped.append(page.evaluate(f"!race.lanes[1].spans[{guess}].hidden"))
        counted.append(page.evaluate("race.lanes[1].count.textContent"))
        written.append(len(shown_in(page, 1)))
        said.append(page.locator("#now").inner_text())
        lit += page.evaluate("""[race.lanes[1]].map(({spans, tokens}) => tokens.filter((_, i) =>
            !spans[i].hidden && spans[i].matches("[data-lit]")).map(({r, kind}) => [r, kind]))""")
        passes.append(
            page.evaluate("""[...new Set(race.lanes[1].passes.filter((_, i) =>
            race.lanes[1].bars[i].matches("[data-lit]")).map(({kind}) => kind))]""")
        )
    assert {r for of_step in lit for r, _ in of_step} == {r}
    assert [len(of_step) for of_step in lit] == [len(row["draft"]), len(row["draft"]), 1, 1]
    assert passes == [["draft"], ["draft", "target"], [], []]  # a check has not begun as they guess
    assert lit[2:] == [[[r, "rejected"]], [[r, "correction"]]]
    assert pressed == [0, 1, 2, 3] and dropped == [True, True, True, False]
    assert counted == [f"{n} token{'s' * (n != 1)}" for n in written]
    assert wrong in said[0] and "in one pass" in said[1] and wrong in said[2] and instead in said[3]
    page.set_viewport_size({"width": 360, "height": 740})  # on one screen with the text
    top, text = page.locator("#guide").bounding_box(), page.locator(".lane").last.bounding_box()
    assert text["y"] + text["height"] - top["y"] < 640
    page.locator(".strip").nth(1).locator("i").first.dispatch_event("pointerenter")
    assert page.locator("#texts [data-lit]").count() == page.evaluate(
        "race.lanes[1].tokens.filter(({r}) => r === 0).length"
    )


def test_the_round_that_is_told_replaces_a_whole_word_by_another(saved):
    page, _ = saved(*RUNS["sampled"])
    told = page.evaluate("""() => {
        const item = (r, id, tokens) => ({r, i: tokens.length - 1, id, p: 0, q: 1, kind: "rejected",
            round: {draft: [0, 0, 0, 0], tokens}});
        Object.assign(words, [" the", " old", " wo", "lf", " came"]);
        const all = [item(0, 1, [0, 0, 2]), item(1, 1, [3, 4]), item(2, 0, [0])];
        return [tellingItem(all).r, tellingItem(all.slice(0, 1)).r];
    }""")
    assert told == [1, 0]


@pytest.mark.parametrize("temperature", [0, 1])
def test_the_race_says_why_both_texts_are_the_same_or_are_not(saved, temperature):
    page, result = saved("--temperature", temperature)
    page.locator("#tab-race").click()
    said = page.locator("#about-texts").inner_text()
    assert ("Both texts are the same, word for word" in said) == result["identical"]
    assert ("every word comes up exactly as often" in said) == (temperature == 1)
    alone, checks = page.evaluate(
        "[state.base.plain.seconds, state.base.rounds.map(round => round.seconds[1])]"
    )
    longer = median_high(checks) / median_high(alone)
    assert page.locator("#longer").inner_text() == f"{longer:.2f}\u00a0×"
    page.set_viewport_size({"width": 1000, "height": 800})
    about = page.locator("#about").bounding_box()
    assert about["y"] + about["height"] < 800
    # rounding can part two texts of the likeliest words
    page.evaluate("state.base.plain.tokens.pop(); state.base.settings.temperature = 0")
    page.evaluate("showRace(state.base)")
    said = page.locator("#about-texts").inner_text()
    assert "rounds differently" in said and "comes up" not in said


def test_the_first_screen_stays_where_it_is(live, monkeypatch):
    """From an empty race to the first run: nothing moves, but what is drawn anew."""
    monkeypatch.setitem(runs.FIELDS["n_tokens_to_generate"], "value", 30)  # the context has room
    page, served = live("race", viewport={"width": 1000, "height": 800})
    page.add_init_script("""window.shifts = []; new PerformanceObserver(list => {
        for (const entry of list.getEntries()) shifts.push(entry.value);
    }).observe({type: "layout-shift", buffered: true})""")
    questions = []  # held until the empty race was seen
    page.route("**/api/race", lambda route: questions.append(route))
    page.reload()
    assert page.locator(".strip").count() == 2 and page.evaluate("state.base === null")
    while not questions:
        page.wait_for_timeout(30)
    questions[0].continue_()
    wait_for(page, READY)
    assert page.evaluate("shifts.reduce((a, b) => a + b, 0)") < 0.1
    for part in ("#speedup", ".strip >> nth=1", "#guide", "#texts"):
        box = page.locator(part).bounding_box()
        assert box["y"] + box["height"] < 800, part


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
    assert page.locator(".verdict").inner_text() == "accepted guess"
    assert page.evaluate("[selected.r, selected.i]") == place
    assert page.evaluate("document.activeElement.id") == "coin"
    assert page.locator("#edits").is_visible() and page.locator("#text .parting").count() == 1
    page.locator("#original").click()
    assert page.evaluate("state.run === state.base") and page.locator("#edits").is_hidden()
    assert page.evaluate("Boolean(document.activeElement.closest('#text'))")


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
        [round.residual, residualAt({...round, residual: null}, round.accepted)])""")
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
    assert page.evaluate("scrollY") == 0  # its address names a view
    assert_in_words(page)
    page.locator("#tab-race").click()
    if name != "alone":
        for i, decoder in enumerate(("autoregressive", "speculative")):
            text = page.evaluate("text => plainly(text)", result[decoder]["text"])
            assert "".join(shown_in(page, i)).replace("·", "") == text.replace("\n", "⏎")
            read_out = page.locator(f".lane >> nth={i} >> .token:not([aria-hidden])")
            assert "".join(read_out.all_text_contents()) == "".join(shown_in(page, i))
    assert page.locator("#race-stage").is_hidden() == (name == "alone")
    assert page.locator("#controls").is_hidden() and page.locator("#save").is_hidden()


@pytest.mark.parametrize("temperature", [0, 1])
def test_the_microscope_speaks_of_coins_only_where_they_decide(saved, temperature):
    page, _ = saved("--temperature", temperature)
    for part in ("#drag", "#how-coins", "#rounds .meter"):
        assert page.locator(part).first.is_visible() == (temperature > 0)
    assert page.locator("#certain").is_visible() == (temperature == 0)


def test_a_click_on_a_token_opens_its_numbers(saved):
    page, _ = saved(*RUNS["sampled"])
    rows = enumerate(json.loads(page.locator("#data").text_content())["rounds"])
    r, row = next((r, row) for r, row in rows if 0 < row["accepted"] < row["examined"])
    shown = lambda x: page.evaluate("x => number(x)", x)
    chips = page.locator(".round").nth(r).locator("button")
    for i, verdict in ((0, "accepted guess"), (row["accepted"], "rejected guess")):
        chips.nth(i).click()
        p, q, u = map(shown, (row["p"][i], row["q"][i], row["coins"][i]))
        assert page.locator("#likely .chosen td.number").all_inner_texts()[:2] == [p, q]
        assert page.locator(".coin .u").inner_text() == f"u = {u}"
        because = page.locator("#because").inner_text()
        assert f"p = {p}" in because and f"q = {q}" in because
        assert page.locator(".verdict").inner_text() == verdict
        assert page.locator("#likely tbody tr").count() == len(row["likely"][i])
        assert page.locator("#residual").count() == (verdict == "rejected guess")
        meter, bar = (chips.nth(i).locator(part).bounding_box() for part in (".meter", ".meter i"))
        assert bar["x"] == meter["x"]
        assert bar["width"] == pytest.approx(
            min(1, row["p"][i] / row["q"][i]) * meter["width"], 0.02
        )
    chips.last.click()  # the correction: the same residual, and the token that came out of it
    assert page.locator(".verdict").inner_text() == "replacement"
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
    row = rule_comparison.distribution_row(QUICK)
    assert page.locator("#distance").inner_text() == f"{row['distance']:.4f}"
    assert page.locator("#errors").count() == (row["errors"] > 0)
    page.locator(".rule").first.click()
    assert page.locator("#distance").inner_text() == "0"
    page.locator(".rule").first.press("ArrowDown")
    assert page.evaluate("chosenRule === state.rules[1]")
    assert page.locator("#distance").inner_text() == "0"  # of the match rule


def test_shared_noise_shows_no_distance_that_was_not_computed(live, few_rules):
    page, _ = live("rules")
    page.locator(".rule", has_text="shared noise").click()
    assert page.locator("#distance").count() == 0
    assert "cannot be enumerated" in page.locator("#distribution-panel").inner_text()
    assert page.locator('[aria-checked="true"] .badge').inner_text() == "proved, not computed"


def test_a_rule_says_what_it_does_and_where_its_text_differs(live, few_rules):
    page, _ = live("rules")
    rows = page.evaluate("state.rules")
    for row in rows:
        page.evaluate(f"chooseRule(state.rules.find(row => row.name === {row['name']!r}))")
        shown = page.locator("#distribution").inner_text()
        assert row["what"][0].upper() + row["what"][1:] + "." in shown
        assert ("another text from here" in shown or "ends here" in shown) == (
            row["parts"] is not None
        )
    assert any(row["parts"] is not None for row in rows)
    groups = page.locator("#rule-list h3").all_inner_texts()
    assert [group.split()[0].strip(":") for group in groups] == ["Exact", "Mistakes"]


def test_rules_that_arrive_leave_the_focus_where_it_is(live, few_rules):
    page, _ = live("rules")
    page.evaluate(
        "window.all = state.rules; state.rules = all.slice(0, 3); put('rule-list'); showRules()"
    )
    page.locator(".rule").nth(1).focus()
    page.evaluate("state.rules = all; showRules()")
    assert page.locator(".rule").count() == len(FEW)
    assert page.evaluate("document.activeElement.row === state.rules[1]")


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
    assert ("large model alone is faster" in page.locator("#verdict").inner_text()) or h < 1
    assert page.locator("table.map td.here").count() == 1
    page.locator("#as-measured").click()
    assert page.evaluate("[knobs.a, document.activeElement.id]") == [None, "as-measured"]


def test_no_more_drafts_are_expected_than_there_are_heads(live, pair):
    settings, models = loaded(pair)
    draft = HeadDraft(toy_head(MEDUSA, models.target, np.float32))  # two heads
    page, _ = live("pays", (settings, replace(models, draft=draft)))
    assert page.evaluate("[standing(state.base).K, standing(state.base).by.length]") == [2, 2]


def test_a_fastest_K_is_named_only_where_the_turns_agree(live):
    page, _ = live("pays")
    for costs, says in (([0.01, 0.01], "Fastest: K = 8"), ([0.01, 0.9], "too noisy to tell")):
        v = [1 + 0.01 * k for k in range(9)]
        turns = [{"c": c, "v": v} for c in costs]
        measured = {"c": costs[0], "v": v, "turns": turns, "target_seconds": 1}
        page.evaluate(f"state.costs = {measured}; knobs.a = 0.9; showMoved()")
        assert says in page.locator("#verdict").inner_text()


def test_a_saved_run_without_costs_says_so(saved):
    page, _ = saved(*RUNS["sampled"], "--draft_confidence", 0.3, "--kernels", "plain")
    page.locator("#tab-pays").click()
    assert page.locator("#pays-stage").is_hidden()
    assert "without measured costs" in page.locator("#pays-lead").inner_text()
    assert "--draft_confidence 0.3" in page.locator("#command").inner_text()
    models = page.locator("#kernels li").all_text_contents()
    assert models == ["17M: plain", "0.7M-17M: plain"]


# ---------------------------------------------------------------- runs


def test_a_new_run_takes_the_place_of_the_old_and_an_error_is_one_line(live):
    page, _ = live()
    page.locator("#controls summary").click()
    page.locator("#controls [name=prompt]").fill(PROMPT)
    page.locator("#controls [name=n_tokens_to_generate]").fill("40")
    page.evaluate("askRace(); askRace()")
    wait_for(page, f"{READY} && state.base.figures.token_ids.length === 40")
    assert page.locator("#error").is_hidden()
    page.locator("#controls [name=prompt]").fill("x" * 100)
    page.locator("#run").click()
    wait_for(page, "document.getElementById('error').textContent")
    message = page.locator("#error").inner_text()
    assert "100 tokens" in message and "\n" not in message
    assert page.evaluate("state.base.figures.token_ids.length") == 40


def test_a_run_that_fails_or_comes_between_takes_nothing_from_the_one_before(live, few_rules):
    page, _ = live()
    page.evaluate("state.costs = null")
    page.locator("#controls [name=prompt]").fill("x" * 100)
    page.locator("#run").click()
    wait_for(page, "!asking && document.getElementById('error').textContent")
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
    write_atomically(paths[1], page_of(compute_saved_page(*loaded(pair), unheard)))
    kept = "[state.base.figures.token_ids, state.rules.map(row => row.tokens)]"
    for path in paths:
        assert path.stat().st_size < 400_000
        again = new_page(path.as_uri() + "#race")
        assert again.locator("#controls").is_hidden()
        assert again.locator("#chance").is_visible() == (path is paths[1])
        if path is paths[1]:
            again.get_by_role("button", name="drawn by chance").click()
        assert again.evaluate(kept) == page.evaluate(kept)
        assert again.evaluate("state.rules.length") == len(FEW)
        assert_in_words(again)
    # of the command's two runs, one has random words; the costs and rules are those of both
    again.locator("#tab-microscope").click()
    assert again.locator("#chance").is_visible()
    again.locator("#tab-race").click()
    again.set_viewport_size({"width": 360, "height": 740})
    places = []
    for name, temperature in (("the likeliest", 0), ("drawn by chance", 0.8)):
        button = again.get_by_role("button", name=name)
        button.click()
        assert again.evaluate("state.base.settings.temperature") == temperature
        assert button.get_attribute("aria-pressed") == "true"
        places.append(
            [part.bounding_box() for part in (button.locator(".."), again.locator("#texts"))]
        )
        assert again.evaluate("state.rules.length") == len(FEW)
    for before, after in zip(*places):  # nothing jumps
        assert after == pytest.approx(before, abs=0.5)
    assert_in_words(again)


# ---------------------------------------------------------------- for everybody


@pytest.mark.parametrize("width, scheme", [(1400, "light"), (800, "dark"), (360, "light")])
def test_everybody_can_read_every_view(live, few_rules, width, scheme):
    page, _ = live("rules", color_scheme=scheme, viewport={"width": width, "height": 800})
    page.evaluate("chooseRule(state.rules.at(-1))")
    for view in VIEWS:
        tab = page.locator(f"#tab-{view}")
        tab.click()
        assert tab.bounding_box()["x"] + tab.bounding_box()["width"] <= width
        assert page.locator(".tabs").bounding_box()["height"] < 50  # one line
        assert_readable(page, scheme)
    page.locator("#tab-race").click()
    last_bar = page.locator(".strip").last
    assert last_bar.evaluate("e => scrollY + e.getBoundingClientRect().bottom") < 800
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


def test_every_slider_has_a_name(live):
    page, _ = live("pays")
    for name in ("a: a guess is accepted", "c: the small", "v: the large", "K: guesses"):
        assert page.get_by_role("slider", name=name).count() == 1
    page.locator("#tab-race").click()
    for name in ("Time since", "Slowed"):
        assert page.get_by_role("slider", name=name).count() == 1


def test_every_view_opens_at_its_top(saved):
    page, _ = saved(*RUNS["sampled"])
    for view in ("race", "pays", "microscope"):
        page.evaluate("scrollTo(0, 520)")
        page.locator(f"#tab-{view}").click()
        assert page.locator("#views").bounding_box()["y"] >= -1
        assert page.locator(f"#{view} .lead:visible, #{view} .card").first.is_visible()


def test_bars_keep_their_colours_where_colours_are_forced(saved):
    page, _ = saved(*RUNS["sampled"])
    bars = ".strip i, .swatch, .coin i, .meter i"
    colours = f"[...document.querySelectorAll('{bars}')].map(e => getComputedStyle(e).background)"
    plain = page.evaluate(colours)
    page.emulate_media(forced_colors="active")
    assert page.evaluate(colours) == plain and len({*plain}) > 5
    # underlined is what the large model writes itself, and nothing else
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    for kind, is_own in (("correction", True), ("draft", False)):
        line = page.locator(f"#text .{kind}").first.evaluate(
            "e => getComputedStyle(e).borderBottomColor"
        )
        assert (line != ground) == is_own


def test_the_sheet_hides_no_token_that_has_the_focus_and_folds(saved):
    page, _ = saved(*RUNS["sampled"])
    page.set_viewport_size({"width": 360, "height": 800})
    for group in ("text", "rounds"):
        page.locator(f'#{group} button[tabindex="0"]').focus()
        page.keyboard.press("Home")
        for _ in range(25):
            page.keyboard.press("ArrowRight")
            token = page.evaluate("document.activeElement.getBoundingClientRect().bottom")
            assert token <= page.locator("#panel").bounding_box()["y"] + 1
    page.locator("#panel summary").focus()
    page.keyboard.press("Enter")
    assert page.locator("#panel").bounding_box()["height"] < 80


def test_two_characters_make_a_target_that_can_be_touched(saved):
    page, _ = saved(*RUNS["sampled"])
    boxes = [chip.bounding_box() for chip in page.locator("#rounds .chip").all()]
    assert min(box["width"] for box in boxes) >= 24 <= min(box["height"] for box in boxes)


def test_hidden_characters_are_shown_and_a_text_runs_its_own_way(saved):
    hebrew = "שלום עולם"
    page, _ = saved("--prompt", hebrew + "\u202e x\u200b\U000e0041", "--temperature", 1)
    page.locator("#tab-race").click()
    lane = page.locator(".lane .written").first
    assert lane.inner_text().startswith(hebrew + "[U+202E] x[U+200B][U+E0041]")
    assert lane.evaluate("e => getComputedStyle(e).direction") == "rtl"
    for shown in (page.locator("#views").inner_text(), page.locator("#command").inner_text()):
        assert "\u202e" not in shown
    assert "--prompt_ids" in page.locator("#command").inner_text()


def test_a_long_prompt_leaves_both_texts_in_sight_and_says_where_its_context_ends(live):
    page, _ = live(viewport={"width": 1000, "height": 900})
    assert page.locator("#cut").is_visible() == page.evaluate("state.base.room < 48")
    page.locator("#controls [name=prompt]").fill("a\n" * 20)
    page.evaluate("window.before = state.base")
    page.locator("#controls [name=prompt]").press("Control+Enter")
    wait_for(page, f"{READY} && state.base !== window.before")
    page.evaluate("showMoment(race.length)")
    room, n = page.evaluate("[state.base.room, state.base.figures.token_ids.length]")
    assert n == room < 48
    said = page.locator("#cut").inner_text()
    assert f"room for {room} of the 48 tokens" in said
    for lane in page.locator(".lane .written").all():
        box, last = lane.bounding_box(), lane.locator(".token:visible").last.bounding_box()
        assert box["y"] <= last["y"] and last["y"] + last["height"] <= box["y"] + box["height"] + 3
        assert last["y"] + last["height"] < 900


def test_the_keyboard_reaches_everything(live, few_rules):
    page, _ = live("rules")
    wanted = {
        "race": {"run", "save", "tab-race", "play", "slow", "clock", "copy"},
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
            assert page.evaluate("""(e => !e || getComputedStyle(e).outline.includes("solid 3px"))(
                document.querySelector(":focus-visible"))""")
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
