"""The page in a headless browser: its numbers are those of the run, and everybody can use it."""

import re
import threading
from statistics import median

import numpy as np
import pytest
from browsers import assert_readable, wait_for
from live import RUNS, SETTINGS, racer
from pytest import approx

from decoding.theory import speedup

pytestmark = pytest.mark.browser

READY = "Boolean(state.base && !asking)"
MOTION = {"reduced_motion": "no-preference"}
WIDE = {"viewport": {"width": 1280, "height": 800}}
STEPS = ["1 Guess", "2 Check", "3 Reject", "4 Replace"]
REJECTED = "select(items.find(item => item.kind === 'rejected'))"


@pytest.fixture
def saved(new_page, written):
    """A function (options, **settings) -> a saved page of a race of these settings."""

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
    assert len(text) > 500 and not re.search("NaN|undefined|Infinity|null", text)
    return text


def text_of(page, selector):
    return page.locator(selector).inner_text()


def step(page, i):
    page.locator("#guide button").nth(i).click()


# ---------------------------------------------------------------- one round, step by step


def test_the_page_opens_on_a_paused_round_and_a_question(saved):
    page = saved(MOTION | WIDE)
    page.wait_for_timeout(200)
    assert text_of(page, "#question") == "What happens next?"
    assert page.evaluate("!race.playing && race.time === 0")
    assert page.locator("#lanes-pane").is_hidden()
    # the reason is in sight; black is the next step and nothing else, chosen ones have a frame
    assert "fetched once and used 5 times" in text_of(page, "#why")
    of = lambda selector: page.locator(selector).evaluate_all(
        "all => [...new Set(all.map(e => getComputedStyle(e).backgroundColor))]"
    )
    assert page.locator("button.primary").all_inner_texts() == ["2 Check"]
    pressed = "#guide [aria-pressed=true], #chance [aria-pressed=true]"
    assert page.locator(pressed).all_inner_texts() == ["1 Guess", "the likeliest"]
    chosen = of(pressed)
    assert len(chosen) == 1 and chosen != of("button.primary")
    # under the microscope is a rejected word drawn by chance
    p, q = page.evaluate("[selected.p, selected.q]")
    assert 0 < p < q < 1 and page.evaluate("selected.kind") == "rejected"
    assert page.evaluate("!isByChance(state.base) && isByChance(state.run)")


@pytest.mark.parametrize("name", ["likeliest", "sampled", "coupled", "ngram"])
def test_a_round_is_guessed_checked_rejected_replaced_one_click_each(saved, name):
    page = saved(**RUNS[name])
    row = page.evaluate("toldRound(state.base).round")
    n, accepted, seen, answers, said = len(row["draft"]), row["accepted"], [], [], []
    for i in range(4):
        step(page, i)
        assert page.locator("#guide [aria-pressed=true]").all_inner_texts() == [STEPS[i]]
        kinds = "ghost", "draft", "rejected", "correction"
        seen.append([page.locator(f"#line .{kind}").count() for kind in kinds])
        answers.append(page.locator("#round-train .answers > span").all_inner_texts())
        said.append(text_of(page, "#says"))
        assert page.locator("#round-train .together .riders .mark").count() == n + 1
        # alone, a token rides in each pass; the next is not known before it has ended
        passes = page.evaluate("one.bars.length - 1")
        assert page.locator("#round-train .alone .mark").count() == passes
        assert page.locator("#round-train .of-draft:not(.swatch)").count() == n
    rejected = int(accepted < row["examined"])
    assert seen[:2] == [[n, 0, 0, 0]] * 2
    assert seen[2:] == [[0, accepted, rejected, 0], [0, accepted, rejected, rejected]]
    assert said[1].startswith(f"{n + 1} words go through it")
    # behind each word stands what the large model says: of the guess, or its own next word
    own = page.evaluate("ids => ids.map(id => bare(words[id]))", row["tokens"])
    assert answers[0] == [""] * (n + 1) and len(answers[3]) == n + 1
    assert own[-1] in answers[3][len(own) - 1]
    marks = ["✓" in answer for answer in answers[3]], ["✗" in answer for answer in answers[3]]
    assert marks[0] == [i < accepted for i in range(n + 1)]
    assert marks[1] == [bool(rejected) and i == accepted for i in range(n + 1)]
    if name == "sampled":
        odds = [min(1, p / q) for p, q in zip(row["p"], row["q"])][: row["examined"]]
        for answer, ratio in zip(answers[2], odds):
            share = "always stays" if ratio == 1 else f"in {min(99, round(100 * ratio))} of 100"
            assert share in answer
    if name == "likeliest":
        assert [answer.split(" it says ")[1] for answer in answers[1][: len(own)]] == own
        assert answers[1][1].startswith(f"→ after “{own[0]}”")
    gains = page.locator("#round-train .gain").all_inner_texts()
    costs = page.evaluate("['c', 'extra'].map(name => medianOf(turnsOf(state.base), name))")
    words = [f"{count} word{'s' * (count > 1)}" for count in (len(own), int(1 + n * sum(costs)))]
    assert gains == ["+" + count for count in words]
    assert text_of(page, "#question") == f"One pass, {words[0]}"
    # the time of the round is a sum, and its gain a quotient, of the numbers that are shown
    guessing, checking, passes, alone, count, divisor, gain = map(
        float, re.findall(r"\d+(?:\.\d+)?", said[3].partition("The time:")[2])
    )
    assert [guessing, checking] == approx([n * costs[0], 1 + n * costs[1]], abs=0.006)
    assert passes == divisor == approx(guessing + checking)
    assert alone == count == len(own) and gain == approx(count / passes, abs=0.006)


