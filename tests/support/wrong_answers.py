"""Answers to the exercises: WRONG is {exercise: {the slip: (what its verdict says, answer)}}, RIGHT
is {exercise: {what is unusual: answer}}. Rules and loops that the referee judges are elsewhere.
"""

import random  # noqa: F401, edited answers use it
from types import FunctionType

import numpy as np

from exercises import solutions as right
from proof.mistakes import compiled
from proof.mistakes import edited as edited_source


def edited(answer, *pieces):
    """The answer with pieces of its source exchanged: pairs (right piece, wrong piece)."""
    _, source = edited_source(answer, *pieces)
    return FunctionType(compiled(answer, source), globals() | vars(right), answer.__name__)


# ---------------------------------------------------------------- rules


def waits_for_a_larger_p(draft, p, q, sample, accept):
    i = 0
    while i < len(draft):
        if p[i][draft[i]] > q[i][draft[i]]:
            i += 1
    return i, sample(p[i])


def place_by_ratio(draft, p, q, sample, accept):
    ratios = [p[i][x] / q[i][x] for i, x in enumerate(draft)]
    for ratio in ratios:
        if not accept(ratio):
            i = ratios.index(ratio)
            return i, sample(right.residual_2(p[i], q[i]))
    return len(draft), sample(p[-1])


def largest_in_size(logits, temperature):
    if temperature == 0:
        return np.eye(len(logits))[abs(logits).argmax()]
    return right.temperature_1(logits, temperature)


def vectorised(draft, p, q, sample, accept):
    rejected = (i for i, ratio in enumerate(p[:-1] / q) if not accept(ratio[draft[i]]))
    i = next(rejected, len(draft))
    lacking = np.clip(p - np.vstack([q, np.zeros(p.shape[1])]), 0, None)
    return i, sample(lacking[i] / lacking[i].sum())


def not_clipped(p, q):
    """The residual, of which rounding leaves some entries a little below 0."""
    lacking = p - np.minimum(1, p / np.maximum(q, 1e-99)) * q
    return lacking / lacking.sum()


permuted_is_equal = edited(right.residual_2, ("lacking.sum() == 0", "sorted(p) == sorted(q)"))
PERMUTED = ("residual_2(", "permuted_is_equal(")
rare_is_safe = edited(right.verify_4, ("if not accept", "if q[i][x] > 3e-4 and not accept"))


# ---------------------------------------------------------------- unusual, and right


def other_types(p, q, sample, accept):
    x = sample(q)
    if accept(p[x] / q[x]):
        return [x, np.True_]
    return [np.int64(sample(right.residual_2(p, q).tolist())), 0]


def with_guard(p, q):
    return p if np.allclose(p, q) else right.residual_2(p, q)


def k_sequential(p, q, sample, accept):
    """SpecTr's rule for two independent drafts, which may keep one of them more often."""
    overlap = lambda rho: np.minimum(q, p / rho).sum()
    low, high = 1.0, 2.0
    for _ in range(60):
        rho = (low + high) / 2
        if 1 - (1 - overlap(rho)) ** 2 <= rho * overlap(rho):
            high = rho
        else:
            low = rho
    b = overlap(high)
    for _ in range(2):
        x = sample(q)
        if accept(p[x] / (high * q[x])):
            return x, True
    passed = np.minimum(q, p / high) * ((1 - (1 - b) ** 2) / b) if b else 0
    return sample(right.residual_2(p, passed)), False


def prefill(target, draft_model, ids, target_cache, draft_cache):
    if ids[:-1]:
        target(ids[:-1], target_cache)
        draft_model(ids[:-1], draft_cache)
    return []


# ---------------------------------------------------------------- all of them

