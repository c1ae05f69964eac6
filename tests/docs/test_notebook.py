"""docs/walkthrough.ipynb: its outputs are those of one run from top to bottom, and it uses the
project's code, not a copy.

Executing it again needs nbclient and ipykernel (pip install --group oracle).
"""

import ast
import json
from pathlib import Path

import pytest

import sampling

ROOT = Path(sampling.__file__).resolve().parent
FILE = ROOT / "docs" / "walkthrough.ipynb"
CELLS = json.loads(FILE.read_text(encoding="utf-8"))["cells"]
CODE = [cell for cell in CELLS if cell["cell_type"] == "code"]
SOURCES = ["".join(cell["source"]) for cell in CODE]


def test_was_run_once_from_top_to_bottom():
    assert [cell["execution_count"] for cell in CODE] == list(range(1, len(CODE) + 1))
    for cell in CODE:
        assert cell["outputs"]
        for output in cell["outputs"]:
            if output["output_type"] == "display_data":
                assert "image/png" in output["data"]
            else:
                assert (output["output_type"], output["name"]) == ("stream", "stdout")


def test_has_plots_and_tasks_with_answers():
    kinds = [output["output_type"] for cell in CODE for output in cell["outputs"]]
    assert kinds.count("display_data") >= 3
    prose = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "markdown"]
    tasks = sum(text.count("**Task.**") for text in prose)
    answers = sum(text.count("<details><summary>Answer</summary>") for text in prose)
    assert tasks == answers == sum(text.count("</details>") for text in prose) >= 4


def test_copies_nothing():
    """It defines no function or class: whatever computes is imported."""
    nodes = [node for source in SOURCES for node in ast.walk(ast.parse(source))]
    assert not [node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))]


@pytest.mark.notebook
def test_runs_from_top_to_bottom():
    """In a kernel of its own, begun in docs/ as Jupyter does; it raises nothing and prints in every
    cell.
    """
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    import nbformat

    notebook = nbformat.read(FILE, as_version=4)
    nbclient.NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(FILE.parent)}},
    ).execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(cells) == len(CODE)
    assert all("".join(output.get("text", "") for output in cell.outputs) for cell in cells)
