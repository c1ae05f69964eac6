"""The pages for readers: what is named exists, and figures are what their formula gives."""

import ast
import importlib.util
import json
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from decoding.clock import Seconds
from decoding.metrics import Tally
from table_models import TableModel

import main
import sampling
from decoding.theory import speedup, tokens_per_round
from proving.enumeration import enumerate_branches
from proving.mistakes import MISTAKES
from proving.mistakes_page import GROUPS, REFERENCE, STORIES, page_blocks
from proving.patching import apply_mistake
from sampling import NeuralDrafter, SamplingParams, residual, speculative, verify, verify_block

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


def defined_in(path):
    """Every name of a module, and of its classes and functions."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


@pages
def test_code_that_is_named_exists(page):
    """Scripts, modules, path::test, and `name` or `name` of `Class` in [file](file.py)."""
    text = " ".join(text_of(page).split())
    for script in re.findall(r"python ((?:docs|experiments|exercises)/[\w/]+\.py)", text):
        assert (ROOT / script).exists(), script
    for module in re.findall(r"python -m (experiments[\w.]+)", text):
        assert importlib.util.find_spec(module), module
    for path, name in re.findall(r"(tests/[\w/]+\.py)::(\w+)", text):
        assert name in defined_in(ROOT / path), f"{path}::{name}"
    for *names, path in re.findall(r"`(\w+)`(?: of `(\w+)`)? in \[[^]]*\]\(([^)]*\.py)\)", text):
        file = page.parent / path
        known = defined_in(file) | {*re.findall(r'"(\w+)"', file.read_text(encoding="utf-8"))}
        assert {*filter(None, names)} <= known, path


@pages
def test_code_that_is_quoted_stands_in_the_files_at_the_top_or_is_a_solution(page):
    answers = [ROOT / "exercises" / name for name in ("solutions.py", "notebook.py")]
    files = [*ROOT.glob("*.py"), *answers]
    sources = "".join(path.read_text(encoding="utf-8") for path in files)
    for block in re.findall(r"```python\n(.*?)```", text_of(page), flags=re.DOTALL):
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


@pytest.mark.parametrize("command, flags", commands().items())
def test_commands_and_flags_that_are_named_exist(command, flags, capsys):
    assert main.main([*filter(None, [command]), "--help"]) in (0, None)
    shown = "".join(capsys.readouterr())
    assert not {flag for flag in flags - {"help"} if f"--{flag}" not in shown}


# ---------------------------------------------------------------- figures that can be computed

P, Q = np.array([0.1, 0.2, 0.7]), np.array([0.6, 0.3, 0.1])
EXAMPLE = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])  # that of docs/rule.md
ACCEPTED = np.minimum(P, Q).sum()


def agreement(p, q):
    """How often shared Gumbel noise chooses the same token, as docs/coupling.md has it."""
    return sum(1 / np.maximum(p / p[x], q / q[x]).sum() for x in np.flatnonzero((p > 0) & (q > 0)))


@pytest.mark.parametrize("name, figure", [
    ("rule.md", f"0.2 + 0.2 + 0.2 = {np.minimum(*EXAMPLE).sum():.1f}"),
    ("rule.md", f"At a = 0.8 and K = 4 that is {tokens_per_round(0.8, 4):.2f}"),
    ("rule.md", f"v = 1.15 gives {speedup(0.8, 4, 0.1, 1.15):.2f}"),
    ("faq.md", f"(a + … + aᴷ) | {tokens_per_round(0.8, 4) - 1:.2f} |"),
    ("faq.md", f"accepted / drafted = m / K | {(tokens_per_round(0.8, 4) - 1) / 4:.2f} |"),
    ("faq.md", f"| m + 1 | {tokens_per_round(0.8, 4):.2f} |"),
    ("faq.md", f"aⁱ | 0.80 to {0.8**4:.2f} |"),
    ("faq.md", f"c = 0.1 gives {speedup(0.8, 4, 0.1, 1):.2f}"),
    ("faq.md", f"c = 0.02 gives {speedup(0.6, 4, 0.02, 1):.2f}"),
    ("rule.md", f"v = 3 gives {speedup(0.8, 4, 0.1, 3):.2f}"),
    ("../README.md", f"c = 0.25, v = 1.3 and K = 4 give {speedup(0.3, 4, 0.25, 1.3):.2f}"),
    ("rule.md", f"c = 0.1, v = 1, K = 50 gives {speedup(0.8, 50, 0.1, 1):.2f}"),
    ("coupling.md", f"the rule accepts {ACCEPTED:.1f}, and shared noise {agreement(P, Q):.3f}"),
    ("coupling.md", f"with probability at least {(1 - 0.47) / (1 + 0.47):.2f}"),
])  # fmt: skip
def test_a_figure_is_what_its_formula_gives(name, figure):
    assert figure in " ".join(text_of(ROOT / "docs" / name).split())


def one_token(p, q):
    """{token: probability} of a token drafted from q and verified."""

    def run(rng):
        token = rng.sample(q)
        n, last = verify([token], np.stack([p, p]), q[None], rng)
        return token if n else last

    return enumerate_branches(run)


def test_the_example_and_its_mistake():
    assert residual(*EXAMPLE) == pytest.approx([0.75, 0.25, 0])
    assert one_token(*EXAMPLE) == pytest.approx(dict(enumerate(EXAMPLE[0])))
    with apply_mistake(MISTAKES["resample-from-p"]):
        assert one_token(*EXAMPLE) == pytest.approx({0: 0.4, 1: 0.32, 2: 0.28})
        # greedy decoding does not show it: p and q are one-hot
        for x, y in ((0, 1), (1, 2), (2, 0)):
            assert one_token(*np.eye(3)[[x, y]]) == {x: 1}


def test_the_block_rule_repairs_a_deficit_and_forgets_a_surplus():
    """The example of docs/block.md, by enumeration of the coins; and the means over all drafts."""
    p, q = np.array([[1, 2]] * 3) / 3, np.array([[2, 1]] * 2) / 3

    def accepted(rule, draft):
        return enumerate_branches(lambda rng: rule(draft, p, q, rng)[0])

    assert accepted(verify, [0, 1]) == pytest.approx({0: 0.5, 2: 0.5})
    assert accepted(verify_block, [0, 1]) == pytest.approx({2: 1})
    for rule, mean, worst in ((verify, 10 / 9, 3 / 4), (verify_block, 11 / 9, 1 / 2)):
        assert accepted(rule, [1, 0]) == pytest.approx({1: 0.5, 2: 0.5})
        both_A = accepted(rule, [0, 0])
        assert sum(n * mass for n, mass in both_A.items()) == pytest.approx(worst)
        sampled = lambda rng: [rng.sample(row) for row in q]
        drawn = enumerate_branches(lambda rng: rule(sampled(rng), p, q, rng)[0])
        assert sum(n * mass for n, mass in drawn.items()) == pytest.approx(mean)


def constant(p):
    """A model whose distribution is the same everywhere, so that acceptances are independent."""
    model = TableModel(None, n_vocab=len(p))
    model.probabilities = lambda prefix: p
    return model


@pytest.mark.parametrize("K", [1, 2, 4])
def test_expected_tokens_of_a_round(K):
    p, q = np.array([0.3, 0.7]), np.array([0.6, 0.4])
    a, to_probs = np.minimum(p, q).sum(), SamplingParams(1.0)

    def first_round(rng):
        drafter, tally = NeuralDrafter(constant(q), to_probs, rng), Tally()
        rounds = speculative(constant(p), drafter, [0], K + 1, K, to_probs, rng)
        next(rounds)  # the prefill
        tally.add(next(rounds), Seconds(0, 0, 0))
        return tally.speculative_figures()["tokens_per_target_pass"]

    mean = sum(n * mass for n, mass in enumerate_branches(first_round).items())
    assert mean == pytest.approx(tokens_per_round(a, K))


def test_the_gallery_has_every_mistake_once_and_says_where():
    names = [name for group in GROUPS.values() for name in group]
    assert sorted(names) == sorted(MISTAKES) and STORIES.keys() < MISTAKES.keys()
    for mistake in MISTAKES.values():
        # an issue, a pull request, or a file of a commit
        assert REFERENCE.search(mistake.seen_in) or mistake.seen_in.startswith("not seen")


@pytest.mark.slow
def test_the_gallery_is_what_its_command_prints():
    page = (ROOT / "docs" / "mistakes.md").read_text(encoding="utf-8")
    assert page.endswith("\n\n".join(["", *page_blocks()]) + "\n")
