"""The animated race: what it shows of a run, and when. docs/race.svg is such a picture."""

import re
from xml.etree import ElementTree

import pytest
from command_line import ROOT

from docs.pictures import race

SVG = "{http://www.w3.org/2000/svg}"
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


def parts(path, tag):
    return ElementTree.parse(path).getroot().iter(f"{SVG}{tag}")


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
