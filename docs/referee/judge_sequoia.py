"""CLONE=~/Sequoia python main.py prove sequoia

Judges SpecTree.accept_step of https://github.com/Infini-AI-Lab/Sequoia, the walk through a tree
that was sampled without replacement, and the draw at its end. Its rows are given.
"""

import torch
from clone import program

from proof.cases import TREE_CASES
from proof.prove import prove


def referee() -> list[dict]:
    theirs = program("Tree.SpecTree", ["Engine"])

    def rule(tokens, parents, p, q):
        n = len(tokens)
        tree = object.__new__(theirs.SpecTree)
        tree.ground_truth_len, tree.temperature, tree.dtype = 1, 1.0, torch.float64
        tree.tokens = torch.tensor([0, *tokens])
        tree.r = torch.rand(n + 1, dtype=torch.float64)
        tree.target_logits = torch.tensor(p)
        tree.residual_graph = theirs.get_residual
        tree.Successors = [
            [i + 1 for i in range(n) if parents[i] == node - 1] for node in range(n + 1)
        ]
        # a node's first child was sampled from all that the draft model gives there
        firsts = [children[0] - 1 if children else None for children in tree.Successors]
        rows = [p[0] if first is None else q[first] for first in firsts]
        tree.draft_logits = torch.tensor(rows).log()
        node, path = 0, []
        while True:
            node, row = tree.accept_step(node)
            if node == -1:
                return [*path, int(row.multinomial(1, replacement=True))]
            path.append(tokens[node - 1])

    cases = [case for case in TREE_CASES if not case.replaced and not case.greedy]
    return [prove(rule, cases, "SpecTree of Sequoia")]
