"""Failures of single prompts: one prompt of many may fail, and the others go on."""

from dataclasses import dataclass

from checkpoints.errors import InputError, abbreviated, plural


@dataclass(frozen=True)
class Failed:
    """Stands for the result of a prompt that failed."""

    reason: str  # the error, in one line


def require_no_failures(failed):
    """Raise InputError, which names the prompts that failed, if there are any.

    failed: {name of a prompt: reason}
    """
    if failed:
        named = abbreviated([f"{name}: {reason}" for name, reason in failed.items()])
        advice = "the others are done, give the same command to try these again"
        raise InputError(f"{plural(len(failed), 'prompt')} failed: {named}; {advice}")
