"""What is printed of a command or a word that somebody asks for: its help, or what was meant."""

import difflib
import inspect
import re
from collections.abc import Callable, Iterable

RENAMED = {  # {flag of another program: what it is called here}
    "model": "--target_model_size",
    "assistant_model": "--draft_model_size",
    "max_new_tokens": "--n_tokens_to_generate",
    "max_tokens": "--n_tokens_to_generate",
    "num_speculative_tokens": "--K",
}
ELSEWHERE = {  # {flag that `generate` had: the command that does this}
    "out": "python main.py batch FILE --out NAME",
    "batch_size": "python main.py batch FILE --batch_size N",
    "cluster": "python main.py batch FILE --cluster ADDRESS",
    "version": "python main.py version",
}


def unknown(kind: str, word: str, names: Iterable[str], lister: str = "--help") -> ValueError:
    """The error for a word that is none of the names: it says what may be meant; if nothing is
    close, that `lister`, a flag or the like, lists the names. kind: "flag", "command" or the like.

    >>> unknown("flag", "--seeds", ["--seed", "--stop"])
    ValueError("unknown flag '--seeds': expected --seed")
    """
    known = {plain(shown): shown for shown in names}
    name = plain(word)
    may_be_flag = kind != "command"
    renamed = plain(RENAMED.get(name, ""))
    if may_be_flag and renamed in known:
        expected = known[renamed]
    elif may_be_flag and name in ELSEWHERE:
        expected = ELSEWHERE[name]
    else:
        alike = [one for one in known if name and one.startswith(name)][:3]
        alike = alike or difflib.get_close_matches(name, known, n=2, cutoff=0.7)
        expected = " or ".join(known[one] for one in alike) or f"one that {lister} lists"
    return ValueError(f"unknown {kind} {word!r}: expected {expected}")


def plain(name: str) -> str:
    """A name as names are compared: "--Top-K" becomes "top_k", and "/seed" becomes "seed"."""
    return name.lower().replace("-", "_").strip("_/")


def help_page(command: Callable, flags: Iterable[inspect.Parameter], first: Callable) -> str:
    """The docstring of a command, where the line "    name: ..." of each flag becomes
    "    --name (default): ...", without a default that is False or "". A flag that it does not
    describe gets the line of the first command. Under python -OO, which strips docstrings, a line
    that says so.
    """
    page, meanings = inspect.getdoc(command), inspect.getdoc(first)
    if not page or not meanings:
        return "no help: python -OO strips it"
    for flag in flags:
        line = rf"(?m)^    {flag.name}: .*"
        if not re.search(line, page):
            page += "\n" + re.findall(line, meanings)[0]
        shown = f"    --{flag.name}: "
        if flag.default is not False and flag.default != "":
            shown = f"    --{flag.name} ({flag.default}): "
        # a function gives the text as it is: in a string, re.sub would read \\ of a default
        page = re.sub(rf"(?m)^    {flag.name}: ", lambda _: shown, page)
    return page
