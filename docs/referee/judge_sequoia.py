"""CLONE=~/Sequoia python main.py prove sequoia

Judges SpecTree.accept_step of https://github.com/Infini-AI-Lab/Sequoia, the walk through a tree
that was sampled without replacement, and the draw at its end. Its rows are given.
"""

import torch
from clone import program

from proof.cases import TREE_CASES
from proof.prove import prove


def referee() -> list[dict]:
    """The results of `prove` for SpecTree.accept_step, a rule for trees."""
    theirs = program("Tree.SpecTree", ["Engine"])

    def rule(tokens, parents, p, q):
        # in their tree 0 is the root, the text before, and node i + 1 is tokens[i]
        n = len(tokens)
        children = [[] for _ in range(n + 1)]
        for i, parent in enumerate(parents):
            children[parent + 1].append(i + 1)
        # a node's first child was sampled from all that the draft model gives there
        draft_rows = [q[nodes[0] - 1] if nodes else p[0] for nodes in children]  # p[0]: not read
        tree = object.__new__(theirs.SpecTree)  # without drafting it
        tree.ground_truth_len = 1
        tree.temperature = 1.0
        tree.dtype = torch.float64
        tree.tokens = torch.tensor([0, *tokens])
        tree.Successors = children
        tree.r = torch.rand(n + 1, dtype=torch.float64)
        tree.target_logits = torch.tensor(p)
        tree.draft_logits = torch.tensor(draft_rows).log()
        tree.residual_graph = theirs.get_residual
        node, path = 0, []
        while True:
            node, row = tree.accept_step(node)
            if node == -1:
                return [*path, int(row.multinomial(1, replacement=True))]
            path.append(tokens[node - 1])

    cases = [case for case in TREE_CASES if not case.replaced and not case.greedy]
    return [prove(rule, cases, "SpecTree of Sequoia")]
