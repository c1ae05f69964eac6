"""A result of `prove` in words."""

from typing import Any

from .prove import more_by_block

MOST_SHOWN = 12  # numbers of a row


def describe(result: dict[str, Any]) -> str:
    """A result of `prove` in words: several lines, of which the first begins "NAME: VERDICT"."""
    words = {
        "exact": describe_exact,
        "wrong": describe_wrong,
        "not told apart": describe_not_told_apart,
        "undecidable": describe_undecidable,
    }
    return "\n".join(words[result["verdict"]](result))


def describe_exact(result: dict[str, Any]) -> list[str]:
    small = [case for case in result["cases"] if case["distance"] is not None]
    rounding = "; float32 rounds as much" if result["distance"] > 1e-9 else ""
    took = f"{result['branches']:,} branches, {result['seconds']:.1f} s"
    figures = f"(largest distance {result['distance']:.0e}{rounding}; {took})"
    lines = [f"{result['name']}: EXACT in {len(small)} case{'s' * (len(small) > 1)} {figures}."]
    case = max(small, key=more_by_block)
    lines.append(describe_kept(case, case["name"]))
    if (left_out := max(case["left_out"] for case in small)) > 0:
        lines.append(f"  Left out: branches of probability {left_out:.0e}, which did not end yet.")
    if result["runs"]:
        lines.append(f"  {describe_runs(result, small)}")
    return lines + [f"  Note: {remark}" for remark in result["remarks"]]


def describe_runs(result: dict[str, Any], small: list[dict[str, Any]]) -> str:
    """What real runs add to an exact verdict."""
    n_small = sum(case["measured"]["runs"] for case in small if case["measured"])
    words = [f"{n_small:,} real runs of them agree"] if n_small else []
    for case in result["cases"]:
        if case["distance"] is None and case["measured"]:
            runs, would_show = case["measured"]["runs"], figure(case["measured"]["would_show"])
            words.append(
                f"{case['name']}: not told apart in {runs:,} real runs, where a distance of "
                f"{would_show} would have shown"
            )
    return "; ".join(words) + "."


def describe_wrong(result: dict[str, Any]) -> list[str]:
    cases = result["cases"]
    wrong = [case for case in cases if case["first_wrong"]]
    measured = [case for case in wrong if case["measured"]]
    case = (measured or wrong)[0]
    distance = "Not the target's distribution"
    if case["distance"] is not None:
        distance = (
            f"Total variation distance {figure(case['distance'])} from the target's distribution"
        )
    is_large = case["distance"] is None and len(case["p"]) > MOST_SHOWN
    what = "Classes of tokens" if is_large else "Text"
    models = f"K = {case['K']}; at first p = {numbers(case['p'])}, q = {numbers(case['q'])}"
    lines = [
        f"{result['name']}: WRONG. {distance} ({models}).",
        f"  {describe_first_wrong(case['first_wrong'], case['measured'], what)}",
    ]
    if case["kept"] is not None:
        lines.append(describe_kept(case))
    right = [c["name"] for c in cases if c["distance"] is not None and c not in wrong]
    where = f"; right where: {'; '.join(right)}" if right else ""
    if len(right) > MOST_SHOWN:
        where = f"; right in {len(right)}, such as {'; '.join(right[:3])}"
    problems = [c["problem"] for c in cases if c["problem"]]
    undecided = f"; undecided in {len(problems)}" if problems else ""
    lines.append(f"  Wrong in {len(wrong)} of {len(cases)} cases{where}{undecided}.")
    if measured and case["first_wrong"]["draws"] is not None:
        lines.append(f"  {describe_odds(case['measured'])}")
    if measured and problems:
        lines.append(f"  Not every branch could be taken: {problems[0]}.")
    return lines


def describe_first_wrong(
    first_wrong: dict[str, Any], measured: dict[str, Any] | None = None, what: str = "Text"
) -> str:
    """What is wrong first, as branches show it, or real runs. what: the word for its text"""
    draws = ", ".join(first_wrong["draws"] or ())
    how = f"It happens so: {draws}." if draws else ""
    if event := first_wrong.get("event"):
        return f"{event[0].upper()}{event[1:]}. {how or 'A run with real random numbers did it.'}"
    text, yours, right = (first_wrong[key] for key in ("text", "yours", "right"))
    digits = 4 if abs(yours - right) > 1e-3 else 7
    shown = " ".join(map(str, text))
    figures = f'{what} "{shown}": yours {yours:.{digits}f}, right {right:.{digits}f}.'
    if measured and first_wrong["draws"] is None:
        return f"{figures} {describe_odds(measured)}"
    return f"{figures} {how or 'It happens always: nothing is drawn.'}"


def describe_odds(measured: dict[str, Any]) -> str:
    """How sure real runs are."""
    runs, odds = measured["runs"], measured["log10_odds"]
    if odds is None:
        return f"An exact sampler never writes that; {runs:,} real runs did."
    return f"{runs:,} real runs: odds of 10^{odds:.0f} to 1 against an exact sampler."


def describe_not_told_apart(result: dict[str, Any]) -> list[str]:
    return [
        f"{result['name']}: NOT TOLD APART from exact in {result['runs']:,} real runs of "
        f"{len(result['cases'])} cases; in each, a distance of {figure(result['would_show'])} "
        "would have shown.",
        f"  Not called exact, since not every branch could be taken: {result['reason']}.",
        *describe_partly(result),
    ]


def describe_undecidable(result: dict[str, Any]) -> list[str]:
    cases = result["cases"]
    stuck = [case for case in cases if case["problem"]]
    named = [case["name"] for case in stuck if case["problem"] == result["reason"]]
    where = f" In {len(stuck)} of {len(cases)} cases, first in: {named[0]}." if named else ""
    return [f"{result['name']}: UNDECIDABLE. {result['reason']}.{where}", *describe_partly(result)]


def describe_partly(result: dict[str, Any]) -> list[str]:
    """What was found before there was no verdict."""
    cases, lines = result["cases"], []
    wrong = [case for case in cases if case["first_wrong"]]
    exact = sum(case["distance"] is not None and case not in wrong for case in cases)
    if exact:
        lines.append(f"  Exact in {exact} of {len(cases)} cases, in which every branch was taken.")
    if wrong:
        at = wrong[0]
        distance = "" if at["distance"] is None else f" at a distance of {figure(at['distance'])}"
        lines.append(f"  Not exact in {len(wrong)}, first in {at['name']}{distance}:")
        lines.append(f"  {describe_first_wrong(at['first_wrong'])}")
    return lines


def describe_kept(case: dict[str, Any], where: str = "") -> str:
    gained = round(case["kept"], 4) + 0.0  # never -0.0
    words = f"  Tokens gained, beyond one a pass{where and ', ' + where}: {gained:.4f} on average"
    if case["kept_by_verify"] is None:
        return f"{words}."
    return (
        f"{words}; verify {case['kept_by_verify']:.4f}; block verification, the most in a round, "
        f"{case['kept_at_most']:.4f}."
    )


def figure(x: float) -> str:
    """A distance in four digits, or in as many as tell it from 0."""
    return f"{x:.4f}" if x > 1e-3 else f"{x:.1e}"


def numbers(row: list[float]) -> str:
    """A row of probabilities, ".5 .3 .2"; of a long one, how long it is."""
    if len(row) > MOST_SHOWN:
        return f"{len(row)} tokens"
    return " ".join(f"{x:.3g}".removeprefix("0") or "0" for x in row)
