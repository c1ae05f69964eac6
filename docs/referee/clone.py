"""What the adapters share: a program from the reader's own clone, and a table as a causal model."""

import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from proof.cases import LOOP_CASES, RULE_CASES, Case, random_model

# where a run is short: these programs draft beyond the end of a text, and draw what they do not use
CASES = [case for case in LOOP_CASES if case.K and 1 < case.n_tokens <= 3 and case.n_vocab == 3]
# for programs that sample every row of both models: two possible tokens of three keep branches few
MODELS = random_model(1, 3, 1), random_model(2, 3, 1)
SPARSE = [Case(f"K = {K}", *MODELS, K, n_tokens=3) for K in (1, 2, 3)]
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


class Stubs:
    """Finds Stubs, for sys.meta_path.

    root: the folder of a clone
    names: modules and packages that are stubs, with all modules below them but the `real` ones
    known: {stub: {name: value}}, what is needed of them
    """

    def __init__(self, root: Path, names: Sequence[str], real: Sequence[str], known: Mapping):
        self.root, self.names, self.real, self.known = root, names, real, known

    def find_spec(self, name: str, *_) -> ModuleSpec | None:
        within = any(f"{name}.".startswith(f"{stub}.") for stub in self.names)
        return ModuleSpec(name, self) if within and name not in self.real else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Stub(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__path__ = [str(self.root / module.__name__.replace(".", "/"))]
        vars(module).update(self.known.get(module.__name__, {}))


def program(
    name: str,
    stubs: Sequence[str] = (),
    real: Sequence[str] = (),
    known: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> ModuleType:
    """Import the module `name` from the clone whose folder the environment's CLONE names, as it is.
    Raises ValueError if CLONE is not set, or has no such module. Afterwards a name in sys.modules
    that was there before means what it meant; other modules of the clone stay there.

    stubs: modules that it imports, and that what is judged does not need: the modules below each
        are stubs, too, but for `name` and the `real` ones
    known: {stub: {name: value}}, what it does need of them
    """
    clone = os.environ.get("CLONE", "")
    root = Path(clone).expanduser().resolve()
    file = root / name.replace(".", "/")
    if not clone or not any(file.with_suffix(end).exists() for end in ("", ".py")):
        problem = f"{root} has no {name}" if clone else "CLONE is not set"
        raise ValueError(f"{problem}: expected CLONE=the folder of a clone")
    their_names = {path.stem for path in root.iterdir()}
    their_names |= {stub.partition(".")[0] for stub in stubs}
    before = dict(sys.modules)
    paths, finders = list(sys.path), list(sys.meta_path)
    for module in before:  # ours may have the same names
        if module.partition(".")[0] in their_names:
            del sys.modules[module]
    sys.path[:] = [str(root), *(path for path in paths if Path(path).resolve() != OURS)]
    sys.meta_path.insert(0, Stubs(root, stubs, [name, *real], known))
    try:
        return importlib.import_module(name)
    finally:
        sys.path[:], sys.meta_path[:] = paths, finders
        sys.modules.update(before)


class CausalLM:
    """A model of `prove` with the interface of one in transformers. With use_cache, past_key_values
    are the tokens that it has read.
    """

    def __init__(self, model: Any):
        import torch

        self.model, self.device = model, torch.device("cpu")
        self.config = SimpleNamespace(vocab_size=model.n_vocab, max_position_embeddings=99)

    def __call__(
        self, input_ids: Any, past_key_values: Any = None, use_cache: bool = False, **_
    ) -> Any:
        """The logits after each of input_ids, [1, n], as natural logarithms of probabilities, -inf
        for 0.

        past_key_values: the tokens before them, a list, or None
        """
        import torch

        known = past_key_values or []
        ids = [*known, *input_ids[0].tolist()]
        rows = torch.tensor(np.array(self.model(ids)[len(known) :], float)).log()
        return SimpleNamespace(logits=rows[None], past_key_values=ids if use_cache else None)


def with_bonus(sample: Callable) -> Callable:
    """The rule of an engine's sampler, which gets the bonus token, and pads the tokens with -1.

    sample: (draft [K], p [K, n_vocab], q [K, n_vocab], bonus [1]) -> the tokens of a round; its
        arguments are tensors, of int64 and float32
    """

    def rule(draft: Sequence[int], p: np.ndarray, q: np.ndarray) -> list[int]:
        import torch

        bonus = torch.multinomial(torch.tensor(p[-1]), 1)
        rows = (torch.tensor(x, dtype=torch.float32) for x in (p[:-1], q))
        tokens = sample(torch.tensor(draft), *rows, bonus)
        return [token for token in tokens.tolist() if token >= 0]

    return rule
