"""The pages for readers: what is named exists, and figures are what their formula gives."""

import ast
import doctest
import importlib
import importlib.util
import json
import re
from collections import defaultdict
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import main
import sampling
from cli.command import flags_of
from proof.enumerate import distribution

ROOT = Path(sampling.__file__).resolve().parent
FOLDERS = ("*.md", "docs/*.md", "models/*.md", "docs/*.ipynb")
PAGES = sorted(page for folder in FOLDERS for page in ROOT.glob(folder))
pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def text_of(page):
    """The text of a page; of a notebook, that of its cells."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        return "\n\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    return text


# ---------------------------------------------------------------- what is named exists


@pages
def test_links_lead_somewhere(page):
    prose = re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"https?:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), target
        if anchor and file.suffix == ".html":
            assert f'id="{anchor}"' in file.read_text(encoding="utf-8"), target
        elif anchor:
            headings = re.findall(r"(?m)^#+ (.+)$", file.read_text(encoding="utf-8"))
            anchors = [re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings]
            assert anchor in anchors, target


@pages
def test_code_that_is_named_exists(page):
    """Scripts, modules, path::test, and `name` in [file](file.py)."""
    text = " ".join(text_of(page).split())
    for script in re.findall(r"python ((?:docs|train|exercises)/[\w/]+\.py)", text):
        assert (ROOT / script).exists(), script
    for module in re.findall(r"python -m ((?:train|exercises|docs)[\w.]*)", text):
        assert page.name == "CHANGELOG.md" or importlib.util.find_spec(module), module
    for path, name in re.findall(r"(tests/[\w/]+\.py)::(\w+)", text):
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path}::{name}"
    for name, path in re.findall(r"`(\w+)` in \[[^]]*\]\(([^)]*\.py)\)", text):
        nodes = ast.walk(ast.parse((page.parent / path).read_text(encoding="utf-8")))
        assert name in {getattr(node, "name", getattr(node, "value", None)) for node in nodes}


@pages
def test_code_that_is_quoted_stands_in_the_files_at_the_top_or_is_a_solution(page):
    answers = [ROOT / "exercises" / name for name in ("solutions.py", "notebook.py")]
    sources = "".join(path.read_text(encoding="utf-8") for path in [*ROOT.glob("*.py"), *answers])
    for block in re.findall(r"```python\n(.*?)```", text_of(page), flags=re.DOTALL):
        if ">>>" in block:
            example = doctest.DocTestParser().get_doctest(block, {"np": np}, page.name, None, 0)
            assert doctest.DocTestRunner().run(example).failed == 0
            continue
        for line in filter(None, map(str.strip, block.splitlines())):
            assert line in sources, line


def commands():
    """{command of main.py: the flags that the pages give it}; the command "" decodes."""
    found = defaultdict(set)
    for page in PAGES:
        if page.name == "CHANGELOG.md":
            continue  # names commands that are gone
        text = text_of(page).replace("\\\n", " ")
        for line in re.findall(r"python main\.py([^\n`#|>]*)", text):
            first = re.match(r" ([a-z]+)(?= |$)", line)
            found[first[1] if first else ""] |= set(re.findall(r"--(\w+)", line))
    return found


@pytest.mark.parametrize("name, flags", commands().items())
def test_commands_and_flags_that_are_named_exist(name, flags):
    command = main.COMMANDS[name or "generate"]
    if isinstance(command, str):
        command = getattr(importlib.import_module(command), name)
    assert flags - {"help"} <= flags_of(command).keys()


# ---------------------------------------------------------------- figures that can be computed

P, Q = np.array([0.1, 0.2, 0.7]), np.array([0.6, 0.3, 0.1])
SHARED = sum(
    1 / np.maximum(P / P[x], Q / Q[x]).sum() for x in range(3)
)  # agreement by shared noise


def tokens(a, K):
    """What a round yields."""
    return sum(a**n for n in range(K + 1))


def speedup(a, K, c, v):
    return tokens(a, K) / (K * c + v)


# accepted over examined tokens, if half of the rounds have a = 0.6, half 0.9
POOLED = sum(tokens(a, 4) - 1 for a in (0.6, 0.9)) / sum(tokens(a, 3) for a in (0.6, 0.9))


@pytest.mark.parametrize("name, figure", [
    ("rule.md", f"At a = 0.8 and K = 4 that is {tokens(0.8, 4):.2f}"),
    ("rule.md", f"half 0.9, K = 4 yields {(tokens(0.6, 4) + tokens(0.9, 4)) / 2:.2f} tokens."),
    ("rule.md", f"the mean 0.75 is only {tokens(0.75, 4):.2f}, because"),
    ("rule.md", f"at {POOLED:.3f}, accepted over examined, it is {tokens(POOLED, 4):.2f}, because"),
    ("rule.md", f"4 c + v = 1.55 for {tokens(0.8, 4):.2f} tokens, which"),
    ("rule.md", f"without drafts: {speedup(0.8, 4, 0.1, 1.15):.2f} times as fast](round_time.svg)"),
    ("rule.md", f"v = 3 gives {speedup(0.8, 4, 0.1, 3):.2f}"),
    ("rule.md", f"c = 0.1, v = 1, K = 50 gives {speedup(0.8, 50, 0.1, 1):.2f}"),
    ("rule.md", f"989 TFLOP/s and reads 3.35 TB/s, [{989 / 3.35:.0f} operations"),
    ("rule.md", f"the line bends at {989 / 3.35 / 4:.0f} rows"),
    ("faq.md", f"(a + … + aᴷ) | {tokens(0.8, 4) - 1:.2f} |"),
    ("faq.md", f"accepted / drafted = m / K | {(tokens(0.8, 4) - 1) / 4:.2f} |"),
    ("faq.md", f"| m + 1 | {tokens(0.8, 4):.2f} |"),
    ("faq.md", f"aⁱ | 0.80 to {0.8**4:.2f} |"),
    ("../README.md", f"c = 0.25, v = 1.3 and K = 4 give {speedup(0.3, 4, 0.25, 1.3):.2f}"),
    ("coupling.md", f"accepts {np.minimum(P, Q).sum():.1f}, and shared noise {SHARED:.3f}"),
])  # fmt: skip
def test_a_figure_is_what_its_formula_gives(name, figure):
    assert figure in " ".join(text_of(ROOT / "docs" / name).split())


def test_the_block_rule_keeps_what_its_page_says():
    p, q = np.array([[1, 2]] * 3) / 3, np.array([[2, 1]] * 2) / 3
    drafts = {(0, 0): 4 / 9, (0, 1): 2 / 9, (1, 0): 2 / 9, (1, 1): 1 / 9}
    means, of_first = [], []
    for rule in (sampling.verify, sampling.verify_block):
        kept = {}
        for draft in drafts:
            outcomes = distribution(lambda rng: rule(list(draft), p, q, rng)[0])
            kept[draft] = sum(n * one for n, one in outcomes.items())
        means.append(Fraction(sum(kept[draft] * drafts[draft] for draft in drafts)))
        of_first.append(Fraction(kept[0, 0]))
    (token, block), (token_of_first, block_of_first) = (
        [one.limit_denominator(100) for one in both] for both in (means, of_first)
    )
    text = " ".join(text_of(ROOT / "docs" / "block.md").split())
    assert f"the token rule accepts {token} tokens, the block rule {block}." in text
    assert f"of A, A the block rule accepts {block_of_first} on average" in text
    assert f"the token rule {token_of_first}." in text


def test_the_memory_of_the_included_pair_is_that_of_the_faq():
    text = " ".join(text_of(ROOT / "docs" / "faq.md").split())
    (added, weights, draft, target) = re.search(
        r"adds ([\d.]+) MB to the target's ([\d.]+) MB .* ([\d.]+) KB of keys .* to ([\d.]+) KB",
        text,
    ).groups()
    (name,) = re.findall(r"(\S+) adds [\d.]+ MB", text)
    for size, megabytes, kilobytes in ((name, added, draft), ("17M", weights, target)):
        config = json.loads((ROOT / "models" / size / "config.json").read_text())
        file = (ROOT / "models" / size / "model.safetensors").stat().st_size
        assert f"{2 * file / 1e6:.{len(megabytes.partition('.')[2])}f}" == megabytes
        assert f"{config['n_layer'] * 2 * config['n_embd'] * 4 / 1e3:.1f}" == kilobytes
