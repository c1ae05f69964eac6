"""The page in a headless browser: its numbers are those of the run, and everybody can use it."""

import re
from statistics import median

import numpy as np
import pytest
from browsers import assert_readable, wait_for
from live import RUNS, SETTINGS, racer
from pytest import approx

from decoding.theory import speedup

pytestmark = pytest.mark.browser

READY = "Boolean(state.base && !asking)"
WIDTHS = (320, 360, 768, 1440)
TURNS = "state.base.turns.map(([alone, draft, rest]) => alone / (draft + rest))"


@pytest.fixture
def saved(new_page, written):
    """A function (hash, options, **settings) -> a saved page of a race of these settings."""

    def call(options={}, **settings):
        path, _ = written(**settings)
        return new_page(path.as_uri(), **({"reduced_motion": "reduce"} | options))

    return call


@pytest.fixture
def live(new_page, serve, pair):
    """A function (options, **settings) -> (page, server) of the tiny pair, after a first run."""

    def call(options={}, **settings):
        served = serve(racer(pair, SETTINGS), **settings)
        page = new_page(served.server.address, **({"reduced_motion": "reduce"} | options))
        wait_for(page, READY)
        return page, served

    return call


def in_words(page):
    """The page's text, which never shows what a missing number looks like."""
    page.evaluate("$('deeper').open = true")
    text = page.locator("main").inner_text()
    assert len(text) > 500 and not re.search("NaN|undefined|Infinity", text)
    return text


def step(page, i):
    page.locator("#guide button").nth(i).click()


# ---------------------------------------------------------------- one round, step by step


def test_the_page_opens_on_a_paused_round_and_a_question(saved):
    page = saved({"reduced_motion": "no-preference"})
    page.wait_for_timeout(200)
    assert page.locator("#question").inner_text() == "What happens next?"
    assert page.evaluate("!race.playing && race.time === 0")
    assert page.locator("#lanes-pane").is_hidden()
    # one button stands out: the next step
    assert page.locator("button.primary:visible").all_inner_texts()[0] == "2 Check"


@pytest.mark.parametrize("name", ["likeliest", "sampled", "coupled", "ngram"])
def test_a_round_is_guessed_checked_rejected_replaced_one_click_each(saved, name):
    page = saved(**RUNS[name])
    row = page.evaluate("toldRound(state.base).round")
    n, accepted = len(row["draft"]), row["accepted"]
    seen = []
    for i in range(4):
        step(page, i)
        pressed = page.locator("#guide [aria-pressed=true]").all_inner_texts()
        assert pressed == [["1 Guess", "2 Check", "3 Reject", "4 Replace"][i]]
        marks = (
            "guess .ghost",
            "guess .draft",
            "guess .rejected",
            "slot .draft",
            "slot .correction",
        )
        seen.append([page.locator(f"#line .{mark}").count() for mark in marks])
        assert page.locator("#round-train .together .mark").count() == n + 1
        # alone, a token rides in each pass; the next is not known before it has ended
        passes = page.evaluate("one.bars.length - 1")
        assert page.locator("#round-train .alone .mark").count() == passes
        assert page.locator("#round-train .of-draft:not(.swatch)").count() == n
    rejected = int(accepted < row["examined"])
    assert seen[0] == seen[1] == [n, 0, 0, 0, 0]
    assert seen[2] == [0, accepted, rejected, accepted, 0]
    assert seen[3] == [0, accepted, rejected, accepted, rejected]
    gains = page.locator("#round-train .gain").all_inner_texts()
    turn = page.evaluate(
        "[medianOf(turnsOf(state.base), 'c'), medianOf(turnsOf(state.base), 'extra')]"
    )
    assert gains == [f"+{len(row['tokens'])}", f"+{int(1 + n * sum(turn))}"]
    assert (
        page.locator("#question").inner_text().startswith(f"One pass, {len(row['tokens'])} token")
    )


