"""A model folder and its tokenizer as one GGUF file, llama.cpp's format, in float32.

python docs/engines/to_gguf.py models/17M 17M.gguf
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from checkpoints.folder import open_weights, read_config  # noqa: E402
from checkpoints.tokenizer import fit_vocabulary, load_encoder, read_tokenizer  # noqa: E402
from cli.output import new_file  # noqa: E402


def write_gguf(folder, path):
    """Write the model and the tokenizer of a model folder to one GGUF file, which is replaced if it
    exists. Raises ValueError for a model that llama.cpp's GPT-2 can't compute: with the exact GELU.
    """
    import gguf

    encoder = load_encoder(folder)
    config = fit_vocabulary(folder, read_config(folder), encoder)
    if config.exact_gelu:
        raise ValueError(f"{folder}: has the exact GELU, llama.cpp's GPT-2 the tanh form")
    file = gguf.GGUFWriter(path, "gpt2", use_temp_file=True)  # one tensor at a time is in memory
    file.add_name(folder.name)
    file.add_file_type(gguf.LlamaFileType.ALL_F32)
    file.add_context_length(config.n_ctx)
    file.add_embedding_length(config.n_embd)
    file.add_feed_forward_length(4 * config.n_embd)
    file.add_block_count(config.n_layer)
    file.add_head_count(config.n_head)
    file.add_layer_norm_eps(config.epsilon)
    add_tokenizer(file, *read_tokenizer(folder), encoder.end_of_text, gguf.TokenType)
    tensors = open_weights(folder, config)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GPT2, config.n_layer)
    for name, shape in config.shapes().items():
        array = tensors[name].read(np.float32)
        if name.startswith("h.") and len(shape) == 2:
            array = array.T  # [n_in, n_out] -> [n_out, n_in], as GGUF has it
        name_there = names.get_name(name, (".weight", ".bias"))  # the endings stay
        file.add_tensor(name_there, np.ascontiguousarray(array))
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def add_tokenizer(file, vocabulary, merges, added, end, token_types):
    """Add a tokenizer to a GGUFWriter: byte-level BPE with GPT-2's pattern, and no token in front
    of a text.

    vocabulary, added: {token: id}; the added tokens are found whole in a text
    merges: pairs of tokens, in the order in which they are applied
    end: the id of the token that ends a text, or None
    token_types: gguf.TokenType
    """
    symbols = vocabulary | added
    tokens = sorted(symbols, key=symbols.get)
    types = [token_types.USER_DEFINED if token in added else token_types.NORMAL for token in tokens]
    if end is not None:
        types[end] = token_types.CONTROL
        file.add_bos_token_id(end)
        file.add_eos_token_id(end)
    file.add_tokenizer_model("gpt2")
    file.add_tokenizer_pre("gpt-2")
    file.add_token_list(tokens)
    file.add_token_types(types)
    # GGUF has no empty arrays. A vocabulary without merges has no token "01": "0 1" never applies
    file.add_token_merges([" ".join(pair) for pair in merges] or ["0 1"])
    file.add_add_bos_token(False)


if __name__ == "__main__":
    try:
        folder, out = sys.argv[1:]
        with new_file(out) as temporary:
            write_gguf(Path(folder), temporary)
    except ModuleNotFoundError as missing:
        sys.exit(f"error: {missing.name} is not installed: pip install --group engines")
    except ValueError as error:
        wrong = len(sys.argv) != 3
        sys.exit(f"expected: {__doc__.splitlines()[-1]}" if wrong else f"error: {error}")
