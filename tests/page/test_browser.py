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
PHONE = {"viewport": {"width": 390, "height": 844}}
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


# ---------------------------------------------------------------- the first screen


def test_it_moves_within_a_second_goes_round_once_and_can_be_stopped(saved):
    page = saved(MOTION | WIDE)
    assert page.evaluate("race.playing && momentAt(.5).time > 0")  # after half a second of playing
    wait_for(page, "race.time > 0")
    read = "getComputedStyle(document.querySelector('.alone .pipe i')).width"
    width = page.evaluate(read)
    wait_for(page, f"{read} !== '{width}'")
    assert text_of(page, "#play") == "Pause"
    # at its end it begins again, once
    to_the_end = "race.wall = sum(race.plan.map(piece => piece.wall)) - .01"
    page.evaluate(to_the_end)
    wait_for(page, "race.wall < 1 && race.time < race.length / 2")
    page.evaluate(to_the_end)
    wait_for(page, "!race.playing && race.time === race.length")
    assert text_of(page, "#play") == "Again"
    page.locator("#play").click()
    wait_for(page, "race.playing && race.time < race.length / 2")
    # a slow machine draws less often, at the same pace
    walls = page.evaluate("""(request => { // of four frames, half a second apart
        requestAnimationFrame = tick => { window.tick = tick; };
        play();
        const begin = performance.now(), walls = [];
        for (let i = 0; i < 5; i++) { tick(begin + 500 * i); walls.push(race.wall); }
        requestAnimationFrame = request;
        play();
        return walls; })(requestAnimationFrame)""")
    assert np.diff(walls) == approx([0.5] * 4)
    page.locator("#play").click()
    time = page.evaluate("race.time")
    page.wait_for_timeout(100)
    assert page.evaluate("race.time") == time and text_of(page, "#play") == "Play"
    # out of sight it stands still
    page.locator("#play").click()
    page.locator("#deeper summary").scroll_into_view_if_needed()
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    wait_for(page, "!race.seen")
    time = page.evaluate("race.time")
    page.wait_for_timeout(100)
    assert page.evaluate("race.playing") and page.evaluate("race.time") == time


def test_without_motion_the_end_is_shown_and_a_button_plays_it_once(saved):
    page = saved(WIDE)
    page.wait_for_timeout(100)
    assert page.evaluate("race.time === race.length && !race.playing")
    page.locator("#play").click()
    wait_for(page, "race.playing && race.time < race.length")
    page.evaluate("race.wall = sum(race.plan.map(piece => piece.wall)) - .01")
    wait_for(page, "!race.playing && race.time === race.length")
    assert "as fast" in page.locator("#status").text_content()  # a screen reader is told of the end


SIZES = {"desktop": (1280, 800), "phone": (390, 844), "zoomed": (640, 400), "small": (320, 640)}


@pytest.mark.parametrize("size", SIZES)
def test_the_picture_is_on_the_first_screen_with_its_buttons_and_few_words(saved, size):
    width, height = SIZES[size]
    page = saved({"viewport": {"width": width, "height": height}})
    bottom = lambda name: page.evaluate(f"$('{name}').getBoundingClientRect().bottom")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    top = page.evaluate("$('lanes').getBoundingClientRect().top")
    assert top < 0.31 * height and 0 < top - bottom("play") < 60
    if size in ("desktop", "phone"):
        assert bottom("sum") <= height and bottom("chance") <= height
    if size == "zoomed":
        assert bottom("lanes") <= height
    for moment in ("begin", "middle", "end"):  # captions have the room that they need
        page.evaluate(f"showMoment(race.lanes[1].fetches[0].{moment})")
        lines = "all => all.map(e => e.scrollHeight - e.offsetHeight)"
        assert max(page.locator(".says").evaluate_all(lines)) <= 1
    around = page.locator("header, .tools").all_inner_texts()
    assert 20 < len(" ".join(around).split()) <= 40
    assert "Speculative decoding" in around[0]


@pytest.mark.parametrize("name", RUNS)
def test_a_race_ends_with_both_texts_and_every_decision_opens(saved, name):
    page = saved(**RUNS[name])
    rounds, alone = page.evaluate("[state.base.rounds, state.base.alone]")
    shown = [alone["shown"], [text for one in rounds for text in one["shown"]]]
    numbers = page.evaluate("race.lanes.map(lane => [lane.fetches.length, lane.end])")
    seconds = sum(alone["seconds"]), sum(sum(one["seconds"]) for one in rounds)
    assert [end for _, end in numbers] == approx(seconds)
    assert [n for n, _ in numbers] == [len(alone["tokens"]), len(rounds)]
    for i, texts in enumerate(shown):
        lane = page.locator(".lane").nth(i)
        expected = page.evaluate("text => plainly(text)", "".join(texts)).replace("\n", "⏎")
        written = "".join(lane.locator(".fetch").all_text_contents())
        assert written.replace("·", "") == expected
        assert lane.locator(".mark").count() >= len(texts)
        words = len(texts), numbers[i][0]
        count = lane.locator(".count b").all_inner_texts()
        assert [int(text.split()[0]) for text in count] == [*words]
        # without sight, too
        assert lane.locator(".hush").text_content().startswith(f"{words[0]} word")
    in_words(page)
    # the microscope
    decisions = sum(one["examined"] + (len(one["tokens"]) > one["accepted"]) for one in rounds)
    assert page.evaluate("items.length") == page.locator("#text button").count() == decisions
    panels = page.evaluate("items.map(item => (select(item), $('easy').innerText))")
    assert not re.search("NaN|undefined|Infinity|null", "".join(panels))
    # draws are shown for the rule that they follow
    page.evaluate(f"items.some(item => item.kind === 'rejected') && {REJECTED}")
    drafted = page.evaluate("selected.kind === 'rejected'")
    assert page.locator("#draws").count() == int(drafted and name not in ("block", "coupled"))


