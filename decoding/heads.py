"""Drafts by heads of the target, EAGLE's and Medusa's: their files, and their drafter.

A file models/<target>/eagle.safetensors or medusa.safetensors lies beside its target. A head fits
the hidden states of one target only, so the metadata of its file (the strings in the header) name
this target, by the SHA-256 of the target's weights.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from checkpoints.checksum import sha256_of
from checkpoints.files import REFETCH, first_of
from checkpoints.folder import weights_files
from checkpoints.formats import safetensors
from decoding.eagle import Eagle, EagleConfig
from decoding.medusa import Medusa, MedusaConfig
from gpt2 import Config, KVCache, Model, nested
from sampling import NeuralDrafter
from utils import require_nonzero


class HeadDrafter(NeuralDrafter):
    """Drafts with a head as with any model, after the head's cache has been shown what the target
    knows: its hidden states after 0, 1, ... tokens, which its cache (gpt2.KVCache) keeps.

    When a draft is proposed, the target has read all of the text except its last token.
    """

    def prefill(self, ids: Sequence[int], target_cache: KVCache) -> None:
        """Begin a text: let the head read ids, the prompt without its last token. target_cache: the
        target's, which has read these ids; it is kept for `propose`.
        """
        self.target_cache = target_cache
        self.cache.known = target_cache.hidden[: len(ids)]  # the states that the head reads
        super().prefill(ids, target_cache)

    def propose(self, ids, k):  # [n_ids] -> [k], [k, n_vocab]
        """Draft k tokens after ids from the target's hidden states; at most n_places, and fewer if
        the context is full. Returns them, and the distribution that each was sampled from. The
        head's cache holds ids afterwards, but not the draft.
        """
        self.cache.known = self.target_cache.hidden[: len(ids)]
        proposed = super().propose(ids, min(k, self.model.config.n_places))
        # drafted tokens were read with guesses for hidden states: read them anew with the target's
        del self.cache.ids[len(ids) :]
        return proposed


def load_head(name: str, folder: Path, target: Model) -> Any:
    """Load a head, an Eagle or a Medusa, from its safetensors file in the folder of its target, in
    float32. It shares the embeddings, final norm and output head of the target.

    name: "eagle" or "medusa", also that of the file; target: the model that was loaded from folder
    Raises ValueError if there is no such file, if its metadata name other weights than those in the
    folder, or if the tensors are not those of such a head: of other shapes, or a matrix of zeros.
    """
    path = folder / f"{name}.safetensors"
    metadata = read_metadata(path)  # refuses what was trained on another target
    table = safetensors.read_table(path)
    shapes = {key: tensor.shape for key, tensor in table.items()}
    try:
        config = head_config(name, target.config, shapes, metadata)
        is_head = shapes == config.shapes()
    except (LookupError, TypeError, ValueError):  # no config has such shapes
        is_head = False
    if not is_head:
        raise ValueError(f"{path}: no {name} head has such tensors and notes; {REFETCH}")

    def read(key: str) -> np.ndarray:  # of float32
        array = table[key].read(np.float32)
        if array.ndim == 2:  # biases may be 0
            require_nonzero(array, f"{path}: {key}")
        return array

    return build_head(config, read, target)


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata of the file of a head, the strings in its header. `path` is NAME.safetensors in
    the folder of its target. Raises ValueError if there is no such file, if it is damaged, or if
    its metadata name other weights than those in the folder.
    """
    train = f"python -m train.train distil CORPUS FOLDER --students {path.stem}"
    if not path.is_file():
        raise ValueError(f"no {path}: choose another draft, or train one with {train}")
    first_of(path.parent, path.name)  # refuses a file that is only a pointer of Git LFS
    _entries, metadata, _begin = safetensors.read_header(path)
    if metadata.get("target") != sha256_of(weights_files(path.parent)):
        problem = "was trained on another target than the model beside it"
        raise ValueError(f"{path}: {problem}; train it again with {train}")
    return metadata


def head_config(
    name: str, target: Config, shapes: dict[str, tuple], metadata: dict[str, str]
) -> EagleConfig | MedusaConfig:
    """The config that the head of a target has if its file is right, which it is if `shapes` equals
    the shapes() of this config: the caller has to compare. Raises LookupError for an EAGLE head
    without "fc.bias" or with one that has no axis, and ValueError if its number of attention heads
    is none, or does not divide the length of "fc.bias".

    name: "eagle" or "medusa"; target: the config of the target
    shapes: {name of a tensor in the file: its shape}
    metadata: the strings in its header; "n_head" is EAGLE's number of attention heads, or else 1
    """
    if name == "medusa":
        # a place has two matrices and two biases; if some are missing, shapes() differ
        n_places = max(1, len(shapes) // 4)
        return MedusaConfig(target.n_vocab, target.n_ctx, target.n_embd, n_places, target.epsilon)
    width = shapes["fc.bias"][0]
    n_head = int(metadata.get("n_head", 1))
    if n_head < 1 or width % n_head:
        raise ValueError(f"n_head is {n_head}")
    return EagleConfig(
        n_vocab=target.n_vocab,
        n_ctx=target.n_ctx,
        n_embd=width,
        n_head=n_head,
        n_layer=1,
        epsilon=target.epsilon,
        exact_gelu=target.exact_gelu,
        n_hidden=target.n_embd,
    )


def build_head(config: EagleConfig | MedusaConfig, read: Callable, target: Model) -> Any:
    """Build the Eagle or Medusa of a config for its target, whose embeddings, final norm and output
    head it shares. read(name) -> array is called once for each name of a tensor.
    """
    parameters = {}
    for name in config.shapes():
        array = np.atleast_2d(read(name))  # a vector as one row, as in utils.build_model
        parameters[name] = target.backend.asarray(array)
    tree = nested(parameters)
    shared = {name: target.params[name] for name in ("wte", "wpe", "ln_f", "head")}
    if isinstance(config, MedusaConfig):
        heads = [tree["heads"][str(i)] for i in range(config.n_places)]
        return Medusa(config, shared | {"heads": heads}, target.backend)
    own = {"fc": tree["fc"], "blocks": [tree["h"]["0"]], "proj": tree["proj"]}
    return Eagle(config, shared | own, target.backend)
