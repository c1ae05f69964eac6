"""The pages for readers: links lead somewhere, functions and tests that are named exist, numbers
are what the formulas give.
"""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import sampling
from experiments.decoding.metrics import speculation
from experiments.measuring.theory import speedup, tokens_per_round
from experiments.proving.enumeration import law
from experiments.proving.mistakes import MISTAKES
from experiments.proving.patching import made
from sampling import Filter, NeuralDrafter, residual, speculative, verify

ROOT = Path(sampling.__file__).resolve().parent
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("models/*.md"),
        *ROOT.glob("docs/*.ipynb"),
    ]
)
RULE = (ROOT / "docs" / "rule.md").read_text(encoding="utf-8")
pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def text_of(page):
    """The prose of a page; of a notebook, that of its cells."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        return "\n\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    return text


def defined_in(path):
    """Every name of a module, and of its classes and functions."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


@pages
def test_links_lead_somewhere(page):
    prose = re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"https?:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), f"{page.name}: {target}"
        if anchor and file.suffix == ".html":
            assert f'id="{anchor}"' in file.read_text(encoding="utf-8"), target
        elif anchor:
            headings = re.findall(r"(?m)^#+ (.+)$", file.read_text(encoding="utf-8"))
            assert anchor in [
                re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings
            ], target


@pages
def test_tests_that_are_named_exist(page):
    for path, name in re.findall(r"(tests/[\w/]+\.py)::(\w+)", text_of(page)):
        assert name in defined_in(ROOT / path), f"{path}::{name}"


@pages
def test_functions_that_are_named_exist(page):
    """Where a page says `name` in [file](file.py), or `name` of `Class` in it."""
    found = re.findall(r"`(\w+)`(?: of `(\w+)`)? in \[[^]]*\]\(([^)]*\.py)\)", text_of(page))
    for name, owner, path in found:
        source = (page.parent / path).read_text(encoding="utf-8")
        for one in filter(None, (name, owner)):
            assert one in defined_in(page.parent / path) or f'"{one}"' in source, f"{one} in {path}"
    assert len(found) >= 8 or page.name != "rule.md"


def code_of(page):
    """The Python blocks of a page: quotations, and scripts, which begin with an import."""
    blocks = re.findall(r"```python\n(.*?)```", text_of(page), flags=re.DOTALL)
    scripts = [block for block in blocks if block.startswith("import ")]
    return [block for block in blocks if block not in scripts], scripts


@pages
def test_code_that_is_quoted_stands_in_the_five_files(page):
    five = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("*.py"))
    for block in code_of(page)[0]:
        for line in filter(None, map(str.strip, block.splitlines())):
            assert line in five, line


def test_the_script_of_the_block_rule_prints_a_row_for_each_K():
    """With fewer and shorter texts; the gain of the longest draft is positive all the same."""
    (script,) = code_of(ROOT / "docs" / "rule.md")[1]
    for whole, short in (('"", 12, pair', '"", 2, pair'), ("prompt, 60", "prompt, 12")):
        assert whole in script
        script = script.replace(whole, short)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [int(K) for K, *_ in rows] == [*range(1, 9)] and float(rows[-1][3]) > 0


# ---------------------------------------------------------------- the numbers of docs/rule.md


def says(*fragments):
    prose = " ".join(RULE.split())
    for fragment in fragments:
        assert fragment in prose, fragment


def one_token(p, q):
    """{token: probability} of a draft from q, verified."""

    def run():
        token = sampling.sample(q, None)
        n, last = verify([token], q[None], np.stack([p, p]), None)
        return token if n else last

    return law(run)