@pytest.mark.parametrize("name", ["likeliest", "sampled", "coupled", "block", "ngram"])
def test_the_places_are_filled_with_guesses_checked_and_replaced(saved, name):
    page = saved(**RUNS[name])
    r, row = page.evaluate("""(r => [r, state.base.rounds[r]])(Math.max(0, state.base.rounds
        .findIndex(one => one.accepted < one.examined)))""")
    n, accepted = len(row["draft"]), row["accepted"]
    begin, middle, end = page.evaluate(f"""(({{begin, middle, end}}) => [begin, middle, end])(
        race.lanes[1].fetches[{r}])""")
    bare = lambda ids: page.evaluate("ids => ids.map(id => bare(words[id]))", ids)
    odds_of = lambda x, p, q: " " + page.evaluate(f"percent({x}, moreDigits({p}, {q}))")
    # of each place: the guess, what the large model says, and what comes of it
    places = lambda lane: page.locator(f".{lane} .rows .place").evaluate_all(
        "all => all.map(e => [...e.children].map(cell => cell.textContent))"
    )
    show = lambda time: page.evaluate(f"showMoment({time})")
    said = lambda: text_of(page, ".together .says")
    pending = lambda: page.locator(".together .pending .mark").all_text_contents()
    guessed, told = bare(row["draft"]), bare(row["tokens"])
    if n > 1 and middle > begin:  # one guess after the other
        show(begin + (middle - begin) * (1.5 / n))
        assert page.locator(".together .place.guess").count() == 1
        assert page.locator(".together .place.empty").count() == len(places("together")) - 1
        assert ("look-up" if name == "ngram" else "small model") in said()
        assert len(pending()) == 1  # the text runs ahead with it
    show(middle)  # time stops here, once
    done = sum(len(one["tokens"]) for one in page.evaluate(f"state.base.rounds.slice(0, {r})"))
    depends = f"Word {done + n + 1} depends on word"
    assert said().startswith(depends)
    together = f"all {n + 1}" if n > 1 else "both"
    assert f"{done + n}. With " in said() and f"one fetch answers {together}." in said()
    show(middle + (end - middle) / 2)
    is_said = name in ("likeliest", "coupled")
    for i, (guess, says, verdict) in enumerate(places("together")[: n + 1]):
        odds = odds_of(row["q"][i], row["p"][i], row["q"][i]) if not is_said and i < n else ""
        assert (guess, says, verdict) == (guessed[i] + odds if i < n else "one more", "…", "")
    assert len(pending()) == n
    width = page.locator(".together .pipe.of-target i").bounding_box()["width"]
    assert width == approx(
        page.locator(".together .pipe.of-target").bounding_box()["width"] / 2, 0.02
    )
    rounds, alone = page.evaluate("[state.base.rounds, state.base.alone]")
    most = max(len(one["draft"]) for one in rounds)
    full = np.mean([one["seconds"][1] for one in rounds if len(one["draft"]) == most])
    longer = page.evaluate(f"factor({full / np.mean(alone['seconds'])})")
    assert said().startswith(depends)  # one sentence, as long as the fetch takes
    page.evaluate(f"show({{time: {middle + (end - middle) / 2}, isFast: true}})")
    if not page.evaluate(f"race.lanes[1].fetches[{r}].isShort"):
        assert f"serves all {most + 1} words: {longer} the time of one." in said()
    # alone, it is one word: the next ones are not known yet
    assert len(places("alone")) == 2 and "depend on it" in text_of(page, ".alone .rest")
    assert page.locator(".alone .pending .mark").count() == 0
    show(end)
    for i, (guess, says, verdict) in enumerate(places("together")[: n + 1]):
        if i < min(n, accepted + 1):  # one look says why: another word, or by chance
            is_kept, p, q, coin = i < accepted, row["p"][i], row["q"][i], row["coins"][i : i + 1]
            odds, judged = odds_of(p, p, q), "✓ accepted" if is_kept else "✗ replaced"
            if not is_said and not is_kept:
                judged = f"✗ → “{told[i]}”"
            if name in ("sampled", "ngram") and p >= q:
                judged = "✓ always"
            elif name in ("sampled", "ngram"):
                number, chance = page.evaluate(f"apart({coin[0]}, {p / q})")
                odds += f" → chance {chance}\u00a0%"
                judged = f"{judged[0]} {number} {'≥<'[is_kept]} {chance}\u00a0%{judged[1:]}"
                judged = judged.removesuffix(" accepted")
            assert guess.startswith(guessed[i]) and verdict == judged
            assert says == (guessed[i] if is_kept else told[i]) if is_said else says == odds
        elif i == accepted:
            assert (guess, says, verdict) == ("one more", told[i], "free extra word")
        else:
            dropped = f"dropped: built on “\u2068{guessed[accepted]}\u2069”"
            assert (says, verdict) == ("", dropped if i <= n else "")
    struck = page.locator(".together .place s").all_inner_texts()
    assert struck == guessed[accepted : accepted + 1]  # struck is what was rejected, nothing else
    # 5 words checked, 4 written: what follows a wrong guess is not counted
    own = {
        "correction": f"{accepted} accepted + 1 replaced = % from one fetch."
        + " Guesses behind it are dropped: they built on it." * (accepted + 1 < n),
        "bonus": f"All accepted: the next word comes free. {accepted} + 1 = % from one fetch.",
    }[row["sources"][-1]]
    n_words = len(row["tokens"])
    assert said() == own.replace("%", f"{n_words} word{'s' * (n_words > 1)}")
    written = sum(len(one["tokens"]) for one in page.evaluate("state.base.rounds")[: r + 1])
    counts = page.locator(".together .count b").all_inner_texts()
    assert [int(text.split()[0]) for text in counts] == [written, r + 1]
    assert page.locator(".together .fetch:visible").count() == r + 1 and not pending()
    # what became of each guess is said in words, too
    spoken = [
        page.evaluate(f"judged(state.base.rounds[{r}], {i}, race.lanes[1])") for i in range(n)
    ]
    for i, text in enumerate(spoken[: accepted + 1]):
        assert guessed[i] in text
        assert bool(re.search("ccepted", text)) == (i < accepted)
        rejected = re.search("[Rr]ejected", text)
        assert (bool(rejected) and told[i] in text) == (i == accepted)
        if name == "sampled":
            p, q = row["p"][i], row["q"][i]
            if p < q:
                number, chance = page.evaluate(f"apart({row['coins'][i]}, {p / q})")
                chance = f"chance {chance}\u00a0%, random number {number}\u00a0%: "
                assert chance + ("below" if i < accepted else "rejected") in text
            else:
                assert "the large model’s odds are higher. Always accepted." in text


