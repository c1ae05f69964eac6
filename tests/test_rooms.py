"""The rooms: imports between them go one way, lazy imports included, and never in a circle."""

import ast
import re
from graphlib import TopologicalSorter

import pytest
from command_line import ROOT, embedded, python

MOST_MODULES = 20  # in a folder


def floors():
    """The rooms as CONTRIBUTING.md draws them, from the ground up: imports go down."""
    (drawing,) = re.findall(r"(?m)^    (main -> .*)$", (ROOT / "CONTRIBUTING.md").read_text())
    # a folder that is gone may have left its __pycache__
    rooms = [*(ROOT / "experiments").glob("*.py"), *(ROOT / "experiments").glob("*/__init__.py")]
    rooms = [path.parent if path.stem == "__init__" else path for path in rooms]
    rooms = [*rooms, ROOT / "decoding/cluster"]
    inside = {path.stem: f"{path.parent.name}.{path.stem}" for path in rooms}
    full = lambda room: inside.get(room, room)
    return [[full(room) for room in floor.split(", ")] for floor in drawing.split(" -> ")][::-1]


FLOORS = floors()
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def modules():
    """{name: its file} of every module that is no test and in no virtual environment."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        environment = (ROOT / parts[0] / "pyvenv.cfg").exists()
        if not parts[0].startswith((".", "tests")) and not environment:
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = modules()


def imports(name):
    """The modules of this project that a module imports, wherever in its code it does so."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            # from experiments.benchmark import plots: a name may be a module itself
            submodules = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (submodules & MODULES.keys()) or {node.module}
    return found & MODULES.keys() - {name}


def room(name):
    """The longest name in FLOORS that a module's name begins with."""
    parts = name.split(".")
    return next((r for r in (".".join(parts[:2]), parts[0]) if r in FLOOR), None)


IMPORTS = {name: imports(name) for name in MODULES}
EDGES = [(name, other) for name, others in IMPORTS.items() for other in sorted(others)]


def test_every_module_is_in_a_room_and_every_room_is_there():
    assert [name for name in MODULES if not room(name) and name != "experiments"] == []
    assert {room(name) for name in MODULES} - {None} == FLOOR.keys()


def test_imports_go_down():
    for name, other in EDGES:
        own, others = room(name), room(other)
        assert own == others or FLOOR[own] > FLOOR[others], (name, other)


def test_there_is_no_circle():
    TopologicalSorter(IMPORTS).prepare()  # raises CycleError, which names the circle


def test_notes_are_printed_by_one_function():
    """checkpoints.errors.note, which escapes what a terminal would obey."""
    found = [
        name
        for name, path in MODULES.items()
        if re.search("[\"']note:", path.read_text(encoding="utf-8"))
    ]
    assert found == ["checkpoints.errors"]


FOLDERS = sorted({path.parent for path in MODULES.values()} - {ROOT})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_a_folder_is_small_and_its_init_holds_no_logic(folder):
    inside = [path for path in MODULES.values() if path.parent == folder]
    inits = [path for path in inside if path.name == "__init__.py"]
    assert len(inside) - len(inits) <= MOST_MODULES
    for path in inits:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            assert isinstance(node, (ast.Import, ast.ImportFrom, ast.Expr, ast.Assign)), path


# ---------------------------------------------------------------- what a reader has to read

PLAIN = """
import sys, main
assert main.main(["--json", "--n_tokens_to_generate=3"]) == 0
print(*(getattr(module, "__file__", None) for module in sys.modules.values()), sep="\\n")
"""


@embedded
def test_a_plain_run_loads_little():
    done = python("-c", PLAIN)
    loaded = {name for name, path in MODULES.items() if str(path) in done.stdout.splitlines()}
    assert {"main", "sampling", "decoding.run", "cli.from_flags"} <= loaded
    assert not {room(name) for name in loaded} & {"page", "proving", "decoding.cluster"}
    assert not any(name.startswith("experiments") for name in loaded)
    n_lines = sum(len(MODULES[name].read_text(encoding="utf-8").splitlines()) for name in loaded)
    assert len(loaded) <= 42 and n_lines <= 5100


@pytest.mark.parametrize("top", ["decoding", "page", "proving"])
def test_below_the_command_line_nothing_reads_settings(top):
    """Flags become values in cli/from_flags.py."""
    for name, path in MODULES.items():
        if name.split(".")[0] == top:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                of = getattr(node, "value", None)
                reads = isinstance(node, ast.Attribute) and isinstance(of, ast.Name)
                assert not (reads and of.id == "settings"), (name, node.lineno)
