"""What all of checkpoints/ uses: small files of a folder, checksums of large ones, and errors that
name their file.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

LFS = b"version https://git-lfs.github.com/spec/v1"
OTHERS = {  # {pattern: what it is}, of files that cannot be read here, to name what was found
    "*.gguf": "llama.cpp's format",
    "ggml-model*": "ggml's format",
    "adapter_*": "a LoRA adapter: merge it into its model",
    "ckpt.pt": "nanoGPT's checkpoint",
    "*_ft.pkl": "DialoGPT's weights: name it pytorch_model.bin",
    "tf_model.h5": "Keras weights",
    "flax_model.msgpack": "Flax weights",
    "*.onnx": "ONNX",
    "onnx": "a folder of ONNX files",
    "openvino_model.*": "OpenVINO's format",
    "*.npz": "NumPy arrays",
    "*.fp16.*": "a variant: rename it",
    "vocab.txt": "BERT's WordPiece vocabulary",
    "*.model": "a SentencePiece vocabulary",
    "*?tokenizer.json": "a tokenizer: name it tokenizer.json",
    "*-vocab.json": "a vocabulary: name it vocab.json",
    "checkpoint-*": "a step of a training: give this folder",
}


def sha256_of(files: Iterable[Path]) -> str:
    """The SHA-256 of the contents of files, one after the other, in hexadecimal."""
    state = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                state.update(block)
    return state.hexdigest()


def first_of(folder: Path, *names: str) -> Path:
    """The first of these names that is a file in the folder. Raises ValueError, which names what
    else was found, if none is; and for a pointer that Git LFS left in the place of a file.
    """
    for path in (folder / name for name in names):
        if path.is_file():
            with path.open("rb") as file:
                if file.read(len(LFS)) == LFS:
                    raise ValueError(f"{path}: is only a pointer of Git LFS; use git lfs pull")
            return path
    found = [f"{p.name} is {what}" for name, what in OTHERS.items() for p in folder.glob(name)]
    hint = "; ".join(found[:3]) or "a model folder needs one"
    raise ValueError(f"{folder}: has no {' or '.join(names)}; {hint}")


@contextmanager
def blame(path: Path, advice: str = "delete it and fetch it again") -> Iterator[None]:
    """Raise whatever the content of a file provokes as a ValueError of one line: the file's name,
    what is wrong, and advice. An OSError that names a file passes as it is.
    """
    try:
        yield
    except Exception as error:  # a damaged or hostile file can provoke any
        if isinstance(error, OSError) and error.filename:
            raise
        reason = str(error).partition("\n")[0][:200]
        if type(error) is ValueError:
            raise ValueError(f"{path}: {reason}; {advice}") from None
        kind = type(error).__name__
        raise ValueError(
            f"{path}: is damaged ({kind}: {reason}); delete it and fetch it again"
        ) from None


def read_json(path: Path, optional: bool = False) -> dict:
    """Read the JSON object in a file; {} if the file is optional and not there. Raises ValueError
    if it holds anything else.
    """
    if optional and not path.is_file():
        return {}
    with blame(path):
        value = json.loads(path.read_bytes())
        if not isinstance(value, dict):
            raise ValueError("is no JSON object")
        return value
