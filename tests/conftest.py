"""Before any test: NumPy finds the environment that main.py sets, and no cache has a model."""

import os

from hypothesis import HealthCheck, settings

import backends.before_numpy  # noqa: F401

os.environ["HF_HUB_CACHE"] = os.devnull
os.environ.setdefault("MKL_NUM_THREADS", "1")  # torch's: ten times faster with tensors this small
patient = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("a busy machine", **patient)
settings.load_profile("a busy machine")

# the fixtures of all tests
from browsers import browser, new_page  # noqa: E402, F401
from command_line import (  # noqa: E402, F401
    as_json,
    cli,
    full_disk,
    pair,
    program,
    unreadable,
)
from edits import check  # noqa: E402, F401
from file_server import alone, server  # noqa: E402, F401
from live import serve, written  # noqa: E402, F401


def unexpected_skips(config):
    """The skipped tests that are marked neither `elsewhere` nor `gpu`."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    allowed = {"elsewhere", "gpu"}
    return [one for one in skipped if allowed.isdisjoint(getattr(one, "keywords", ()))]


def pytest_sessionfinish(session):
    if os.environ.get("CI") and unexpected_skips(session.config):
        session.exitstatus = 1  # in continuous integration, a skip is not a pass


def pytest_terminal_summary(terminalreporter, config):
    if os.environ.get("CI"):
        for report in unexpected_skips(config):
            terminalreporter.write_line(f"must not be skipped: {report.nodeid} {report.longrepr}")
    if "not slow" in config.option.markexpr:
        terminalreporter.write_line("left out: slow tests. All: python -m pytest -m 'not engines'")
