"""python main.py prove FILE[:FUNCTION]: does a sampler keep the target's distribution?"""

import re
import sys
from collections.abc import Iterable, Iterator
from inspect import signature
from json import dumps, loads
from pathlib import Path
from queue import Empty, Queue
from subprocess import PIPE, Popen
from threading import Thread
from time import monotonic, time
from typing import Any, Literal

from .json_cases import judge_answers
from .program import is_adapter
from .prove import summary
from .words import describe

# {verdict: exit code}, the worst verdict first
EXIT_CODES = {"wrong": 1, "undecidable": 3, "not told apart": 4, "exact": 0}
ROOT = Path(__file__).resolve().parent.parent
(VERSION,) = re.findall(r'(?m)^VERSION = "(.*)"', (ROOT / "main.py").read_text("utf-8"))
ADAPTERS = ROOT / "docs" / "referee"  # of known programs; an installed copy has none
KNOWN = sorted(path.stem.removeprefix("judge_") for path in ADAPTERS.glob("judge_*.py"))
LONGEST = 1_000_000  # seconds
GRACE = 5.0  # seconds that a process has to end by itself
# what the process of a program runs: python -c ALONE FOLDER proof.alone PROGRAM SETTINGS BEGAN
ALONE = """
import sys, importlib
sys.path[:] = [*filter(None, sys.path), sys.argv[1]]
importlib.import_module(sys.argv[2]).main(*sys.argv[3:])
"""


def prove(
    program: str,
    *,
    json: bool = False,
    batch: bool = False,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    timeout: float = 300.0,
    seed: int | Literal["random"] = "random",
) -> None:
    """Judge whether a speculative sampler keeps the target's distribution, by taking every branch
    of its random choices in small cases. There the distance of its texts is computed, not
    estimated.

        python main.py prove mine.py                 its only rule or loop, or verify or speculative
        python main.py prove mine.py:my_sampler      any function of a file, or Class.method
        python main.py prove transformers            a known program, if it is installed
        python main.py prove answers.jsonl           one in another language (python main.py cases)

    A rule is a function (draft, p, q): K drafted tokens, p [K + 1, n_vocab], q [K, n_vocab]. It
    returns (how many are accepted, the next token), or a list of the round's tokens. With --batch
    it gets several drafts [batch, K], p and q likewise, and returns rows of tokens padded with -1,
    or (rows, how many count in each).

    A rule for trees is a function (tokens, parents, p, q): p[0] follows the text and p[i + 1] node
    i, q[i] is what node i was sampled from, after any filter; it returns (the accepted nodes, the
    next token), or tokens.

    A loop is a function (target, draft_model, ids, n_tokens, K) that returns the new tokens; a
    model is called with ids, or with new ids and a cache that has a list `ids`, and returns a row
    of probabilities, not logits, for each of them.

    All may have parameters sample, accept and rng; a loop also end, a token or None: it ends the
    text, as its last token. Without sample, accept and rng they may draw from numpy.random, random
    and torch. What cannot be followed is run many times with real random numbers.

    The exit code is 0 for exact, 1 for wrong, 3 if it cannot be decided, 4 if real runs do not tell
    it from an exact one, 2 for bad input. Answers take --json only, and --timeout is the only other
    flag that is not for a FILE.py alone.

    Flags:
        json: print one JSON object and nothing else, or a list of several
        batch: the function is a rule for batches
        temperature: by which the function divides the log of each row before it samples; 0 means
            that it takes the likeliest token
        top_k: the likeliest tokens to which it cuts each row; 0 means all
        top_p: the probability to which it cuts each row
        timeout: seconds for each function
        seed: of the drafts in real runs, and of numpy.random, random and torch there
    """
    if not 0 < timeout <= LONGEST:
        raise ValueError(f"--timeout {timeout}: expected seconds, more than 0, at most {LONGEST:,}")
    if seed != "random" and seed < 0:
        raise ValueError(f"--seed {seed}: expected 0 or more")
    settings = dict(batch=batch, timeout=timeout, seed=None if seed == "random" else seed)
    settings |= dict(temperature=temperature, top_k=top_k, top_p=top_p)
    results = results_of(program, settings)
    if json:
        print(dumps(results[0] if len(results) == 1 else results))
    else:
        for result in results:
            print(describe(result))
    verdicts = [result["verdict"] for result in results]
    for verdict, exit_code in EXIT_CODES.items():  # the worst first
        if verdict in verdicts and exit_code != 0:
            sys.exit(exit_code)


if prove.__doc__ and not KNOWN:
    prove.__doc__ = re.sub(r"\n.* a known program, .*", "", prove.__doc__)