def test_words_are_checked_one_by_one_and_the_page_says_how_the_clock_runs(saved):
    page = saved(MOTION)
    page.evaluate("cancelAnimationFrame(race.frame)")
    page.evaluate("""(one => { // of the first guesses, the second one is rejected
        Object.assign(one, {accepted: 1, examined: 2, sources: ["draft", "correction"],
            tokens: one.tokens.slice(0, 2), shown: one.shown.slice(0, 2)});
        showRace(state.base); })(state.base.rounds[0])""")
    plan, one = page.evaluate("[race.plan, state.base.rounds[0]]")
    show = lambda wall: page.evaluate(f"show(momentAt({wall}))")
    said = lambda: text_of(page, "#now").split("\n")[-1]
    show(plan[0]["wall"] / 2)
    first = sum(one["seconds"])
    slowed = plan[0]["wall"] / plan[0]["to"]
    assert said() == f"slowed {float(f'{slowed:.1g}'):.0f}×"
    assert plan[0]["from"] == 0 and plan[0]["to"] == approx(one["seconds"][0], rel=1e-5)
    assert plan[1]["to"] == approx(first, rel=1e-5)
    show(0)  # it begins with an empty table
    assert page.locator(".together .place.guess").count() == 0
    assert text_of(page, ".together .says").startswith("The small model guesses the next")
    assert text_of(page, ".alone .says") == ""
    show(plan[0]["wall"] + 0.01)  # all guesses stand there, and none is checked
    assert page.locator(".together .place.guess").count() == len(one["draft"])
    checks = sum(piece["wall"] for piece in plan[:2])
    why = page.evaluate("SECONDS.why")  # the last one stands longer
    for checked in range(4):  # words are counted as they are checked
        wall = page.evaluate("SECONDS.step") * min(checked, 2) + why * (checked > 2)
        show(checks + wall + 0.01)
        assert said() == "paused to read"
        assert page.evaluate("getComputedStyle(race.lanes[0].text.closest('.lane')).opacity") == "1"
        assert page.locator(".together .place.good").count() == min(checked, 1)
        assert page.locator(".together .place.wrong").count() == int(checked > 1)
        n_unused = page.locator(".together .place.off").count()
        assert n_unused == (len(one["draft"]) - 1) * (checked > 1)
        written = text_of(page, ".together .count b >> nth=0")
        assert written.split() == [str(min(checked, 2)), "word" if checked == 1 else "words"]
        told = text_of(page, ".together .says")
        assert ("Rejected and replaced." in told) == (checked == 2)
        assert told.startswith("1 accepted + 1 replaced") == (checked > 2)
    # the second stands long enough to be read, all others have one speed; with a stop where all
    # guesses are right for the first time
    runs = [piece for piece in plan[3:-1] if piece["to"] > piece["from"]]
    second, *speeds = [(piece["to"] - piece["from"]) / piece["wall"] for piece in runs]
    assert speeds == approx([speeds[0]] * len(speeds))
    assert runs[0]["wall"] == page.evaluate("SECONDS.next")
    stops = [piece for piece in plan[3:-1] if piece["to"] == piece["from"]]
    right = page.evaluate("""race.lanes[1].fetches.slice(1).find(({round}) =>
        round.draft.length > 1 && round.accepted === round.draft.length)?.end ?? null""")
    assert [piece["from"] for piece in stops] == [right] * (right is not None)
    if right is not None:
        show(page.evaluate(f"wallAt({right}) - .01"))
        assert "the next word comes free" in text_of(page, ".together .says")
    # the end comes within 15 seconds, on any machine, and stays
    begin = sum(piece["wall"] for piece in plan[:-1])
    assert 5 < begin < 15 and plan[-1]["wall"] == 5
    show(begin + 0.01)
    assert "again: 5" in said()


def test_where_the_odds_decide_the_first_round_is_judged_row_by_row_and_then_a_rejection(saved):
    page = saved(MOTION, temperature=1.0)
    page.evaluate("""(([one, two]) => { // all are accepted, then the first is not
        const own = one.tokens.slice(0, 1), shown = one.shown.slice(0, 1), n = one.draft.length;
        const all = value => one.draft.map((_, i) => value instanceof Array ? value[i % 2] : value);
        Object.assign(one, {accepted: n, examined: n, p: all([.4, .1]), q: all(.2), coins: all(.3),
            tokens: [...one.draft, ...own], shown: [...all("x"), ...shown],
            sources: [...all("draft"), "bonus"]});
        Object.assign(two, {accepted: 0, examined: 1, p: all(.1), q: all(.2), coins: all(.7),
            tokens: own, shown, sources: ["correction"]});
        pause(), showRace(state.base); })(state.base.rounds)""")
    stops = page.evaluate("race.plan.filter(({steps}) => steps)")
    ends = page.evaluate("race.lanes[1].fetches.slice(0, 2).map(({end}) => end)")
    assert [stop["from"] for stop in stops] == ends
    n = page.evaluate("state.base.rounds[0].draft.length")
    assert [checked for checked, _ in stops[0]["steps"]] == [*range(n + 3)]
    assert [checked for checked, _ in stops[1]["steps"]] == [1, 2]  # only what is new
    said = []
    for checked in range(n + 1):
        page.evaluate(f"show({{time: {ends[0]}, checked: {checked}}})")
        said.append(text_of(page, ".together .says"))
        assert page.locator(".together .place.good").count() == checked
        odds = page.locator(".together .place > :nth-child(2)").all_text_contents()[1 : n + 1]
        assert not any("…" in text for text in odds)  # the fetch has brought them all
    assert said[0].startswith(
        "Odds as high or higher: always accepted. Lower: with chance large odds ÷ small odds."
    )
    for i, text in enumerate(said[1:]):
        lower = "chance 50\u00a0%, random number 30\u00a0%: below, so accepted."
        assert (lower if i % 2 else "odds are higher. Always accepted.") in text
    page.evaluate(f"show({{time: {ends[1]}, checked: 1}})")
    assert "random number 70\u00a0%: rejected. " in text_of(page, ".together .says")


def test_the_result_stands_in_the_picture_where_the_shorter_time_ends(saved):
    page = saved(WIDE)
    page.evaluate("""(run => {
        const one = sum(run.alone.seconds) / run.alone.tokens.length;
        run.rounds.forEach(round => round.seconds = [.1 * one, one * round.tokens.length / 2.5]);
        run.turns = run.turns.map(() => [sum(run.alone.seconds), 0, sum(run.alone.seconds) / 2]);
        showRace(run); showMoment(race.length); })(state.base)""")
    ends = page.evaluate("race.lanes.map(lane => lasting(lane.end))")
    flags = page.locator(".lane .flag").all_inner_texts()
    assert flags[0].strip() == ends[0]
    assert re.split(r"\s{2}", flags[1]) == [ends[1], "2.0\u00a0× as fast"]
    page.evaluate("showMoment(race.lanes[1].end)")  # the other lane is still at work
    assert page.locator(".together .flag").is_visible() and page.locator(".alone .flag").is_hidden()
    assert page.locator(".together .flag span").first.is_hidden()


