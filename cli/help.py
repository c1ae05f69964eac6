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
    plain = lambda shown: shown.lower().replace("-", "_").strip("_/")
    known = {plain(shown): shown for shown in names}
    name, may_be_flag = plain(word), kind != "command"
    if may_be_flag and plain(RENAMED.get(name, "")) in known:
        expected = known[plain(RENAMED[name])]
    elif may_be_flag and name in ELSEWHERE:
        expected = ELSEWHERE[name]
    else:
        starts = [shown for one, shown in known.items() if name and one.startswith(name)][:3]
        close = difflib.get_close_matches(name, known, n=2, cutoff=0.7)
        expected = " or ".join(starts or [known[one] for one in close])
    return ValueError(f"unknown {kind} {word!r}: expected {expected or f'one that {lister} lists'}")


def help_page(command: Callable, flags: Iterable[inspect.Parameter], first: Callable) -> str:
    """The docstring of a command, where "name: " becomes "--name (default): " for each flag. A flag
    that it does not describe means what it means for the first command. Under python -OO, which
    strips docstrings, a line that says so.
    """
    page, meanings = inspect.getdoc(command), inspect.getdoc(first)
    if not page or not meanings:
        return "no help: python -OO strips it"
    for flag in flags:
        line = rf"(?m)^    {flag.name}: .*"
        if not re.search(line, page):
            page += "\n" + re.findall(line, meanings)[0]
        default = "" if flag.default is False or flag.default == "" else f" ({flag.default})"
        page = re.sub(rf"(?m)^    {flag.name}: ", lambda _: f"    --{flag.name}{default}: ", page)
    return page