def test_each_rule_is_told_in_its_own_words(saved):
    told = "((kind, i) => itemsOf(state.base).filter(item => item.kind === kind).map(explain)[0])"
    page = saved(**RUNS["block"])
    row = page.evaluate("state.base.rounds.find(row => row.accepted < row.examined)")
    said = page.evaluate("row => stepWords(state.base, row, 2, .25, 1)[1]", row)
    of_100 = min(99, round(100 * row["support"][row["accepted"]]))
    assert f"stay together in {of_100} of 100" in said
    page = saved(**RUNS["coupled"])
    for kind in ("rejected", "correction"):
        said = page.evaluate(f"{told}('{kind}')")
        assert "chooses under the same noise" in said and "more often" not in said


def test_a_text_that_ends_among_the_guesses(saved):
    said = saved().evaluate("""(tokens => stepWords(state.base, {draft: [...tokens, ...tokens],
        tokens, accepted: 2, examined: 2, p: [1, 1], q: [1, 1]}, 2, .25, 1)[0])(
        Object.keys(words).slice(0, 2))""")
    assert said == "2 guesses stay: there the text ends"


def test_a_text_that_ends_in_its_first_round_gets_no_more_words_alone_and_no_cross(saved, written):
    itself = {"draft_model_size": "17M", "K": 8}
    _, data = written(**itself)
    page = saved(**itself, stop="".join(data["alone"]["shown"][1:4]))
    page.locator("#guide button").nth(2).click()
    n = page.evaluate("state.base.alone.tokens.length")
    assert page.evaluate("state.base.rounds.length") == 1 and n < 8
    assert f"+{n} words" in text_of(page, "#round-train") and "✗" not in text_of(page, ".answers")
    assert page.locator("#round-train .alone .weights").count() <= n


def test_what_is_true_of_the_token_rule_only_is_not_said_of_the_others(saved):
    block = saved(temperature=1.0, verification="block")
    assert "token rule decides; here guesses are judged together" in text_of(block, "#more")
    coupled = saved(temperature=1.0, coupled=True)
    assert "under the same noise: the same text" in text_of(coupled, "#odds")
    assert "token rule decides; here the noise does" in text_of(coupled, "#more")


def test_probabilities_that_round_alike_are_said_to_be_alike(saved):
    page = saved(temperature=1.0, draft_model_size="17M")
    said = page.evaluate("""items.map(item => { select(item);
        return $("because").textContent + $("rule").textContent; })""")
    assert any("whatever the dice say" in one for one in said)
    assert not any("only in" in one or "times in 100" in one for one in said)
    assert page.evaluate("[0, 4e-7, 3e-4, .01, .997, 1].map(percent)") == [
        f"{x}\u00a0%" for x in ("0", "under 0.001", "0.030", "1.0", "99.7", "100")
    ]


def test_where_all_guesses_are_right_the_same_pass_gives_one_more(saved):
    said = saved().evaluate("""(tokens => stepWords(state.base, {draft: tokens.slice(0, 1), tokens,
        accepted: 1, examined: 1, p: [1], q: [1]}, 3, .25, 1)[1])(
        Object.keys(words).slice(0, 2))""")
    assert "Behind the last guess, the same pass says its own next word, for free" in said
    assert "0.25 (guessing) + 1.00 (checking) = 1.25 passes, instead of 2 alone" in said


