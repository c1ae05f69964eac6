"""Work that could not be done: one prompt of many may fail, and the others go on."""

from dataclasses import dataclass

from checkpoints.files import InputError, counted, some


@dataclass(frozen=True)
class Failed:
    """In place of a result that could not be had."""

    reason: str


def require_all(failed, rest="the others are done, give the same command to try these again"):
    """Raises InputError if there is any {what: why it could not be had}."""
    if failed:
        named = some([f"{name}: {why}" for name, why in failed.items()])
        raise InputError(f"{counted(len(failed), 'prompt')} failed: {named}; {rest}")
