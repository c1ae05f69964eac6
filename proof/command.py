"""python main.py prove FILE[:FUNCTION]: does a sampler keep the target's distribution?"""

import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from json import dumps
from pathlib import Path
from types import ModuleType
from typing import Any

from proof import prove as referee
from proof.enumerate import describe_error
from proof.follow import followed

EXIT_CODES = {"exact": 0, "wrong": 1, "undecidable": 3}
ROOT = Path(__file__).resolve().parent.parent
ADAPTERS = ROOT / "docs" / "referee"  # of known programs


def prove(program: str, *, json: bool = False) -> None:
    """Judge whether a speculative sampler keeps the target's distribution, by taking every branch
    of its random choices in small cases. Its distance is not estimated.

        python main.py prove mine.py                 its only rule or loop, or verify or speculative
        python main.py prove mine.py:my_sampler      any function of a file
        python main.py prove transformers            a known program, if it is installed

    A rule is a function (draft, p, q): K drafted tokens, p [K + 1, n_vocab], q [K, n_vocab]. It
    returns (how many are accepted, the next token), or a list of the round's tokens. A loop is a
    function (target, draft_model, ids, n_tokens, K) that returns the n_tokens new tokens; a model
    is called with ids, or with new ids and a cache that has a list `ids`, and returns a row for
    each of them. Both may have parameters sample, accept, rng and end, a token that ends the text:
    nothing may follow it. Without sample, accept and rng they may draw from numpy.random, random
    and torch.

    The exit code is 0 for exact, 1 for wrong, 3 if it cannot be decided, 2 for bad input.

    Flags:
        json: print one JSON object and nothing else; a list of them for a known program
    """
    with silence(), own_stderr():
        if re.search(r"\.py(:\w+)?$", program):
            results = [referee.prove(*find(program))]
        elif (adapter := ADAPTERS / f"judge_{program}.py").exists():
            results = verdicts(load(adapter))
        else:
            known = ", ".join(sorted(path.stem[6:] for path in ADAPTERS.glob("judge_*.py")))
            known = known or "the programs in docs/referee of a checkout"
            raise ValueError(
                f"{program or repr(program)}: expected FILE.py, FILE.py:FUNCTION or one of: {known}"
            )
    if json:
        print(dumps(results[0] if len(results) == 1 else results))
    else:
        print("\n".join(describe(result) for result in results))
    code = max(EXIT_CODES[result["verdict"]] for result in results)
    if any(result["verdict"] == "wrong" for result in results):
        code = EXIT_CODES["wrong"]
    if code:
        sys.exit(code)


@contextmanager
def silence() -> Iterator[None]:
    """Keep all that is printed inside from stdout, also what does not pass through sys.stdout."""
    stdout, kept = sys.stdout, os.dup(1)
    stdout.flush()
    try:
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
            os.dup2(nowhere.fileno(), 1)
            yield
    finally:
        stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


@contextmanager
def own_stderr() -> Iterator[None]:
    """Give what runs inside a stderr that it may close, replace or take apart."""
    own = open(os.dup(2), "w", errors="backslashreplace")
    try:
        with redirect_stderr(own):
            yield
    finally:
        with suppress(OSError, ValueError):
            own.close()


def load(path: Path) -> ModuleType:
    """Import a file. The random numbers that it imports can be followed."""
    text = path.read_bytes()  # raises OSError if there is no such file
    if re.search(rb"(?m)^\s*(import|from) torch\b", text):
        with suppress(ImportError):  # the file says so
            import proof.noise_torch  # noqa: F401  # before torch's functions are replaced
    forget_namesakes(path.parent.resolve())
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    sys.modules.setdefault(path.stem, module)
    words, sys.argv = sys.argv, [str(path)]  # as if Python ran the file
    try:
        with followed(), own_stderr():
            spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ValueError(f"{path}: {describe_error(error, str(path))}") from error
    finally:
        sys.argv = words
    return module


def verdicts(adapter: ModuleType) -> list[dict[str, Any]]:
    """What an adapter's `referee` returns. Raises ValueError if its program is another version,
    or cannot be imported.
    """
    try:
        return adapter.referee()
    except (KeyboardInterrupt, ValueError):
        raise
    except BaseException as error:
        problem = describe_error(error, adapter.__file__)
        raise ValueError(f"{adapter.__file__} does not fit the program: {problem}") from error


def forget_namesakes(folder: Path) -> None:
    """Let what a file imports from its own folder come from there, and not from a module of this
    project that has the same name, such as utils. Changes sys.modules.
    """
    for name in list(sys.modules):
        top = name.partition(".")[0]
        own = next(filter(Path.exists, (folder / f"{top}.py", folder / top / "__init__.py")), None)
        ours = Path(getattr(sys.modules.get(top), "__file__", None) or "")
        if own and own != ours and ROOT in ours.parents:
            for one in [one for one in sys.modules if one.partition(".")[0] == top]:
                del sys.modules[one]