def test_all_weights_come_once_for_all_words_and_then_the_race_starts_by_itself(saved):
    page = saved(MOTION)
    step(page, 1)
    wait_for(page, "one.bars[0].progress > .05")
    together, alone = page.evaluate("one.bars.slice(0, 2).map(bar => bar.progress)")
    assert 0 < together <= alone  # a pass for one token takes no longer
    assert text_of(page, "#round-train .answers").strip() == ""
    wait_for(page, "one.bars[0].progress === 1")
    assert text_of(page, "#round-train .answers").strip() != ""
    step(page, 2)
    page.evaluate("one.wait = 1e9")
    step(page, 3)
    assert page.locator("button.primary:visible").first.inner_text() == "Race"
    assert "press Race" in text_of(page, "#says")
    page.locator("#slow").evaluate("e => { e.value = 0 }")
    page.evaluate("one.wait = 100; showStep(3); showStep(0)")
    page.wait_for_timeout(300)
    assert page.evaluate("one.step") == 0  # the reader went on in the round
    step(page, 3)
    wait_for(page, "one.step === null && race.time === race.length")
    assert page.evaluate("!race.playing") and text_of(page, "#play") == "Again"
    assert page.locator("#one-round").is_hidden()


def test_the_round_that_is_told_replaces_a_whole_word_by_another(saved):
    told = saved().evaluate("""() => {
        const item = (r, id, tokens) => ({r, i: tokens.length - 1, id, p: 0, q: 1, kind: "rejected",
            round: {draft: [0, 0, 0, 0], tokens}});
        Object.assign(words, [" the", " old", " wo", "lf", " came"]);
        const all = [item(0, 1, [0, 0, 2]), item(1, 1, [3, 4]), item(2, 0, [0])];
        return [tellingItem(all).r, tellingItem(all.slice(0, 1)).r];
    }""")
    assert told == [1, 0]


# ---------------------------------------------------------------- the race, and every decision


@pytest.mark.parametrize("name", RUNS)
def test_a_race_ends_with_both_texts_and_every_decision_opens(saved, name):
    page = saved(**RUNS[name])
    page.locator("#play").click()  # without motion, this is the end
    rounds, alone = page.evaluate("[state.base.rounds, state.base.alone]")
    gains = page.evaluate("race.lanes.map(lane => lane.gains.map(e => e.element.textContent))")
    assert gains == [["+1"] * len(alone["tokens"]), [f"+{len(one['tokens'])}" for one in rounds]]
    shown = [alone["shown"], [text for one in rounds for text in one["shown"]]]
    counts = page.locator(".lane .row .soft").all_inner_texts()
    for i, texts in enumerate(shown):
        lane = page.locator(".lane").nth(i)
        read_out = lane.locator(".token:not([aria-hidden])").all_text_contents()
        expected = page.evaluate("text => plainly(text)", "".join(texts)).replace("\n", "⏎")
        assert "".join(read_out).replace("·", "") == expected  # and nothing that is dropped
        assert lane.locator(".gains i").count() == len(texts) == int(counts[i].split()[0])
    seconds = sum(alone["seconds"]), sum(sum(one["seconds"]) for one in rounds)
    assert page.evaluate("race.lanes.map(lane => lane.end)") == approx(seconds)
    in_words(page)
    # the microscope
    rounds = page.evaluate("state.run.rounds")
    decisions = sum(one["examined"] + (len(one["tokens"]) > one["accepted"]) for one in rounds)
    assert page.evaluate("items.length") == page.locator("#text button").count() == decisions
    panels = page.evaluate("""items.map(item => (select(item),
        $("decision").innerText + $("because").innerText + $("h-panel").innerText))""")
    assert len({*panels}) == len(panels)
    assert not re.search("NaN|undefined|Infinity|null", "".join(panels))
    # draws are shown for the rule that they follow
    page.evaluate(f"items.some(item => item.kind === 'rejected') && {REJECTED}")
    drafted = page.evaluate("selected.kind === 'rejected'")
    assert page.locator("#draws").count() == int(drafted and name not in ("block", "coupled"))


def test_rejected_guesses_stand_above_the_line_and_in_it_until_their_pass_ends(saved):
    page = saved(temperature=1.0)
    page.locator("#play").click()
    for group in ("#lanes", "#text"):
        rejected = page.locator(f"{group} .over .rejected")
        assert rejected.count() == page.locator(f"{group} .rejected").count() > 0
        for i in range(rejected.count()):
            above = rejected.nth(i).bounding_box()
            below = page.locator(f"{group} .over .correction").nth(i).bounding_box()
            assert above["y"] + above["height"] <= below["y"] + 4
    r, draft = page.evaluate("""(r => [r, state.base.rounds[r].draft])(state.base.rounds.findIndex(
        one => one.accepted < one.examined && one.examined < one.draft.length))""")
    page.evaluate(f"""showMoment(race.lanes[1].passes.filter(
        ({{kind}}) => kind === "target")[{r}].end * .9999)""")
    places = page.locator("#lanes .ghost:visible .mark").evaluate_all(
        "all => all.map(e => [e.textContent.trim(), e.getBoundingClientRect().height])"
    )
    guesses = page.evaluate("ids => ids.map(id => plainly(words[id]).trim())", draft)
    assert [text for text, _ in places] == guesses and len({height for _, height in places}) == 1
    # what replaces one takes no place yet
    assert page.locator("#lanes .over.open .correction:visible").count() == 0
    page.evaluate("showMoment(race.length)")
    assert page.locator("#lanes .over.open").count() == 0


