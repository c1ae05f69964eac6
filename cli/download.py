"""python main.py download 124M 355M: fetch models from Hugging Face."""

from checkpoints.elsewhere import REPOSITORIES, repository, size_of
from checkpoints.folder import open_weights, read_config
from checkpoints.registry import MODELS_DIR
from checkpoints.search import find_folder
from checkpoints.tokenizer import load_encoder


def download(*sizes: str, models_dir: str = MODELS_DIR) -> None:
    """Fetch models from Hugging Face, unless its cache on this machine has them. Prints the folder
    and the size of each.

    Give sizes (82M, 124M, 355M, 774M, 1558M) or repositories of GPT-2s (owner/name). An interrupted
    download goes on where it stopped. HF_ENDPOINT, in the environment, sets a mirror. A file that
    is no model's, such as the page of a login, is named in an error.

    Flags:
        models_dir: the folder that gets a folder for each model
    """
    unknown = [repr(size) for size in sizes if not repository(size_of(size))]
    if unknown or not sizes:
        given = " ".join(["download"] + unknown)
        expected = f"sizes, of {', '.join(REPOSITORIES)}, or Hugging Face repositories"
        raise ValueError(f"{given}: expected {expected} as owner/name")
    for size in sizes:
        folder = find_folder(size, models_dir, download=True)
        load_encoder(folder)  # this and the next line raise ValueError for files of no model
        open_weights(folder, read_config(folder))
        files = [path for path in folder.iterdir() if path.suffix != ".part"]
        n_bytes = sum(path.stat().st_size for path in files)
        print(f"{size}: {folder}, {n_bytes / 1e6:,.1f} MB")