EDITS = {  # {exercise: {the slip: (what its verdict says, (piece of the solution, in its place))}}
    "temperature_1": {
        "overflows": (
            "1([10000, 0, 10001], 0.5) gives [nan, 0, nan], expected [0.1192, 0, 0.8808]",
            ("(logits - logits.max())", "logits"),
        ),
        "ties share at temperature 0": (
            "gives [0, 0.5, 0.5, 0], expected [0, 1, 0, 0]",
            ("temperature == 0", "False"),
            ("/ temperature", "/ max(temperature, 1e-6)"),
        ),
        "in place": ("changes its arguments", (
            "    weights = np.exp((logits - logits.max())",
            "    logits -= logits.max()\n    weights = np.exp((logits)",
        )),
        "no return": ("gives None", ("return weights / weights.sum()", "weights")),
        "a tie that is none": ("1([100, 100.001], 0) gives [1, 0], expected [0, 1]", (
            "logits.argmax()", "np.isclose(logits, logits.max()).argmax()",
        )),
        "the largest size": ("nan", ("logits - logits.max()", "logits - abs(logits).max()")),
        "the largest, or 0": ("nan", ("logits - logits.max()", "logits - max(0, logits.max())")),
        "clipped at -50": ("temperature_1([0, 50, -100], 50) gives", (
            "(logits - logits.max())", "np.clip(logits - logits.max(), -50, 0)",
        )),
        "the likeliest below 5e-4": ("0.0001) gives [0, 1, 0]", ("== 0", "< 5e-4")),
        "the likeliest below 0.1": ("expected [0.2595", ("temperature == 0", "temperature < 0.1")),
    },
    "residual_2": {
        "not scaled": (
            "[0.3, 0.1, 0], expected [0.75, 0.25, 0]", ("lacking / lacking.sum()", "lacking")
        ),
        "0 / 0": ("nan", ("lacking.sum() == 0", "False")),
        "nearly scaled": ("gives [0.7499", ("/ lacking.sum()", "/ (lacking.sum() + 1e-5)")),
        "p where q is nearly sure": (
            "expected [0, 1]", ("lacking.sum() == 0", "0.9 < q.max() < 1 or lacking.sum() == 0")
        ),
        "p where the numbers are the same": (
            "([0.5, 0.3, 0.2], [0.3, 0.5, 0.2]) gives [0.5, 0.3, 0.2], expected [1, 0, 0]",
            ("lacking.sum() == 0", "set(p) == set(q)"),
        ),
        "p where the largest is the same": (
            "expected [1, 0, 0]", ("lacking.sum() == 0", "max(p) == max(q)"),
        ),
        "p where the last is the same": (
            "expected [1, 0, 0]", ("lacking.sum() == 0", "p[-1] == q[-1]"),
        ),
        "p where the first is the same": (
            "expected [0, 1, 0]", ("lacking.sum() == 0", "p[0] == q[0]"),
        ),
        "p where q is near": ("expected [1, 0, 0]", ("lacking.sum() == 0", "lacking.sum() < 5e-3")),
    },
    "speedup_7": {
        "a is rounded": ("speedup_7(0.8125, ", ("a**n", "round(a, 2) ** n")),
        "a near 1 is 1": (
            "7(0.9999, 1, 0, 1) gives 2, expected 1.9999",
            ("a**n", "(a if a < 0.99 else 1) ** n"),
        ),
        "K is limited": ("speedup_7(0.8125, 40, ", ("range(K + 1)", "range(min(K, 32) + 1)")),
        "nothing without drafts": ("speedup_7(0, 0, 0, 1) gives 0, expected 1", (
            "sum(a**n for n in range(K + 1))", "sum(a**n for n in range(K + 1)) if K else 0",
        )),
        "no bonus": ("gives 1, expected 1.3", ("range(K + 1)", "range(K)")),
        "0 / 0 at a = 1": (
            "ZeroDivisionError", ("sum(a**n for n in range(K + 1))", "(1 - a ** (K + 1)) / (1 - a)")
        ),
    },
    "one_token_3": {
        "replaced from p": ("comes out is [0.4, 0.32, 0.28]", ("residual_2(p, q)", "p")),
        "the residual is not scaled": (
            "sample([0.3, 0.1, 0])", ("residual_2(p, q)", "np.maximum(p - q, 0)")
        ),
        "a replacement called draft": (
            "q = [0.2, 0.2, 0.6]: token 0 comes out as a draft with probability 0.5, "
            "but a sample of q is that token with 0.2 only:", ("), False", "), True"),
        ),
        "nothing is drafted": (
            "token 0, said to be the draft, is none that sample(q) returned",
            ("sample(q)", "sample(p)"), ("p[x] / q[x]", "min(1, q[x] / p[x])"),
            ("sample(residual_2(p, q))", "x"),
        ),
        "a coin of its own": (
            "random numbers of its own", ("accept(p[x] / q[x])", "random.random() < p[x] / q[x]")
        ),
        "a coin from a seed": ("of a constant seed each call draws the same numbers", (
            "accept(p[x] / q[x])", "np.random.default_rng(0).random() < p[x] / q[x]",
        )),
        "a rare draft is accepted": (
            "0.0004, 0.499703, 0.497897], expected p, at a distance of 3.0e-04",
            ("if accept", "if q[x] < 2e-3 or accept"),
        ),
        "p where the numbers are the same": ("q = [0.3, 0.5, 0.2]: what comes", PERMUTED),
        "p where they are near": (
            "p = [0.5, 0.5], q = [0.49998, 0.50002]: what comes out is [0.49999, 0.50001],",
            ("residual_2(p, q)", "p if abs(p - q).max() < 3e-5 else residual_2(p, q)"),
        ),
        "a likely draft is safe": ("p = [0.85, 0.15]", ("if accept", "if p[x] > 0.8 or accept")),
        "a nearly sure draft is accepted": (
            "p = [0.9993, 0.0007]", ("if accept", "if (q[x] > 0.95 and p[x] > 0.5) or accept")
        ),
        "a token rare in p is rejected": (
            "p and q of 30 tokens: token 2 comes", ("if accept", "if p[x] > 5e-5 and accept")
        ),
        "whether it is the draft comes first": (
            "it returns (True, 0): return the token first", ("return x, True", "return True, x")
        ),
        "no return": ("None: return two values", ("return sample(", "sample(")),
        "one value": ("return two values", ("return x, True", "return x")),
        "until one is accepted": (
            "does a loop retry until it accepts?",
            ("    x = sample(q)\n    if", "    while True:\n        x = sample(q)\n        if"),
            ("        return x, True", "            return x, True"),
        ),
        "in place": (
            "changes its arguments",
            ("    return sample(", "    p -= np.minimum(p, q)\n    return sample("),
            ("residual_2(p, q)", "p / p.sum()"),
        ),
        "a ratio near 1 is 1": (
            "distance of 6.1e-05", ("if accept", "if p[x] / q[x] > 0.999 or accept")
        ),
        "the last of eight tokens are safe": ("comes out is", ("if accept", "if x >= 5 or accept")),
        "compared": (
            "a draft is kept with probability 0.28, 0.6 is possible",
            ("if accept(p[x] / q[x])", "if (y := sample(p)) == x"),
            ("sample(residual_2(p, q))", "y"),
        ),
    },
    "verify_4": {
        "the bonus from the row before": (
            "Total variation distance", ("p[len(draft)]", "p[max(len(draft) - 1, 0)]")
        ),
        "one value": ("return two values", ("return i,", "return i or")),
        "p where the numbers are the same": ("at first p = .5 .3 .2, q = .3 .5 .2", PERMUTED),
        "the token comes first": (
            "it is right if its two values change places",
            ("return i, sample(", "return sample("), ("q[i]))", "q[i])), i"),
            ("len(draft), sample(p[len(draft)])", "sample(p[len(draft)]), len(draft)"),
        ),
        "q is never 0": ("(K = 1; at first p = 30 tokens", ("q[i][x])", "(q[i][x] + 1e-6))")),
        "the seventh draft is safe": (
            'Text "1 1 1 1 1 1 0"', ("if not accept", "if i < 6 and not accept")
        ),
        "in place": ("changes its arguments", (
            "return i, sample(residual_2(p[i], q[i]))",
            "p[i] = residual_2(p[i], q[i])\n            return i, sample(p[i])",
        )),
        "the draft is used up": (
            "changes its arguments", ("return i,", "draft.pop()\n            return i,")
        ),
        "q of 1 in 1,000 at least": (
            'Text "', ("p[i][x] / q[i][x]", "p[i][x] / max(q[i][x], 1e-3)")
        ),
        "the last of eight tokens are safe": (
            'Text "', ("if not accept", "if x < 5 and not accept")
        ),
        "eight drafts are safe": ('Text "', ("if not accept", "if len(draft) < 7 and not accept")),
        "the last of seven drafts is safe": (
            'Text "1 1 1 1 1 0 2"', ("if not accept", "if (len(draft), i) != (7, 6) and not accept")
        ),
        "of four tokens the last is safe as a third draft": (
            'Text "1 1 3"', ("if not accept", "if (x, i) != (3, 2) and not accept")
        ),
        "the accepted tokens": (
            "it accepts [0]: expected a whole number from 0 to 1",
            ("return i,", "return draft[:i],"),
            ("return len(draft),", "return draft,"),
        ),
        "half a number": ("0.5", ("return i,", "return i + 0.5,")),
        "three drafts": (
            "fewer tokens than verify", ("    for i", "    draft = draft[:3]\n    for i")
        ),
        "None for the bonus": ("token is None", ("len(draft), sample(p[len(draft)])", "i, None")),
        "no return": (
            "None: expected tokens below 3 (does a branch", ("return len(draft),", "len(draft),")
        ),
        "an exception": ("IndexError", ("p[len(draft)]", "p[9]")),
        "a draft must not be empty": ("for an empty draft it raised UnboundLocalError", (
            "len(draft), sample(p[len(draft)])", "i + 1, sample(p[i + 1])",
        )),
        "after an empty draft the likeliest": (
            'q = .2 .4 .4). Text "0": yours 1.0000, right 0.5000',
            ("sample(p[len(draft)])", "sample(p[-1]) if draft else p[0].argmax()"),
        ),
        "of a nearly sure bonus the likeliest": ('Text "2 2": yours 0.9989505, right 0.9986005', (
            "sample(p[len(draft)])",
            "p[len(draft)].argmax() if p[len(draft)].max() > 0.99 else sample(p[len(draft)])",
        )),
        "a nearly sure draft is accepted": (
            'Text "', ("if not accept", "if p[i][x] <= 0.99 and not accept")
        ),
        "a coin of its own": ("random numbers of its own", (
            "accept(p[i][x] / q[i][x])", "random.random() < p[i][x] / q[i][x]",
        )),
    },
    "block_9": {
        "the residual of tokens": ("Total variation distance", (
            "lacking / S if S > 0 else p[t]", "residual_2(p[t], q_next)",
        )),
        "the ratio of a rare draft is 1": ('Text "3": yours 0.0004000, right 0.0001000', (
            "p[i][x] / q[i][x])", "(p[i][x] / q[i][x] if q[i][x] > 1e-3 else 1))",
        )),
    },
    "two_drafts_8": {
        "a rare draft is accepted": ("of 30 tokens", ("if accept", "if q[x] < 3e-4 or accept")),
        "a likely draft is safe": ("p = [0.85, 0.15]", ("if accept", "if p[x] > 0.8 or accept")),
        "residual of p": ("comes out is", ("residual_2(p, q)", "p")),
        "p where the numbers are the same": ("q = [0.3, 0.5, 0.2]: what comes", PERMUTED),
        "no draft twice": (
            "q = [0.2, 0.2, 0.6]: token 0 comes out as a draft with probability 0.4, but two "
            "samples of q contain it with 0.36 only: are the drafts two independent samples of q?",
            (
                "    return sample(p)",
                "        q = q * (np.arange(len(q)) != x)\n"
                "        q = q / q.sum()\n    return sample(p)",
            ),
        ),
        "one draft": ("trying both in turn gives", ("range(2)", "range(1)")),
    },
    "speculative_5": {
        "three tokens are read": ("", ("    text = []", "    ids = ids[-3:]\n    text = []")),
        "twelve tokens are read": (
            "the draft model reads [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]: expected ids",
            ("draft_model(ids + text + draft)", "draft_model((ids + text + draft)[-12:])"),
            ("p = target(ids + text + draft)", "p = target((ids + text + draft)[-12:])"),
        ),
        "the ids in another order": (
            "the target reads [1, 2]: expected ids, its argument, at the beginning",
            ("    text = []", "    ids, text = sorted(ids), []"),
        ),
        "no end": ("Here end = 2.", ("x == end", "False")),
        "rounds after the end": ("q, use a stale cache, or go on after the end?", (
            "            if x == end:\n                return text\n    return text",
            "    return text[: text.index(end) + 1] if end in text else text",
        )),
        "a rare draft is accepted": ('Text "18"', ("verify_4(", "rare_is_safe(")),
        "the prompt, too": ("it returns the prompt, too", (
            "return text\n    return text", "return ids + text\n    return ids + text",
        )),
        "a tuple": ("expected a list", ("\n    return text\n", "\n    return tuple(text)\n")),
        "no bonus": (
            "lose the bonus", ("[token]:", "[token] * (n_accepted < len(draft) or not draft):")
        ),
        "the first row of q": ("take the wrong row of q", (
            "draft_model(ids + text + draft)[-1]", "draft_model(ids + text + draft)[0]",
        )),
        "no end after three drafts": ("Here end = 0.", ("x == end", "x == end and n_accepted < 3")),
        "a bonus is no end": (
            "Here end = 0.",
            (
                "for x in draft[:n_accepted] + [token]:",
                "for i, x in enumerate([*draft[:n_accepted], token]):",
            ),
            ("x == end", "x == end and not i == len(draft) > 0"),
        ),
        "the same object as the end": ("Here end = 2.", ("x == end", "x is end")),
        "token 0 is no end": ('Text "', ("x == end", "x == (end or None)")),
        "one token fewer": ("expected 1", ("< n_tokens", "< n_tokens - 1")),
        "K is ignored": ("does it draft too few", ("min(K,", "min(1,")),
        "K + 1 drafts": ("does it draft too many", ("min(K,", "min(K + 1,")),
        "more tokens than asked for": (
            "the target reads [2, 1, 0], 3 ids, where the finished text has 3: draft fewer",
            ("n_tokens - len(text) - 1)", "max(n_tokens - len(text) - 1, 1))"),
        ),
        "no room beside the draft, which is cut": (
            "leave room for the target's own token",
            ("n_tokens - len(text) - 1)", "n_tokens - len(text))"),
            ("x == end", "x == end or len(text) == n_tokens"),
        ),
        "the ids of the caller grow": (
            "it changes its argument ids, from [2, 1] to [2, 1, 0]",
            ("text.append(x)", "text.append(x) or ids.append(x)"),
            ("ids + text + draft)[-1]", "ids + draft)[-1]"),
            ("target(ids + text + draft)", "target(ids + draft)"),
        ),
        "a pass for each place": ("more passes of the target than tokens", (
            "        # 2.", "        target(ids)\n        # 2.",
        )),
        "no room at last": ("it does not end", (
            "        # 2.", "        if not draft:\n            continue\n        # 2.",
        )),
    },
    "cached_6": {
        "the target's token is lost": (
            "and that each round adds a token of the target's own",
            ("draft[:n_accepted] + [token]", "(draft[:n_accepted] or [token])"),
        ),
        "the draft's cache is stale": (
            "Were rejected ones cut off?", (", draft_cache.ids[n_certain:]", "")
        ),
        "all is read again": ("reads [2] again: expected", ("len(ids + text) - 1", "0")),
        "a rejected draft stays": ("is there a hole, or a stale end?", (
            "        del target_cache.ids[n_certain:], draft_cache.ids[n_certain:]\n", "",
        )),
        "nothing is read": (
            "the draft model reads nothing: expected the ids that its cache lacks",
            ("q.append(draft_model(unread,", "q.append(draft_model(unread[:-1],"),
        ),
        "the target's cache is stale": (
            "and the draft model [2, 1, 0]: is there a hole, or a stale end?",
            ("target_cache.ids[n_certain:], ", ""),
        ),
        "the draft model is one token behind": (
            "the target reads [1, 0, 0, 1, 0], and the draft model [1, 0, 1]:",
            (
                "            unread = (ids + text + draft)[len(draft_cache.ids) :]",
                "            n = len(ids + text + draft) - 1 if text else len(draft_cache.ids)\n"
                "            unread = (ids + text + draft)[n:]",
            ),
        ),
        "the draft's cache is new in each round": (
            "the draft model reads [2] again: expected that its cache keeps what is certain",
            ("draft, q = [], []", "draft, q, draft_cache = [], [], SimpleNamespace(ids=[])"),
        ),
        "one cache for both": ("keep one cache for each model, and shorten its ids", (
            "SimpleNamespace(ids=[]), SimpleNamespace(ids=[])", "[SimpleNamespace(ids=[])] * 2",
        )),
    },
}  # fmt: skip