def test_the_race_is_paused_slowed_and_moved(saved):
    page = saved(MOTION)
    page.locator("#play").click()
    page.locator("#slow").press("End")
    wait_for(page, "race.playing && race.time > 0")
    page.locator("#play").click()
    time = page.evaluate("race.time")
    page.wait_for_timeout(100)
    assert page.evaluate("race.time") == time and text_of(page, "#play") == "Go on"
    page.locator("#clock").press("Home")
    written = """race.lanes.map(lane => lane.spans.filter(e => !e.hidden
        && !e.matches(".ghost, .rejected, .unexamined")).length)"""
    assert page.evaluate(written) == [0, 0]
    # guesses show as such until their pass ends
    drafted, tokens, ends = page.evaluate("""[state.base.rounds[0].draft.length,
        state.base.rounds[0].tokens.length, race.lanes[1].passes.map(({end}) => end)]""")
    page.evaluate(f"showMoment({ends[drafted - 1]})")
    assert page.locator("#lanes .token.ghost:visible").count() == drafted
    assert page.evaluate(written)[1] == 0
    page.evaluate(f"showMoment({ends[drafted]})")
    assert page.evaluate(written)[1] == tokens
    page.locator("#clock").press("End")
    assert page.evaluate("race.time === race.length")
    page.locator("#slow").press("Home")
    assert text_of(page, "#slow-now") == "1" and "slower than real" in text_of(page, ".tools")


def test_the_headline_is_the_median_of_the_turns_with_their_range(saved):
    page = saved()
    turns = page.evaluate("state.base.turns")
    speedups = [alone / (draft + rest) for alone, draft, rest in turns]
    assert len(speedups) == 5
    shown = [median(speedups), min(speedups), max(speedups)]
    page.locator("#play").click()  # the range stands where the races are
    said = text_of(page, "#speedup") + text_of(page, "#compare")
    numbers = re.findall(r"\d+\.\d+", said)
    assert [float(number) for number in numbers] == approx(shown, abs=0.006)
    longer = page.evaluate("(1 + 4 * medianOf(turnsOf(state.base), 'extra')).toFixed(2)")
    assert f"a pass over 5 words takes {longer}" in text_of(page, "#why")


@pytest.mark.parametrize("factor, when", [(99, "sooner"), (0.1, "later")])
def test_words_drawn_by_chance_are_one_click_away_and_begin_at_the_beginning(saved, factor, when):
    page = saved({"viewport": {"width": 360, "height": 740}})
    # whatever the machine does: other words might take another line
    page.evaluate(
        f"[state.all, state.all.other].forEach(run => run.turns.forEach(t => t[0] *= {factor}))"
    )
    places = []
    for name, chance in (("drawn by chance", True), ("the likeliest", False)):
        button = page.get_by_role("button", name=name, exact=True)
        button.click()
        assert page.evaluate("isByChance(state.base)") == chance
        assert button.get_attribute("aria-pressed") == "true"
        assert text_of(page, "#question") == "What happens next?"
        same = "Same odds for every word" if chance else "Same text"
        assert text_of(page, "#same") == f"{same}, {when}."
        places.append(page.evaluate("$('chance').offsetTop - $('stage').offsetTop"))
        assert page.evaluate("isByChance(state.run)")  # the microscope stays
    assert places[0] == places[1]
    page.locator("#play").click()
    assert "the same text, word for word" in text_of(page, "#compare")
    # rounding can part two texts of the likeliest words
    page.evaluate("state.base.alone.tokens.pop(); showRace(state.base)")
    assert "rounds differently" in text_of(page, "#compare")
    assert text_of(page, "#same") == f"Same text, up to rounding, {when}."
    page.emulate_media(reduced_motion="no-preference")
    page.locator("#slow").press("End")
    page.evaluate("showMoment(race.length / 2)")
    page.get_by_role("button", name="drawn by chance").click()
    assert page.evaluate("race.playing && race.time < race.length / 4")
    assert "with the same odds" in text_of(page, "#compare")