def test_in_the_check_the_weights_stream_in_once_for_all_and_once_for_one(saved):
    page = saved({"reduced_motion": "no-preference"})
    widths = "one.bars.slice(0, 2).map(bar => parseFloat(bar.read.style.width))"
    step(page, 1)
    wait_for(page, f"{widths}[0] > 5")
    together, alone = page.evaluate(widths)
    assert 0 < together <= alone  # a pass for one token takes no longer
    assert page.locator("#line .answer").nth(1).inner_text() == ""
    wait_for(page, f"{widths}[0] === 100")
    assert page.locator("#line .answer").nth(1).inner_text() != ""


def test_after_the_last_step_the_race_starts_by_itself_once(saved):
    page = saved({"reduced_motion": "no-preference"})
    for i in range(4):
        step(page, i)
    assert page.locator("button.primary:visible").first.inner_text() == "Race"
    assert "press Race, or wait 12 seconds" in page.locator("#says").inner_text()
    page.locator("#slow").evaluate("e => { e.value = 0 }")
    wait_for(page, "!$('lanes-pane').hidden && race.time === race.length")
    assert page.evaluate("!race.playing")
    assert page.locator("#play").inner_text() == "Again"


def test_the_round_that_is_told_replaces_a_whole_word_by_another(saved):
    told = saved().evaluate("""() => {
        const item = (r, id, tokens) => ({r, i: tokens.length - 1, id, p: 0, q: 1, kind: "rejected",
            round: {draft: [0, 0, 0, 0], tokens}});
        Object.assign(words, [" the", " old", " wo", "lf", " came"]);
        const all = [item(0, 1, [0, 0, 2]), item(1, 1, [3, 4]), item(2, 0, [0])];
        return [tellingItem(all).r, tellingItem(all.slice(0, 1)).r];
    }""")
    assert told == [1, 0]


# ---------------------------------------------------------------- the race


@pytest.mark.parametrize("name", RUNS)
def test_a_race_ends_with_both_texts_and_what_each_pass_brought(saved, name):
    page = saved(**RUNS[name])
    page.locator("#play").click()  # without motion, this is the end
    rounds, alone, prompt = page.evaluate(
        "[state.base.rounds, state.base.alone, state.base.prompt]"
    )
    gains = page.evaluate(
        "race.lanes.map(lane => lane.gains.map(({element}) => element.textContent))"
    )
    assert gains[0] == ["+1"] * len(alone["tokens"])
    assert gains[1] == [f"+{len(one['tokens'])}" for one in rounds]
    shown = [alone["shown"], [text for one in rounds for text in one["shown"]]]
    for i, texts in enumerate(shown):
        # what is dropped is not read out
        read_out = page.locator(
            f".lane >> nth={i} >> .token:not([aria-hidden])"
        ).all_text_contents()
        expected = page.evaluate("text => plainly(text)", "".join(texts)).replace("\n", "⏎")
        assert "".join(read_out).replace("·", "") == expected
        dots = page.locator(f".lane >> nth={i} >> .gains i")
        assert dots.count() == len(texts)
    counts = page.locator(".lane .row .soft").all_inner_texts()
    assert [int(count.split()[0]) for count in counts] == [len(texts) for texts in shown]
    ends = page.evaluate("race.lanes.map(lane => lane.end)")
    seconds = sum(alone["seconds"]), sum(sum(one["seconds"]) for one in rounds)
    assert ends == approx(seconds)
    in_words(page)


def test_rejected_guesses_stand_above_the_line(saved):
    page = saved(temperature=1.0)
    page.locator("#play").click()
    for group in ("#lanes", "#text"):
        rejected = page.locator(f"{group} .over .rejected")
        assert rejected.count() == page.locator(f"{group} .rejected").count() > 0
        for i in range(rejected.count()):
            above = rejected.nth(i).bounding_box()
            below = page.locator(f"{group} .over .correction").nth(i).bounding_box()
            assert above["y"] + above["height"] <= below["y"] + 4


