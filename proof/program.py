"""The function that FILE.py, FILE.py:FUNCTION or FILE.py:Class.method means."""

import importlib.util
import inspect
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from .enumerate import describe_error
from .follow import followed
from .forms import form_of


def load(path: Path) -> ModuleType:
    """Import a file, as a module of the name of the file. Its folder is the first in which Python
    looks from now on, and what it imports of random numbers can be followed. Raises OSError if
    there is no such file, ValueError if it raises anything.
    """
    text = path.read_bytes()
    if re.search(rb"(?m)^\s*(import|from) torch\b", text):
        with suppress(ImportError):  # the file says so
            from . import noise_torch  # noqa: F401  # before torch's functions are replaced
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    sys.modules.setdefault(path.stem, module)
    words, sys.argv = sys.argv, [str(path)]
    try:
        with followed():
            spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ValueError(f"{path}: {describe_error(error)}") from error
    finally:
        sys.argv = words
    return module


def find(program: str) -> tuple[Callable, str]:
    """The function that FILE.py or FILE.py:NAME means, and its name. Without a name it is
    `speculative`, `verify` or the only one of a form that `prove` knows. Of a method that needs an
    object the class is called, without arguments. Raises ValueError if there is no such function,
    or none to choose, and what `load` raises.
    """
    file, _, name = program.partition(".py:")
    path = Path(file if name == "" else f"{file}.py")
    module = load(path)
    defined = {key: value for key, value in vars(module).items() if is_defined_in(module, value)}
    shown = ", ".join(defined) or "none: it defines no function"
    if not name:
        possible = [key for key, value in defined.items() if has_form(value)] or [*defined]
        named = [key for key in ("speculative", "verify") if key in possible]
        if not named and len(possible) != 1:
            raise ValueError(f"{path}: expected {path}:FUNCTION, of {shown}")
        name = (named or possible)[0]
    found: Any = module
    for part in name.split("."):
        found = found() if isinstance(found, type) and is_method(found, part) else found
        found = getattr(found, part, None)
    if not callable(found):
        raise ValueError(f"{path} has no function {name}: expected one of {shown}")
    return found, name


def is_method(kind: type, name: str) -> bool:
    """Whether a class has a method of this name that needs an object."""
    return inspect.isfunction(inspect.getattr_static(kind, name, None))


def is_defined_in(module: ModuleType, value: Any) -> bool:
    """Whether a value is a function or class of this module, or an object of such a class."""
    try:
        return callable(value) and value.__module__ == module.__name__
    except Exception:  # such as a proxy without anything behind it
        return False


def has_form(function: Callable) -> bool:
    """Whether a function has one of the forms that `prove` knows."""
    try:
        form_of(function)
    except (ValueError, TypeError):
        return False
    return True
