"""CLONE=~/EAGLE python main.py prove eagle

Judges evaluate_posterior of https://github.com/SafeAILab/EAGLE as a rule for trees of the likeliest
tokens, which is what EAGLE drafts.
"""

import torch
from clone import program

from proof.cases import TREE_CASES, random_model, tree_case
from proof.prove import prove


def referee() -> list[dict]:
    """The results of `prove` for evaluate_posterior, a rule for trees."""
    theirs = program("eagle.model.utils")
    processor = theirs.prepare_logits_processor(temperature=1.0)

    def rule(tokens, parents, p, q):
        paths = [path_to(leaf, parents) for leaf in range(len(tokens)) if leaf not in parents]
        longest = max(map(len, paths))
        # for each leaf: the token before the tree, then its path, padded with -1
        candidates = []
        rows = []  # of p, in the same places: 0 before the tree, node + 1 after a node
        for path in paths:
            missing = longest - len(path)
            candidates.append([0, *(tokens[node] for node in path), *[-1] * missing])
            rows.append([0, *(node + 1 for node in path), *[0] * missing])
        logits, candidates = torch.tensor(p[rows]).log(), torch.tensor(candidates)
        best, n_accepted, row = theirs.evaluate_posterior(logits, candidates, processor)
        return [*candidates[best, 1 : n_accepted + 1].tolist(), int(torch.multinomial(row, 1))]

    cases = [case for case in TREE_CASES if case.greedy]
    for seed, parents in ((1, (-1, -1, -1)), (3, (-1, -1, 0, 0, 1)), (5, (-1, 0, 1))):
        models = random_model(seed, 4), random_model(seed + 1, 4)
        cases.append(tree_case(f"{parents}", *models, parents, replaced=False, greedy=True))
    return [prove(rule, cases, "evaluate_posterior of SafeAILab/EAGLE")]


def path_to(node, parents):
    """The nodes from the root of a tree to this one."""
    return [*path_to(parents[node], parents), node] if node >= 0 else []
