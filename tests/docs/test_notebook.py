"""docs/walkthrough.ipynb: it runs from top to bottom, and its folded answers are right.

python tests/docs/test_notebook.py    # execute it and store its outputs, on a quiet machine
"""

import ast
import json
import re
from pathlib import Path

import numpy as np
import pytest

FILE = Path(__file__).resolve().parents[2] / "docs" / "walkthrough.ipynb"
CELLS = json.loads(FILE.read_text(encoding="utf-8"))["cells"]
CODE = [cell for cell in CELLS if cell["cell_type"] == "code"]
SOURCES = ["".join(cell["source"]) for cell in CODE]
PROSE = "\n".join("".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "markdown")
TO_WRITE = ["one_token_6", "speculative_9"]


def executed():
    """The notebook after a run in docs/, as Jupyter does it. An error in a cell is raised."""
    import nbclient
    import nbformat

    notebook = nbformat.read(FILE, as_version=4)
    place = {"metadata": {"path": str(FILE.parent)}}
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=place).execute()
    for cell in notebook.cells:
        cell.metadata.clear()  # when it ran
    return notebook


def text_of(cell):
    return "".join("".join(output.get("text", "")) for output in cell["outputs"])


def test_was_run_once_from_top_to_bottom():
    assert [cell["execution_count"] for cell in CODE] == list(range(1, len(CODE) + 1))
    for cell in CODE:
        assert text_of(cell)
        for output in cell["outputs"]:
            assert output["output_type"] == "stream" or "image/png" in output["data"]
            assert output.get("name") != "stderr"


def test_its_reader_writes_the_rule_and_the_loop():
    """The cells define nothing else, and what is stored is not written yet."""
    nodes = [node for source in SOURCES for node in ast.parse(source).body]
    functions = [node for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    assert [node.name for node in functions] == TO_WRITE
    assert all(isinstance(node.body[-1], ast.Raise) for node in functions)
    notes = [text_of(cell) for cell in CODE if "STILL TO BE WRITTEN" in text_of(cell)]
    assert [note.split(":")[0] for note in notes] == TO_WRITE


def test_every_task_has_an_answer_and_the_folded_functions_are_right():
    from exercises.checks import CHECKS
    from exercises.solutions import residual_3, verify_7

    assert PROSE.count("**Task.**") == PROSE.count("<summary>Answer</summary>") >= 3
    given = {"np": np, "residual_3": residual_3, "verify_7": verify_7}
    for block in re.findall(r"```python\n(.*?)```", PROSE, flags=re.DOTALL):
        exec(block, given)
    for name in TO_WRITE:
        CHECKS[name](given[name])


@pytest.mark.slow
@pytest.mark.notebook
def test_runs_from_top_to_bottom():
    for module in ("nbclient", "ipykernel", "matplotlib"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    cells = [cell for cell in executed().cells if cell.cell_type == "code"]
    assert all(map(text_of, cells))


if __name__ == "__main__":
    import nbformat

    nbformat.write(executed(), FILE)
