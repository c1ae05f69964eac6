"""The drawn pictures: small images that fetch nothing, and true of the included pair, or of the
mistake that they show.
"""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from command_line import ROOT
from toys import NUMPY

from checkpoints.registry import MODELS_DIR
from cli.picture import painted
from docs import pictures
from proof.enumerate import distribution
from proof.follow import followed
from proof.mistakes import MISTAKES, making, sample_and_keep
from sampling import SamplingParams, residual, verify, verify_block
from utils import load_models

SVG = "{http://www.w3.org/2000/svg}"
DOCS = ROOT / "docs"
OVERLAP, TREE_MASK = DOCS / "overlap.svg", DOCS / "tree_mask.svg"
OF_MISTAKES = {path.stem: path for path in (DOCS / "mistakes").glob("*.svg")}
ALL = [*DOCS.glob("*.svg"), *OF_MISTAKES.values()]
FLOOR = 322  # where the areas of p and q stand; the legend is below


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_a_picture_is_a_small_image_that_fetches_nothing(path):
    root = ElementTree.parse(path).getroot()
    assert path.stat().st_size < 100_000 and root.find(f"{SVG}title").text
    names = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert not names & {"script", "image", "foreignObject"}
    assert not re.search(r"@import|href|url\((?!#)", path.read_text())


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_its_colours_are_attributes_too(path):
    text = path.read_text(encoding="utf-8")
    assert painted(text) == text  # python docs/pictures.py paint
    for element in ElementTree.fromstring(text).iter():
        name = element.tag.removeprefix(SVG)
        if name in ("text", "rect", "line", "polyline", "circle"):
            assert element.get("fill") or element.get("stroke"), (name, element.attrib)
            assert "var(" not in str(element.attrib)


def test_of_two_rules_the_one_for_a_class_counts():
    style = "<style>:root { --a: #111111; } text { fill: var(--a); } .b { fill: none; }</style>"
    shapes = '<text class="b">x</text><text>y</text><rect fill="red"/>'
    assert painted(style + shapes) == style + (
        '<text class="b" fill="none">x</text><text fill="#111111">y</text><rect fill="red"/>'
    )


def test_the_areas_are_those_of_the_included_pair():
    models, encoder = load_models(["17M", "0.7M-17M"], MODELS_DIR, NUMPY)
    ids = encoder.encode("The queen looked into the mirror and")
    p, q = (SamplingParams(1.0, top_k=6)(model.read(ids, model.new_cache()))[0] for model in models)
    shared = np.minimum(p, q).sum()
    areas = dict.fromkeys(["accepted", "rejected", "residual"], 0.0)
    for rect in ElementTree.parse(OVERLAP).getroot().iter(f"{SVG}rect"):
        if rect.get("class") in areas and float(rect.get("y")) < FLOOR:
            areas[rect.get("class")] += float(rect.get("width")) * float(rect.get("height"))
    found = np.array([*areas.values()]) / (areas["accepted"] + areas["residual"])
    assert found == pytest.approx([shared, 1 - shared, 1 - shared], abs=0.01)


def test_a_row_of_the_tree_attends_to_the_text_its_ancestors_and_itself():
    rects = list(ElementTree.parse(TREE_MASK).getroot().iter(f"{SVG}rect"))
    columns, rows = (sorted({float(cell.get(axis)) for cell in rects[1:]}) for axis in "xy")
    drawn = {
        (rows.index(float(cell.get("y"))), columns.index(float(cell.get("x"))))
        for cell in rects
        if cell.get("class") == "sees"
    }
    path_to = [[0], [0, 1], [0, 2], [0, 1, 3], [0, 1, 4], [0, 2, 5]]  # t x1 x2 y1 y2 y3
    assert drawn == {(row, column) for row, path in enumerate(path_to) for column in path}


