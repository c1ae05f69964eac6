"""docs/walkthrough.ipynb: it runs from top to bottom, its folded answers are right, and a wrong
answer of its reader costs one line.

python tests/docs/test_notebook.py    # execute it and write its copy, docs/walkthrough.html
"""

import json
import re
import textwrap
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from wrong_answers import vectorised

FILE = Path(__file__).resolve().parents[2] / "docs" / "walkthrough.ipynb"
CELLS = json.loads(FILE.read_text(encoding="utf-8"))["cells"]
CODE = [cell for cell in CELLS if cell["cell_type"] == "code"]
SOURCES = ["".join(cell["source"]) for cell in CODE]
PROSE = "\n".join("".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "markdown")
GUESSES = ["match", "replace_from_p"]
TO_WRITE = [*GUESSES, "residual_2", "one_token_3", "verify_4", "speculative_5"]
TO_WRITE += ["cached_6", "speedup_7"]
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


@pytest.mark.slow
def test_every_task_has_an_answer_and_the_folded_functions_are_right():
    from exercises.checks import check, kept_and_replaced

    assert PROSE.count("**Task.**") == PROSE.count("<summary>Answer</summary>") == len(TO_WRITE)
    given = {"np": np, "SimpleNamespace": SimpleNamespace}
    for block in re.findall(r"```python\n(.*?)```", PROSE, flags=re.DOTALL):
        exec(block, given)
    for name in TO_WRITE[len(GUESSES) :]:
        assert check(name, given[name])[0]
        given["verify_4"] = vectorised  # the loops give it arrays, also for an empty draft
    for name, distribution, mean_kept in (
        ("match", P, 0.28),
        ("replace_from_p", [0.4, 0.32, 0.28], 0.6),
    ):
        kept, replaced = kept_and_replaced(given[name], P, Q)
        assert kept.sum() == pytest.approx(mean_kept)
        assert kept + replaced == pytest.approx(np.array(distribution))


def test_its_p_and_q_are_those_with_which_the_checks_begin():
    from exercises.checks import PAIRS

    assert np.array_equal(PAIRS[0], [P, Q])
    assert any("p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])" in s for s in SOURCES)


def test_the_bias_is_what_its_text_says():
    from exercises.notebook import first_token_distribution

    near = np.array([0.45, 0.3, 0.25])
    apart = np.array([0.1, 0.3, 0.6]), np.array([0.9, 0.05, 0.05])
    far = lambda p, q, name: abs(p - first_token_distribution(p, q, name)).sum() / 2
    names = "greedy-draft", "resample-from-p", "first-draft-unverified"
    (_, a, _), close, far_apart = (
        [far(p, q, name) for name in names] for p, q in ((P, Q), (P, near), apart)
    )
    assert max(close) == close[0] and min(far_apart) == far_apart[0]
    stated = f"with d = 0.8 its distance is {far_apart[1]:.2f}, and {a:.2f} for the first p and q"
    assert stated in " ".join(PROSE.split())


# ---------------------------------------------------------------- a reader's answers


def answered(name, body):
    """What the cell of a task defines, with this body in it."""
    from exercises import notebook, solutions

    (source,) = (source for source in SOURCES if f"def {name}(" in source)
    own = source.replace("    raise NotImplementedError", textwrap.indent(body, "    "))
    names = {"np": np, "notebook": notebook, "p": P, "q": Q, "residual_2": solutions.residual_2}
    exec(compile(own, name, "exec"), names)
    return names[name]


@pytest.mark.parametrize("name, body, said", [
    ("residual_2", "raise NotImplementedError", "STILL TO BE WRITTEN"),
    ("residual_2", "return np.maximum(p - q, 0)", "WRONG"),
    ("verify_4", "return 0, int(p[0].argmax())", "drafted 2 (0.60). Until it is right"),
])  # fmt: skip
def test_a_wrong_answer_costs_one_line_and_the_solution_goes_on(capsys, name, body, said):
    from exercises import solutions

    assert answered(name, body) is getattr(solutions, name)
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{name}: ") and said in first and "stands in" in first
    assert not any(name in line for line in others)


def test_a_right_answer_is_kept(capsys):
    from exercises import solutions

    body = (
        "x = sample(q)\nok = accept(p[x] / q[x])\nreturn x if ok else sample(residual_2(p, q)), ok"
    )
    assert answered("one_token_3", body) is not solutions.one_token_3
    assert capsys.readouterr().out.startswith("one_token_3: ")


def test_a_guess_is_shown_beside_p(capsys):
    answered("match", "x = sample(q)\nreturn x, True")
    shown = capsys.readouterr().out
    assert re.search("(?s)wrong.*kept      1.00.*right.*kept      0.28", shown)


def test_the_residual_is_shown_with_its_divisor(capsys):
    from exercises import notebook, solutions

    notebook.print_residual(solutions.residual_2, P, Q)
    shown = capsys.readouterr().out
    assert shown == "the residual is [0.75, 0.25, 0], after a division by 0.40\n"


def test_a_coin_is_true_or_false_as_in_the_checks():
    """An answer may compare it by `is`."""
    from exercises import notebook

    _, accept = notebook.random_choices(seed=0)
    assert accept(np.float64(1.0)) is True and accept(np.float64(0.0)) is False


@pytest.mark.parametrize("v, is_doubtful", [(0.83, True), (0.98, False)])
def test_a_pass_that_takes_less_time_for_more_rows_is_not_believed(capsys, v, is_doubtful):
    from exercises import notebook

    notebook.print_doubt({1: (0.1, 1.02), 4: (0.1, v)})
    assert ("far below 1 for K = 4. " in capsys.readouterr().out) == is_doubtful


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