WRONG = {
    "temperature_1": {"the largest in size": ("-3", largest_in_size)},
    "residual_2": {
        "a small difference is none": (
            "([0.5, 0.5], [0.49998, 0.50002]) gives [0.5, 0.5], expected [1, 0]",
            lambda p, q: p if abs(p - q).max() < 3e-5 else right.residual_2(p, q),
        )
    },
    "one_token_3": {
        "no token": ("expected tokens below 3", lambda p, q, sample, accept: (3, False)),
        "all flags": ("ValueError", lambda p, q, sample, accept: (sample(q), p / q > 1)),
        "exit": ("SystemExit", lambda *how: exit()),
    },
    "verify_4": {
        "the place of an equal ratio": ("Text ", place_by_ratio),
        "a larger p at last": ("it does not end", waits_for_a_larger_p),
        "a rare draft is accepted": (
            'Text "18": yours 0.0001501, right 0.0000806. It happens so: drafted 18 (2e-04).',
            rare_is_safe,
        ),
    },
    "block_9": {"the token rule": ("tokens, expected", right.verify_4)},
}
for slip, condition in {
    "a long draft": "K >= 7",
    "a long text": "n_tokens >= 8",
    "the fifth round": "len(text) > 4",
}.items():
    accepting = f"sample, (lambda r: True) if {condition} else accept)"
    EDITS["speculative_5"][f"{slip} is accepted"] = "", ("sample, accept)", accepting)
