"""Loaded before any test: NumPy must find the environment that main.py gives it, and no test a
model in a cache.
"""

import os

import backends.blas  # noqa: F401

os.environ["HF_HUB_CACHE"] = os.devnull

# the fixtures of all tests
from browsers import browser, new_page  # noqa: E402, F401
from command_line import as_json, cli, pair  # noqa: E402, F401
from edits import check  # noqa: E402, F401
from file_server import alone, server  # noqa: E402, F401
from live import serve  # noqa: E402, F401
