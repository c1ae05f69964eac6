"""The picture of the rule: its areas are the probabilities of the three fates."""

from xml.etree import ElementTree

import numpy as np
import pytest
from command_line import ROOT, embedded

from docs.pictures import overlap

KINDS = ("accepted", "rejected", "residual")


def areas(path):
    """Of each of the KINDS, that of its columns; the legend is left out."""
    found = dict.fromkeys(KINDS, 0.0)
    for rect in ElementTree.parse(path).getroot().iter("{http://www.w3.org/2000/svg}rect"):
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
