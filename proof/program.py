"""The function that FILE.py, FILE.py:FUNCTION or FILE.py:Class.method means."""

import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

from cli.output import named

from .enumerate import describe_error
from .follow import followed
from .forms import form_of


def load(path: Path) -> ModuleType:
    """Import a file, and return it as a module of the file's name. Its folder becomes the first in
    sys.path, and the module stands in sys.modules unless another has its name. While it is imported
    the sources of random numbers are replaced (follow.followed), those of torch if the file imports
    it, so that `from random import random` imports one that can be followed; and sys.argv has its
    path only. Raises OSError if there is no such file, ValueError if it raises anything but
    KeyboardInterrupt.
    """
    with named(path):  # in errors
        source = path.read_bytes()
    imports_torch = re.search(rb"(?m)^\s*(import|from) torch\b", source)
    if imports_torch:
        try:
            from . import noise_torch  # noqa: F401  # imports torch, so that `followed` finds it
        except ImportError:
            pass  # there is no torch: the import of the file, below, says so
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    sys.modules.setdefault(path.stem, module)
    # the flags of `prove` are not for the file
    with errors_as_value_error(str(path)), followed(), patch.object(sys, "argv", [str(path)]):
        spec.loader.exec_module(module)
    return module


@contextmanager
def errors_as_value_error(name: str) -> Iterator[None]:
    """Raise ValueError, in one line that begins with the name, in place of any error but
    KeyboardInterrupt.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ValueError(f"{name}: {describe_error(error)}") from error


def find(program: str) -> tuple[Callable, str]:
    """Import the file of a program, FILE.py, FILE.py:NAME or FILE.py:Class.method. Returns (the
    function that is meant, its name). Without a name it is `speculative`, else `verify`, else the
    only function in the file of a form that `prove` knows. For a method that needs an object the
    class is called, without arguments. Raises ValueError if there is no such function, or several
    without a name, or if the import or the call fails; OSError if there is no such file.
    """
    path, name = Path(program), ""
    if ".py:" in program:
        stem, name = program.split(".py:", maxsplit=1)
        path = Path(f"{stem}.py")
    module = load(path)
    defined = {key: value for key, value in vars(module).items() if is_defined_in(module, value)}
    shown = ", ".join(defined) or "none: it defines no function"
    if not name:
        name = name_meant(defined)
    if not name:  # several are possible, or none
        raise ValueError(f"{path}: expected {path}:FUNCTION, of {shown}")
    function = function_at(module, name, path)
    if not callable(function):
        raise ValueError(f"{path} has no function {name}: expected one of {shown}")
    return function, name


def is_adapter(program: str) -> bool:
    """Whether a program is an adapter, a file judge_*.py, and not a function in it."""
    return Path(program).match("judge_*.py")


def function_at(module: ModuleType, name: str, path: Path) -> Any:
    """What a module has under a name, "verify" or "Class.method"; None if it has nothing there. A
    method that needs an object is bound to a new one: the class is called, without arguments.
    Raises ValueError if that call fails. path: of the module's file, for the message
    """
    found: Any = module
    for part in name.split("."):
        if isinstance(found, type) and is_method(found, part):
            needed = f"{path}: expected {found.__name__}() to need no argument"
            with errors_as_value_error(needed), followed():
                found = found()
        found = getattr(found, part, None)
    return found


def name_meant(defined: dict[str, Any]) -> str:
    """Of the functions that a file defines, {name: function}, the name of the one to judge:
    `speculative`, else `verify`, else the only one of a form that `prove` knows. If none has such a
    form, it is the only one that there is, so that the user reads what is wrong with it. "" if
    several are left, or none.
    """
    possible = [name for name, function in defined.items() if has_form(function)]
    if not possible:
        possible = list(defined)
    for preferred in ("speculative", "verify"):
        if preferred in possible:
            return preferred
    return possible[0] if len(possible) == 1 else ""


def is_method(kind: type, name: str) -> bool:
    """Whether a class has a method of this name that needs an object."""
    return inspect.isfunction(inspect.getattr_static(kind, name, None))


def is_defined_in(module: ModuleType, value: Any) -> bool:
    """Whether a value is a function, a class, or a callable object of a class, of this module."""
    try:
        return callable(value) and value.__module__ == module.__name__
    except Exception:  # such as a proxy without anything behind it
        return False


def has_form(function: Callable) -> bool:
    """Whether a function is called like a sampler that `prove` knows, such as (draft, p, q)."""
    try:
        form_of(function)
    except (ValueError, TypeError):
        return False
    return True
