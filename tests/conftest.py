"""Loaded before any test: NumPy must find the environment that main.py gives it."""

import backends.blas  # noqa: F401