def test_guesses_stand_in_the_order_of_reading_until_their_pass_ends(saved):
    page = saved(temperature=1.0)
    page.locator("#play").click()
    r, row = next(
        (r, row)
        for r, row in enumerate(page.evaluate("state.base.rounds"))
        if row["accepted"] < row["examined"] < len(row["draft"])
    )
    page.evaluate(f"""showMoment(race.lanes[1].passes.filter(
        ({{kind}}) => kind === "target")[{r}].end * .9999)""")
    # a rejected guess stands like the others, and what replaces it takes no place
    places = page.locator("#lanes .ghost:visible .mark").evaluate_all(
        "all => all.map(e => [e.textContent, e.getBoundingClientRect()])"
    )
    guesses = page.evaluate("ids => ids.map(id => plainly(words[id]).trim())", row["draft"])
    assert [text.strip() for text, _ in places] == guesses
    assert len({box["height"] for _, box in places}) == 1
    assert page.locator("#lanes .over.open .correction:visible").count() == 0
    page.evaluate("showMoment(race.length)")
    assert page.locator("#lanes .over.open").count() == 0


def test_the_race_is_paused_slowed_and_moved(saved):
    page = saved({"reduced_motion": "no-preference"})
    page.locator("#play").click()
    page.locator("#slow").press("End")
    wait_for(page, "race.playing && race.time > 0")
    page.locator("#play").click()
    time = page.evaluate("race.time")
    page.wait_for_timeout(100)
    assert page.evaluate("race.time") == time and page.locator("#play").inner_text() == "Go on"
    page.locator("#clock").press("Home")
    written = """race.lanes.map(lane => lane.spans.filter(e => !e.hidden
        && !e.matches(".ghost, .rejected, .unexamined")).length)"""
    assert page.evaluate(written) == [0, 0]
    # guesses show as such until their pass ends
    drafted, tokens, first = page.evaluate("""[state.base.rounds[0].draft.length,
        state.base.rounds[0].tokens.length, race.lanes[1].passes]""")
    page.evaluate(f"showMoment({first[drafted - 1]['end']})")
    assert page.locator("#lanes .token.ghost:visible").count() == drafted
    assert page.evaluate(written)[1] == 0
    page.evaluate(f"showMoment({first[drafted]['end']})")
    assert page.evaluate(written)[1] == tokens
    page.locator("#clock").press("End")
    assert page.evaluate("race.time === race.length")
    page.locator("#slow").press("Home")
    assert page.locator("#slow-now").inner_text() == "1 ×"


def test_the_headline_is_the_median_of_the_turns_with_their_range(saved):
    page = saved()
    speedups = page.evaluate(TURNS)
    assert len(speedups) == 5
    shown = [median(speedups), min(speedups), max(speedups)]
    numbers = re.findall(r"\d+\.\d+", page.locator("#speedup").inner_text())
    assert [float(number) for number in numbers] == approx(shown, abs=0.006)
    # a pass with guesses takes one figure, wherever it is told
    step(page, 1)
    longer = page.locator("#longer").inner_text()
    assert longer in page.locator("#says").inner_text()
    assert page.evaluate("(1 + 4 * medianOf(turnsOf(state.base), 'extra')).toFixed(2)") in longer


def test_the_page_says_why_both_texts_are_the_same_or_are_not(saved):
    page = saved()
    why = lambda: page.locator("#about").inner_text()
    assert "a guess stays only where" in why() and "As much is cut off as is missing" in why()
    page.locator("#play").click()
    below = lambda: page.locator("#compare").inner_text()
    assert "the same text, word for word" in below()
    # rounding can part two texts of the likeliest words
    page.evaluate("state.base.alone.tokens.pop(); showRace(state.base)")
    assert "rounds differently" in below()
    # drawn by chance, the odds are the same, and the top line says so
    assert page.locator("#same").inner_text() == "Same text, sooner."
    page.get_by_role("button", name="drawn by chance").click()
    assert "same odds in both" in below()  # the race stays in sight
    assert page.locator("#same").inner_text() == "Same odds for every word, sooner."


