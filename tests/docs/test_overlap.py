"""The picture of the rule: its areas are the probabilities of the three fates."""

from xml.etree import ElementTree

import numpy as np
import pytest
from command_line import ROOT, embedded

from docs.pictures import overlap


def areas(path):
    """{kind: area} of the columns, without the legend."""
    found = dict.fromkeys(("accepted", "rejected", "residual"), 0.0)
    for rect in ElementTree.parse(path).getroot().iter("{http://www.w3.org/2000/svg}rect"):
        if rect.get("class") in found and float(rect.get("y")) < overlap.FLOOR:
            found[rect.get("class")] += float(rect.get("width")) * float(rect.get("height"))
    return found


def test_the_areas_are_the_probabilities(tmp_path):
    for seed in range(20):
        p, q = np.random.default_rng(seed).dirichlet(np.ones(5), 2)
        overlap.draw("abcde", p, q, tmp_path / "overlap.svg")
        found, shared = areas(tmp_path / "overlap.svg"), np.minimum(p, q).sum()
        unit = found["accepted"] + found["residual"]  # the area of p
        expected = {"accepted": shared, "rejected": 1 - shared, "residual": 1 - shared}
        assert {kind: area / unit for kind, area in found.items()} == pytest.approx(
            expected, abs=0.01
        )


@embedded
def test_the_picture_in_the_docs_is_of_the_included_pair(tmp_path):
    names, p, q = overlap.rows()
    overlap.draw(names, p, q, tmp_path / "overlap.svg")
    drawn = areas(tmp_path / "overlap.svg")
    assert drawn == pytest.approx(areas(ROOT / "docs" / "overlap.svg"), rel=0.01)
    assert len(set(names)) == len(names) and p.sum() == pytest.approx(1) == q.sum()
    assert (np.diff(p - q) >= 0).all()