def results_of(program: str, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Judge FILE.py[:FUNCTION], a known program, such as "transformers", or ANSWERS.jsonl. Returns
    a list with one dict for each function: the result that `prove` returns (its keys: prove.py),
    "version" and "settings". Raises ValueError for another word, a flag that has no meaning for it,
    and what a user can put right in a program; OSError for a file that is not there.

    settings: {"batch", "timeout", "seed", "temperature", "top_k", "top_p"}, all of them
    """
    if re.search(r"\.py(:[\w.]+)?$", program):
        return judged(program, settings)
    if program in KNOWN:
        require_defaults(settings, free="timeout")
        return judged(str(ADAPTERS / f"judge_{program}.py"), settings)
    require_defaults(settings)
    if program.endswith(".jsonl"):
        return [judge_answers(Path(program)) | dict(version=VERSION, settings={})]
    words = ", ".join(["answers.jsonl", *KNOWN])
    expected = f"expected FILE.py, FILE.py:FUNCTION or one of: {words}"
    raise ValueError(f"{program or repr(program)}: {expected}")


# {flag of `prove`: its default}; "random" is None in settings
DEFAULTS = {name: flag.default for name, flag in signature(prove).parameters.items()}
DEFAULTS["seed"] = None


def require_defaults(settings: dict[str, Any], free: str | None = None) -> None:
    """Raise ValueError for a flag, {name: value}, that has another value than its default: it has a
    meaning for FILE.py only. The flag of the name `free`, if there is one, may have any value.
    """
    for name, value in settings.items():
        if value != DEFAULTS[name] and name != free:
            raise ValueError(f"--{name} {value}: expected none, it is for FILE.py only")


def judged(program: str, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Judge the function of a file, or all of an adapter's, in a process of its own, so that it can
    be stopped. Returns a list of one dict for each function: its result, with the keys that the top
    of prove.py lists, "version" of this project, and "settings" as given. If the process dies, or
    is killed as its time is up, the list has one result with the verdict "undecidable", a reason,
    and the cases that were judged until then. Raises ValueError, with one line for the user, for a
    file that is not there or cannot be imported, and for one without such a function.

    program: FILE.py, FILE.py:FUNCTION, or the path of an adapter, a file judge_*.py, for which the
        time of the settings counts for each function
    settings: {"batch", "timeout", "seed", "temperature", "top_k", "top_p"}, all of them
    """
    began = monotonic()
    last, is_late = last_words(program, settings)  # last: an error, results, or a case's beginning
    if "error" in last:
        raise ValueError(last["error"])
    if "results" in last:
        results = last["results"]
    else:
        results = [unfinished(last, monotonic() - began, is_late)]
    return [result | dict(version=VERSION, settings=settings) for result in results]


def last_words(program: str, settings: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Judge a program in a process of its own (alone.main), which is killed if it does not end in
    time. Returns (the last line of JSON that it wrote, a dict; whether its time was up). The dict
    has "results" or "error" if it came to its end, else "name", "where" it was, and "cases", the
    entries of those before; if it has written nothing, no cases and "before the first case".

    settings: its time is "timeout" and a few seconds more; for an adapter, a file judge_*.py, that
        time begins again with each line that it writes
    """
    last: dict[str, Any] = dict(name=program, where="before the first case", cases=[])
    words = words_of_process(program, settings)
    # nobody writes to stdin: it closes when this process ends, and then the child ends itself
    with Popen(words, stdin=PIPE, stdout=PIPE, text=True) as child:
        assert child.stdout  # a pipe
        try:
            for line in in_time(child.stdout, settings["timeout"] + GRACE, is_adapter(program)):
                last = loads(line)
        except Empty:
            return last, True
        finally:
            child.kill()
    return last, False


def words_of_process(program: str, settings: dict[str, Any]) -> list[str]:
    """The command, in words, of a process that runs alone.main(program, settings, time.time()), in
    this copy of the package, wherever it lies.
    """
    package = __package__ or "proof"  # "speculate.proof" of an installed copy
    n_folders = len(package.split("."))
    imported_from = Path(__file__).parents[n_folders]  # the folder in which the first of them lies
    arguments = [program, dumps(settings), str(time())]
    return [sys.executable, "-c", ALONE, str(imported_from), f"{package}.alone", *arguments]


def in_time(stream: Iterable[str], seconds: float, each: bool) -> Iterator[str]:
    """Yield the lines of a stream, until it ends. Raises queue.Empty if that takes more than so
    many seconds; with `each`, if one line does. A thread reads the stream, and ends with it.
    """
    lines: Queue[str | None] = Queue()

    def read() -> None:
        for line in stream:
            lines.put(line)
        lines.put(None)  # the end

    Thread(target=read, daemon=True).start()
    deadline = monotonic() + seconds
    while True:
        line = lines.get(timeout=max(0.0, deadline - monotonic()))
        if line is None:
            return
        yield line
        if each:
            deadline = monotonic() + seconds


def unfinished(last: dict[str, Any], seconds: float, is_late: bool) -> dict[str, Any]:
    """The result, "undecidable", of a process that judged a function and did not come to its end: a
    dict with the keys of a result of `prove`.

    last: what it wrote last: {"name": of the function, "where": it was, such as "in the case K =
        1", "cases": the entries of the cases before that}
    seconds: that it ran
    is_late: whether its time was up; else it exited or crashed
    """
    if is_late:
        reason = f"it did not end in {seconds:.0f} seconds, {last['where']}: it was stopped"
    else:
        reason = f"its process exited or crashed {last['where']}"
    return summary(last["name"], "undecidable", reason, last["cases"], seconds)
