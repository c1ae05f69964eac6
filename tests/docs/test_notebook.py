"""docs/walkthrough.ipynb: it runs from top to bottom, its folded answers are right, and a wrong
answer of its reader costs one line.

python tests/docs/test_notebook.py    # execute it and write its copy, docs/walkthrough.html
"""

import ast
import json
import re
import textwrap
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

FILE = Path(__file__).resolve().parents[2] / "docs" / "walkthrough.ipynb"
CELLS = json.loads(FILE.read_text(encoding="utf-8"))["cells"]
CODE = [cell for cell in CELLS if cell["cell_type"] == "code"]
SOURCES = ["".join(cell["source"]) for cell in CODE]
PROSE = "\n".join("".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "markdown")
GUESSES = ["match", "replace_from_p"]
TO_WRITE = [*GUESSES, "residual_3", "one_token_6", "verify_7", "speculative_9", "catch_up_8"]
TO_WRITE += ["cached_14", "speedup_5"]
P, Q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])


def executed():
    """The notebook after a run in docs/, as Jupyter does it. An error in a cell is raised."""
    import nbclient
    import nbformat

    notebook = nbformat.read(FILE, as_version=4)
    place = {"metadata": {"path": str(FILE.parent)}}
    how = {"timeout": 300, "kernel_name": "python3", "coalesce_streams": True, "resources": place}
    nbclient.NotebookClient(notebook, **how).execute()
    for cell in notebook.cells:
        cell.metadata.clear()  # when it ran
    return notebook


def text_of(cell):
    return "".join("".join(output.get("text", "")) for output in cell["outputs"])


# ---------------------------------------------------------------- what is stored


def test_its_outputs_are_cleared_and_stand_in_a_copy():
    assert not any(cell["outputs"] or cell["execution_count"] for cell in CODE)
    copy = FILE.with_suffix(".html").read_text(encoding="utf-8")
    assert copy.count("STILL TO BE WRITTEN") == len(TO_WRITE) and "Traceback" not in copy
    for heading in re.findall(r"(?m)^## (.+)$", PROSE):
        assert f">{heading}<" in copy, heading


