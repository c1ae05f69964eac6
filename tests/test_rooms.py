"""The rooms: imports between them go one way, lazy imports included, and never in a circle."""

import ast
import re
from graphlib import TopologicalSorter

from command_line import ROOT, python


def floors():
    """The rooms as CONTRIBUTING.md draws them, from the ground up: imports go down."""
    (drawing,) = re.findall(r"(?m)^    (\w+ -> .*)$", (ROOT / "CONTRIBUTING.md").read_text())
    return [floor.split(", ") for floor in drawing.split(" -> ")][::-1]


FLOOR = {room: floor for floor, rooms in enumerate(floors()) for room in rooms}


def modules():
    """{name: its file} of every module that is no test and in no virtual environment."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        environment = (ROOT / parts[0] / "pyvenv.cfg").exists()
        if not parts[0].startswith((".", "tests", "build")) and not environment:
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
            # from decoding import auto_k: a name may be a module itself
            submodules = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (submodules & MODULES.keys()) or {node.module}
    return found & MODULES.keys() - {name}


def room(name):
    return name.partition(".")[0]


IMPORTS = {name: imports(name) for name in MODULES}


def test_every_module_is_in_a_room_and_every_room_is_there():
    assert {room(name) for name in MODULES} == FLOOR.keys()


def test_imports_go_down():
    for name, others in IMPORTS.items():
        for other in sorted(others):
            own, its = room(name), room(other)
            assert own == its or FLOOR[own] > FLOOR[its], (name, other)


def test_there_is_no_circle():
    TopologicalSorter(IMPORTS).prepare()  # raises CycleError, which names the circle


# ---------------------------------------------------------------- what a reader has to read

PLAIN = """
import sys, main
from cli.command import run
assert run(["--json", "--n_tokens_to_generate=3"], main.COMMANDS) == 0
print(*(getattr(module, "__file__", None) for module in sys.modules.values()), sep="\\n")
"""


def test_a_plain_run_loads_little():
    done = python("-c", PLAIN)
    loaded = {name for name, path in MODULES.items() if str(path) in done.stdout.splitlines()}
    assert {"main", "sampling", "decoding.decode", "cli.command"} <= loaded
    rooms = {"main", "cli", "decoding", "utils", "checkpoints", "backends"}
    assert {room(name) for name in loaded} == rooms | {"gpt2", "encoder", "sampling"}
    code = [name for name in loaded if MODULES[name].name != "__init__.py"]
    n_lines = sum(len(MODULES[name].read_text(encoding="utf-8").splitlines()) for name in code)
    assert len(code) <= 19 and n_lines <= 3060
