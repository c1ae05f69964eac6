"""docs/walkthrough.ipynb: its outputs are those of one run from top to bottom, and it uses the project's code, not a copy.

Executing it again needs nbclient and ipykernel (requirements-oracle.txt).
"""

import ast
import json
from pathlib import Path

import pytest

import sampling

ROOT = Path(sampling.__file__).resolve().parent
FILE = ROOT / "docs" / "walkthrough.ipynb"
CODE = [cell for cell in json.loads(FILE.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
SOURCES = ["".join(cell["source"]) for cell in CODE]


def test_was_run_once_from_top_to_bottom():
    assert [cell["execution_count"] for cell in CODE] == list(range(1, len(CODE) + 1))
    for cell in CODE:
        assert cell["outputs"] and all(output["output_type"] == "stream" for output in cell["outputs"])
        assert all(output["name"] == "stdout" for output in cell["outputs"])


def test_copies_nothing():
    """No function or class of its own has the name of one of the project's, and none is long."""
    own = [node for source in SOURCES for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    names = set()
    for path in [*ROOT.glob("*.py"), *ROOT.glob("experiments/*.py")]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names |= {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    assert not ({node.name for node in own} - {"text_of"}) & names
    assert all(node.end_lineno - node.lineno < 4 for node in own)


@pytest.mark.notebook
def test_runs_from_top_to_bottom():
    """In a kernel of its own, begun in docs/ as Jupyter does; it raises nothing and prints in every cell."""
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    import nbformat

    notebook = nbformat.read(FILE, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(FILE.parent)}}
    ).execute()
    printed = ["".join(output.get("text", "") for output in cell.outputs) for cell in notebook.cells if cell.cell_type == "code"]
    assert len(printed) == len(CODE) and all(printed)
