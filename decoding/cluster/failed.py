"""Failures of single prompts: one prompt of many may fail, and the others go on."""

from dataclasses import dataclass

from checkpoints.errors import InputError, abbreviated, plural


@dataclass(frozen=True)
class Failed:
    """Stands for the result of a prompt that failed. reason: the error, in one line."""

    reason: str


def require_no_failures(
    failed, advice="the others are done, give the same command to try these again"
):
    """Raises InputError if {name of a prompt: why it failed} is not empty."""
    if failed:
        named = abbreviated([f"{name}: {why}" for name, why in failed.items()])
        raise InputError(f"{plural(len(failed), 'prompt')} failed: {named}; {advice}")