def test_the_example():
    p, q = np.array([0.1, 0.2, 0.7]), np.array([0.6, 0.3, 0.1])
    assert np.minimum(p, q).sum() == pytest.approx(0.4) and residual(p, q) == pytest.approx(
        [0, 0, 1]
    )
    assert one_token(p, q) == pytest.approx({0: 0.1, 1: 0.2, 2: 0.7})
    with made(MISTAKES["resample-from-p"]):
        assert one_token(p, q) == pytest.approx({0: 0.16, 1: 0.32, 2: 0.52})
    M = (p / q).max()
    assert M == pytest.approx(7)
    says(
        "0.1 + 0.2 + 0.1 = 0.4",
        "0.1 + 0.6 = 0.7",
        "(0.16, 0.32, 0.52)",
        f"= {M:.0f}",
        f"accepts {1 / M:.3f} of its samples",
    )


def test_speculation_never_accepts_less_than_the_textbook_method():
    rng = np.random.default_rng(0)
    for p, q in rng.dirichlet(np.ones(5), (200, 2)):
        assert np.minimum(p, q).sum() >= 1 / (p / q).max()


class Constant:
    """A model whose distribution is the same everywhere, so that acceptance is independent from
    place to place.
    """

    def __init__(self, p):
        self.logits, self.config = np.log(p), type("Config", (), {"n_vocab": len(p), "n_ctx": 99})

    def new_cache(self, n_positions=None):
        return SimpleNamespace(length=0)

    def read(self, ids, cache, n_last=1):
        return np.tile(self.logits, (n_last, 1))


@pytest.mark.parametrize("K", [1, 2, 4])
def test_expected_tokens_of_a_round(K):
    p, q = np.array([0.3, 0.7]), np.array([0.6, 0.4])
    a, filter = np.minimum(p, q).sum(), Filter(1.0)

    def first_round():
        drafter = NeuralDrafter(Constant(q), filter, None)
        rounds = speculative(Constant(p), drafter, [0], K + 1, K, filter, None)
        next(rounds)  # the prefill
        return speculation([next(rounds)])["tokens_per_target_pass"]

    assert sum(n * mass for n, mass in law(first_round).items()) == pytest.approx(
        tokens_per_round(a, K)
    )


def test_the_speedups():
    says(
        "At a = 0.8 and K = 4 that is 3.36",
        "it is 5.",
        "with a = 0.3, c = 0.25, v = 1.3, still K = 4, it gives 0.62",
    )
    says(
        "- v = 1.15 gives 2.17",
        "- v = 2.5, five tokens that cost two and a half times one, gives 1.16",
    )
    assert tokens_per_round(0.8, 4) == pytest.approx(3.36, abs=0.005) and tokens_per_round(
        0.8, 10**3
    ) == pytest.approx(5)
    assert tokens_per_round(0.8, 4) == pytest.approx((1 - 0.8**5) / (1 - 0.8))
    says("with a = 0.38, c = 0.1 and v = 1.3, K = 1 gives 0.99 and K = 2 gives 1.02")
    assert speedup(0.38, 1, 0.1, 1.3) == pytest.approx(0.99, abs=0.005)
    assert speedup(0.38, 2, 0.1, 1.3) == pytest.approx(1.02, abs=0.005)
    assert speedup(0.3, 4, 0.25, 1.3) == pytest.approx(0.62, abs=0.005)
    assert speedup(0.8, 4, 0.1, 1.15) == pytest.approx(2.17, abs=0.005)
    assert speedup(0.8, 4, 0.1, 2.5) == pytest.approx(1.16, abs=0.005)
    for a, c, v in ((0.5, 0.2, 1.2), (0.5, 0.2, 1.31), (0.5, 0.6, 1.0)):
        # one draft pays exactly if a > c + v - 1
        assert (speedup(a, 1, c, v) > 1) == (a > c + v - 1)


def test_the_lengths_of_the_five_files():
    rows = re.findall(
        r"\| \[(\w+\.py)\]\(\1\) \| (\d+) \|", (ROOT / "README.md").read_text(encoding="utf-8")
    )
    assert len(rows) == 5
    assert {name: int(n) for name, n in rows} == {
        name: len((ROOT / name).read_text().splitlines()) for name, _ in rows
    }
