"""Writes models in the formats of other engines, in float32: GGUF, llama.cpp's format, a file with
a header of named values and then the tensors; and OpenVINO's format, a folder. A function raises
ImportError if the library that it needs is not installed.
"""

import json
import warnings

import numpy as np

from checkpoints.files import first_of
from checkpoints.folder import open_weights, read_config
from checkpoints.vocabulary import load_encoder, read_merges


def write_gguf(folder, path):
    """Write the model of a checkpoint folder, in float32, and its tokenizer into one GGUF file, by
    the package gguf.

    folder: a Path. path: of the file, a str. Raises InputError if the folder cannot be read
    """
    import gguf

    config = read_config(folder)
    file = gguf.GGUFWriter(path, "gpt2", use_temp_file=True)  # one tensor at a time is in memory
    file.add_name(folder.name)
    file.add_file_type(gguf.LlamaFileType.ALL_F32)
    file.add_context_length(config.n_ctx)
    file.add_embedding_length(config.n_embd)
    file.add_feed_forward_length(4 * config.n_embd)
    file.add_block_count(config.n_layer)
    file.add_head_count(config.n_head)
    file.add_layer_norm_eps(config.epsilon)
    add_tokenizer(file, folder, gguf.TokenType)
    tensors, shapes = open_weights(folder, config), config.shapes()
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GPT2, config.n_layer)
    for name, shape in shapes.items():
        array = tensors[name].read(np.float32)
        if name.startswith("h.") and len(shape) == 2:
            array = array.T  # [n_in, n_out] -> [n_out, n_in], as GGUF has it
        file.add_tensor(names.get_name(name, (".weight", ".bias")), np.ascontiguousarray(array))
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def add_tokenizer(file, folder, token_types):
    """Add the tokenizer of a checkpoint folder to a gguf.GGUFWriter: byte-level BPE with GPT-2's
    pattern, and no token in front of a text. token_types: gguf.TokenType
    """
    vocabulary = json.loads(first_of(folder, "vocab.json", "encoder.json").read_bytes())
    merges = read_merges(first_of(folder, "merges.txt", "vocab.bpe"))
    tokens = sorted(vocabulary, key=vocabulary.get)
    end = load_encoder(folder).end_of_text
    file.add_tokenizer_model("gpt2")
    file.add_tokenizer_pre("gpt-2")
    file.add_token_list(tokens)
    types = [token_types.NORMAL] * len(tokens)
    if end is not None:
        types[end] = token_types.CONTROL
    file.add_token_types(types)
    # GGUF has no empty arrays. A vocabulary without merges has no token "01": "0 1" never applies
    file.add_token_merges([" ".join(pair) for pair in merges] or ["0 1"])
    if end is not None:
        file.add_bos_token_id(end)
        file.add_eos_token_id(end)
    file.add_add_bos_token(False)


def write_openvino(folder, path):
    """Write the model of a checkpoint folder, in float32, and its tokenizer into the folder `path`,
    in OpenVINO's format. Until the program ends, silences Python's warnings and transformers' log.

    folder: a Path. path: a str
    """
    import transformers
    from optimum.exporters.openvino import main_export
    from optimum.intel import OVConfig

    # tracing a model prints warnings that do not concern the user
    transformers.utils.logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    transformers.utils.logging.disable_progress_bar()
    main_export(
        str(folder),
        path,
        task="text-generation-with-past",
        ov_config=OVConfig(dtype="fp32"),
        convert_tokenizer=True,
    )