def test_the_other_way_to_choose_words_is_one_click_away_and_moves_nothing(saved):
    page = saved({"viewport": {"width": 360, "height": 740}})
    places = []
    for name, chance in (("drawn by chance", True), ("the likeliest", False)):
        button = page.get_by_role("button", name=name, exact=True)
        button.click()
        assert page.evaluate("isByChance(state.base)") == chance
        assert button.get_attribute("aria-pressed") == "true"
        assert page.locator("#question").inner_text() == "What happens next?"
        places.append(page.evaluate("$('chance').offsetTop - $('stage').offsetTop"))
        assert page.evaluate("isByChance(state.run)")  # the microscope stays
    assert places[0] == places[1]


# ---------------------------------------------------------------- the microscope


@pytest.mark.parametrize("name", RUNS)
def test_every_decision_of_every_run_opens(saved, name):
    page = saved(**RUNS[name])
    rounds = page.evaluate("state.run.rounds")
    decisions = sum(len(one["draft"][: one["examined"]]) for one in rounds)
    own = sum(len(one["tokens"]) > one["accepted"] for one in rounds)
    assert page.evaluate("items.length") == decisions + own
    assert page.locator("#text button").count() == decisions + own
    panels = page.evaluate("items.map(item => { select(item); return $('decision').innerText; })")
    assert len({*panels}) == len(panels)
    assert not re.search("NaN|undefined|Infinity|null", "".join(panels))


def test_a_run_of_the_likeliest_words_has_its_microscope_on_words_drawn_by_chance(saved):
    page = saved()
    p, q = page.evaluate("[selected.p, selected.q]")
    assert 0 < p < q < 1 and page.evaluate("selected.kind") == "rejected"
    assert page.evaluate("!isByChance(state.base) && isByChance(state.run)")


def test_a_click_on_a_token_opens_its_numbers(saved):
    page = saved({"viewport": {"width": 1440, "height": 900}}, temperature=1.0)
    rows = page.evaluate("state.run.rounds")
    r, row = next((r, row) for r, row in enumerate(rows) if 0 < row["accepted"] < row["examined"])
    number, percent = (
        lambda x, f=f: page.evaluate(f"x => {f}(x)", x) for f in ("number", "percent")
    )
    for i, verdict in ((0, "accepted guess"), (row["accepted"], "rejected guess")):
        at = page.evaluate(f"items.findIndex(item => item.r === {r} && item.i === {i})")
        page.locator("#text button").nth(at).click()
        p, q, u = row["p"][i], row["q"][i], row["coins"][i]
        shown = page.locator("#likely .chosen td.number").all_inner_texts()
        assert shown == [percent(p), percent(q)]
        assert page.locator(".coin .u").inner_text() == f"roll {number(u)}"
        because = page.locator("#because").inner_text()
        assert f"p = {number(p)}" in because and f"q = {number(q)}" in because
        assert page.locator(".verdict").inner_text() == verdict
        assert page.locator("#likely tbody tr").count() >= len(row["likely"][i])