@pytest.mark.parametrize("size", ["desktop", "phone", "zoomed"])
def test_the_weights_of_both_models_are_drawn_to_scale(saved, size):
    width, height = SIZES[size]
    page = saved({"viewport": {"width": width, "height": height}})
    page.evaluate("state.base.parameters = [24e6, 1e6], showRace(state.base)")
    areas = []
    for block in (".small i", ".slab"):
        box = page.locator(f".together {block}").bounding_box()
        areas.append(box["width"] * box["height"])
    assert areas[1] / areas[0] == approx(24, rel=0.05)
    assert text_of(page, ".together .who").startswith("24\u00a0× smaller")


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_result_stands_there_from_the_start_and_the_end_says_it_in_one_line(saved, temperature):
    page = saved(MOTION | WIDE, temperature=temperature)
    result = "[$('result').innerText, $('result').offsetHeight]"
    page.evaluate("pause(), showMoment(0)")
    before = page.evaluate(result)
    assert "as fast" in before[0] and page.locator(".quote").count() == 0
    bars = page.locator("#cost > div").evaluate_all(
        "all => all.map(e => e.children[0].offsetWidth)"
    )
    assert all(bars)
    heights = "[...document.querySelectorAll('.places, .lane')].map(e => e.offsetHeight)"
    tall = page.evaluate(heights)
    page.evaluate("showMoment(race.length)")
    assert page.evaluate(result) == before and page.evaluate(heights) == tall
    rounds, alone = page.evaluate("[state.base.rounds, state.base.alone.tokens]")
    same = "the same odds" if temperature else "every word the same"
    written = sum(len(one["tokens"]) for one in rounds)
    than = f"instead of {written}" if written == len(alone) else f"for {written} words"
    assert text_of(page, ".together .quote") == f"{len(rounds)} fetches {than}, {same}"
    average = f"One fetch wrote {written / len(rounds):.2f} words on average."
    assert text_of(page, ".together .says") == average


def test_the_clock_moves_both_lanes(saved):
    page = saved(MOTION)
    wait_for(page, "$('clock').value > 1")
    page.locator("#clock").press("Home")
    assert page.evaluate("!race.playing && race.time === 0")
    assert page.locator(".fetch:visible").count() == 0
    page.locator("#clock").press("End")
    assert page.evaluate("race.time === race.length")
    assert page.locator(".fetch[hidden]").count() == 0
    # every moment of the race has its place in the plan
    for share in (0, 0.05, 0.3, 0.7, 0.99):
        back = page.evaluate(f"momentAt(wallAt({share} * race.length)).time / race.length")
        assert back == approx(share, abs=1e-6)


def test_the_sum_of_the_picture_is_the_speedup(saved):
    page = saved(**RUNS["sampled"])
    turns, rounds, alone = page.evaluate("[state.base.turns, state.base.rounds, state.base.alone]")
    n_words = sum(len(one["tokens"]) for one in rounds)
    speedups = [n_words * a / len(alone["tokens"]) / (d + r) for a, d, r in turns]
    numbers_of = lambda selector: [
        float(x) for x in re.findall(r"\d+(?:\.\d+)?", text_of(page, selector))
    ]
    speedup, n_races, low, high = numbers_of("#sum")
    word_alone, word = [
        float(text.split("\u00a0")[0]) for text in page.locator("#cost > b").all_inner_texts()
    ]
    assert n_races == len(turns) == 5
    one = sum(alone["seconds"]) / len(alone["tokens"])
    both = sum(sum(each["seconds"]) for each in rounds)
    assert [word_alone, word] == approx([1e3 * one, 1e3 * both / n_words], abs=0.006)
    assert [speedup, low, high] == approx(
        [median(speedups), min(speedups), max(speedups)], rel=0.06, abs=0.006
    )
    # the race that is shown is the one in the middle: its words take times of this ratio
    assert one / (both / n_words) == approx(median(speedups), rel=1e-3)
    # the bars below show the same: the shorter, the faster
    lengths = page.locator("#cost > div").evaluate_all(
        "all => all.map(row => sum([...row.children].map(e => e.getBoundingClientRect().width)))"
    )
    assert lengths[1] / lengths[0] == approx(both / n_words / one, rel=0.02)
    assert f"one fetch for {n_words / len(rounds):.2f} words" in text_of(page, "#cost")
    parts = [float(x) for x in re.findall(r"([\d.]+)\sms(?! /)", text_of(page, "#cost .legend"))]
    assert sum(parts) == approx(1e3 * both / n_words, abs=0.02)  # the gap closes
    # every part of the page names the same speedup
    said = page.evaluate("x => factor(x)", median(speedups))
    page.evaluate("$('deeper').open = true")
    for part in ("#sum b", "#verdict"):
        assert said in text_of(page, part)


def test_why_follows_the_measurement(saved):
    """Fetching takes most of the time only where more words cost little; and a slower race says
    what was too slow."""
    page = saved()
    told = lambda guessing, longer: page.evaluate(f"""(run => {{
        const one = sum(run.alone.seconds) / run.alone.tokens.length;
        run.rounds.forEach(round => round.seconds = [{guessing} * one, {longer} * one]);
        showRace(run);
        return $("why").textContent; }})(state.base)""")
    assert "fetching takes most of the time" in told(0.1, 1.2)
    assert "computing took much of the time, too" in told(0.1, 2.3)
    assert "waits" not in text_of(page, ".alone")
    slow = page.evaluate("state.base.rounds.length") and [
        told(*costs) for costs in ((1, 9), (9, 1))
    ]
    assert all(said.startswith("Why was it not faster?") for said in slow)
    page.evaluate("state.base.rounds.forEach(round => round.accepted = 0)")
    assert "brought" in told(1, 9)
    assert page.evaluate("state.base.parameters[0] = 1.24e8, showWhy(state.base)") is None
    page.evaluate("$('deeper').open = true")
    assert "120 and" in text_of(page, "#work") and "GB/s" in text_of(page, "#work")
    page.evaluate("state.base.rounds.forEach(round => round.draft = []); showRace(state.base)")
    assert text_of(page, "#sum").startswith("Nothing was guessed")


def test_words_drawn_by_chance_are_one_click_away_and_begin_at_the_beginning(saved):
    page = saved(MOTION | PHONE)
    page.evaluate("showMoment(race.length / 2)")
    for name, chance in (("Words drawn at random", True), ("Always the likeliest word", False)):
        button = page.get_by_role("button", name=name)
        tall = "['lanes', 'result', 'easy', 'microscope'].map(id => $(id).offsetHeight)"
        heights = page.evaluate(tall)
        button.click()
        assert page.evaluate("isByChance(state.base)") == chance
        assert page.evaluate(tall) == heights  # nothing below it jumps
        assert button.get_attribute("aria-pressed") == "true"
        assert page.evaluate("race.playing && race.time < race.length / 4")
        assert ("the same odds" if chance else "exactly the same text") in text_of(page, "#sum")
        claim = "The odds stay exactly the same." if chance else "The text stays exactly the same."
        assert claim in text_of(page, "h1") and len(text_of(page, "header").split()) < 38
        page.evaluate("pause()")
        page.evaluate("showMoment(0)")  # from the start it says that the texts differ
        told = "other text, same odds." in text_of(page, ".together .who")
        assert told == (chance and not page.evaluate("isSameText(state.base)"))
        # the microscope shows a word of the race above
        assert page.evaluate("state.base.rounds.includes(selected.round)")
    # rounding can part two texts of the likeliest words
    page.evaluate("state.base.alone.tokens.pop(); showRace(state.base)")
    assert "but for a tie" in text_of(page, "#sum")


