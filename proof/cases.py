"""The cases on which every verdict rests: a list for rules, for loops, for trees and for batches.

A model is a function from the new text, a tuple of tokens, to the distribution of the next token.
The cases are small, so that every branch can be taken, and have what a wrong rule gets away with
elsewhere: zeros in p and in q, rows with all mass on one token, equal rows, rows that depend on the
whole text, replacements for which several tokens are possible, rounds that end at a draft. WIDE
and MANY_ROWS are too large for that, and are judged by real runs.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence  # the real ones, whatever noise.py does

Text = tuple[int, ...]
Law = dict[Text, float]  # {text: its probability}
Model = Callable[[Text], np.ndarray]  # text -> [n_vocab]
ToProbs = Callable[[np.ndarray], np.ndarray]  # [n_vocab] -> [n_vocab]


@dataclass(frozen=True)
class Case:
    """A target, a draft model, and what is decoded with them.

    K: drafted tokens of a round
    n_tokens: of a text. For a rule it is that of `rounds` rounds in which all are accepted
    prompt, end: of a loop; the token `end` ends a text
    dtype: of the rows that a rule or loop is given
    to_probs: what the function does with each row before it samples; the models give raw rows
    parents: of a tree, the index of each drafted token's parent, or -1 for the end of the text
    replaced: whether a tree may draft a token twice after one parent (sampling with replacement)
    greedy: whether the tokens of a tree are the likeliest ones, not sampled: q is one-hot
    rows: of a batch, the case of each row. Its text is that of the first row, then of the second;
        a row that ends early is completed by its target
    seen: of a case that is too large to enumerate, what counts of a text: in each view of it,
        places seen[0][i], the class of the token at each of them, seen[1][token]. Its rows depend
        on the length of a text only
    """

    name: str
    target: Model
    draft_model: Model
    K: int
    n_tokens: int
    prompt: Text = (0,)
    end: int | None = None
    rounds: int | None = None
    dtype: type = float
    to_probs: ToProbs = np.asarray
    parents: Text = ()
    replaced: bool = True
    greedy: bool = False
    rows: tuple["Case", ...] = ()
    seen: tuple[tuple[Text, ...], Text] | None = None

    @property
    def is_large(self) -> bool:
        """Whether there are too many branches to take: real runs judge it."""
        return self.seen is not None

    @property
    def n_vocab(self) -> int:
        """The number of tokens that there are: they are 0 ... n_vocab - 1."""
        return len(self.target(()))

    def p(self, text: Text) -> np.ndarray:  # -> [n_vocab]
        """The distribution from which the target samples the token after a text."""
        return self.to_probs(self.target(text))

    def q(self, text: Text) -> np.ndarray:  # -> [n_vocab]
        """The distribution from which the draft model samples the token after a text."""
        return self.to_probs(self.draft_model(text))

    def under(self, to_probs: ToProbs) -> "Case":
        """The same case for a function that does this with each row before it samples."""
        rows = tuple(row.under(to_probs) for row in self.rows)
        return replace(self, to_probs=to_probs, rows=rows)

    def uneven(self) -> "Case":
        """A copy of the case, in which the rows of its models, and those of the cases of a batch,
        are changed by 1e-3 at most, so that none lies exactly on the cut of a top-k or top-p.
        """
        target, draft_model = uneven(self.target), uneven(self.draft_model)
        cases = tuple(case.uneven() for case in self.rows)
        return replace(self, target=target, draft_model=draft_model, rows=cases)

    def q_beside(self, text: Text, elders: list[int]) -> np.ndarray:  # -> [n_vocab]
        """The distribution from which a tree drafts one more token after a text, where it has
        drafted the tokens `elders` already: self.q(text); if not `replaced`, without the elders; if
        greedy, then all mass is on the likeliest token. Where to_probs leaves no token but elders,
        the draft model's raw row is taken, which must have another one.
        """
        q = np.array(self.q(text))
        if not self.replaced:
            q[elders] = 0
            if not q.any():  # only elders passed to_probs
                q = np.array(self.draft_model(text))
                q[elders] = 0
            q /= q.sum()
        if self.greedy:
            return np.eye(len(q))[q.argmax()]
        return q

    def laws(self) -> list[Law]:
        """The right distributions, what the target alone would write: a list with one dict, {text:
        probability}, of texts of n_tokens, or to the token `end`. In a case with `seen`, which is
        too large for that, one for each of its views: {classes of the tokens at the places of the
        view: probability}.
        """
        if not self.seen:
            return [complete({(): 1.0}, self.p, self.n_tokens, self.end)]
        places_of_views, class_of_tokens = self.seen
        laws = []
        for places in places_of_views:
            class_masses = []  # of each place, [n_classes]
            for place in places:
                any_text = (0,) * place  # rows depend on the length only: places are independent
                row = self.p(any_text)
                class_masses.append(np.bincount(class_of_tokens, row / row.sum()))
            class_model = rows(*class_masses)  # class_masses[n] after n classes
            laws.append(complete({(): 1.0}, class_model, len(places)))
        return laws

    def views(self, text: Text) -> list[Text]:
        """What counts of a text of n_tokens or more: a list of keys, one for each dict of `laws`.
        Without `seen` there is one, the first n_tokens tokens; with `seen` there is one for each
        view, the classes of the tokens at the places of the view.
        """
        if not self.seen:
            return [text[: self.n_tokens]]
        places_of_views, class_of_tokens = self.seen
        return [tuple(class_of_tokens[text[place]] for place in view) for view in places_of_views]


GOLDEN = (math.sqrt(5) - 1) / 2  # the parts of its multiples behind the point lie far apart


def uneven(model: Model) -> Model:
    """The model with rows changed by 1e-3 at most, so that none lies on the cut of a top-k or
    top-p, as equal probabilities and round sums would: there right samplers differ.
    """

    def row_after(text: Text) -> np.ndarray:
        row = np.asarray(model(text), float)
        parts = GOLDEN * np.arange(1, len(row) + 1) % 1  # in [0, 1), of each token another one
        row = row * (1 + 1e-3 * parts)
        return row / row.sum()

    return row_after


def filtered(temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> ToProbs:
    """Make a function [n_vocab] -> [n_vocab] that does what samplers do to a row of probabilities
    before they sample. It divides the logarithms by the temperature (0: all mass on the likeliest
    token), then keeps the top_k likeliest tokens (0: all), then the likeliest ones until they have
    top_p together, and returns a new row with the sum 1. With the defaults, which change nothing,
    np.asarray is returned. Raises ValueError for a setting that is out of bounds.
    """
    if not 0 <= temperature < math.inf:
        raise ValueError(f"--temperature {temperature}: expected 0 or more, finite")
    if top_k < 0:
        raise ValueError(f"--top_k {top_k}: expected 0 or more")
    if not 0 < top_p <= 1:
        raise ValueError(f"--top_p {top_p}: expected more than 0, at most 1")
    if (temperature, top_k, top_p) == (1.0, 0, 1.0):
        return np.asarray

    def to_probs(row: np.ndarray) -> np.ndarray:
        order = np.argsort(-row, kind="stable")
        if temperature == 0:
            return np.eye(len(row))[order[0]]
        p = (row / row.max()) ** (1 / temperature)
        if top_k:
            p[order[top_k:]] = 0
        p /= p.sum()
        before = p[order].cumsum()[:-1]  # for order[1:], what the likelier tokens have together
        beyond = order[1:][before >= top_p]
        p[beyond] = 0
        return p / p.sum()

    return to_probs


def is_cut(row: np.ndarray, to_probs: ToProbs) -> bool:  # [n_vocab]
    """Whether to_probs makes a token of a row impossible."""
    return bool(np.any((to_probs(row) == 0) & (row > 0)))


def sloping(n: int) -> np.ndarray:  # -> [n]
    """A distribution that falls evenly from the first token to half as much for the last."""
    return np.linspace(2, 1, n) / (1.5 * n)


def cut_cases(case: Case, to_probs: ToProbs) -> list[Case]:
    """Copies of a case with K = 1, with other models, whose rows p and q are so long that to_probs,
    such as top-k or top-p, makes some of their tokens impossible. One copy has the shortest rows
    that are cut. Another has the shortest of which as many tokens are left as of rows with eight
    more: there a top-k cuts. Of top_p = 0.9 and top_k = 50 together, 7 tokens show the first, and
    51 the second. Returns both, or one if they are equally long, or [] if rows of 65 tokens are not
    cut.
    """
    # of rows of up to 65 tokens, and of those with 8 more
    n_left = {n: np.count_nonzero(to_probs(sloping(n))) for n in range(2, 65 + 8 + 1)}
    cut = [n for n in range(2, 65 + 1) if n_left[n] < n]
    cut_by_number = [n for n in cut if n_left[n] == n_left[n + 8]]
    shortest = {min(lengths) for lengths in (cut, cut_by_number) if lengths}
    cases = []
    for n in sorted(shortest):
        p, q = 0.4 * sloping(n + 2), sloping(n + 2)[::-1]
        # p is larger than q at tokens 0 and 1: only these replace a draft, as with more of them a
        # race would take too many branches
        p[:2] += [0.4, 0.2]
        then = np.eye(n + 2)[0]  # certain of token 0
        target, draft_model = rows(p, then), rows(q, then)
        cases.append(replace(case, name=f"{n + 2} tokens", target=target, draft_model=draft_model))
    return cases


# ---------------------------------------------------------------- models


def rows(*table: Any) -> Model:
    """A model whose distribution depends on the length of the text only: table[n] after n tokens,
    and the last row after all longer texts.
    """
    arrays = [np.array(row, float) for row in table]
    return lambda text: arrays[min(len(text), len(arrays) - 1)]


@lru_cache(None)
def random_model(seed: int, n_vocab: int = 3, n_zeros: int = 0) -> Model:
    """Make a model, text -> [n_vocab], with another random distribution after every text, of which
    n_zeros entries are 0. With the same arguments it is the same model, in every process.
    """

    @lru_cache(None)
    def row_after(text: Text) -> np.ndarray:
        # a list [seed, *text] would not do: NumPy pads it with zeros, as if with token 0
        rng = Generator(PCG64(SeedSequence(seed, spawn_key=text)))
        p = rng.dirichlet(np.ones(n_vocab))
        p[rng.permutation(n_vocab)[:n_zeros]] = 0
        return p / p.sum()

    return row_after


def counting(step: int, n_vocab: int = 3) -> Model:
    """A model without chance: after a text it is certain of the token (its length + step) modulo
    n_vocab.
    """
    return lambda text: np.eye(n_vocab)[(len(text) + step) % n_vocab]


def at_times_certain(text: Text) -> np.ndarray:
    """A model of two tokens: text -> [2], random, but certain after one token and after three."""
    return counting(0, 2)(text) if len(text) in (1, 3) else random_model(6, 2)(text)


def unsure_at_first(n: int, share: float) -> Model:
    """A model of three tokens. After fewer than n tokens, if all of them are 0, token 0 has the
    probability `share`, and 1 and 2 have the rest evenly. After every other text it is certain of
    token 0.
    """
    rest = (1 - share) / 2
    unsure, certain = np.array([share, rest, rest]), np.eye(3)[0]

    def row_after(text: Text) -> np.ndarray:
        all_zeros = not any(text)
        return unsure if all_zeros and len(text) < n else certain

    return row_after


# ---------------------------------------------------------------- the cases

P, Q, BONUS = [0.5, 0.3, 0.2], [0.2, 0.4, 0.4], [0.2, 0.3, 0.5]
D = 2**-15
nearly_equal = rows([0.5 - 2 * D, 0.25 + D, 0.25 + D], [0.9, 0.09 - 16 * D, 0.01 + 16 * D])
P2, Q1, Q2 = [0.5, 0.4, 0.1], [0.55, 0.3, 0.15], [0.2, 0.2, 0.6]  # here two tokens can replace
Q_OF_2 = rows([0.3, 0.7], [0.8, 0.2])
P4, Q4 = [0.1, 0.2, 0.3, 0.4], [0.3, 0.4, 0.2, 0.1]
# rare in p, in q, or in both, where p is more or less than q
RARE_P, RARE_Q = [5e-4, 5e-4, 1e-3, 1e-4, 0.5, 0.4979], [0.3, 2.5e-4, 4e-3, 4e-4, 0.2, 0.49535]
# all drafts are right but perhaps the third, and the 13th token is 0
ONES, ZERO_ONE = [[0, 1, 0]] * 9, [[1, 0, 0], [0, 1, 0]]
SURE_P = rows(*ONES[:2], [0, 0.6, 0.4], *ONES, *ZERO_ONE)
SURE_Q = rows(*ONES[:2], [0, 0.3, 0.7], *ONES, *ZERO_ONE)
# all drafts are right up to the sixth
CERTAIN_AT_FIRST = rows(*[[0, 1, 0]] * 6, P, P2, BONUS), rows(*[[0, 1, 0]] * 6, Q1, Q2)


def rule_case(
    name: str, target: Model, draft_model: Model, K: int, rounds: int = 1, dtype: type = float
) -> Case:
    """A case for a rule: so many rounds, without a prompt, in each of which K tokens are drafted;
    its texts have rounds * (K + 1) tokens. The rows of p and q are given in this dtype.
    """
    n_tokens = rounds * (K + 1)
    return Case(name, target, draft_model, K, n_tokens, prompt=(), rounds=rounds, dtype=dtype)


RULE_CASES = [  # the easiest first: a verdict shows the first that goes wrong
    rule_case("K = 1", rows(P, BONUS), rows(Q), 1),
    rule_case("K = 0", rows(P), rows(Q), 0),
    rule_case("p = q", rows(P, BONUS, P), rows(P, BONUS), 2),
    rule_case("zeros in p", rows([0, 0.5, 0.5], BONUS, P), rows(Q, [0.5, 0.5, 0]), 2),
    rule_case("zeros in q", rows(P, BONUS, P), rows([0.25, 0.75, 0], [0, 0.3, 0.7]), 2),
    rule_case("one-hot q", rows(P, BONUS, P), rows([0, 1, 0], [0, 0, 1]), 2),
    rule_case("one-hot p", rows([0, 1, 0], [1, 0, 0], [0, 0, 1]), rows(Q, P), 2),
    rule_case("nearly equal", rows([0.5, 0.25, 0.25], [0.9, 0.09, 0.01], P), nearly_equal, 2),
    rule_case("temperature 0, right drafts", counting(1), counting(1), 3),
    rule_case("temperature 0, wrong drafts", counting(1), counting(2), 8),
    rule_case("no token in common", rows([0.75, 0.25, 0, 0]), rows([0, 0, 0.75, 0.25]), 2),
    rule_case("K = 2", rows(P, P2, BONUS), rows(Q1, Q2), 2),
    rule_case("equal rows", rows(P), rows([0.2, 0.2, 0.6]), 2),
    rule_case("float32", rows(P, P2, BONUS), rows(Q1, Q2), 2, dtype=np.float32),
    rule_case("K = 2, no zeros", random_model(19), random_model(20), 2),
    rule_case("tokens of 1 in 2,000", rows(RARE_P, [1 / 6] * 6), rows(RARE_Q), 1),
    rule_case("two rounds", random_model(9, 2), random_model(10, 2), 1, rounds=2),
    rule_case("K = 3", random_model(1), random_model(2), 3),
    rule_case("four tokens, zeros", random_model(3, 4, 1), random_model(4, 4, 1), 2),
    rule_case("four tokens", random_model(19, 4), random_model(20, 4), 2),
    rule_case("five tokens", random_model(5, 5, 1), random_model(6, 5, 1), 2),
    rule_case("K = 4", random_model(7, 3, 1), random_model(8, 3, 1), 4),
    rule_case("K = 4, two tokens", random_model(15, 2), random_model(16, 2), 4),
    rule_case("K = 5, no zeros", random_model(15, 2), random_model(16, 2), 5),
    rule_case("K = 5", random_model(5, 2), at_times_certain, 5),
    rule_case("K = 5, three tokens", random_model(7), random_model(8, 3, 1), 5),
    rule_case("K = 6", at_times_certain, random_model(5, 2), 6),
    rule_case("K = 8", *CERTAIN_AT_FIRST, 8),
    rule_case("eight tokens", random_model(21, 8), random_model(24, 8, 2), 1),
]

LOOP_CASES = [
    Case("one token", random_model(1), random_model(2), 2, 1, (2, 1)),
    Case("K = 1", rows(P, BONUS, P2), rows(Q, Q1, Q2), 1, 3, (2, 1)),
    Case("p = q", random_model(1), random_model(1), 2, 3, (1, 0, 2, 1, 0, 2)),
    Case("K = 2", random_model(1), random_model(2), 2, 3),
    Case("float32", random_model(1), random_model(2), 2, 3, dtype=np.float32),
    # after a round in which all are accepted, another one; every row depends on the whole text
    Case("K = 1, four new tokens", random_model(9, 2), random_model(10, 2), 1, 4, (1, 0)),
    Case("K = 2, five new tokens", random_model(9, 2), random_model(10, 2), 2, 5, (1, 0)),
    Case("zeros", random_model(3, 4, 1), random_model(4, 4, 1), 2, 3),
    Case("one-hot q", random_model(5), counting(1), 3, 4),
    Case("temperature 0, right drafts", counting(1), counting(1), 3, 10),
    Case("temperature 0, wrong drafts", counting(1), counting(2), 8, 10),
    Case("temperature 0, sampled drafts", counting(1), random_model(2), 2, 3),
    Case("five tokens", random_model(3, 5), random_model(4, 5), 2, 2, (4, 3, 4)),
    Case("end", random_model(5), random_model(6), 2, 3, (2, 0), 2),
    Case("end is token 0", random_model(7), random_model(8), 2, 3, (0, 1), 0),
    # it may also come last in a round in which all are accepted, with room for more
    Case("end, K = 1, four new tokens", random_model(9, 2), random_model(10, 2), 1, 4, (1, 0), 0),
    Case("end, K = 3, six new tokens", random_model(9, 2), random_model(10, 2), 3, 6, (1, 0), 0),
    Case("one token, an end", random_model(1), random_model(2), 2, 1, (2, 1), 0),
    Case("equal rows", rows(P), rows([0.2, 0.2, 0.6]), 2, 3),
    Case("K = 3", random_model(1, 3, 1), random_model(2, 3, 1), 3, 4),
    Case("K = 4, two tokens", random_model(1), random_model(2), 4, 2),
    Case("K = 4", random_model(5, 2), at_times_certain, 4, 5),
    Case("K = 5", at_times_certain, rows([0, 1], [0, 1], [1, 0], [0, 1], [0.7, 0.3]), 5, 6),
    Case("K = 6", at_times_certain, rows([0, 1], [0, 1], [1, 0], [0, 1], [0.7, 0.3]), 6, 7),
    Case("K = 5, an end after 13 of 14", SURE_P, SURE_Q, 5, 14, end=0),
    Case("tokens of 1 in 2,000", rows(RARE_P, [1 / 6] * 6), rows(RARE_Q), 1, 2),
    Case("K = 8", *CERTAIN_AT_FIRST, 8, 9),
    Case("eight tokens", random_model(21, 8), random_model(22, 8, 6), 1, 2, (7,)),
    Case("K = 0, an end", random_model(5), random_model(6), 0, 3, (2, 0, 1), 1),
    Case("K = 0", random_model(5), random_model(6), 0, 3, (2, 0, 1)),
]


def tree_case(name: str, target: Model, draft_model: Model, parents: Text, **how: Any) -> Case:
    """A case of one round with a tree, without a prompt. Its K is the depth of the tree, and its
    texts have K + 1 tokens.

    parents: of each drafted token the index of its parent, or -1, as in Case
    how: `replaced`, `greedy` and `dtype` of Case
    """
    depths: list[int] = []  # of each node
    for parent in parents:
        above = depths[parent] if parent >= 0 else 0
        depths.append(above + 1)
    depth = max(depths, default=0)
    return Case(name, target, draft_model, depth, depth + 1, (), parents=parents, **how)


# five candidates of one place: of each, the residual still has two tokens
FIVE_P, FIVE_Q = [0.3, 0.5, 0.2], [0.05, 0.15, 0.8]
# with these the second, the third, or the fourth candidate of a place is kept by chance
SECOND_P, SECOND_Q = [0.21, 0.42, 0.33, 0.04], [0.1, 0.41, 0.03, 0.46]
THIRD_P, THIRD_Q = [0.6, 0.4, 0], [0.4, 0.2, 0.4]
FOURTH_P = rows([0.29, 0.15, 0.06, 0.11, 0.39], [0, 0, 1, 0, 0])
FOURTH_Q = rows([0.41, 0.12, 0.23, 0.04, 0.2])
DEPTH_FIRST = (-1, 0, -1, 2)  # two candidates, each followed by its child
SMALL_TREE = (-1, -1, 0, 0, 1)  # two candidates; two after the first of them, one after the other
THREE_ROWS = rows(P, BONUS, P2), rows(P2, Q1)
TREE_CASES = [
    tree_case("one candidate", rows(P, BONUS), rows(Q), (-1,)),
    tree_case("no candidate", rows(P), rows(Q), ()),
    tree_case("two candidates, with replacement", rows(P, BONUS), rows(Q), (-1, -1)),
    tree_case("two candidates, without", rows(P, BONUS), rows(Q), (-1, -1), replaced=False),
    tree_case("p = q", rows(P, BONUS), rows(P), (-1, -1)),
    tree_case("all tokens are candidates", rows(P2, BONUS), rows(Q1), (-1, -1, -1), replaced=False),
    tree_case("three candidates", random_model(3, 4, 1), random_model(4, 4), (-1, -1, -1)),
    tree_case("one-hot q", rows(P, BONUS), rows(Q), (-1,), greedy=True),
    tree_case("the likeliest tokens", *THREE_ROWS, SMALL_TREE, replaced=False, greedy=True),
    tree_case("temperature 0", counting(1), random_model(2), (-1, -1, 0), replaced=False),
    tree_case("no token in common", rows([0.75, 0.25, 0, 0]), rows([0, 0, 0.75, 0.25]), (-1, -1)),
    tree_case("tokens of 1 in 2,000", rows(RARE_P, [1 / 6] * 6), rows(RARE_Q), (-1,)),
    tree_case("a chain", random_model(1), random_model(2), (-1, 0)),
    tree_case("a tree", random_model(1), random_model(2), (-1, -1, 0, 1), replaced=False),
    tree_case("a tree, with replacement", random_model(9), random_model(10), (-1, -1, 0, 1)),
    tree_case("a tree, depth first", random_model(1), random_model(2), DEPTH_FIRST, replaced=False),
    tree_case("a larger tree", random_model(7, 3, 1), random_model(8), SMALL_TREE, replaced=False),
    tree_case("two candidates, four tokens", rows(SECOND_P, P4), rows(SECOND_Q), (-1, -1)),
    tree_case("three candidates, again", rows(THIRD_P, BONUS), rows(THIRD_Q), (-1, -1, -1)),
    tree_case("four of five tokens", FOURTH_P, FOURTH_Q, (-1,) * 4, replaced=False),
    tree_case("three below one", rows(P, THIRD_P, BONUS), rows(Q, THIRD_Q), (-1, 0, 0, 0)),
    tree_case("two below the second", random_model(9), random_model(10), (-1, -1, 1, 1)),
    tree_case("four levels", random_model(11, 2), random_model(12, 2), (-1, 0, 1, 2)),
    tree_case("eight tokens", random_model(21, 8), random_model(24, 8, 2), (-1, -1)),
    tree_case("float32", rows(P, BONUS), rows(Q), (-1, -1), dtype=np.float32),
    tree_case("five candidates", rows(FIVE_P, BONUS), rows(FIVE_Q), (-1,) * 5),
    tree_case("five levels", rows(FIVE_P), rows([0.5, 0.5, 0]), (-1, 0, 1, 1, 2, 3, 4, 5)),
]


def batch_case(name: str, *cases: Case) -> Case:
    """A case for a rule for batches: cases of one round, all with the same K and n_vocab, as its
    rows. Its text is the text of the first row, then that of the second, and so on.
    """
    n = cases[0].n_tokens  # of the text of each row

    def target(text: Text) -> np.ndarray:
        """The row after the whole texts of some rows and the beginning of the next."""
        n_whole = min(len(text) // n, len(cases) - 1)
        beginning = text[n_whole * n :]
        return cases[n_whole].target(beginning)

    return replace(cases[0], name=name, target=target, n_tokens=n * len(cases), rows=cases)


def row_case(target: Model, draft_model: Model, K: int = 1) -> Case:
    """A row of a batch: a case of one round in which K tokens are drafted."""
    return rule_case("a row", target, draft_model, K)


BONUS_OF_1 = [0, 0, 1]
BATCH_CASES = [  # besides RULE_CASES, in batches of one
    batch_case("two rows", row_case(rows(P, BONUS), rows(Q)), row_case(rows(P2, P), rows(Q2))),
    batch_case(
        "one row accepts, one rejects",
        row_case(rows([0.75, 0.25, 0, 0]), rows([0, 0, 0.5, 0.5])),
        row_case(rows(P4, Q4), rows(P4)),
    ),
    batch_case("two rows, K = 2", *(row_case(random_model(n, 2), Q_OF_2, 2) for n in (1, 2))),
    batch_case(
        "two rows that differ, K = 2",
        *(row_case(random_model(n, 3, 1), random_model(n + 1), 2) for n in (3, 5)),
    ),
    batch_case(
        "three rows, each with its q",
        *(row_case(rows(p, BONUS_OF_1), rows(q)) for p, q in ((P, Q), (P2, Q1), (P, Q2))),
    ),
    # whoever takes coins or noise with a wrong stride takes some of another row's
    batch_case(
        "three rows",
        *(row_case(unsure_at_first(3, x), rows([1, 0, 0]), 2) for x in (0.5, 0.6, 0.7)),
    ),
    batch_case(
        "six rows",  # of few branches each, but the fourth
        *(row_case(rows([x, 1 - x, 0], BONUS_OF_1), rows([1, 0, 0])) for x in (0.3, 0.5, 0.7)),
        row_case(rows(P2, P), rows(Q2)),
        *(row_case(rows([0, 1 - x, x], BONUS_OF_1), rows([0, 0, 1])) for x in (0.4, 0.6)),
    ),
    # of a rule that tosses all its coins at once, the most branches: it comes last
    batch_case(
        "three rows, K = 8",
        row_case(unsure_at_first(9, 0.8), rows([1, 0, 0]), 8),
        *(row_case(unsure_at_first(1, x), rows([1, 0, 0]), 8) for x in (0.5, 0.6)),
    ),
]

# 200 tokens of four classes: heavy ones, with large numbers or small, and rare ones, less likely
# than 1e-3, likewise. Few drafts are rejected before the sixth
CLASSES = np.where(np.arange(200) >= 128, 2, 3)
CLASSES[[199, 150, 130]], CLASSES[[3, 7, 60]] = 0, 1


def of_classes(*masses: float) -> np.ndarray:  # [4] -> [200]
    """A distribution with these masses of the four classes, evenly within each."""
    return (np.array(masses) / np.bincount(CLASSES))[CLASSES]


P_WIDE, Q_WIDE = of_classes(0.45, 0.49, 0.02, 0.04), of_classes(0.55, 0.35, 0.04, 0.06)
FAR = of_classes(0.7, 0.2, 0.04, 0.06)
WIDE = rule_case("200 tokens, K = 8", rows(P_WIDE), rows(Q_WIDE, *[P_WIDE] * 4, FAR), 8)
WIDE = replace(WIDE, seen=(((0, 5, 7), (1, 3, 8), (2, 4, 6)), tuple(CLASSES.tolist())))
WIDE_LOOP = replace(WIDE, rounds=None, prompt=(0,))
# a prompt that no text begins with by chance; at the end the drafts are far off
LONG_P, LONG_Q = rows(*[P, BONUS, P2] * 5), rows(*[Q1, Q2] * 4, [0.1, 0.1, 0.8])
LONG_LOOP = Case("a prompt of 30 tokens, 14 more", LONG_P, LONG_Q, 3, 14, (0, 1, 2) * 10)
PLACES = ((4, 11, 12), (0, 1, 2), (3, 5, 6), (7, 8, 9), (10, 13))
LONG_LOOP = replace(LONG_LOOP, seen=(PLACES, (0, 1, 2)))
# six rows of two tokens, of which no two have equal rows: in each pair the first tokens, often
# replaced, or the second ones, often a bonus, are independent
TWO_OF_SIX = [pair for first in (0, 1) for pair in combinations(range(first, 12, 2), 2)]
OF_SIX = [
    row_case(rows([0.4 + d, 0.4 - d, 0.2], [0.35 + d, 0.35 - d, 0.3]), rows([0.125, 0.125, 0.75]))
    for d in (-0.15, 0.03, 0.15, -0.03, 0.09, -0.09)
]
MANY_ROWS = batch_case("six rows, two by two", *OF_SIX)
MANY_ROWS = replace(MANY_ROWS, seen=(tuple(TWO_OF_SIX), (0, 1, 2)))


# ---------------------------------------------------------------- right answers


def round_law(case: Case, text: Text, k: int, block: bool) -> Iterator[tuple[Text, float]]:
    """Yield (tokens, probability) of every round that can follow a text when k tokens are drafted:
    the drafted tokens that are kept, then one token of the target's own. The rule is the token
    rule, or if `block` block verification. It is not run, its probabilities are known:

        P(x and y are kept) = min(P(x is kept) p(y), D(x) q(y))
        P(x is kept, then y of the target's own) = P(x is kept) p(y) - P(x and y are kept)

    for tokens x and a token y, with p and q after the text and x, and q = 0 after k tokens. For
    block verification D(x) is the probability that x is drafted; for the token rule P(x is kept).
    """
    unfinished: list[tuple[Text, float, float]] = [((), 1.0, 1.0)]
    while unfinished:
        x, kept, drafted = unfinished.pop()  # the tokens x, P(x is kept), D(x)
        wanted = kept * case.p(text + x)  # [n_vocab], like offered
        offered = np.zeros(len(wanted))
        if len(x) < k:
            offered = drafted * case.q(text + x)
        for y in range(len(wanted)):
            longer = (*x, y)
            both_kept = min(wanted[y], offered[y])
            if wanted[y] > both_kept:
                yield longer, wanted[y] - both_kept
            if both_kept > 0:
                both_drafted = offered[y] if block else both_kept  # D of the longer
                unfinished.append((longer, both_kept, both_drafted))


def drafts_kept(case: Case, block: bool, text: Text = (), n_rounds: int = 0) -> float:
    """How many drafted tokens the token rule keeps in a text of a case, or if `block` block
    verification, on average; a token `end` does not count. Of a batch it is the sum over its rows.
    text, n_rounds: a beginning of the text, which took so many rounds, for a case without `rows`;
    only the tokens that are kept after it count.

    In one round no rule keeps more than block verification, if it keeps a prefix of the drafted
    tokens, uses no others, and adds one token (Sun et al. 2024).
    """
    if case.rows:
        return sum(drafts_kept(row, block) for row in case.rows)
    if n_rounds == case.rounds or len(text) >= case.n_tokens or case.end in text:
        return 0.0
    k = case.K if case.rounds else min(case.K, case.n_tokens - len(text) - 1)  # a loop: what fits
    kept = 0.0
    for tokens, probability in round_law(case, text, k, block):
        if case.end in tokens:
            tokens = tokens[: tokens.index(case.end) + 1]
        later = drafts_kept(case, block, text + tokens, n_rounds + 1)
        kept_here = len(tokens) - 1  # the last is the target's own, or `end`
        kept += probability * (kept_here + later)
    return kept


def complete(texts: Law, target: Model, n_tokens: int, end: int | None = None) -> Law:
    """Let the target complete texts, {text: probability}, to n_tokens or to the token `end`, in
    every way. Returns the distribution of the completed texts, {text: probability}; those that have
    n_tokens or more, or end with `end`, stay as they are. complete({(): 1.0}, ...) is the target's
    own distribution, by the chain rule.
    """
    completed: Law = {}
    unfinished = list(texts.items())
    while unfinished:
        text, probability = unfinished.pop()
        if len(text) >= n_tokens or (text and text[-1] == end):
            completed[text] = completed.get(text, 0.0) + probability
        else:
            possible = [(i, x) for i, x in enumerate(target(text)) if x > 0]
            unfinished += [((*text, i), probability * x) for i, x in possible]
    return completed
