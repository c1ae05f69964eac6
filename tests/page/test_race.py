"""The animated race: what it shows of a run, and when. docs/race.svg is such a picture."""

import copy
import re
from xml.etree import ElementTree

import pytest
from command_line import ROOT
from toys import refusal

from experiments.page import race

SVG = "{http://www.w3.org/2000/svg}"
RUN = race.read_run(ROOT / "docs" / "live.html")


def classes(element):
    return element.get("class", "").split()


def moment(style, element):
    """When an element appears, in percent of the picture's period."""
    name = next(name for name in classes(element) if re.fullmatch(r"k\d+", name))
    return float(re.search(rf"@keyframes {name}{{0%{{opacity:0}}([\d.]+)%", style)[1])


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    path = tmp_path_factory.mktemp("race") / "race.svg"
    race.draw(RUN, path)
    return path


def test_it_is_a_small_image_that_fetches_nothing(picture):
    for path in (picture, ROOT / "docs" / "race.svg"):
        assert path.stat().st_size < 100_000
        root = ElementTree.parse(path).getroot()
        assert not {"script", "image", "foreignObject"} & {
            e.tag.removeprefix(SVG) for e in root.iter()
        }
        assert not re.search(r"@import|href|url\((?!#)", path.read_text())


def test_without_motion_it_stands_still(picture):
    """Nothing moves outside the media query, which is the end of the style."""
    style = ElementTree.parse(picture).getroot().find(f"{SVG}style").text
    before, moving = style.split("@media (prefers-reduced-motion: no-preference) {")
    assert "animation" not in before and "animation" in moving and moving.endswith("}\n}")


def test_tokens_appear_in_order_when_their_pass_has_ended(picture):
    root = ElementTree.parse(picture).getroot()
    style = root.find(f"{SVG}style").text
    shown = [g for g in root.iter(f"{SVG}g") if "until" not in classes(g)]
    counts = [e for e in root.iter(f"{SVG}text") if "count" in classes(e) and e.text != "0"]
    plain = [([token], ["target"]) for token in RUN["plain"]["shown"]]
    rounds = [(one["shown"], one["sources"]) for one in RUN["rounds"]]
    expected = [
        (token.strip(" ").replace("\n", "⏎"), source, moment(style, count))
        for count, (tokens, sources) in zip(counts, plain + rounds, strict=True)
        for token, source in zip(tokens, sources)
    ]
    assert expected == [
        ("".join(g.itertext()), classes(g.find(f"{SVG}rect"))[0], moment(style, g)) for g in shown
    ]


def test_the_end_shows_the_passes_of_both(picture):
    root = ElementTree.parse(picture).getroot()
    counts = [e for e in root.iter(f"{SVG}text") if "count" in classes(e)]
    at_the_end = [int(e.text) for e in counts if "until" not in classes(e)]
    assert at_the_end == [len(RUN["plain"]["tokens"]), len(RUN["rounds"])]
    assert [int(e.text) for e in counts] == [n for end in at_the_end for n in range(end + 1)]


def test_a_line_ends_before_a_word_that_does_not_fit():
    words = ["a" * 40, " b", "c" * 6, " d", "\n", "e"]
    lines = [
        (words[0], 0, 0),
        ("b", 0, 1),
        ("cccccc", 1, 1),
        (" d", 7, 1),
        ("⏎", 9, 1),
        ("e", 0, 2),
    ]
    assert race.laid_out(words) == lines


def test_what_is_no_such_run_is_refused(tmp_path):
    (tmp_path / "no page.html").write_text("<p>")
    for path in (tmp_path / "no page.html", tmp_path / "not there.html"):
        assert str(path) in refusal(race.read_run, path)
    run = copy.deepcopy(RUN)
    run["settings"]["draft_model_size"] = "ngram"
    assert "'ngram'" in refusal(race.draw, run, tmp_path / "race.svg")
    assert "not there" in refusal(race.draw, RUN, tmp_path / "not there" / "race.svg")
