"""Files of other programs that cannot be read here: to name what was found in a folder."""

from pathlib import Path

OTHERS = {  # {pattern of a name: what such a file is, or what to do with it}
    "*.gguf": "llama.cpp's format",
    "adapter_*": "a LoRA adapter: merge it into its model",
    "ckpt.pt": "nanoGPT's checkpoint",
    "tf_model.h5": "Keras weights",
    "flax_model.msgpack": "Flax weights",
    "*.onnx": "ONNX",
    "vocab.txt": "BERT's WordPiece vocabulary",
    "*.model": "a SentencePiece vocabulary",
    "*?tokenizer.json": "a tokenizer: name it tokenizer.json",
    "checkpoint-*": "a step of a training: give this folder",
}


def files_of_others(folder: Path) -> list[str]:
    """Which files in a folder are of other programs, in words: "NAME is WHAT" for each name that
    fits a pattern of OTHERS, such as ["model.onnx is ONNX"].
    """
    found = []
    for pattern, what in OTHERS.items():
        found += [f"{path.name} is {what}" for path in folder.glob(pattern)]
    return found