def test_the_headline_says_what_was_measured_and_no_more(saved):
    page = saved(temperature=1.0)
    page.locator("#play").click()  # what is said below the race is in sight
    page.evaluate("state.base.turns = [[1, 1, 1]]; showRace(state.base)")  # half as fast, one turn
    said = " ".join(text_of(page, name) for name in ("#speedup", "#why", "#same", "#compare"))
    assert "0.50" in said and "(one turn)" in said and "later" in said and "should it be" in said
    assert "Middle" not in said
    page.evaluate("state.base.alone.tokens = tokensOf(state.base); showRace(state.base)")
    assert "Drawn by chance, and yet the same words." in text_of(page, "#compare")
    # no pass had K + 1 words
    page.evaluate("state.base.rounds.forEach(round => round.draft.splice(2)); showRace(state.base)")
    assert "With guesses, 3 words are there at once" in text_of(page, "#why")
    page.evaluate("state.base.parameters[0] = 1.24e8; showRace(state.base)")
    assert "all 120 million weights" in text_of(page, "#why")
    page.evaluate("state.base.rounds.forEach(round => round.draft = []); showRace(state.base)")
    assert text_of(page, "#why").startswith("Nothing was guessed")
    assert text_of(page, "#same").endswith("word.")


def test_more_guesses_than_the_map_has_are_as_measured(saved):
    page = saved(K=12, n_tokens_to_generate=30)
    drafted = page.evaluate("Math.round(draftedIn(state.base) / state.base.rounds.length)")
    page.evaluate("$('deeper').open = true")
    assert drafted > 8 and f"{drafted} in a round, theory" in text_of(page, "#verdict")
    assert page.locator("#knob-K").input_value() == str(drafted)


# ---------------------------------------------------------------- the microscope


def test_a_click_on_a_token_opens_its_numbers(saved):
    page = saved(WIDE, temperature=1.0)
    rows = page.evaluate("state.run.rounds")
    r, row = next((r, row) for r, row in enumerate(rows) if 0 < row["accepted"] < row["examined"])
    percent = lambda x: page.evaluate("x => percent(x)", x)
    for i, verdict in ((0, "accepted guess"), (row["accepted"], "rejected guess")):
        at = page.evaluate(f"items.findIndex(item => item.r === {r} && item.i === {i})")
        page.locator("#text button").nth(at).click()
        p, q = row["p"][i], row["q"][i]
        shown = page.locator("#likely .chosen td.number").all_inner_texts()
        assert shown == [percent(p), percent(q)]
        because = text_of(page, "#because")
        assert percent(p) in because and percent(q) in because and verdict in because
        assert p >= q or f"said {percent(row['coins'][i])}" in because
        assert page.locator("#likely tbody tr").count() >= len(row["likely"][i])


def test_under_the_block_rule_all_others_share_what_they_share(saved):
    """P p and q share the overlap, in a round at a place behind which P is below 1, too."""
    found = saved(**RUNS["block"]).evaluate("""itemsOf(state.base).filter(({round, i}) =>
        i > 0 && i < round.draft.length && round.support[i - 1] < 1).map(({round, i}) =>
        [rowsAt(round, i), round.overlap[i]])""")
    assert any(rows[-1]["id"] is None and rows[-1]["both"] > 0.01 for rows, _ in found)
    for rows, overlap in found:
        assert sum(row["both"] for row in rows) == approx(overlap, abs=2e-3)


def test_the_areas_of_the_picture_are_those_of_p_and_q(saved):
    """As they are drawn, in fractions of the picture: of each token, how wide and where."""
    page = saved(WIDE, temperature=1.0)
    for kind in ("draft", "rejected", "correction"):
        page.evaluate(f"select(items.find(item => item.kind === '{kind}'))")
        drawn = page.locator("#more rect:not(.drawn)").evaluate_all("""all => all.map(rect => [
            rect.classList[0], ...["y", "x", "width"].map(name => rect[name].baseVal.value
                / rect.ownerSVGElement["client" + (name === "y" ? "Height" : "Width")])])""")
        rows, likely, overlap = page.evaluate("""(({round, i}) =>
            [rowsAt(round, i), round.likely[i], round.overlap[i]])(selected)""")
        own = [[row["id"], row["p"], row["q"]] for row in rows if row["id"] is not None]
        assert own == sorted(likely, key=lambda row: row[1] - row[2])
        for name, total in (("p", 1), ("q", 1), ("both", overlap)):
            assert sum(row[name] for row in rows) == approx(total, abs=2e-3)
        most, expected = 1.08 * max(max(row["p"], row["q"]) for row in rows), []
        for i, row in enumerate(rows):
            p, q, both = row["p"], row["q"], row["both"]
            ends = ("accepted", 0, both), ("rejected", both, q), ("residual", both, p)
            for name, low, high in ends:
                place = (i + 0.1) / len(rows), low / most, (high - low) / most
                expected += [(name, *place)] * (high > low)
        assert [row[0] for row in drawn] == [row[0] for row in expected]
        for (_, *found), (_, *right) in zip(drawn, expected):
            assert found == approx(right, abs=0.01)
        width = page.locator(".areas").bounding_box()["width"]
        assert width > 800  # the main figure
        # what is cut off and what is lacking, each end to end: they are equally long
        totals = page.locator(".pieces").evaluate_all("""all => all.map(row => sum(
            [...row.querySelectorAll(":scope > i")].map(e => e.getBoundingClientRect().width)))""")
        lack = (1 - overlap) / max(most, 1.3 * (1 - overlap)) * width
        assert totals == approx([lack] * 2, rel=0.02)