@pytest.mark.parametrize("kind", ["draft", "rejected", "correction"])
def test_the_areas_of_the_picture_are_those_of_p_and_q(saved, kind):
    """As they are drawn, in fractions of the picture: of each token, how wide and where."""
    page = saved({"viewport": {"width": 1440, "height": 900}}, temperature=1.0)
    page.evaluate(f"select(items.find(item => item.kind === '{kind}'))")
    drawn = page.evaluate("""[...$("more").querySelectorAll("rect:not(.drawn)")].map(rect =>
        [rect.classList[0], ...["y", "x", "width"].map(name => rect[name].baseVal.value
            / $("more").querySelector("svg")[name === "y" ? "clientHeight" : "clientWidth"])])""")
    rows = page.evaluate("rowsAt(selected.round, selected.i)")
    likely = page.evaluate("selected.round.likely[selected.i]")
    overlap = page.evaluate("selected.round.overlap[selected.i]")
    assert [[row["id"], row["p"], row["q"]] for row in rows if row["id"] is not None] == sorted(
        likely, key=lambda row: row[1] - row[2]
    )
    for name, total in (("p", 1), ("q", 1), ("both", overlap)):
        assert sum(row[name] for row in rows) == approx(total, abs=2e-3)
    most, expected = 1.08 * max(max(row["p"], row["q"]) for row in rows), []
    for i, row in enumerate(rows):
        p, q, both = row["p"], row["q"], row["both"]
        for name, low, high in (
            ("accepted", 0, both),
            ("rejected", both, q),
            ("residual", both, p),
        ):
            expected += [(name, (i + 0.1) / len(rows), low / most, (high - low) / most)] * (
                high > low
            )
    assert [row[0] for row in drawn] == [row[0] for row in expected]
    for (_, *found), (_, *right) in zip(drawn, expected):
        assert found == approx(right, abs=0.01)
    picture = page.locator(".areas").bounding_box()
    assert picture["width"] > 800  # the main figure
    # what is cut off and what is missing, each end to end: they are equally long
    if kind != "correction":
        totals = page.locator(".pieces").evaluate_all("""all => all.map(row =>
            sum([...row.querySelectorAll("i")].map(e => e.getBoundingClientRect().width)))""")
        assert totals == approx(
            [(1 - overlap) / max(most, 1.3 * (1 - overlap)) * picture["width"]] * 2, rel=0.02
        )


@pytest.mark.parametrize("width", [360, 1440])
def test_a_thousand_draws_by_the_rule_fill_up_to_p(saved, width):
    page = saved({"viewport": {"width": width, "height": 900}}, temperature=1.0)
    page.evaluate("select(items.find(item => item.kind === 'rejected'))")
    page.locator("#draws").click()  # without motion, all at once
    rows = page.evaluate("rowsAt(selected.round, selected.i)")
    most = 1.08 * max(max(row["p"], row["q"]) for row in rows)
    drawn = page.evaluate("""["accepted", "residual"].map(kind =>
        [...document.querySelectorAll("rect.drawn." + kind)].map(rect =>
            parseFloat(rect.getAttribute("width")) / 100))""")
    for row, accepted, replaced in zip(rows, *(np.array(widths) * most for widths in drawn)):
        spread = 5 * (0.25 / 1000) ** 0.5  # five standard deviations, at most
        assert accepted == approx(row["both"], abs=spread)
        assert replaced == approx(row["over"], abs=spread)
    assert sum(map(sum, drawn)) * most == approx(1, abs=2e-3)
    said = page.locator("#drawn").inner_text()
    assert said.startswith("1000 draws") and "close to p" in said
    assert page.locator(".areas").bounding_box()["width"] > width / 2


def test_the_draws_begin_slowly_and_from_the_race_they_are_one_click_away(saved):
    page = saved({"reduced_motion": "no-preference"})
    page.locator("#to-draws").click()
    wait_for(page, "Boolean(/^[0-9]+ draws?/.exec($('drawn').innerText))")
    assert "guessed and" in page.locator("#drawn").inner_text()
    assert int(page.locator("#drawn b").first.inner_text().split()[0]) < 500
    assert page.evaluate("document.activeElement.id") == "draws"
    box = page.locator("#microscope").bounding_box()
    assert box["y"] < 300


@pytest.mark.parametrize("name", ["block", "coupled"])
def test_draws_are_shown_only_for_the_rule_that_they_follow(saved, name):
    page = saved(**RUNS[name])
    page.evaluate("select(items.find(item => item.kind === 'rejected') || items[0])")
    assert page.locator("#draws").count() == 0 and page.locator("#coin").count() == 0


def test_the_coin_says_what_would_have_happened(saved):
    page = saved(temperature=1.0)
    would = lambda: page.locator("#would").inner_text()
    page.evaluate("select(items.find(item => item.kind === 'rejected'))")
    page.locator("#coin").press("Home")
    assert would().startswith("Below p/q: accepted.") and "examined" in would()
    page.locator("#coin").press("End")
    assert would().startswith("Not below p/q: rejected.") and "stays as it is" in would()
    # read out: what fell, not the nearest step of the slider
    fell = "coinSlider({u: .7996, ratio: .7999, kind: 'draft'})[0].querySelector('input')"
    assert page.evaluate(fell + ".getAttribute('aria-valuetext')") == "0.800, accepted"