def test_its_reader_writes_the_functions():
    """The cells define nothing else."""
    nodes = [node for source in SOURCES for node in ast.parse(source).body]
    functions = [node for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    assert [node.name for node in functions] == TO_WRITE
    assert all(isinstance(node.body[-1], ast.Raise) for node in functions)


def test_it_imports_one_helper():
    imports = (ast.Import, ast.ImportFrom)
    nodes = [node for source in SOURCES for node in ast.walk(ast.parse(source))]
    names = [one.name for node in nodes if isinstance(node, imports) for one in node.names]
    assert names == ["os", "sys", "notebook", "numpy", "SimpleNamespace"]


def test_every_task_has_an_answer_and_the_folded_functions_are_right():
    from exercises.checks import CHECKS, enumerate_single_token

    assert PROSE.count("**Task.**") == PROSE.count("<summary>Answer</summary>") == len(TO_WRITE)
    given = {"np": np, "SimpleNamespace": SimpleNamespace}
    for block in re.findall(r"```python\n(.*?)```", PROSE, flags=re.DOTALL):
        exec(block, given)
    for name in TO_WRITE[len(GUESSES) :]:
        CHECKS[name](given[name])
    for name, distribution, mean_kept in (
        ("match", P, 0.28),
        ("replace_from_p", [0.4, 0.32, 0.28], 0.6),
    ):
        kept, replaced = enumerate_single_token(given[name], P, Q)
        assert kept.sum() == pytest.approx(mean_kept)
        assert kept + replaced == pytest.approx(np.array(distribution))


def test_a_draft_without_chance_is_kept_with_p_and_replaced_from_the_rest():
    from exercises.checks import enumerate_single_token
    from exercises.solutions import one_token_6, residual_3

    x = np.array([0.0, 1.0, 0.0])
    assert residual_3(P, x) == pytest.approx([5 / 7, 0, 2 / 7])
    kept, replaced = enumerate_single_token(one_token_6, P, x)
    assert kept.sum() == pytest.approx(0.3)
    assert kept + replaced == pytest.approx(P)


def test_the_block_rule_keeps_what_its_table_says():
    from proof.enumerate import distribution
    from sampling import verify, verify_block

    p, q = np.array([[1, 2]] * 3) / 3, np.array([[2, 1]] * 2) / 3
    drafts = {(0, 0): 4 / 9, (0, 1): 2 / 9, (1, 0): 2 / 9, (1, 1): 1 / 9}
    for rule, mean, label in (
        (verify, 10 / 9, "your rule keeps"),
        (verify_block, 11 / 9, "both judged together"),
    ):
        (row,) = re.findall(rf"(?m)^{label} (.*) \S+$", PROSE)
        total = 0
        for (draft, mass), shown in zip(drafts.items(), row.split(), strict=True):
            outcomes = distribution(lambda rng: rule(list(draft), p, q, rng)[0])
            kept = sum(n * one for n, one in outcomes.items())
            assert kept == pytest.approx(float(shown))
            total += mass * kept
        assert total == pytest.approx(mean)


def test_the_bias_is_what_its_text_says():
    from exercises.notebook import first_token_distribution
    from sampling import residual

    prose = " ".join(PROSE.split())
    far = lambda p, q: abs(p - q).sum() / 2
    distances = {"resample-from-p": [], "greedy-draft": [], "first-draft-unverified": []}
    near = np.array([0.45, 0.3, 0.25])
    apart = np.array([0.1, 0.3, 0.6]), np.array([0.9, 0.05, 0.05])
    for p, q in ((P, Q), (P, near), apart):
        d = far(p, q)
        for name, found in distances.items():
            found.append(far(p, first_token_distribution(p, q, name)))
        assert distances["resample-from-p"][-1] == pytest.approx(d * far(p, residual(p, q)))
        assert distances["first-draft-unverified"][-1] == pytest.approx(d)
        assert first_token_distribution(p, q) == pytest.approx(p)
    close, far_apart = ({name: found[n] for name, found in distances.items()} for n in (1, 2))
    assert max(close, key=close.get) == min(far_apart, key=far_apart.get) == "greedy-draft"
    resampled = [f"{found:.2f}" for found in distances["resample-from-p"]]
    assert f"falls from {resampled[0]} to {resampled[2]} while d rises from 0.4 to 0.8" in prose


# ---------------------------------------------------------------- a reader's answers

ROUND = """
text = []
while len(text) < n_tokens:
    draft, q = [], []
    for _ in range(min(K, n_tokens - len(text) - 1)):
        q.append(draft_model(ids + text + draft)[-1])
        draft.append(sample(q[-1]))
    p = target(ids + text + draft)[-len(draft) - 1 :]
    n_accepted, token = verify_7(draft, p, q, sample, accept)
    text += draft[:n_accepted] + [token]
return text
"""
WRONG = [
    ("residual_3", "raise NotImplementedError", "STILL TO BE WRITTEN"),
    ("residual_3", "return np.maximum(p - q, 0)", "WRONG: residual_3("),
    (
        "residual_3",
        "rest = np.maximum(p - q, 0)\nreturn rest / rest.sum() if not np.allclose(p, q) else p",
        "q=array([0.5 , 0.2500000009, 0.2499999991])",
    ),
    ("one_token_6", "x, y = sample(q), sample(p)\nreturn y, x == y", "0.3000 of the drafts"),
    ("one_token_6", "return sample(q)", "expected (a token below 3, whether"),
    ("verify_7", "return len(draft), p[9]", "it FAILS with IndexError"),
    ("speculative_9", ROUND, "the end token 2"),  # does not stop there
    ("speculative_9", ROUND.replace("text +=", "more ="), "does not end"),
    (
        "speedup_5",
        "return (1 - a ** (K + 1)) / (1 - a) / (K * c + v)",
        "it FAILS with ZeroDivision",
    ),
    (
        "speedup_5",
        "return (1 + K * a) / (K * c + v)",
        "speedup_5(a=0.3, K=2, c=0.0, v=1.0): 1.6, expected 1.39",
    ),
]


def answered(name, body):
    """What the cell of a task defines, with this body in it."""
    from exercises import notebook, solutions

    (source,) = (source for source in SOURCES if f"def {name}(" in source)
    own = source.replace("    raise NotImplementedError", textwrap.indent(body.strip(), "    "))
    names = {"np": np, "notebook": notebook, "p": P, "q": Q, "verify_7": solutions.verify_7}
    names |= {"residual_3": solutions.residual_3}
    exec(compile(own, name, "exec"), names)
    return names


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name, body, said", WRONG)
def test_a_wrong_answer_costs_one_line_and_the_solution_goes_on(capsys, name, body, said):
    from exercises import solutions

    assert answered(name, body)[name] is getattr(solutions, name)
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{name}: ") and said in first
    assert "stands in" in first and not any(name in line for line in others)


def test_a_right_answer_is_kept(capsys):
    from exercises import solutions

    body = (
        "x = sample(q)\nok = accept(p[x] / q[x])\nreturn x if ok else sample(residual_3(p, q)), ok"
    )
    assert answered("one_token_6", body)["one_token_6"] is not solutions.one_token_6
    shown = capsys.readouterr().out
    assert shown.startswith("one_token_6: right") and "keeps 0.70" in shown


@pytest.mark.parametrize(
    "name, body, said",
    [
        ("match", "y = sample(p)\nreturn y, y == sample(q)", ["right", "0.28"]),
        (
            "match",
            "x = sample(q)\nreturn x, True",
            ["wrong", "kept      1.00", "The answer below", "right", "kept      0.28"],
        ),
        ("match", "raise NotImplementedError", ["STILL TO BE WRITTEN", "The answer below"]),
        ("match", "return sample(p), True", ["said to be the draft"]),
        ("match", "return x", ["it FAILS with NameError", "in line"]),
        ("replace_from_p", "while True:\n    sample(p)", ["does not end"]),
    ],
)
def test_a_guess_is_shown_beside_p_and_beside_the_one_asked_for(capsys, name, body, said):
    answered(name, body)
    shown = capsys.readouterr().out
    places = [shown.index(words) for words in said]
    assert places == sorted(places)
    assert ("The answer below" in shown) == ("The answer below" in said)


@pytest.mark.slow
@pytest.mark.notebook
def test_runs_from_top_to_bottom():
    for module in ("nbclient", "ipykernel", "matplotlib"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    cells = [cell for cell in executed().cells if cell.cell_type == "code"]
    assert all(map(text_of, cells))


# GitHub Pages fills in the address (.github/workflows/pages.yml)
BADGES = """

[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/OWNER/REPOSITORY/blob/main/docs/walkthrough.ipynb)
[![Open in Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/OWNER/REPOSITORY/HEAD?labpath=docs%2Fwalkthrough.ipynb)"""  # noqa: E501

if __name__ == "__main__":
    from nbconvert import HTMLExporter

    copy = executed()
    title, rest = copy.cells[0].source.split("\n", 1)
    copy.cells[0].source = title + BADGES + "\n" + rest
    page, _ = HTMLExporter().from_notebook_node(copy)
    FILE.with_suffix(".html").write_text(page, encoding="utf-8")