def test_draws_by_the_rule_fill_up_to_what_the_large_model_says(saved):
    for width in (360, 1440):
        page = saved({"viewport": {"width": width, "height": 900}}, temperature=1.0)
        page.evaluate(REJECTED)
        page.locator("#draws").click()  # without motion, all at once
        rows = page.evaluate("rowsAt(selected.round, selected.i)")
        most = 1.08 * max(max(row["p"], row["q"]) for row in rows)
        drawn = page.evaluate("""["accepted", "residual"].map(kind =>
            [...document.querySelectorAll("rect.drawn." + kind)].map(rect =>
                parseFloat(rect.getAttribute("width")) / 100))""")
        for row, stayed, replaced in zip(rows, *(np.array(widths) * most for widths in drawn)):
            spread = 5 * (0.25 / 100_000) ** 0.5  # five standard deviations, at most
            assert [stayed, replaced] == approx([row["both"], row["over"]], abs=spread)
        assert sum(map(sum, drawn)) * most == approx(1, abs=2e-3)
        said = text_of(page, "#drawn")
        assert said.startswith("100,000 draws") and "as often as the large model" in said
        assert page.locator(".areas").bounding_box()["width"] > width / 2


def test_draws_come_one_by_one_then_fast_and_darts_show_the_replacements(saved):
    page = saved(MOTION | WIDE)
    assert page.locator("circle, .darts i").count() == 0
    # of two the guess stays, where both models say it; of two it is cut off, and a dart hits
    # what is lacking of another word
    steps, rows = (
        page.evaluate("""(rows => [[...slowDraws(rows)].map(([, ...step]) => step), rows])(
        rowsAt(selected.round, selected.i))""")
    )
    stay, cut = ["guess", "accepted"], ["guess", "rejected", "residual"]
    assert [kind for _, _, kind, *_ in steps] == [*stay, *cut] * 2
    for i, place, kind, *at in steps:
        row, over = rows[i], [row["over"] for row in rows]
        ends = {"accepted": (0, row["both"]), "rejected": (row["both"], row["q"])}
        low, high = (ends | {"residual": (row["both"], row["p"]), "guess": (0, row["q"])})[kind]
        assert low <= place <= high
        if kind == "residual":
            assert sum(over[:i]) <= at[0] * sum(over) <= sum(over[: i + 1])
    page.evaluate("""window.seen = []; new MutationObserver(() => seen.push(
        ...$("more").querySelectorAll("circle, .darts .one"))).observe(
        $("more"), {subtree: true, childList: true})""")
    page.locator("#microscope").evaluate("e => e.scrollIntoView()")
    wait_for(page, "$('drawn').innerText.startsWith('100,000 draws')")
    seen = page.evaluate("seen.map(e => e.classList[0])")
    assert {*seen} == {"guess", "accepted", "rejected", "residual", "one"}
    assert page.locator("circle, .darts .one").count() == 0
    rows, darts = page.evaluate("""[rowsAt(selected.round, selected.i),
        [...document.querySelectorAll(".darts i")].map(e => parseFloat(e.style.left) / 100)]""")
    # they fall anywhere on the pieces that are lacking, as many on each as it is wide
    assert 20 < len(darts) <= 300 and np.mean(darts) == approx(
        0.5, abs=5 * (12 * len(darts)) ** -0.5
    )
    strip, pieces = (page.locator(s) for s in (".darts", ".pieces > .residual"))
    widths = pieces.evaluate_all("all => all.map(e => e.getBoundingClientRect().width)")
    assert strip.bounding_box()["width"] == approx(sum(widths), rel=0.02)
    assert len(widths) == sum(row["over"] > 0 for row in rows)


# ---------------------------------------------------------------- when does it pay


