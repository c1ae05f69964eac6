"""What is printed of a command or a word that somebody asks for: its help, or what was meant."""

import difflib
import inspect
import re
from collections.abc import Callable, Iterable

from cli.messages import as_called

RENAMED = {  # {flag of another program: what it is called here}
    "model": "--target_model_size",
    "assistant_model": "--draft_model_size",
    "max_new_tokens": "--n_tokens_to_generate",
    "max_tokens": "--n_tokens_to_generate",
    "num_speculative_tokens": "--K",
}
KINDS = {int: "a whole number", float: "a number", bool: "no value"}
MOST_DIGITS = 4300  # of a whole number in a text: Python reads no longer ones
ELSEWHERE = {  # {flag that `generate` had: the command that does this}
    "out": "python main.py batch FILE --out NAME",
    "batch_size": "python main.py batch FILE --batch_size N",
    "cluster": "python main.py batch FILE --cluster ADDRESS",
    "version": "python main.py version",
}


def unknown(kind: str, word: str, names: Iterable[str], lister: str = "--help") -> ValueError:
    """The ValueError, for the caller to raise, about a word that is none of the `names`. It says
    what is expected instead, the first of these that there is:

        the name that stands here for another program's (RENAMED): --K for num_speculative_tokens
        the command that does this (ELSEWHERE)
        up to three names that begin with the word, or else up to two that look like it
        "one that LISTER lists"

    kind: of word and names, such as "flag"; for "command", the first two do not count
    lister: such as "--help"

    >>> unknown("flag", "--seeds", ["--seed", "--stop"])
    ValueError("unknown flag '--seeds': expected --seed")
    """
    expected = expected_for(kind, word, names, lister)
    return ValueError(f"unknown {kind} {word!r}: expected {expected}")


def expected_for(kind: str, word: str, names: Iterable[str], lister: str) -> str:
    """What `unknown`, with these arguments, says is expected."""
    known = {plain(shown): shown for shown in names}
    name = plain(word)
    if kind != "command":
        renamed = plain(RENAMED.get(name, ""))  # "" is no name
        if renamed in known:
            return known[renamed]
        if name in ELSEWHERE:
            return ELSEWHERE[name]
    alike = [one for one in known if name and one.startswith(name)][:3]
    if not alike:
        alike = difflib.get_close_matches(name, known, n=2, cutoff=0.7)
    if alike:
        return " or ".join(known[one] for one in alike)
    return f"one that {lister} lists"


def wrong_value(name: str, text: str, kinds: list) -> ValueError:
    """The error, to be raised, for a flag whose text is no value of it. kinds: the types and texts
    that its annotation allows, as cli.command.kinds_of returns them
    """
    expected = " or ".join(KINDS.get(kind, kind) for kind in kinds)
    if int in kinds and len(text) > MOST_DIGITS:
        expected += f" of at most {MOST_DIGITS:,} digits"
    shown = text if len(text) < 50 else f"{text[:40]}..."
    return ValueError(f"--{name} {shown!r}: expected {expected}")


def plain(name: str) -> str:
    """A name as names are compared: "--Top-K" becomes "top_k", and "/seed" becomes "seed"."""
    return name.lower().replace("-", "_").strip("_/")


def help_page(command: Callable, flags: dict[str, inspect.Parameter], backup: Callable) -> str:
    """The docstring of a command, where the line "    name: ..." of each of its `flags` becomes
    "    --name (default): ...", or "    --name: ..." for a default that is False or "". A flag that
    the docstring lacks gets, at the end, the line of the docstring of `backup`, which must have
    it. Under python -OO, which strips docstrings, "no help: python -OO strips it". An installed
    program is called `speculate` in it, not `python main.py`.
    """
    page, meanings = inspect.getdoc(command), inspect.getdoc(backup)
    if not page or not meanings:
        return "no help: python -OO strips it"
    for name, flag in flags.items():
        line = rf"(?m)^    {name}: .*"
        if not re.search(line, page):
            page += "\n" + re.findall(line, meanings)[0]
        shown = f"    --{name}: "
        if flag.default is not False and flag.default != "":
            shown = f"    --{name} ({flag.default}): "
        page = page.replace(f"\n    {name}: ", f"\n{shown}")
    return as_called(page)
