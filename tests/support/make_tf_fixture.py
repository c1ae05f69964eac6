"""Write a GPT-2 as OpenAI stores it, with TensorFlow itself: model.ckpt.index and
model.ckpt.data-00000-of-00001.

pip install --group tensorflow
python tests/support/make_tf_fixture.py  # makes tests/support/tf_checkpoint again
python tests/support/make_tf_fixture.py FOLDER  # the same elsewhere
"""

import json
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).with_name("tf_checkpoint")
# 259: the vocabulary of toys.py
SHAPE = {"n_vocab": 259, "n_ctx": 4, "n_embd": 4, "n_head": 2, "n_layer": 1}


def openai_name(name):
    """h.0.attn.c_attn.weight -> model/h0/attn/c_attn/w"""
    name = re.sub(r"^h\.(\d+)", r"h\1", name).replace(".", "/")
    name = re.sub(r"^(wte|wpe)/weight$", r"\1", name)
    norm = re.search(r"ln_\w+/weight$", name)
    return "model/" + re.sub("/weight$", "/g" if norm else "/w", re.sub("/bias$", "/b", name))


def write(folder, arrays):
    """Store {name: array} in OpenAI's names; matrices of the blocks are [1, n_in, n_out] there."""
    import tensorflow

    names = {}
    for name, array in arrays.items():
        convolution = name.endswith("weight") and array.ndim == 2 and name[0] == "h"
        names[openai_name(name)] = array[None] if convolution else array
    tensorflow.raw_ops.SaveV2(
        prefix=str(folder / "model.ckpt"),
        tensor_names=list(names),
        shape_and_slices=[""] * len(names),
        tensors=[tensorflow.constant(array) for array in names.values()],
    )


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parent)]
    from toys import random_tensors, tiny_vocabulary

    from gpt2 import Config

    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    write(folder, random_tensors(Config(**SHAPE)))
    vocabulary, merges = tiny_vocabulary()
    (folder / "hparams.json").write_text(json.dumps(SHAPE) + "\n")
    (folder / "encoder.json").write_text(json.dumps(vocabulary) + "\n")
    (folder / "vocab.bpe").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
