"""Docstrings that the program shows: read from the source, as python -OO drops them elsewhere."""

import ast
import inspect
import textwrap


def docstring(documented):
    """The docstring in the source of a function or class."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(documented)))
    return ast.get_docstring(tree.body[0])