def test_the_weights_of_the_example_are_those_of_its_page():
    texts = [e.text for e in ElementTree.parse(DOCS / "block_weights.svg").iter(f"{SVG}text")]
    by_hand = {  # (product, weight) after one token, then after two
        "A A": "1/2 1/2 1/4 1/4", "A B": "1/2 1/2 1/2 1", "B A": "1 1 1/2 1/2", "B B": "1 1 1 1",
    }  # fmt: skip
    for draft, shares in by_hand.items():
        start = texts.index(draft) + 1
        assert " ".join(texts[start : start + 4]) == shares


@pytest.mark.parametrize("column, rule", [(0, verify), (1, verify_block)])
def test_the_sums_of_a_draft_are_on_average_what_the_rule_accepts(column, rule):
    p, q = np.array([[0.5, 0.3, 0.2]] * 3), np.array([[0.2, 0.2, 0.6]] * 2)

    def run(rng):
        draft = [rng.sample(row) for row in q]
        sums = sum(
            both[column] for both in pictures.after_each(p[[0, 1], draft] / q[[0, 1], draft])
        )
        return rule(draft, p, q, rng)[0], sums

    found = distribution(run)
    accepted, summed = (sum(one[i] * share for one, share in found.items()) for i in (0, 1))
    assert accepted == pytest.approx(summed, abs=1e-12)


@pytest.mark.slow
def test_the_table_of_candidates_is_what_its_command_prints(capsys):
    """But for rounding, which can choose other texts."""
    pictures.candidates()
    printed = capsys.readouterr().out.splitlines()[1:]
    page = (DOCS / "trees.md").read_text(encoding="utf-8")
    stated = re.findall(r"(?m)^\| \d \| .*$", page)
    found = [[float(x) for x in row.strip("|").split("|")] for row in printed + stated]
    assert len(found) == 6 and found[:3] == [pytest.approx(row, abs=0.01) for row in found[3:]]


# ---------------------------------------------------------------- of mistakes


def numbers_in(name):
    """The numbers above the columns: those of the right code, then those of the wrong one."""
    texts = ElementTree.parse(OF_MISTAKES[name]).getroot().iter(f"{SVG}text")
    return [text.text for text in texts if "number" in text.get("class", "").split()]


def coming_out(p, q, sample=lambda rng, q: rng.sample(q)):
    """How often each token comes out of a round with one drafted token."""

    def run(rng):
        token = sample(rng, q)
        n, last = verify([token], np.stack([p, p]), q[None], rng)
        return token if n else last

    found = distribution(run)
    return [found.get(token, 0) for token in range(len(p))]


def test_the_numbers_are_those_of_the_mistakes():
    p, q = np.array([0.1, 0.2, 0.7]), np.array([0.6, 0.3, 0.1])
    filtered, filtered_q = np.array([0, 0.2, 0.7]) / 0.9, np.array([0.6, 0.3, 0]) / 0.9
    after_a_deficit, drafted = np.array([0.5, 0.4, 0.1]), np.array([0.1, 0.3, 0.6])
    of_a_block = (residual(share * after_a_deficit, drafted) for share in (0.5, 1))
    with making(MISTAKES["resample-from-p"]):
        resampled = coming_out(p, q)
    spread_p, spread_q = np.array([0.2, 0.4, 0.4]), np.array([0.6, 0.2, 0.2])
    with making(MISTAKES["draft-noise-again"]), followed():
        chosen_again = coming_out(spread_p, spread_q, sample=sample_and_keep)
    for name, right, wrong in (
        ("draft-noise-again", coming_out(spread_p, spread_q), chosen_again),
        ("resample-from-p", coming_out(p, q), resampled),
        ("greedy-draft", coming_out(p, q), coming_out(p, q, lambda rng, q: int(q.argmax()))),
        ("filter-on-draft-only", coming_out(filtered, filtered_q), coming_out(p, filtered_q)),
        ("block-residual-of-tokens", *of_a_block),
    ):
        assert numbers_in(name) == [f"{number:.2f}" for number in (*right, *wrong)]