# ---------------------------------------------------------------- when does it pay


def test_the_expected_speedup_is_that_of_the_theory(saved):
    page = saved(temperature=1.0)
    page.evaluate("$('deeper').open = true")
    a, c, extra = page.evaluate("""(({a, c, extra}) => [a, c, extra])(standing(state.base))""")
    rounds, turns = page.evaluate("[state.base.rounds, state.base.turns]")
    examined = sum(one["examined"] for one in rounds)
    drafted = sum(len(one["draft"]) for one in rounds)
    assert a == sum(one["accepted"] for one in rounds) / examined
    one_pass = [alone / 30 for alone, _, _ in turns]
    costs = [draft / drafted / one for (_, draft, _), one in zip(turns, one_pass)]
    more = [
        max(0, (rest / one - len(rounds)) / drafted) for (_, _, rest), one in zip(turns, one_pass)
    ]
    assert (c, extra) == approx((median(costs), median(more)))
    for K in (1, 4, 8):
        found = page.evaluate(f"knobs.K = {K}, showMoved(), standing(state.base).by[{K - 1}]")
        assert found == approx(speedup(a, K, c, 1 + K * extra))
    page.locator("#knob-a").press("Home")
    assert "large model alone is faster" in page.locator("#verdict").inner_text()
    assert page.locator("table.map td.here").count() == 1
    page.locator("#as-measured").click()
    assert page.evaluate("[knobs.a, document.activeElement.id]") == [None, "as-measured"]


# ---------------------------------------------------------------- the live page


def test_the_first_turn_is_there_at_once_and_the_headline_when_all_are(new_page, serve, pair):
    import threading

    go_on, run = threading.Event(), racer(pair, SETTINGS)

    def slow(settings, tell):
        def tell_and_wait(**line):
            tell(**line)
            if "row" in line:
                go_on.wait(30)

        return run(settings, tell_and_wait)

    page = new_page(serve(slow).server.address, reduced_motion="reduce")
    wait_for(page, "Boolean(state.base)")
    assert page.locator("#speedup b").inner_text() == "…" and page.evaluate("asking !== null")
    assert page.locator("#microscope").is_hidden()  # of words drawn by chance, there are none yet
    step(page, 2)  # the round is there to be read
    assert page.locator("#line .slot .draft").count() == page.evaluate(
        "toldRound(state.base).round.accepted"
    )
    question = page.locator("#question").inner_text()
    go_on.set()
    wait_for(page, READY)
    assert "×" in page.locator("#speedup b").inner_text()
    assert page.locator("#question").inner_text() == question  # the reader is not disturbed
    assert page.locator("#microscope").is_visible()


def test_a_new_run_takes_the_place_of_the_old_and_an_error_leaves_it_stand_still(live):
    page, _ = live()
    page.evaluate("askRace(); askRace()")
    page.locator("#controls summary").click()
    page.locator("#controls [name=n_tokens_to_generate]").fill("40")
    page.evaluate("window.before = state.base")
    page.locator("#controls [name=prompt]").press("Control+Enter")
    wait_for(page, f"{READY} && state.base !== window.before && tokensOf(state.base).length === 40")
    page.locator("#controls [name=prompt]").fill("x" * 100)
    page.locator("#play").click()
    page.locator("#run").click()
    wait_for(page, "Boolean($('error').textContent)")
    message = page.locator("#error").inner_text()
    assert "100 tokens" in message and "Below is still the run of “hello there”" in message
    assert page.evaluate("!race.playing && tokensOf(state.base).length === 40")
    assert in_words(page)