def test_a_text_of_one_round_and_long_texts_are_played(saved):
    itself = {"draft_model_size": "17M", "K": 8}
    page = saved(**itself, n_tokens_to_generate=3)
    assert page.evaluate("race.plan.every(({from, to, wall}) => from <= to && wall > 0)")
    page = saved(PHONE, prompt="a " * 20, n_tokens_to_generate=40)
    text = "document.querySelector('.together .written')"
    page.evaluate(f"{text}.style.maxHeight = {text}.style.width = '4em'; showMoment(race.length)")
    low, high = page.evaluate(f"""[race.lanes[1].groups.at(-1), {text}].map(
        e => e.getBoundingClientRect().bottom)""")
    assert page.evaluate(f"{text}.scrollTop") > 0 and abs(low - high) < 8  # its end is in sight


def test_of_a_single_token_nothing_is_said_of_guesses_that_were_not_made(saved):
    text = in_words(saved(n_tokens_to_generate=1))
    assert "Nothing was guessed" in text and "more for each word" not in text
    assert "as fast" not in text


def test_guesses_behind_the_end_of_a_text_did_not_come_after_a_rejected_one(saved):
    """The draft is the target itself: it rejects nothing, and the text ends within a round."""
    page = saved(target_model_size="ends", draft_model_size="ends", prompt="x", K=8)
    page.evaluate("$('deeper').open = true")
    assert page.evaluate("acceptedIn(state.base) === examinedIn(state.base)")
    assert page.evaluate("draftedIn(state.base) > examinedIn(state.base)")
    assert text_of(page, "#rate").endswith("not used, as they came after the end.")
    page.evaluate("showMoment(race.length)")
    assert "dropped" not in text_of(page, ".together")


def test_a_draft_that_is_the_target_itself_is_described(saved):
    page = saved(draft_model_size="17M", temperature=1.0)
    assert text_of(page, ".together .who") == "Other dice, other text, same odds."
    for n in page.evaluate("items.map((_, n) => n)"):
        page.evaluate(f"select(items[{n}])")
        assert "-0" not in text_of(page, "#exact")


def test_on_paper_is_the_end_with_its_colours_and_no_empty_page(saved):
    page = saved(MOTION | WIDE)
    wait_for(page, "race.time > 0")
    paper = page.pdf(format="A4")
    assert page.evaluate("!race.playing && race.time === race.length")
    assert len(re.findall(rb"/Type\s*/Page\b", paper)) == 2
    page.emulate_media(media="print")
    drawn = ".slab, .pipe i, .strip i, .places, .swatch, .cell, #cost i, .lane .mark"
    exact = "all => all.every(e => getComputedStyle(e).printColorAdjust === 'exact')"
    assert page.locator(drawn).count() > 50 and page.locator(drawn).evaluate_all(exact)
    assert page.locator("#play").is_hidden() and page.locator("#sum").is_visible()


def test_without_scripts_a_picture_with_its_labels_says_what_happens(browser, written):
    path, _ = written()
    page = browser.new_page(java_script_enabled=False, **PHONE)
    page.goto(path.as_uri())
    assert "all its weights for each word" in text_of(page, "h1")
    labels = page.locator("noscript svg text").all_text_contents()
    assert "one word each" in labels[0] and "four words each" in labels[1]
    assert page.locator("#race").is_hidden() and page.locator("#controls").is_hidden()
    box = page.locator("noscript svg").bounding_box()
    assert box["x"] + box["width"] <= 390
    page.close()


def test_the_size_of_letters_is_that_of_the_browser(saved):
    page = saved(WIDE)
    size = lambda: page.evaluate("parseFloat(getComputedStyle(document.body).fontSize)")
    before = size()
    page.evaluate("document.documentElement.style.fontSize = '200%'")
    assert size() == 2 * before


# ---------------------------------------------------------------- easy words


def test_the_text_is_darker_where_the_large_model_is_surer(saved):
    page = saved()
    rounds = page.evaluate("state.base.rounds")
    sure = lambda one, i: one["likely"][i][0][1]
    written = [(one, i) for one in rounds for i in range(len(one["tokens"]))]
    shades = page.locator("#text .cell").evaluate_all(
        "all => all.map(e => Number(e.style.getPropertyValue('--sure')))"
    )
    assert shades == approx([sure(*place) for place in written])
    # where the models differ, the guess stands above the word that replaced it
    pairs = page.locator("#text .pair").evaluate_all("""all => all.map(e =>
        [...e.querySelectorAll("button")].map(button => button.item.kind))""")
    assert pairs == [["rejected", "correction"]] * sum(
        one["accepted"] < one["examined"] for one in rounds
    )
    # how often guesses were right
    seen = [(one, i) for one in rounds for i in range(one["examined"])]
    # what became of the guesses adds up
    examined, accepted = len(seen), sum(i < one["accepted"] for one, i in seen)
    drafted = sum(len(one["draft"]) for one in rounds)
    assert text_of(page, "#surely b >> nth=0").startswith(f"{accepted} of the {examined} guesses")
    page.evaluate("$('deeper').open = true")
    said = [int(x) for x in re.findall(r"\d+", text_of(page, "#rate"))]
    unused = [drafted - examined] if drafted > examined else []  # what did not happen is not said
    assert said == [drafted, accepted, examined - accepted, *unused]
    assert said[0] == sum(said[1:])


def test_more_guesses_than_the_map_has_are_as_measured(saved):
    page = saved(K=12, n_tokens_to_generate=30)
    drafted = page.evaluate("Math.round(draftedIn(state.base) / state.base.rounds.length)")
    page.evaluate("$('deeper').open = true")
    assert drafted > 8 and f"K = {drafted} guesses" in text_of(page, "#verdict")
    assert page.locator("#knob-K").input_value() == str(drafted)


# ---------------------------------------------------------------- the microscope


