"""A result of `prove` in words."""

from typing import Any

from .prove import more_by_block

MOST_SHOWN = 12  # numbers of a row


def describe(result: dict[str, Any]) -> str:
    """A result of `prove` in words: several lines, of which the first begins "NAME: VERDICT".

    result: {"name", "verdict", "cases", ...}; all keys of a result and of its cases, which are
        dicts, too, are listed at the top of prove.py
    """
    words = {
        "exact": describe_exact,
        "wrong": describe_wrong,
        "not told apart": describe_not_told_apart,
        "undecidable": describe_undecidable,
    }
    return "\n".join(words[result["verdict"]](result))


def describe_exact(result: dict[str, Any]) -> list[str]:
    """The lines for a result whose verdict is "exact"; at least one of its cases has a distance.

        verify: EXACT in 28 cases (largest distance 7e-16; 12,843 branches, 1.8 s).
          Tokens gained, beyond one a pass, K = 2: 1.3250 on average; verify 1.3250; block
          verification, the most in a round, 1.4000.

    result: {"name", "cases", "distance", "branches", "seconds", "runs", "remarks"}; each case has
        "name", "distance" (None if it was not enumerated: real runs judged it), "left_out",
        "measured" and the keys that describe_kept needs
    """
    enumerated = [case for case in result["cases"] if case["distance"] is not None]
    rounding = "; float32 rounds as much" if result["distance"] > 1e-9 else ""
    took = f"{result['branches']:,} branches, {result['seconds']:.1f} s"
    figures = f"(largest distance {result['distance']:.0e}{rounding}; {took})"
    noun = "case" if len(enumerated) == 1 else "cases"
    lines = [f"{result['name']}: EXACT in {len(enumerated)} {noun} {figures}."]
    # the case in which block verification gains most over the token rule
    telling = max(enumerated, key=more_by_block)
    lines.append(describe_kept(telling, where=telling["name"]))
    left_out = max(case["left_out"] for case in enumerated)
    if left_out > 0:
        lines.append(f"  Left out: branches of probability {left_out:.0e}, which did not end yet.")
    if result["runs"]:
        lines.append(f"  {describe_runs(result['cases'])}")
    return lines + [f"  Note: {remark}" for remark in result["remarks"]]


def describe_runs(cases: list[dict[str, Any]]) -> str:
    """What real runs add to an exact verdict, such as "8,400 real runs of them agree; 200 tokens, K
    = 8, a few tokens at a time: not told apart in 4,000 real runs, where a distance of 0.0707 would
    have shown."

    cases: {"name", "distance", "measured"}: distance is None for those that were not enumerated;
        measured is None or {"runs", "would_show"}, and not None for one case at least
    """
    measured = [case for case in cases if case["measured"]]
    words = []
    n_agree = sum(case["measured"]["runs"] for case in measured if case["distance"] is not None)
    if n_agree:
        words.append(f"{n_agree:,} real runs of them agree")
    for case in measured:
        if case["distance"] is None:
            runs, would_show = case["measured"]["runs"], figure(case["measured"]["would_show"])
            not_told_apart = f"a few tokens at a time: not told apart in {runs:,} real runs"
            where = f"where a distance of {would_show} would have shown"
            words.append(f"{case['name']}, {not_told_apart}, {where}")
    return "; ".join(words) + "."


