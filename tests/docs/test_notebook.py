"""docs/walkthrough.ipynb: its outputs are those of one run from top to bottom, and it uses the
project's code, not a copy.

Executing it again needs nbclient and ipykernel (requirements-oracle.txt).
"""

import ast
import json
from pathlib import Path

import pytest

import sampling

ROOT = Path(sampling.__file__).resolve().parent
FILE = ROOT / "docs" / "walkthrough.ipynb"
CODE = [
    cell
    for cell in json.loads(FILE.read_text(encoding="utf-8"))["cells"]
    if cell["cell_type"] == "code"
]
SOURCES = ["".join(cell["source"]) for cell in CODE]


def test_was_run_once_from_top_to_bottom():
    assert [cell["execution_count"] for cell in CODE] == list(range(1, len(CODE) + 1))
    for cell in CODE:
        assert cell["outputs"] and all(
            output["output_type"] == "stream" for output in cell["outputs"]
        )
        assert all(output["name"] == "stdout" for output in cell["outputs"])


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