def test_the_expected_speedup_is_that_of_the_theory(saved):
    page = saved(temperature=1.0)
    page.evaluate("$('deeper').open = true")
    a, c, extra = page.evaluate("""(({a, c, extra}) => [a, c, extra])(standing(state.base))""")
    rounds, turns = page.evaluate("[state.base.rounds, state.base.turns]")
    drafted = sum(len(one["draft"]) for one in rounds)
    assert a == sum(one["accepted"] for one in rounds) / sum(one["examined"] for one in rounds)
    costs = [(draft * 30 / drafted / alone) for alone, draft, _ in turns]
    more = [max(0, (rest * 30 / alone - len(rounds)) / drafted) for alone, _, rest in turns]
    assert (c, extra) == approx((median(costs), median(more)))
    for K in (1, 4, 8):
        found = page.evaluate(f"knobs.K = {K}, showMoved(), standing(state.base).by[{K - 1}]")
        assert found == approx(speedup(a, K, c, 1 + K * extra))
        assert page.locator("#knob-v").get_attribute("aria-valuetext") == f"{1 + K * extra:.2f}"
    page.locator("#knob-a").press("Home")
    assert "large model alone is faster" in text_of(page, "#verdict")
    assert page.locator("table.map td.here").count() == 1
    page.locator("#as-measured").click()
    assert page.evaluate("[knobs.a, document.activeElement.id]") == [None, "as-measured"]
    # where nothing was guessed, there is nothing to expect
    page.evaluate("for (const one of state.base.rounds) one.draft = []; showPays(state.base)")
    assert text_of(page, "#verdict").startswith("Nothing was guessed")
    assert page.locator("#knobs").is_hidden() and page.locator("#map").is_hidden()


# ---------------------------------------------------------------- the live page


def test_the_first_turn_is_there_at_once_and_the_headline_when_all_are(new_page, serve, pair):
    go_on, run = threading.Event(), racer(pair, SETTINGS)

    def slow(settings, tell):
        def tell_and_wait(**line):
            tell(**line)
            if "row" in line:
                go_on.wait(30)

        return run(settings, tell_and_wait)

    page = new_page(serve(slow).server.address, reduced_motion="reduce")
    wait_for(page, "Boolean(state.base)")
    assert text_of(page, "#speedup b") == "…" and page.evaluate("asking !== null")
    assert page.locator("#microscope").is_hidden()  # of words drawn by chance, there are none yet
    step(page, 2)  # the round is there to be read
    accepted = page.evaluate("toldRound(state.base).round.accepted")
    assert page.locator("#line .draft").count() == accepted
    question = text_of(page, "#question")
    go_on.set()
    wait_for(page, READY)
    assert "×" in text_of(page, "#speedup b")
    assert text_of(page, "#question") == question  # the reader is not disturbed
    wait_for(page, "/^Done: .*× as fast/.test($('status').textContent)")
    assert page.locator("#microscope").is_visible()


def test_a_new_run_takes_the_place_of_the_old_and_an_error_leaves_it_stand_still(live):
    page, _ = live()
    page.evaluate("askRace(); askRace()")
    page.locator("#controls summary").click()
    page.locator("#controls [name=n_tokens_to_generate]").fill("40")
    page.evaluate("window.before = state.base")
    page.locator("#controls [name=prompt]").press("Control+Enter")
    wait_for(page, f"{READY} && state.base !== window.before && tokensOf(state.base).length === 40")
    # a prompt that is too long is not cut
    page.locator("#controls [name=prompt]").fill("a" * 4001)
    assert len(page.locator("#controls [name=prompt]").input_value()) == 4001
    page.locator("#run").click()
    said = page.evaluate("$('controls').prompt.validationMessage")
    assert "4000" in said and "4001" in said and page.evaluate("asking === null")
    page.locator("#controls [name=prompt]").fill("x" * 100)
    page.locator("#play").click()
    page.locator("#run").click()
    wait_for(page, "Boolean($('error').textContent)")
    message = text_of(page, "#error")
    assert "100 tokens" in message and "Below is still the run of “hello there”" in message
    assert page.evaluate("!race.playing && tokensOf(state.base).length === 40")
    in_words(page)


def test_a_run_saved_in_the_browser_needs_no_server_and_says_where_its_context_ends(
    live, new_page, tmp_path
):
    page, served = live(prompt="a\n" * 25, n_tokens_to_generate=48)
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
    room, n = again.evaluate("[state.base.room, tokensOf(state.base).length]")
    assert n == room < 48 and f"room for {room} of the 48 tokens" in text_of(again, "#cut")
    again.evaluate("showHead({...state.base, room: state.base.room + 1})")  # it ended by itself
    assert again.locator("#cut").is_hidden()


# ---------------------------------------------------------------- for everybody