def test_a_prompt_that_is_too_long_is_not_cut(live):
    page, _ = live()
    page.locator("#controls [name=prompt]").fill("a" * 4001)
    assert len(page.locator("#controls [name=prompt]").input_value()) == 4001
    page.locator("#run").click()
    said = page.evaluate("$('controls').prompt.validationMessage")
    assert "4000" in said and "4001" in said and page.evaluate("asking === null")


def test_a_run_saved_in_the_browser_needs_no_server(live, new_page, tmp_path):
    page, served = live()
    with page.expect_download() as download:
        page.locator("#save").click()
    path = tmp_path / "run.html"
    download.value.save_as(path)
    assert served.token not in path.read_text(encoding="utf-8")
    again = new_page(path.as_uri())
    assert again.locator("#controls").is_hidden() and again.locator("#save").is_hidden()
    kept = "[state.base, state.run].map(tokensOf)"
    assert again.evaluate(kept) == page.evaluate(kept)
    in_words(again)


def test_the_text_says_where_its_context_ends(live):
    page, _ = live(prompt="a\n" * 25, n_tokens_to_generate=48)
    room, n = page.evaluate("[state.base.room, tokensOf(state.base).length]")
    assert n == room < 48
    assert f"room for {room} of the 48 tokens" in page.locator("#cut").inner_text()


# ---------------------------------------------------------------- for everybody