def test_a_click_on_a_token_opens_its_numbers(saved):
    page = saved(WIDE, temperature=1.0)
    rows = page.evaluate("state.base.rounds")
    r, row = next((r, row) for r, row in enumerate(rows) if 0 < row["accepted"] < row["examined"])
    percent = lambda x: page.evaluate("x => percent(x)", x)
    for i, verdict in ((0, "accepted guess"), (row["accepted"], "rejected guess")):
        at = page.evaluate(f"items.findIndex(item => item.r === {r} && item.i === {i})")
        page.locator("#text button").nth(at).click()
        p, q = row["p"][i], row["q"][i]
        shown = page.locator("#likely .chosen td.number").all_inner_texts()
        because = text_of(page, "#because")
        assert verdict in because
        rule = text_of(page, "#odds")
        assert f"in {percent(q)} of cases, the large model in {percent(p)}" in rule
        quotient = page.evaluate(f"quotient({p}, {q})")
        assert (quotient if p < q else "always accepted") in rule
        number = lambda x: page.evaluate("x => printed(x)", x)
        if p < q:
            right = percent(number(q) * number(p / q)) == percent(p)
            assert f"{percent(q)} × {percent(p / q)} {'≈='[right]} {percent(p)}" in rule
        elif p > q:  # the sum adds up as it is printed
            assert f"The missing {percent(number(p) - number(q))} come as replacements" in rule
        page.evaluate("$('deeper').open = true")
        assert "norm(max(0, p − q))" in text_of(page, "#formula").replace("\u00a0", " ")
        assert [f"{x}\u00a0%" for x in shown[:2]] == [percent(q), percent(p)]
        division = re.split(" [=≈]", quotient)[0]
        coin = f"It had a {percent(p / q)} chance (large ÷ small: {division}). "
        side = "below" if row["coins"][i] < p / q else "not below"
        coin += (
            f"The random number was {percent(row['coins'][i])}, {side} that: {verdict.split()[0]}."
        )
        assert (coin if p < q else "always accepted") in because
        assert page.locator("#likely tbody tr").count() >= len(row["likely"][i])
    # a replacement has its numbers, too: it is guessed too seldom
    page.evaluate("""select(items.find(({kind, id, round, i}) => kind === "correction"
        && round.likely[i].some(([other]) => other === id)))""")
    q, p = page.evaluate("""(({round, i, id}) => round.likely[i].find(
        ([other]) => other === id).slice(1).reverse())(selected)""")
    rule = text_of(page, "#odds")
    assert q < p and f"in {percent(q)} of cases, the large model in {percent(p)}" in rule
    assert f"The missing {percent(number(p) - number(q))} come as replacements" in rule


def test_a_printed_division_comes_out_as_it_is_printed(saved):
    page = saved()
    assert page.evaluate("quotient(.0930261, .148311)") == "9.30 / 14.83 = 62.7\u00a0%"
    for p, q in [[0.341, 0.482], [0.102978, 0.117576], [0.00265, 0.00361], [8.6e-5, 0.0234]]:
        text = page.evaluate(f"quotient({p}, {q})")
        of, start, result = map(float, re.findall("[0-9.]+", text))
        digits = page.evaluate(f"digitsOf({p / q})")
        assert (round(100 * of / start, digits) == result) == ("=" in text)
        assert result == round(100 * p / q, digits)
    assert page.evaluate("quotient(.12956, .140144)") == "12.96 / 14.01 ≈ 92.4\u00a0%"


def test_under_the_block_rule_all_others_share_what_they_share(saved):
    """P p and q share the overlap, in a round at a place behind which P is below 1, too."""
    found = saved(**RUNS["block"]).evaluate("""itemsOf(state.base).filter(({round, i}) =>
        i > 0 && i < round.draft.length && round.support[i - 1] < 1).map(({round, i}) =>
        [rowsAt(round, i), round.overlap[i]])""")
    assert any(rows[-1]["id"] is None and rows[-1]["both"] > 0.01 for rows, _ in found)
    for rows, overlap in found:
        assert sum(row["both"] for row in rows) == approx(overlap, abs=2e-3)


def test_in_every_picture_the_hatched_pieces_and_the_orange_ones_are_equally_large(saved):
    """Those of all other words, too, whose bars are broken where they are much longer."""
    page = saved(WIDE, temperature=1.0)
    widths = page.evaluate("""items.filter(({round, i}) => i < round.draft.length).map(item => {
        const {round, i, n} = item;
        round.likely[i] = round.likely[i].slice(n % 2, 8); // without the likeliest, or with it
        select(item);
        const sumOf = kind => sum([...document.querySelectorAll(`.bars > rect.${kind}:not(.drawn)`)]
            .map(rect => parseFloat(rect.getAttribute("width"))));
        const isBroken = document.querySelector(".bars > .break") !== null;
        return [sumOf("rejected"), sumOf("residual"), isBroken]; })""")
    assert {broken for _, _, broken in widths} == {False, True}
    for hatched, orange, _ in widths:
        assert hatched == approx(orange, abs=0.1) and hatched > 0


def test_two_chances_are_told_apart_and_odds_give_the_chance_that_is_printed(saved):
    page = saved()
    assert page.evaluate("[apart(.1, .62), apart(.5631, .5639)]") == [
        ["10", "62"],
        ["56.3", "56.4"],
    ]
    assert page.evaluate("[moreDigits(.1034, .118), moreDigits(.0826, .1467)]") == [1, 0]


def test_the_page_opens_on_a_rejected_word_and_makes_no_number_up(saved):
    """Of words drawn by chance, it says the random number; of the likeliest ones, there is none."""
    for temperature in (1.0, 0.0):
        page = saved(temperature=temperature)
        rejected = page.evaluate("items.filter(({kind}) => kind === 'rejected')")
        first = next(
            (item for item in rejected if item["q"] - item["p"] > 0.05), [*rejected, {"n": 0}][0]
        )
        assert page.evaluate("selected.n") == first["n"]
        assert ("The random number was" in text_of(page, "#because")) == (temperature > 0)
        assert "The random number was" not in text_of(page, "#microscope")
        assert page.locator("#more circle").count() == 0


def test_the_bars_of_the_picture_are_p_and_q_and_what_they_share(saved):
    """As they are drawn, in fractions of the picture: of each token, how wide and where."""
    page = saved(WIDE, temperature=1.0)
    for kind in ("draft", "rejected", "correction"):
        page.evaluate(f"select(items.find(item => item.kind === '{kind}'))")
        read = """all => all.map(rect => [
            rect.classList[0], ...["y", "x", "width"].map(name => rect[name].baseVal.value
                / rect.ownerSVGElement["client" + (name === "y" ? "Height" : "Width")])])"""
        drawn = page.locator("#more tbody rect:not(.drawn)").evaluate_all(read)
        rows, likely, overlap = page.evaluate("""(({round, i}) =>
            [rowsAt(round, i), round.likely[i], round.overlap[i]])(selected)""")
        own = [[row["id"], row["p"], row["q"]] for row in rows if row["id"] is not None]
        assert own == likely
        for name, total in (("p", 1), ("q", 1), ("both", overlap)):
            assert sum(row[name] for row in rows) == approx(total, abs=2e-3)
        most = 1.08 * max(max(row["p"], row["q"]) for row in rows)
        expected = []
        for i, row in enumerate(rows):
            p, q, both = row["p"], row["q"], row["both"]
            for name, top, low, high in (
                ("accepted", 0.08, 0, both),
                ("rejected", 0.08, both, q),
                ("accepted", 0.5, 0, both),
                ("residual", 0.5, both, p),
            ):
                place = (i + top) / len(rows), low / most, (high - low) / most
                expected += [(name, *place)] * (high > low)
        assert [row[0] for row in drawn] == [row[0] for row in expected]
        for (_, *one), (_, *right) in zip(drawn, expected):
            assert one == approx(right, abs=0.01)
        assert page.locator(".bars").first.bounding_box()["width"] > 600  # the main figure
        # in numbers, which add up
        cells = page.locator("#likely tr:has(td.number)").evaluate_all("""all => all.map(row =>
            [...row.querySelectorAll("td.number")].slice(0, 2).map(e => parseFloat(e.innerText)
                || 0))""")
        assert len(cells) == len(rows)
        assert np.sum(cells, axis=0) == approx([100, 100], abs=0.5)


