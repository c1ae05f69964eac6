"""The drawn pictures: the areas of docs/overlap.svg are the probabilities of the three fates, and
the animated race shows what a run did, and when.
"""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from command_line import ROOT, embedded

from docs.pictures import overlap, race

SVG = "{http://www.w3.org/2000/svg}"


def parts(path, tag):
    return ElementTree.parse(path).getroot().iter(f"{SVG}{tag}")


# ---------------------------------------------------------------- the rule

KINDS = ("accepted", "rejected", "residual")


def areas(path):
    """Of each of the KINDS, that of its columns; the legend is left out."""
    found = dict.fromkeys(KINDS, 0.0)
    for rect in parts(path, "rect"):
        if rect.get("class") in found and float(rect.get("y")) < overlap.FLOOR:
            found[rect.get("class")] += float(rect.get("width")) * float(rect.get("height"))
    return np.array([*found.values()])


def test_the_areas_are_the_probabilities(tmp_path):
    for p, q in np.random.default_rng(0).dirichlet(np.ones(5), (20, 2)):
        overlap.draw("abcde", p, q, tmp_path / "overlap.svg")
        found, shared = areas(tmp_path / "overlap.svg"), np.minimum(p, q).sum()
        area_of_p = found[0] + found[2]
        assert found / area_of_p == pytest.approx([shared, 1 - shared, 1 - shared], abs=0.01)


@embedded
def test_the_picture_in_the_docs_is_of_the_included_pair(tmp_path):
    overlap.draw(*overlap.rows(), tmp_path / "overlap.svg")
    expected = areas(tmp_path / "overlap.svg")
    assert areas(ROOT / "docs" / "overlap.svg") == pytest.approx(expected, rel=0.01)


# ---------------------------------------------------------------- the race

RUN = race.read_run(ROOT / "docs" / "live.html")


def classes(element):
    return element.get("class", "").split()


def begin(element):
    """When it appears."""
    return float(re.search(r"--begin:([\d.]+)", element.get("style"))[1])


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    path = tmp_path_factory.mktemp("race") / "race.svg"
    race.draw(RUN, path)
    return path


def test_it_is_a_small_image_that_fetches_nothing_and_can_stand_still(picture):
    for path in (picture, ROOT / "docs" / "race.svg"):
        assert path.stat().st_size < 100_000
        root = ElementTree.parse(path).getroot()
        names = {element.tag.removeprefix(SVG) for element in root.iter()}
        assert not names & {"script", "image", "foreignObject"}
        assert not re.search(r"@import|href|url\((?!#)", path.read_text())
        # what moves is inside the media query, which is the end of the style
        before, moving = root.find(f"{SVG}style").text.split("@media (prefers-reduced-motion: no-")
        assert "animation" not in before and "animation" in moving and moving.endswith("}\n}\n")


def test_tokens_appear_in_order_when_their_pass_has_ended(picture):
    plain = [([token], ["target"]) for token in RUN["plain"]["shown"]]
    rounds = [(one["shown"], one["sources"]) for one in RUN["rounds"]]
    # the counts of the target's passes: 0 to their number, of each decoder
    counts = [one for one in parts(picture, "text") if "count" in classes(one)]
    numbers = [n for passes in (plain, rounds) for n in range(len(passes) + 1)]
    assert [int(count.text) for count in counts] == numbers
    ended = [begin(count) for count in counts if count.text != "0"]
    expected = [
        (token.strip(" ").replace("\n", "⏎"), source, end)
        for end, (tokens, sources) in zip(ended, plain + rounds, strict=True)
        for token, source in zip(tokens, sources)
    ]
    assert expected == [
        ("".join(g.itertext()).strip(" "), classes(g.find(f"{SVG}rect"))[0], begin(g))
        for g in parts(picture, "g")
        if "from" in classes(g)
    ]


def test_a_line_ends_before_a_word_that_does_not_fit():
    words = ["a" * 40, " b", "c" * 6, " d", "\n", "e"]
    places = [(0, 0), (0, 1), (1, 1), (7, 1), (9, 1), (0, 2)]
    shown = [words[0], "b", words[2], " d", "⏎", "e"]
    assert race.laid_out(words) == [(word, *place) for word, place in zip(shown, places)]