SHIFTS = """window.shifts = []; new PerformanceObserver(list => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput) shifts.push(entry.value);
}).observe({type: "layout-shift", buffered: true})"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_everybody_can_read_every_state(saved, width, scheme):
    viewport = {"width": width, "height": 800}
    page = saved({"color_scheme": scheme, "viewport": viewport}, temperature=1.0)
    for i in range(4):
        step(page, i)
        page.wait_for_timeout(150)
        assert_readable(page, scheme)
    page.evaluate("play(), pause(), showMoment(race.length / 2)")
    assert_readable(page, scheme)
    page.evaluate("showMoment(race.length); $('deeper').open = true")
    for kind in ("draft", "rejected", "correction"):
        page.evaluate(f"select(items.find(item => item.kind === '{kind}') || items[0])")
        assert_readable(page, scheme)
    page.evaluate("select(items.find(item => item.kind === 'rejected'))")
    page.locator("#knob-a").press("Home")
    assert_readable(page, scheme)
    # headings go down one level at a time
    levels = page.evaluate("""[...document.querySelectorAll("h1, h2, h3")]
        .filter(e => e.checkVisibility()).map(e => Number(e.tagName[1]))""")
    assert levels[0] == 1 and all(b - a <= 1 for a, b in zip(levels, levels[1:]))
    assert all(page.locator("th").evaluate_all("all => all.map(e => e.textContent !== '')"))


@pytest.mark.parametrize("width", [360, 1440])
def test_nothing_jumps_from_the_first_screen_to_the_end_of_the_race(live, width):
    page, _ = live({"viewport": {"width": width, "height": 800}, "reduced_motion": "no-preference"})
    page.add_init_script(SHIFTS)
    page.reload()
    wait_for(page, READY)
    for i in range(4):
        step(page, i)
    page.locator("#slow").evaluate("e => { e.value = 0.5 }")
    wait_for(page, "race.time > 0 && !race.playing")
    assert page.evaluate("shifts.reduce((a, b) => a + b, 0)") < 0.1


def test_all_of_a_round_is_on_the_first_screen(saved):
    page = saved({"viewport": {"width": 1000, "height": 800}})
    box = page.locator("#round-train").bounding_box()
    assert box["y"] + box["height"] < 800
    page.locator("#play").click()
    box = page.locator("#lanes").bounding_box()
    assert box["y"] + box["height"] < 800


def test_bars_keep_their_colours_where_colours_are_forced(saved):
    page = saved(temperature=1.0)
    page.locator("#play").click()
    bars = ".strip i, .swatch, .coin i, .read"
    colours = f"[...document.querySelectorAll('{bars}')].map(e => getComputedStyle(e).background)"
    plain = page.evaluate(colours)
    page.emulate_media(forced_colors="active")
    assert page.evaluate(colours) == plain and len({*plain}) > 5
    # underlined is what the large model writes itself, and nothing else
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    for kind, is_own in (("correction", True), ("draft", False), ("rejected", False)):
        for group in (f"#text .{kind}", f"#lanes .together .{kind} .mark"):
            line = page.locator(group).first.evaluate("e => getComputedStyle(e).borderBottomColor")
            assert (line != ground) == is_own


def test_links_to_the_repository_show_where_its_address_is_filled_in(new_page, written):
    path, _ = written()
    links = lambda: page.locator("#links a:visible").all_inner_texts()
    page = new_page(path.as_uri())
    assert links() == ["Microscope", "Paper"]
    published = path.with_name("published.html")
    published.write_text(path.read_text().replace("OWNER/REPOSITORY", "you/name"))
    page = new_page(published.as_uri())
    assert links() == ["Microscope", "Code", "Docs", "Paper"]


def test_each_colour_has_one_meaning(saved):
    """Accepted is green and a correction red, on bars, in texts and in the thousand draws."""
    page = saved(temperature=1.0)
    page.locator("#play").click()
    page.locator("#draws").click()
    of = lambda selector, name: page.locator(selector).first.evaluate(
        f"e => getComputedStyle(e).{name}"
    )
    for kind, area in (("draft", "accepted"), ("correction", "residual")):
        colour = of(f"#text .{kind}", "color")
        assert of(f".gains .{kind}", "backgroundColor") == colour
        assert of(f"#lanes .{kind} .mark", "color") == colour
        assert of(f"rect.drawn.{area}", "fill") == colour
    red = of("#text .correction", "color")
    rejected = page.locator(".rejected").evaluate_all(
        "all => all.map(e => getComputedStyle(e).color)"
    )
    assert red not in rejected


def test_hidden_characters_are_shown_and_a_text_runs_its_own_way(saved):
    hebrew = "שלום עולם"
    page = saved(prompt=hebrew + "\u202e x\u200b\U000e0041", temperature=1.0)
    page.locator("#play").click()
    lane = page.locator(".lane .written").first
    assert lane.inner_text().startswith(hebrew + "[U+202E] x[U+200B][U+E0041]")
    assert lane.evaluate("e => getComputedStyle(e).direction") == "rtl"
    assert "\u202e" not in in_words(page)


def test_the_keyboard_reaches_everything(live):
    page, _ = live(temperature=1.0)
    page.evaluate("play(); $('deeper').open = true")
    page.evaluate("select(items.find(item => item.kind === 'rejected'))")
    wanted = {
        "run",
        "save",
        "play",
        "slow",
        "clock",
        "to-draws",
        "before",
        "after",
        "draws",
        "coin",
    }
    wanted |= {"knob-a", "knob-c", "knob-v", "knob-K", "as-measured", "command", "copy"}
    seen = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.id"))
        assert page.evaluate("""(e => !e || getComputedStyle(e).outline.includes("solid 3px"))(
            document.querySelector(":focus-visible"))""")
    assert wanted <= seen, wanted - seen


def test_the_arrow_keys_go_from_token_to_token(saved):
    page = saved(temperature=1.0)
    heading = lambda: page.locator("#h-panel").inner_text()
    stop = page.locator('#text button[tabindex="0"]')
    assert stop.count() == 1  # of the tab key, for all tokens
    stop.focus()
    for key, decision in (("Home", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("ArrowLeft", 1)):
        page.keyboard.press(key)
        assert heading().startswith(f"Decision {decision} of")
        assert page.evaluate("document.activeElement.item.n") == decision - 1
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    page.keyboard.press("End")
    assert page.locator("#after").is_disabled()


def test_tokens_are_targets_that_can_be_touched(saved):
    page = saved({"viewport": {"width": 360, "height": 740}}, temperature=1.0)
    boxes = page.locator("#guide button, #before, #after, #draws").evaluate_all(
        "all => all.map(e => [e.getBoundingClientRect().width, e.getBoundingClientRect().height])"
    )
    assert min(min(box) for box in boxes) >= 24