def describe_wrong(result: dict[str, Any]) -> list[str]:
    """The lines for a result whose verdict is "wrong". They show one wrong case: the first that has
    real runs, or else the first.

        mine: WRONG. Total variation distance 0.1000 from the target's distribution (K = 1; ...).
          Text "1": yours 0.4000, right 0.3000. It happens so: drafted 1 (0.40), coin of ...
          Wrong in 3 of 29 cases; right where: K = 0; p = q.

    result: {"name", "cases"}; each case has "name", "K", "p", "q", "is_large", "distance", "kept",
        "problem", "measured", and "first_wrong", which is None where it is not wrong; the one that
        is shown has what describe_kept needs, too
    """
    cases = result["cases"]
    wrong = [case for case in cases if case["first_wrong"]]
    with_runs = [case for case in wrong if case["measured"]]
    shown = with_runs[0] if with_runs else wrong[0]
    first_wrong, measured = shown["first_wrong"], shown["measured"]
    distance = "Not the target's distribution"
    if shown["distance"] is not None:
        size = figure(shown["distance"])
        distance = f"Total variation distance {size} from the target's distribution"
    # a large case with many tokens is judged by classes of tokens, not by each token
    has_classes = shown["is_large"] and len(shown["p"]) > MOST_SHOWN
    what = "Classes of tokens" if has_classes else "Text"
    models = f"K = {shown['K']}; at first p = {numbers(shown['p'])}, q = {numbers(shown['q'])}"
    lines = [
        f"{result['name']}: WRONG. {distance} ({models}).",
        f"  {describe_first_wrong(first_wrong, what)}",
    ]
    if shown["kept"] is not None:
        lines.append(describe_kept(shown))
    lines.append(f"  {describe_where(cases)}")
    problems = [case["problem"] for case in cases if case["problem"]]
    if measured and not first_wrong["event"]:  # one run with an event is enough: no odds
        lines.append(f"  {describe_odds(measured)}")
    if measured and problems:
        lines.append(f"  Not every branch could be taken: {problems[0]}.")
    return lines


def describe_where(cases: list[dict[str, Any]]) -> str:
    """In which cases a function is wrong: "Wrong in 3 of 29 cases; right where: K = 0; p = q;
    undecided in 2." Of more than 12 right cases (MOST_SHOWN) it names three: "right in 20, such as
    K = 0; p = q; K = 1".

    cases: {"name", "distance" (None if it was not enumerated), "first_wrong" (None if it is not
        wrong), "problem" ("" if it was decided)}
    """
    n_wrong = sum(case["first_wrong"] is not None for case in cases)
    n_problems = sum(case["problem"] != "" for case in cases)
    enumerated = [case for case in cases if case["distance"] is not None]
    right = [case["name"] for case in enumerated if case["first_wrong"] is None]
    words = [f"Wrong in {n_wrong} of {len(cases)} cases"]
    if len(right) > MOST_SHOWN:
        words.append(f"right in {len(right)}, such as {'; '.join(right[:3])}")
    elif right:
        words.append(f"right where: {'; '.join(right)}")
    if n_problems:
        words.append(f"undecided in {n_problems}")
    return "; ".join(words) + "."


def describe_first_wrong(first_wrong: dict[str, Any], what: str = "Text") -> str:
    """The shortest wrong text of a case, with its probability: 'Text "1": yours 0.4000, right
    0.3000. It happens so: drafted 1 (0.40), coin of 0.75: yes (0.75).'; or the event that no right
    sampler has: 'It returns 7: expected tokens below 3. It happens so: ...'

    first_wrong: {"text": tokens, "yours", "right": its probabilities, "draws": the choices, in
        words, None if real runs found it, "event": what no right sampler gives, in words, or ""}
    what: the word for the text
    """
    event, draws = first_wrong["event"], first_wrong["draws"]
    if event:
        wrong = event[0].upper() + event[1:]
    else:
        text = " ".join(map(str, first_wrong["text"]))
        yours, right = first_wrong["yours"], first_wrong["right"]
        digits = 4 if abs(yours - right) > 1e-3 else 7  # enough to tell the two apart
        wrong = f'{what} "{text}": yours {yours:.{digits}f}, right {right:.{digits}f}'
    if draws is None:
        how = "Real runs show it."
    elif draws:
        how = f"It happens so: {', '.join(draws)}."
    else:
        how = "It happens always: nothing is drawn."
    return f"{wrong}. {how}"


def describe_odds(measured: dict[str, Any]) -> str:
    """How sure real runs are: "5,000 real runs: odds of 10^12 to 1 against an exact sampler."

    measured: {"runs", "log10_odds"}; the odds are None if an exact sampler never writes it
    """
    runs, odds = measured["runs"], measured["log10_odds"]
    if odds is None:
        return f"An exact sampler never writes that; real run {runs:,} did."
    return f"{runs:,} real runs: odds of 10^{odds:.0f} to 1 against an exact sampler."


