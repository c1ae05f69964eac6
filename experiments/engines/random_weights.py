"""A checkpoint folder with random weights, for sizes whose files are not there."""

import json

import numpy as np

from encoder import END_OF_TEXT


def write_random(config, folder):
    """A checkpoint folder of that shape with random weights, in float32."""
    rng, header, offset = np.random.default_rng(0), {}, 0
    shapes = {f"transformer.{name}": shape for name, shape in config.shapes().items()}
    for name, shape in shapes.items():
        end = offset + 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps({"__metadata__": {"format": "pt"}} | header).encode()
    # safetensors: a length, a JSON header, raw numbers
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in shapes.items():
            array = np.float32(0.02) * rng.standard_normal(shape, np.float32)
            if ".ln_" in name and name.endswith("weight"):
                array += 1
            file.write(array.tobytes())
    entries = {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "n_positions": config.n_ctx,
        "n_embd": config.n_embd,
        "n_layer": config.n_layer,
        "n_head": config.n_head,
        "vocab_size": config.n_vocab,
    }
    (folder / "config.json").write_text(json.dumps(entries))
    vocabulary = {str(i): i for i in range(config.n_vocab - 1)} | {END_OF_TEXT: config.n_vocab - 1}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return folder
