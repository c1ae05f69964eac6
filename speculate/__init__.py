"""This program under one name, for your own code (docs/library.py): modules are attributes.

    from speculate import sampling, utils

The modules import each other by the names that they have in a checkout, such as utils. So that they
never meet a module utils of yours, they are loaded as speculate.utils and so on, and each is given
an `import` that looks among them first.
"""

import builtins
import signal
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE if (HERE / "main.py").exists() else HERE.parent  # installed, or in a checkout
OURS = {path.stem for path in ROOT.glob("*.py")} | {
    path.parent.name for path in ROOT.glob("*/*.py")
}
__path__ = [str(ROOT)]  # where Python looks for speculate.utils


def import_ours(
    name: str, own: Any = None, local: Any = None, fromlist: Any = (), level: int = 0
) -> ModuleType:
    """What the statement `import` calls in a module of this program, in place of __import__: utils
    is then speculate.utils, whatever else has this name. A module of another program is imported
    as always. Takes and returns what builtins.__import__ does.

    name: of a module, with dots. own, local: the global and local variables where the statement
    stands. fromlist: the names after `from ... import`; without any, the package that `name` begins
    with is returned, else the module. level: number of leading dots of a relative import
    """
    top = name.partition(".")[0]
    if level or top not in OURS:
        return builtins.__import__(name, own, local, fromlist, level)
    module = builtins.__import__(f"{__name__}.{name}", own, local, fromlist)
    if fromlist:
        return module
    return sys.modules[f"{__name__}.{top}"]  # above, without names, it is `speculate` itself


class Loader(SourceFileLoader):
    """Loads a module of this program."""

    def exec_module(self, module: ModuleType) -> None:
        """Run a module's code, where the statement `import` calls import_ours."""
        vars(module)["__builtins__"] = vars(builtins) | {"__import__": import_ours}
        super().exec_module(module)


class Finder:
    """Finds the modules of this program, for sys.meta_path."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The ModuleSpec by which Python loads the module of this name, with a Loader of ours; None
        for one of another program, whose name does not begin with "speculate.". path, target: as
        importlib passes them to any finder, for PathFinder
        """
        if not name.startswith(f"{__name__}."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec and isinstance(spec.loader, SourceFileLoader):  # it has none for a bare folder
            spec.loader = Loader(spec.loader.name, spec.loader.path)
        return spec


sys.meta_path.insert(0, Finder)


def command() -> None:
    """Run the command line `speculate` of this process."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # while modules load, Ctrl-C just ends the program
    import_ours("main", fromlist=["main"]).main()


def __getattr__(name: str) -> Any:
    """A module of this program, or assert_exact, imported when it is first asked for. Raises
    AttributeError for another name.
    """
    if name == "assert_exact":
        return import_ours("proof.assert_exact", fromlist=[name]).assert_exact
    if name not in OURS:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    # sets the BLAS kernels and threads, so it comes before the module imports NumPy; the tests that
    # use assert_exact keep their own
    import_ours("backends.before_numpy")
    return import_ours(name)