def describe_not_told_apart(result: dict[str, Any]) -> list[str]:
    """The lines for a result whose verdict is "not told apart".

        mine: NOT TOLD APART from exact in 140,000 real runs of 28 cases; in each, a distance of ...
          Not called exact, since not everything could be tried: normal is not followed.

    result: {"name", "runs", "cases", "would_show", "reason"}; each case has what describe_partly
        needs
    """
    runs = f"{result['runs']:,} real runs of {len(result['cases'])} cases"
    shown = f"in each, a distance of {figure(result['would_show'])} would have shown"
    return [
        f"{result['name']}: NOT TOLD APART from exact in {runs}; {shown}.",
        f"  Not called exact, since not everything could be tried: {result['reason']}.",
        *describe_partly(result["cases"]),
    ]


def describe_undecidable(result: dict[str, Any]) -> list[str]:
    """The lines for a result whose verdict is "undecidable".

        mine: UNDECIDABLE. It raised TypeError: .... In 2 of 28 cases, first in: K = 0.

    result: {"name", "reason", "cases"}; each case has "name", "problem" ("" without one) and what
        describe_partly needs. The case is named whose problem is the reason, if there is one
    """
    cases = result["cases"]
    named = [case["name"] for case in cases if case["problem"] == result["reason"]]
    first = f"{result['name']}: UNDECIDABLE. {result['reason']}."
    if named:
        first += f" In {len(named)} of {len(cases)} cases, first in: {named[0]}."
    return [first, *describe_partly(cases)]


def describe_partly(cases: list[dict[str, Any]]) -> list[str]:
    """What was found in the cases of a result without a verdict: [] or lines such as "  Exact in 5
    of 28 cases, in which every branch was taken." and "  Not exact in 2, first in K = 1 at ...:".

    cases: {"name", "distance" (None if it was not enumerated), "first_wrong" (None if it is not
        wrong)}
    """
    lines = []
    wrong = [case for case in cases if case["first_wrong"]]
    n_exact = sum(case["distance"] is not None and case not in wrong for case in cases)
    if n_exact:
        every = "in which every branch was taken"
        lines.append(f"  Exact in {n_exact} of {len(cases)} cases, {every}.")
    if wrong:
        at = wrong[0]
        where = at["name"]
        if at["distance"] is not None:
            where += f" at a distance of {figure(at['distance'])}"
        lines.append(f"  Not exact in {len(wrong)}, first in {where}:")
        lines.append(f"  {describe_first_wrong(at['first_wrong'])}")
    return lines


def describe_kept(case: dict[str, Any], where: str = "") -> str:
    """A line about what a text gains in a case, for `where` = "K = 2": "  Tokens gained, beyond one
    a pass, K = 2: 1.3250 on average; verify 1.3250; block verification, the most in a round,
    1.4000." Of a tree it ends after "on average"; without `where`, "pass" is followed by the colon.

    case: {"kept", "kept_by_verify", "kept_at_most"}, the three numbers, in this order; the last two
        are None for trees
    where: the name of the case, if the line is to tell it
    """
    gained = round(case["kept"], 4) + 0.0  # never -0.0
    name = f", {where}" if where else ""
    words = f"  Tokens gained, beyond one a pass{name}: {gained:.4f} on average"
    if case["kept_by_verify"] is None:
        return f"{words}."
    by_verify, at_most = case["kept_by_verify"], case["kept_at_most"]
    by_block = f"block verification, the most in a round, {at_most:.4f}"
    return f"{words}; verify {by_verify:.4f}; {by_block}."


def figure(x: float) -> str:
    """A distance in four digits, or in as many as tell it from 0."""
    return f"{x:.4f}" if x > 1e-3 else f"{x:.1e}"


def numbers(row: list[float]) -> str:
    """A row of probabilities, ".5 .3 .2"; of a long one, how long it is."""
    if len(row) > MOST_SHOWN:
        return f"{len(row)} tokens"
    # 0.5 as .5; of "0" nothing would be left
    return " ".join(f"{x:.3g}".removeprefix("0") or "0" for x in row)