def test_draws_by_the_rule_go_towards_what_the_large_model_says(saved):
    for width in (360, 1440):
        page = saved({"viewport": {"width": width, "height": 900}}, temperature=1.0)
        page.evaluate(REJECTED)
        for _ in range(2):
            page.locator("#draws").click()  # without motion, all at once; each begins anew
        for _ in range(3):
            page.locator("#draw").click()
        # one for each click, after the last thousand
        n = int(re.match(r"([\d,]+) draws", text_of(page, "#drawn"))[1].replace(",", ""))
        assert n == 1003
        assert f"{n:,} ×" in text_of(page, "#likely thead")
        rows = page.evaluate("rowsAt(selected.round, selected.i)")
        most = 1.08 * max(max(row["p"], row["q"]) for row in rows)
        drawn = page.evaluate("""["accepted", "residual"].map(kind =>
            [...document.querySelectorAll("rect.drawn." + kind)].map(rect =>
                parseFloat(rect.getAttribute("width")) / 100))""")
        spread = 5 * (0.25 / n) ** 0.5  # five standard deviations, at most
        for row, stayed, replaced in zip(rows, *(np.array(widths) * most for widths in drawn)):
            assert [stayed, replaced] == approx([row["both"], row["over"]], abs=spread)
        assert sum(map(sum, drawn)) * most == approx(1, abs=2e-3)
        tally = page.locator("#likely td.number:last-child").all_inner_texts()
        found = [float(re.sub("[^0-9.]", "", text)) / 100 for text in tally]
        assert found == approx([row["p"] for row in rows], abs=spread)
        said = re.search(
            r": ([\d.]+) points.* mostly gives ([\d.]+) to ([\d.]+)\.$", text_of(page, "#drawn")
        )
        gap, *usual = [float(x) / 100 for x in said.groups()]
        p = np.array([row["p"] for row in rows])
        assert gap == approx(np.abs(found - p).mean(), abs=1.1e-3)
        by_chance = np.abs(np.random.default_rng(1).multinomial(n, p / p.sum(), 2000) / n - p)
        expected = np.quantile(by_chance.mean(axis=1), [0.05, 0.95])
        assert usual == approx(expected, rel=0.35, abs=6e-4)  # from 200 times n draws
        assert page.locator(".gaps i").count() == 3  # after 10, 100 and 1,000 draws
        # many more of the same draws, without their picture
        many = page.evaluate("""(rows => { const n = rows.map(() => 0);
            for (const _ of range(2e4)) (one => n[one.instead ?? one.guess]++)(drawOne(rows));
            return n; })(rowsAt(selected.round, selected.i))""")
        assert np.array(many) / 2e4 == approx(p, abs=5 * (0.25 / 2e4) ** 0.5)
        assert page.locator(".bars").first.bounding_box()["width"] > 0.3 * width
        inside = "all => all.map(e => { const r = document.createRange(); r.selectNodeContents(e); "
        inside += "return r.getBoundingClientRect().width + 3 <= e.clientWidth })"
        assert all(
            page.locator("#likely .number:not(:last-child)").evaluate_all(inside)
        )  # none meets the next
        numbers = page.locator("#likely .chosen td.number")
        assert numbers.first.is_visible() and numbers.last.is_visible()  # on a phone, too


def test_draws_are_shown_in_steps_then_counted(saved):
    page = saved(MOTION | WIDE, temperature=1.0)
    page.evaluate(REJECTED)
    # every step has its place on its bar
    rows, draws = page.evaluate("""(rows => [rows, range(200).map(() => drawOne(rows)).map(one =>
        [one, stepsOfDraw(one, rows).map(([, ...step]) => step)])])(
        rowsAt(selected.round, selected.i))""")
    upper, lower = page.evaluate("[UPPER, LOWER]")
    seen = set()
    for one, steps in draws:
        kinds = [kind for *_, kind in steps]
        replaced = one.get("instead") is not None
        assert kinds == (["guess", "rejected", "residual"] if replaced else ["guess", "accepted"])
        assert [steps[0][0], steps[-1][0]] == [
            one["guess"],
            one["instead" if replaced else "guess"],
        ]
        assert replaced == (one["place"] >= rows[one["guess"]]["both"])
        seen.add(replaced)
        for i, bar, place, kind in steps:
            row = rows[i]
            low, high = {
                "guess": (0, row["q"]),
                "accepted": (0, row["both"]),
                "rejected": (row["both"], row["q"]),
                "residual": (row["both"], row["p"]),
            }[kind]
            assert low <= place <= high
            assert bar == (lower if kind in ("accepted", "residual") else upper)
    assert seen == {True, False}
    # a rejected guess and an accepted one are shown, then a thousand are counted
    page.evaluate("""window.seen = []; new MutationObserver(() => seen.push(
        ...$("more").querySelectorAll("circle"))).observe(
        $("more"), {subtree: true, childList: true, attributes: true})""")
    page.evaluate(
        "window.kinds = new Set(); setInterval(() => seen.forEach(e => "
        "kinds.add(e.getAttribute('class'))), 20)"
    )
    page.locator("#likely").evaluate("e => e.scrollIntoView({block: 'center'})")
    wait_for(page, "$('drawn').innerText.startsWith('1,000 draws')")
    assert {*page.evaluate("[...kinds]")} >= {"guess", "accepted", "rejected", "residual"}
    assert page.locator("circle").count() == 0
    # each click is counted at once, however fast they come
    told = page.evaluate("""range(5).map(() => ($('draw').click(),
        document.querySelector("#likely thead").innerText))""")
    assert "1,004 ×" in told[-1]  # the last one, when it has been shown
    wait_for(page, "$('likely').innerText.includes('1,005 ×')")
    assert re.search("comes|accepted", text_of(page, "#drawn"))  # and what became of it stays


# ---------------------------------------------------------------- when does it pay