def find(program: str) -> tuple[Callable, None, str]:
    """The function that FILE.py or FILE.py:FUNCTION means, and its name: arguments of `prove`."""
    file, _, name = program.partition(".py:")
    path = Path(file if name == "" else f"{file}.py")
    module = load(path)
    functions: dict[str, Any] = {
        key: value for key, value in vars(module).items() if is_defined_in(module, value)
    }
    defined = ", ".join(functions) or "none: it defines no function"
    if not name:
        possible = [key for key, value in functions.items() if has_form(value)] or [*functions]
        named = [key for key in ("speculative", "verify") if key in possible]
        if not named and len(possible) != 1:
            raise ValueError(f"{path}: expected {path}:FUNCTION, of {defined}")
        name = (named or possible)[0]
    if not callable(getattr(module, name, None)):
        raise ValueError(f"{path} has no function {name}: expected one of {defined}")
    return getattr(module, name), None, name


def is_defined_in(module: ModuleType, value: Any) -> bool:
    """Whether a value is a function or class of this module, or an object of such a class."""
    try:
        return callable(value) and value.__module__ == module.__name__
    except Exception:  # such as a proxy without anything behind it
        return False


def has_form(function: Callable) -> bool:
    try:
        referee.caller(function)
    except ValueError:
        return False
    return True


def describe(result: dict[str, Any]) -> str:
    """A result of `prove` in words."""
    name, cases, distance = result["name"], result["cases"], result["distance"]
    if result["verdict"] == "undecidable":
        stuck = [case for case in cases if case["problem"]]
        named = [case["name"] for case in stuck if case["problem"] == result["reason"]]
        where = f" In {len(stuck)} of {len(cases)} cases, first in: {named[0]}." if named else ""
        return f"{name}: UNDECIDABLE. {result['reason']}.{where}"
    if result["verdict"] == "exact":
        case = max(cases, key=referee.more_by_block)
        took = f"{result['branches']:,} branches, {result['seconds']:.1f} s"
        rounding = "; float32 rounds as much" if distance > 1e-9 else ""
        figures = f"(largest distance {distance:.0e}{rounding}; {took})"
        notes = [f"  Note: {remark}" for remark in result["remarks"]]
        first = f"{name}: EXACT in {len(cases)} case{'s' * (len(cases) > 1)} {figures}."
        return "\n".join([first, describe_kept(case, case["name"]), *notes])
    wrong = [case for case in cases if case["first_wrong"]]
    case = next((case for case in wrong if "runs" in case["first_wrong"]), wrong[0])
    first_wrong = case["first_wrong"]
    numbers = lambda row: " ".join(f"{x:.3g}".removeprefix("0") or "0" for x in row)
    right = [case["name"] for case in cases if case["distance"] is not None and case not in wrong]
    undecided = sum(bool(case["problem"]) for case in cases)
    lines = [
        f"{name}: WRONG. Total variation distance {figure(case['distance'])} from the target's "
        f"distribution (p = {numbers(case['p'])}, q = {numbers(case['q'])}, K = {case['K']}).",
        f"  {describe_wrong(first_wrong)}",
        describe_kept(case),
        f"  Wrong in {len(wrong)} of {len(cases)} cases"
        + (f"; right where: {'; '.join(right)}" if right else "")
        + (f"; undecided in {undecided}." if undecided else "."),
    ]
    if "runs" in first_wrong:
        lines.append(
            f"  {first_wrong['runs']:,} runs with real random numbers: "
            f"{first_wrong['measured']:.4f}, z = {first_wrong['z_right']:.0f} from right, "
            f"{first_wrong['z_yours']:.1f} from the enumeration."
        )
    return "\n".join(lines)


def describe_wrong(first_wrong: dict[str, Any]) -> str:
    """The text that comes too often, and how it comes about."""
    text, draws = " ".join(map(str, first_wrong["text"])), ", ".join(first_wrong["draws"])
    yours, right = first_wrong["yours"], first_wrong["right"]
    digits = 4 if yours - right > 1e-3 else 7
    how = f"so: {draws}" if draws else "always: nothing is drawn"
    return f'Text "{text}": yours {yours:.{digits}f}, right {right:.{digits}f}. It happens {how}.'


def figure(x: float) -> str:
    """A distance in four digits, or in as many as tell it from 0."""
    return f"{x:.4f}" if x > 1e-3 else f"{x:.1e}"


def describe_kept(case: dict[str, Any], where: str = "") -> str:
    gained = round(case["kept"], 4) + 0.0  # never -0.0
    return (
        f"  Tokens gained, beyond one a pass{where and ', ' + where}: {gained:.4f} on average; "
        f"verify {case['kept_by_verify']:.4f}; block verification, the most in a round, "
        f"{case['kept_at_most']:.4f}."
    )
