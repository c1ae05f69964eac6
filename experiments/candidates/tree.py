"""The best shape of a tree of drafts: Sequoia's dynamic programme (Chen et al. 2024, arXiv
2402.12374, section 4.1).

a[j] is the probability that, of the candidates for a place, the j-th is the accepted one, taken to
be the same and independent everywhere. A node of the tree is a row of the target's pass; the root
is the last token of the text. A tree is the tuple of its root's subtrees: () is a root alone,
(((),),) a chain of two drafts.
"""

from functools import cache


class Trees:
    """The trees with the most expected tokens, by number of nodes and depth."""

    def __init__(self, a):
        self.a = tuple(a)
        self.tree, self.forest = cache(self.tree), cache(self.forest)

    def tree(self, n, depth):
        """(expected tokens of a round, tree): the best of up to n nodes, the root among them, with
        at most `depth` drafts on any path.

        T(n) = 1 + max sum_j a_j T(n_j), where the n_j sum to n - 1.
        """
        gain, subtrees = self.forest(n - 1, depth, 0)
        return 1 + gain, subtrees

    def forest(self, n, depth, j):
        """(expected tokens, subtrees): up to n nodes below the candidates from the j-th on."""
        if n == 0 or depth == 0 or j == len(self.a):
            return 0.0, ()
        best = self.forest(n, depth, len(self.a))  # no further candidate
        for n_first in range(1, n + 1):
            tokens, first = self.tree(n_first, depth - 1)
            more, others = self.forest(n - n_first, depth, j + 1)
            gain = self.a[j] * tokens + more
            if gain > best[0]:
                best = gain, (first, *others)
        return best


def depth_of(tree):
    """The most drafts on any path."""
    return max((1 + depth_of(child) for child in tree), default=0)


def size_of(tree):
    """The number of nodes, the root among them."""
    return 1 + sum(map(size_of, tree))


def expected_tokens(tree, a):
    """Expected tokens of a round: every node counts with the probability that it is reached."""
    return 1 + sum(a[j] * expected_tokens(child, a) for j, child in enumerate(tree))


def chain(K):
    """The tree of K drafts, one after the other."""
    tree = ()
    for _ in range(K):
        tree = (tree,)
    return tree


def speedup(tree, a, c, v):
    """Expected speedup over plain decoding: tokens of a round over depth * c + v[n].

    c is the cost of a pass of the draft, which drafts a whole level; v = {n: cost of a target pass
    over n rows}, both in target passes over one row.
    """
    return expected_tokens(tree, a) / (depth_of(tree) * c + v[size_of(tree)])


def best_chain(a, c, v):
    """The fastest chain with as many nodes as v has costs for."""
    return max((chain(n - 1) for n in v if n > 1), key=lambda tree: speedup(tree, a, c, v))


def best_tree(a, c, v):
    """The fastest tree with as many nodes as v has costs for; a chain where nothing is faster."""
    trees = Trees(a)
    fastest = best_chain(a, c, v)
    for n in sorted(v):
        for depth in range(1, n):
            _, tree = trees.tree(n, depth)
            if speedup(tree, a, c, v) > speedup(fastest, a, c, v):
                fastest = tree
    return fastest


def drawing(tree):
    """The tree in one line: how many drafts each level has, from the first on.

    >>> drawing((((),), ()))
    '2-1'
    """
    levels, level = [], [tree]
    while level := [child for node in level for child in node]:
        levels.append(str(len(level)))
    return "-".join(levels)
