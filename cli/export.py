"""python main.py export 17M --format gguf --out 17M.gguf: a model in the format of an engine."""

from dataclasses import dataclass

from checkpoints.engines import write_gguf, write_openvino
from checkpoints.errors import InputError
from checkpoints.files import first_of
from checkpoints.output import check_output, create_atomically
from checkpoints.search import find_folder
from cli.flags import Folder, flag
from utils import stored_sources


@dataclass(frozen=True)
class ExportSettings(Folder):
    format: str = flag(
        "gguf",
        "gguf, one file for llama.cpp, or openvino, a folder for OpenVINO GenAI",
        choices=("gguf", "openvino"),
    )
    out: str = flag("", "the new .gguf file, or the new folder")


def export(size_or_folder: str, *, settings: ExportSettings):
    """Write a model and its tokenizer in the format of another inference engine, in float32.

    Name a size in models_dir, or a folder. docs/engines.md shows how to run each engine on the
    result. transformers and vLLM read the model folders as they are. gguf needs
    pip install gguf, openvino pip install --group engines.

    Examples:
        python main.py export 17M --out 17M.gguf
        python main.py export 17M --format openvino --out 17M-openvino
    """
    folder = find_folder(size_or_folder, settings.models_dir)
    out = settings.out
    # raises InputError for a model that could not be loaded here
    stored_sources([size_or_folder], settings.models_dir, download=False)
    try:
        if settings.format == "gguf":
            check_output("out", out, (".gguf",))
            with create_atomically(out) as temporary:
                write_gguf(folder, temporary)
        else:
            check_output("out", out, ("",))  # a folder, with any name
            # the exporter knows Hugging Face's names alone
            for name in ("config.json", "vocab.json", "merges.txt"):
                first_of(folder, name)
            first_of(folder, "model.safetensors", "model.safetensors.index.json")
            with create_atomically(out) as temporary:
                temporary.mkdir()
                write_openvino(folder, temporary)
    except ModuleNotFoundError as missing:
        name = missing.name.partition(".")[0]
        group = "--group engines, with pip 25.1 or newer"
        command = f"pip install {'gguf' if settings.format == 'gguf' else group}"
        raise InputError(f"{name} is not installed: {command}") from None
    print(f"{size_or_folder}: {out}")