SHIFTS = """window.shifts = []; new PerformanceObserver(list => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput) shifts.push(entry.value);
}).observe({type: "layout-shift", buffered: true})"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_read_every_state(saved, scheme):
    page = saved({"color_scheme": scheme}, temperature=1.0)
    select = "select(items.find(item => item.kind === '{}') || items[0])"
    states = [f"showStep({i})" for i in range(4)]
    states += ["play(), pause(), showMoment(race.length / 2)", "showMoment(race.length)"]
    states += [select.format(kind) for kind in ("draft", "correction", "rejected")]
    states += ["$('draws').click()", "$('deeper').open = true, knobs.a = 0, showMoved()"]
    for width in (320, 360, 768, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        for state in states:
            page.evaluate(state)
            assert_readable(page, scheme)
        # what is touched is large enough
        boxes = page.locator("#guide button, #draws").evaluate_all(
            "all => all.map(e => e.getBoundingClientRect()).map(e => Math.min(e.width, e.height))"
        )
        assert min(boxes) >= 24
    # headings go down one level at a time
    levels = page.evaluate("""[...document.querySelectorAll("h1, h2, h3")]
        .filter(e => e.checkVisibility()).map(e => Number(e.tagName[1]))""")
    assert levels[0] == 1 and all(b - a <= 1 for a, b in zip(levels, levels[1:]))
    assert all(page.locator("th").evaluate_all("all => all.map(e => e.textContent !== '')"))


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_jumps_from_the_first_screen_to_the_end_of_the_race(live, width):
    page, _ = live(MOTION | {"viewport": {"width": width, "height": 800}})
    page.add_init_script(SHIFTS)
    page.reload()
    wait_for(page, READY)
    places = []
    for i in range(4):
        step(page, i)
        places.append(page.evaluate("$('microscope').offsetTop"))
    page.locator("#slow").evaluate("e => { e.value = 0.5 }")
    page.locator("#play").click()
    wait_for(page, "race.time > 0 && !race.playing")
    for moment in range(9):
        page.evaluate(f"showMoment(race.length * {moment / 8})")
        places.append(page.evaluate("$('microscope').offsetTop"))
    assert page.evaluate("shifts.reduce((a, b) => a + b, 0)") < 0.1
    assert width < 1280 or len({*places}) == 1  # what stands below never moves


def test_all_of_a_round_is_on_the_first_screen(saved):
    page = saved({"viewport": {"width": 1000, "height": 800}})
    for pane in ("#round-train", "#lanes"):
        box = page.locator(pane).bounding_box()
        assert box["y"] + box["height"] < 800
        page.locator("#play").click()


def test_each_colour_has_one_meaning_and_bars_keep_theirs_where_colours_are_forced(saved):
    """Accepted is green and a correction red, on bars, in texts and in the draws."""
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
    colours = "all => all.map(e => getComputedStyle(e).color)"
    assert of("#text .correction", "color") not in page.locator(".rejected").evaluate_all(colours)
    bars = page.locator(".strip i, .swatch, .riders > span, .memory, .bars > i, .pieces > i")
    grounds = "all => all.map(e => getComputedStyle(e).background)"
    plain = bars.evaluate_all(grounds)
    page.emulate_media(forced_colors="active")
    assert bars.evaluate_all(grounds) == plain and len({*plain}) > 5
    # underlined is what the large model writes itself, and nothing else
    ground = of("body", "backgroundColor")
    for kind, is_own in (("correction", True), ("draft", False), ("rejected", False)):
        for group in (f"#text .{kind}", f"#lanes .together .{kind} .mark"):
            assert (of(group, "borderBottomColor") != ground) == is_own


def test_links_to_the_repository_show_where_its_address_is_filled_in(new_page, written):
    path, _ = written()
    links = lambda: page.locator("#links a:visible").all_inner_texts()
    page = new_page(path.as_uri())
    assert links() == ["Same text?", "Paper"]
    published = path.with_name("published.html")
    published.write_text(path.read_text().replace("OWNER/REPOSITORY", "you/name"))
    page = new_page(published.as_uri())
    assert links() == ["Same text?", "Code", "Docs", "Paper"]


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
    page.evaluate(f"play(); $('deeper').open = true; {REJECTED}")
    wanted = set("run save play slow clock draws command copy as-measured".split())
    wanted |= {f"knob-{name}" for name in "acvK"}
    seen = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.id"))
        assert page.evaluate("""(e => !e || getComputedStyle(e).outline.includes("solid 3px"))(
            document.querySelector(":focus-visible"))""")
    assert wanted <= seen, wanted - seen
    # the arrow keys go from token to token; they are one stop of the tab key
    stop = page.locator('#text button[tabindex="0"]')
    assert stop.count() == 1
    stop.focus()
    for key, decision in (("Home", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("ArrowLeft", 1)):
        page.keyboard.press(key)
        assert text_of(page, "#h-panel").startswith(f"Decision {decision} of")
        assert page.evaluate("document.activeElement.item.n") == decision - 1
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.item.n === items.length - 1")