EDITS["speculative_5"]["a coin for equal ratios"] = (
    "Text ",
    ("draft, q = [], []", "draft, q, coins = [], [], {}"),
    ("sample, accept)", "sample, lambda r: coins.setdefault(r, accept(r)))"),
)
EDITS["speculative_5"]["an end after three of a round"] = (
    "Here end = 0.",
    ("if x == end:", "if x == end in [*draft[:3], token]:"),
)
for exercise, slips in EDITS.items():
    for slip, (said, *pieces) in slips.items():
        answer = edited(getattr(right, exercise), *pieces)
        WRONG.setdefault(exercise, {})[slip] = said, answer

RIGHT = {
    "residual_2": {"a guard": with_guard, "a list": lambda p, q: right.residual_2(p, q).tolist()},
    "one_token_3": {
        "other types": other_types,
        "the replacement first": edited(
            right.one_token_3,
            ("x = sample(q)", "replacement, x = sample(residual_2(p, q)), sample(q)"),
            ("return sample(residual_2(p, q))", "return replacement"),
        ),
        "a guard": edited(right.one_token_3, ("residual_2", "with_guard")),
        "a residual below 0 by rounding": edited(right.one_token_3, ("residual_2", "not_clipped")),
    },
    "verify_4": {
        "block verification keeps more": right.block_9,
        "vectorised": vectorised,
        "a residual below 0 by rounding": edited(right.verify_4, ("residual_2", "not_clipped")),
        "a list": edited(
            right.verify_4,
            ("len(draft), sample(p[len(draft)])", "[len(draft), sample(p[len(draft)])]"),
        ),
    },
    "speedup_7": {
        "without drafts, as fast": edited(
            right.speedup_7, ("    # The mean", "    if K == 0:\n        return 1\n    # The mean")
        ),
    },
    "two_drafts_8": {"K-SEQ": k_sequential},
    "speculative_5": {
        "block verification, and the draft model reads what was rejected": edited(
            right.speculative_5,
            ("verify_4", "block_9"),
            ("        for x in", "        draft_model(ids + text + draft)\n        for x in"),
        ),
    },
    "cached_6": {
        "the draft model reads its last guess": edited(
            right.cached_6,
            (
                "        unread = (ids + text + draft)[len(target_cache.ids) :]",
                "        draft and draft_model(draft[-1:], draft_cache)\n"
                "        unread = (ids + text + draft)[len(target_cache.ids) :]",
            ),
        ),
        "with a prefill, and the draft model reads its last guess after the check": edited(
            right.cached_6,
            ("text = []", "text = prefill(target, draft_model, ids, target_cache, draft_cache)"),
            (
                "        for x in",
                "        draft and draft_model(draft[-1:], draft_cache)\n        for x in",
            ),
        ),
    },
}