def test_the_expected_speedup_is_that_of_the_theory(saved):
    page = saved(temperature=1.0)
    page.evaluate("$('deeper').open = true")
    a, c, extra = page.evaluate("""(({a, c, extra}) => [a, c, extra])(standing(state.base))""")
    rounds = page.evaluate("state.base.rounds")
    drafted = sum(len(one["draft"]) for one in rounds)
    assert a == sum(one["accepted"] for one in rounds) / sum(one["examined"] for one in rounds)
    one = page.evaluate("sum(state.base.alone.seconds) / state.base.alone.tokens.length")
    guessing, rest = np.sum([each["seconds"] for each in rounds], axis=0) / one
    more = max(0, (rest - len(rounds)) / drafted)
    assert (c, extra) == approx((guessing / drafted, more))
    for K in (1, 4, 8):
        found = page.evaluate(f"knobs.K = {K}, showMoved(), standing(state.base).by[{K - 1}]")
        assert found == approx(speedup(a, K, c, 1 + K * extra))
        costs = [f"{x:.3f}" for x in (c, extra)]  # the sum adds up as it is printed
        assert f"1 + {K} × ({' + '.join(costs)}) =" in text_of(page, "#verdict")
        yields = sum(a**i for i in range(K + 1)), 1 + K * sum(map(float, costs))
        assert all(f"= {x:.2f} " in text_of(page, "#verdict") for x in yields)
    page.evaluate("state.base.turns = [[9, 1, 1]]; showPays(state.base)")
    assert "measured: 4.5" in text_of(page, "#verdict")
    page.locator("#knob-a").press("End")  # what was measured, was so with other numbers
    assert "theory expects" in text_of(page, "#verdict")
    assert "measured" not in text_of(page, "#verdict")
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
    assert text_of(page, "#sum").startswith("…") and page.evaluate("asking !== null")
    assert page.locator("#chance").is_hidden()  # of words drawn by chance, there are none yet
    page.evaluate("showMoment(race.length / 2)")
    written = page.locator(".fetch:visible").count()
    assert page.locator("#easy").is_visible()
    go_on.set()
    wait_for(page, READY)
    assert "×" in text_of(page, "#sum b")
    # the reader is not disturbed
    assert page.evaluate("race.time / race.length") == approx(0.5) and written > 0
    wait_for(page, "/^Done: .*× as fast/.test($('status').textContent)")
    assert page.locator("#chance").is_visible()


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
    page.locator("#run").click()
    wait_for(page, "Boolean($('error').textContent)")
    message = text_of(page, "#error")
    assert "100 tokens" in message and "Below is still the run of “hello there”" in message
    assert page.evaluate("!race.playing && tokensOf(state.base).length === 40")
    in_words(page)
    # the error goes with the run that it is about
    page.locator("#controls [name=prompt]").fill("there")
    page.locator("#run").click()
    wait_for(page, "state.base.prompt === 'there'")
    assert text_of(page, "#error") == ""


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
    kept = "[state.all, state.all.other].map(tokensOf)"
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
    at = "showMoment(race.lanes[1].fetches[0].{})"
    states = [at.format(name) for name in ("begin", "middle", "end")]
    states += ["showMoment(race.length / 2)", "showMoment(race.length)"]
    states += [select.format(kind) for kind in ("draft", "correction", "rejected")]
    states += ["$('draws').click()", "$('deeper').open = true, knobs.a = 0, showMoved()"]
    for width in (320, 360, 768, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        for state in states:
            page.evaluate(state)
            assert_readable(page, scheme)
        # what is touched is large enough
        boxes = page.locator(".tools button, #draw, #draws").evaluate_all(
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
    wait_for(page, "race.playing && race.time > 0")
    places = []
    for moment in range(9):
        page.evaluate(f"pause(); showMoment(race.length * {moment / 8})")
        places.append(page.evaluate("$('easy').offsetTop"))
    assert page.evaluate("shifts.reduce((a, b) => a + b, 0)") < 0.01
    assert len({*places}) == 1  # what stands below never moves


def test_each_colour_has_one_meaning_and_bars_keep_theirs_where_colours_are_forced(saved):
    """Accepted is green and a correction red, on bars, in texts and in the draws."""
    page = saved(temperature=1.0)
    page.locator("#draws").click()
    of = lambda selector, name: page.locator(selector).first.evaluate(
        f"e => getComputedStyle(e).{name}"
    )
    for kind, area in (("draft", "accepted"), ("correction", "residual")):
        colour = of(f"#lanes .mark.{kind}", "color")
        assert of(f"rect.drawn.{area}", "fill") == colour
    colours = "all => all.map(e => getComputedStyle(e).color)"
    assert of("#text .correction", "borderBottomColor") == colour
    assert colour not in page.locator(".rejected").evaluate_all(colours)
    bars = page.locator(".strip i, .swatch, .pipe i, .slab, #cost i")
    grounds = "all => all.map(e => getComputedStyle(e).background)"
    plain = bars.evaluate_all(grounds)
    page.emulate_media(forced_colors="active")
    assert bars.evaluate_all(grounds) == plain and len({*plain}) > 5
    # underlined is what the large model writes itself, and nothing else
    ground = of("body", "backgroundColor")
    for kind, is_own in (("correction", True), ("draft", False), ("rejected", False)):
        under = of(f"#text .{kind}", "borderBottomColor")
        assert (under not in (ground, "rgba(0, 0, 0, 0)")) == is_own


def test_links_to_the_repository_show_where_its_address_is_filled_in(new_page, written):
    path, _ = written()
    links = lambda: page.locator("#links a:visible").all_inner_texts()
    page = new_page(path.as_uri())
    assert links() == ["Paper: Leviathan et al. 2023"]
    published = path.with_name("published.html")
    published.write_text(path.read_text().replace("OWNER/REPOSITORY", "you/name"))
    page = new_page(published.as_uri())
    assert links() == ["Code", "Docs", "Paper: Leviathan et al. 2023"]


def test_hidden_characters_are_shown_and_a_text_runs_its_own_way(saved):
    hebrew = "שלום עולם"
    page = saved(prompt=hebrew + "\u202e x\u200b\U000e0041", temperature=1.0)
    lane = page.locator(".lane .written").first
    assert lane.inner_text().startswith(hebrew + "[U+202E] x[U+200B][U+E0041]")
    assert lane.evaluate("e => getComputedStyle(e).direction") == "rtl"
    assert "\u202e" not in in_words(page)


def test_the_keyboard_reaches_everything(live):
    page, _ = live(temperature=1.0)
    page.evaluate(f"$('deeper').open = true; {REJECTED}")
    wanted = set("run save play clock draw draws command copy as-measured".split())
    wanted |= {f"knob-{name}" for name in ("a", "c", "extra", "K")}
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
        assert page.evaluate("document.activeElement.item.n") == decision - 1
        assert page.evaluate("document.activeElement.item === selected")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.item.n === items.length - 1")
