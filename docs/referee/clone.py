"""What the adapters share: a program from the reader's own clone, and a table as a causal model."""

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from proof.cases import LOOP_CASES, RULE_CASES

# where a run is short: these programs draft beyond the end of a text, and draw what they do not use
CASES = [case for case in LOOP_CASES if case.K and 1 < case.n_tokens <= 3 and case.n_vocab == 3]
ROUNDS = [case for case in RULE_CASES if case.K]  # for rules that are never called without a draft
# for rules that take milliseconds a run, or many choices
FEW = ("K = 1", "zeros in p", "one-hot q", "K = 2", "K = 2, no zeros", "K = 3")
RULES = [case for case in RULE_CASES if case.name in FEW]

OURS = Path(__file__).parents[2]


class Stub(ModuleType):
    """A module that is not needed: what is imported from it can be called, and does nothing."""

    def __getattr__(self, name: str) -> Any:
        return None if name.startswith("__") else Stub(name)

    def __call__(self, *_, **__) -> Any:
        return self


def program(
    name: str,
    stubs: Sequence[str] = (),
    known: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> ModuleType:
    """Import the module `name` from the clone whose folder the environment's CLONE names, as it is.

    stubs: modules that it imports, and that what is judged does not need
    known: {stub: {name: value}}, what it does need of them
    """
    clone = os.environ.get("CLONE", "")
    root = Path(clone).expanduser().resolve()
    file = root / name.replace(".", "/")
    if not clone or not any(file.with_suffix(end).exists() for end in ("", ".py")):
        problem = f"{root} has no {name}" if clone else "CLONE is not set"
        raise ValueError(f"{problem}: expected CLONE=the folder of a clone")
    theirs = {path.stem for path in root.iterdir()} | set(stubs)
    before = dict(sys.modules)
    for module in before:  # ours may have the same names
        if module in theirs or module.partition(".")[0] in theirs:
            del sys.modules[module]
    for stub in stubs:
        sys.modules[stub] = Stub(stub)
        sys.modules[stub].__path__ = [str(root / stub.replace(".", "/"))]
        vars(sys.modules[stub]).update(known.get(stub, {}))
    paths = list(sys.path)
    sys.path[:] = [str(root), *(path for path in paths if Path(path).resolve() != OURS)]
    try:
        return importlib.import_module(name)
    finally:
        sys.path[:] = paths
        sys.modules.update(before)


class CausalLM:
    """A model of `prove` with the interface of one in transformers; without a cache."""

    def __init__(self, model: Any):
        import torch

        self.model, self.device = model, torch.device("cpu")
        self.config = SimpleNamespace(vocab_size=model.n_vocab, max_position_embeddings=99)

    def __call__(self, input_ids: Any, **_) -> Any:
        import torch

        rows = torch.tensor(np.array(self.model(input_ids[0].tolist()), float)).log()
        return SimpleNamespace(logits=rows[None], past_key_values=None)
