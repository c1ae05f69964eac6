"""The table and the picture of a benchmark, from rows that were never measured."""

import re
from xml.etree import ElementTree

from bench.plot import draw
from bench.table import to_markdown


def row(draft="eagle", K=2, speedup=1.5, weights="checkpoint", **more):
    settings = {"weights": weights, "synthetic_acceptance": 0.0, "n_tokens_to_generate": 60}
    return {
        "target": "17M", "draft": draft, "temperature": 1.0, "K": K, "verification": "token",
        "batch_size": 1, "prompts": 6, "plain_tokens_per_second": 10.0,
        "tokens_per_second": 10.0 * (speedup or 1.0), "speedup": speedup, "predicted": 1.4,
        "tokens_per_target_pass": 2.0, "acceptance_rate": 0.7, "draft_cost": 0.1,
        "verify_cost": 1.2, "intervals": {"speedup": (1.4, 1.6)}, "withheld": {},
        "settings": settings | {"repeats": 3, "backend": "numpy"},
        "machine": {"cpu": "a CPU", "threads": 2, "date": "today"},
    } | more  # fmt: skip


def withheld(**more):
    return row(speedup=None, withheld={"speedup": "a bug"}, **more)


def near_1(speedup=1.02, **more):
    return row(speedup=speedup, intervals={"speedup": (0.9, 1.1)}, **more)


def test_cells_and_the_fastest_K_of_each_draft_in_bold():
    lines = to_markdown([row(K=1), row(K=4, speedup=1.6), row("ngram"), withheld(K=5)]).splitlines()
    assert lines[0] == "All rows: target 17M, T 1, rule token, texts 1."
    table = [line.split("|")[1:-1] for line in lines if line.startswith("|")]
    assert [cell.strip() for cell in table[0]][:5] == ["draft", "K", "plain", "tok/s", "speedup"]
    cells = [row[4].strip() for row in table[2:]]
    assert cells == ["1.50 [1.40, 1.60]", "**1.60 [1.40, 1.60]**", "1.50 [1.40, 1.60]", "–"]
    assert "- speedup –: a bug (1 of 4 rows)" in lines


def test_every_interval_is_printed_and_one_that_contains_1_is_marked():
    text = to_markdown([near_1(K=1), near_1(speedup=1.0, K=2), row(K=3, speedup=0.9)])
    assert "| 1.02 [0.900, 1.10] ≈ 1 " in text and "| 1.00 [0.900, 1.10] ≈ 1 " in text
    assert "**" not in text and "–" not in text  # the fastest is no faster than plain decoding


def test_no_K_is_bold_where_one_that_is_not_told_apart_is_faster():
    slower = [row(K=K, speedup=0.9) for K in (4, 5)]
    assert "**" in to_markdown(slower)
    for first in (withheld(K=1), near_1(K=1)):
        assert "**" not in to_markdown([first, *slower])


def test_rows_that_have_nothing_in_common_have_no_line_of_it():
    other = {"target": "7M", "temperature": 0.0, "verification": "block", "batch_size": 2}
    assert to_markdown([row(), row(**other)]).startswith("| target")


def test_intervals_are_over_batches_where_these_have_several_prompts():
    for rows, units in (([row()], "prompts"), ([row(), row(batch_size=2)], "batches")):
        assert f"95 % interval over {units};" in to_markdown(rows)
        assert any(text.endswith(f"95 % intervals over {units}") for text in texts_of(draw(rows)))


def test_rows_of_different_numbers_of_prompts_say_so():
    """Batches leave out a smaller rest."""
    assert "\n4 to 6 prompts, " in to_markdown([row(), row(batch_size=4, prompts=4)])


def test_figures_that_are_not_real_are_labelled():
    settings = row()["settings"] | {"weights": "random", "synthetic_acceptance": 0.8}
    text = to_markdown([row(settings=settings)])
    assert text.startswith("**random weights, synthetic acceptance 0.8: the texts mean nothing**")
    warning = "random weights, synthetic acceptance 0.8: the texts mean nothing"
    assert warning in texts_of(draw([row(settings=settings)]))


def test_the_legend_has_the_headings_of_the_table():
    for rows in ([row()], [row(draft_cost=None, predicted=None)], [withheld()]):
        text = to_markdown(rows)
        (headings,) = re.findall(r"(?m)^\| draft +\| K +\| (.*) \|$", text)
        legend = re.findall(r"(?m)^- ([^–:]+):", text)  # "- speedup –: a bug" is a remark
        assert legend == re.split(r" +\| ", headings.strip())


def texts_of(picture):
    root = ElementTree.fromstring(picture)
    return [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]


def test_a_picture_has_a_line_for_each_draft_and_temperature_and_says_which():
    rows = [row(draft, K, temperature=t) for draft in ("eagle", "ngram") for t in (0.0, 1.0)
            for K in (1, 2)]  # fmt: skip
    text = draw([*rows, near_1(draft="a <b>", K=1)])
    texts = texts_of(text)
    for entry in ("eagle, T = 0", "eagle, T = 1", "ngram, T = 0", "ngram, T = 1", "a <b>, T = 1"):
        assert entry in texts
    assert "speedup over plain decoding" in texts and "K, tokens drafted per round" in texts
    # one of a speedup, one of the legend
    assert text.count('class="hollow"') == 2


def test_a_speedup_that_is_withheld_is_not_drawn():
    assert draw([row(K=1), withheld(K=2)]) == draw([row(K=1)])
    assert "every speedup is withheld: the table says why" in texts_of(draw([withheld()]))


def test_many_lines_stay_at_their_K_look_different_and_have_room():
    drafts = [f"a long name of a draft {i}" for i in range(9)]
    text = draw([row(draft, K, temperature=t) for draft in drafts for t in (0.0, 1.0)
                 for K in range(1, 9)])  # fmt: skip
    lines = re.findall(r'<polyline points="([^"]*)" (stroke=.*)/>', text)[:18]
    assert len({look for _, look in lines}) == 18
    for points, _ in lines:
        for K, point in enumerate(points.split(), 1):
            place = 560 / 8  # from one K to the next
            assert 0 <= float(point.split(",")[0]) - (60 + place * (K - 0.5)) < place / 2
    assert len({x for x in re.findall('<text x="(\\d+)"', text)}) == 2  # the title, one column


def test_a_long_entry_of_the_legend_is_made_smaller():
    for name, size in (("a" * 100, "8.5px"), ("a" * 50, "17px"), ("a", "17px")):
        assert re.findall(r"font-size: (\S+)\".*>a", draw([row(name)])) == [size]


def test_lines_of_several_batch_sizes_look_different():
    text = draw([row(K=K, batch_size=n) for K in (1, 2) for n in (1, 4)])
    assert len(set(re.findall(r'<polyline points="[^"]*" (stroke=.*)/>', text))) == 2


def test_an_interval_that_goes_on_above_the_picture_ends_in_an_arrow():
    intervals = row()["intervals"]
    wide = row(intervals=intervals | {"speedup": [1.4, 7.4]})
    assert draw([wide]).count('<polyline class="bar"') == 1
    assert draw([row()]).count('<polyline class="bar"') == 0


def test_with_one_K_the_picture_is_about_batches():
    rows = [row(batch_size=n, speedup=speedup) for n, speedup in ((1, 1.5), (32, 0.9))]
    texts = texts_of(draw(rows))
    assert "texts in a batch" in texts and "eagle" in texts and "32" in texts
