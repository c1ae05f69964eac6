"""What is trained in PyTorch is what runs in NumPy: models and heads, before and after the disk."""

import contextlib
import errno
import re
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from command_line import ROOT
from toys import NUMPY, TINY, write_checkpoint, write_pair

import utils
from checkpoints.files import sha256_of
from checkpoints.folder import read_config, weights_files
from checkpoints.tokenizer import load_encoder
from decoding.decode import load_pair
from decoding.heads import load_head

for package in ("torch", "transformers", "safetensors", "tokenizers"):
    pytest.importorskip(package)

import torch  # noqa: E402

from train import train  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.* is enough for")  # fewer tokens, as it is short
IDS = [3, 1, 4, 1, 5, 9, 2, 6, 5]


@pytest.fixture(autouse=True)
def float32(monkeypatch, tmp_path):
    """Training may compute in bfloat16; here every digit is wanted, of small matrices."""
    monkeypatch.setattr(train, "N_CTX", TINY.n_ctx)
    torch.set_num_threads(1)
    monkeypatch.setattr(train, "mixed_precision", contextlib.nullcontext)
    monkeypatch.setattr(train, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(train, "MODELS", tmp_path)


def lively(module):
    """Random parameters large enough to make a difference, which float16 can tell."""
    torch.manual_seed(3)
    for p in module.parameters():
        p.data = (0.3 * torch.randn(p.shape)).half().float()
    return module.eval()


@pytest.fixture
def folder(tmp_path):
    folder = write_checkpoint(tmp_path / "17M")
    train.write_model(lively(train.GPT2(TINY)), folder, folder)
    return folder


def read_teacher(folder):
    return train.GPT2(*train.read_model(folder)).eval()


@torch.no_grad()
@pytest.mark.parametrize("exact_gelu", [False, True])
def test_a_model_is_the_same_in_numpy(folder, exact_gelu):
    config = read_config(folder)
    assert config == TINY
    config = replace(config, exact_gelu=exact_gelu)
    train.write_model(lively(train.GPT2(config)), folder, folder)
    assert read_config(folder) == config
    model, teacher = utils.load_model(folder, NUMPY), read_teacher(folder)
    found = model.read(IDS, model.new_cache(), n_last=len(IDS))
    expected = teacher.logits(teacher.hidden(torch.tensor([IDS])))[0]
    assert np.allclose(found, expected, atol=1e-3)


@torch.no_grad()
def test_positions_begin_at_the_offset(folder):
    teacher, ids = read_teacher(folder), torch.tensor([IDS])
    read = lambda offset: (teacher.embed(ids, offset), teacher.hidden(ids, offset))
    expected, wpe = read(4), teacher.transformer.wpe.weight
    wpe.copy_(wpe.roll(-4, 0))
    assert all(map(torch.allclose, read(0), expected))


HEADS = {  # how it is made, what its file notes, and how many guesses there are of a text
    "eagle": (lambda: train.Eagle(TINY, 8, 4), {"n_head": "4"}, 9 + 8 + 7 + 6),
    "medusa": (lambda: train.Medusa(TINY, 3), {}, 8 + 7 + 6),
}


def last_logits(target, head, n_text, ids):
    """Of a draft of ids[n_text:] that begins after the first n_text ids."""
    cache, own = target.new_cache(), head.new_cache()
    target.read(ids[: n_text - 1], cache, n_last=0)
    own.known = cache.hidden[:n_text]
    return [head.read(ids[:end], own)[0] for end in range(n_text, len(ids) + 1)][-1]


@torch.no_grad()
@pytest.mark.parametrize("name", HEADS)
def test_a_head_drafts_as_it_was_trained(folder, name):
    make, notes, n_guesses = HEADS[name]
    head, fingerprint = lively(make()), sha256_of(weights_files(folder))
    train.write_tensors(head, folder / f"{name}.safetensors", target=fingerprint, **notes)
    target = utils.load_model(folder, NUMPY)
    stored = load_head(name, folder, target)
    teacher, ids = read_teacher(folder), torch.tensor([IDS])
    # training guesses on a whole text at once
    guesses = head.draft_logits(ids, 0, teacher.hidden(ids), teacher)
    for place, (first, logits) in enumerate(guesses):
        for i, row in enumerate(logits[0].numpy(), first):
            n_text = i + 1 - place  # the draft began after this many tokens
            assert np.allclose(last_logits(target, stored, n_text, IDS[: i + 1]), row, atol=1e-3)
            n_guesses -= 1
    assert n_guesses == 0


# ---------------------------------------------------------------- a run


def test_muon_moves_as_torchs_does(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.float)  # torch's own precision

    def moved(make, **how):
        """Three matrices after three steps."""
        torch.manual_seed(3)
        shapes = ((12, 36), (48, 12), (8, 8))
        parameters = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
        optimizer = make(parameters, lr=0.02, weight_decay=0.05, **how)
        for _ in range(3):
            for p in parameters:
                p.grad = torch.randn_like(p)
            optimizer.step()
        return torch.cat([p.detach().flatten() for p in parameters])

    expected = moved(torch.optim.Muon, adjust_lr_fn="match_rms_adamw")
    assert torch.allclose(moved(train.Muon), expected, atol=1e-5)


def read_texts(written=None, tokens_per_step=4096):
    ids = np.resize(np.random.default_rng(0).integers(0, TINY.n_vocab, 40), 5000).astype(np.uint16)
    return train.Texts(ids, ids, written, tokens_per_step)


MAKE = {name: make for name, (make, *_) in HEADS.items()}
MAKE["model"] = lambda: train.GPT2(TINY)


@pytest.mark.parametrize("name", MAKE)
def test_a_run_lowers_the_loss_and_resumes(folder, tmp_path, monkeypatch, name):
    """Interrupted after its checkpoint and started again, it ends where it would have ended."""
    monkeypatch.setattr(train, "STEPS_PER_CHECKPOINT", 20)
    monkeypatch.setattr(train, "validate", lambda *arguments: 0.0)
    loss, seen = train.distillation_losses(read_teacher(folder))[1], []

    def trained(where, end=None):
        def noted(*batch):
            if len(seen) == end:
                raise KeyboardInterrupt
            found = loss(*batch)
            seen.append(found.item())
            return found

        seen.clear()
        torch.manual_seed(0)
        model = MAKE[name]()
        monkeypatch.setattr(train, "CACHE", tmp_path / where)
        texts = read_texts(tokens_per_step=96)
        train.train(name, model, (noted, noted), texts, TINY.n_ctx, 36, 3e-2, 1)
        return [*model.parameters()]

    whole = trained("whole")
    assert sum(seen[-9:]) < sum(seen[:9])
    with pytest.raises(KeyboardInterrupt):
        trained("part", end=25)
    assert all(torch.equal(a, b) for a, b in zip(whole, trained("part"), strict=True))
    assert len(seen) == 16


def test_every_other_batch_is_what_the_target_wrote():
    written = np.full((5, train.WRITTEN_TOKENS + 1), 7, np.uint16)
    (books, _), (own, offset) = (read_texts(written).batch(step, 100, 1, 24) for step in (0, 1))
    assert own.shape == (16, 257) and (own == 7).all() and offset == 0
    assert not (books == 7).all()
    # those of books take turns at the halves of the context all the same
    offsets = [read_texts(written).batch(step, 100, 1, 24)[1] for step in (0, 2, 4, 6, 80, 82)]
    assert offsets == [0, 12, 0, 12, 0, 0]


# ---------------------------------------------------------------- commands


@pytest.fixture
def places(folder, tmp_path, monkeypatch):
    """{flag: where a corpus and models are}, for short texts."""
    (tmp_path / "corpus").mkdir()
    for split in ("train", "valid"):
        (tmp_path / "corpus" / f"a_{split}.txt").write_text("the thing that they think " * 200)
    monkeypatch.setattr(train, "MIN_TOKENS", {"train": 60, "valid": 60})
    monkeypatch.setattr(train, "validate", lambda *arguments: 0.0)
    monkeypatch.setattr(train, "SAMPLES_BATCH", 2)
    return {"corpus": str(tmp_path / "corpus")}


def test_texts_are_cut_with_the_vocabulary_of_a_folder(places, folder):
    encoder, path = load_encoder(folder), Path(places["corpus"]) / "a_train.txt"
    read = partial(train.read_texts, places["corpus"], folder)
    ids = read(written=False).train.tolist()
    assert ids == [*encoder.encode(path.read_text()), encoder.end_of_text]
    with pytest.raises(ValueError, match="command samples"):
        read(written=True)
    path.write_text("short")
    with pytest.raises(ValueError, match="expected at least 60"):
        read(written=False)


def test_samples_are_what_the_target_writes_and_go_on_where_they_were_interrupted(
    places, folder, monkeypatch
):
    monkeypatch.setattr(train, "PROMPT_TOKENS", 4)
    monkeypatch.setattr(train, "WRITTEN_TOKENS", 9)
    write, begun = train.continue_passages, []

    def sample(end=None):
        def written(model, ids, seed, batch, n_texts):
            begun.append(batch)
            if batch == end:
                raise KeyboardInterrupt
            return write(model, ids, seed, batch, n_texts)

        monkeypatch.setattr(train, "continue_passages", written)
        train.samples(**places, target_model_size="17M", n_batches=4)
        return np.load(train.samples_path(folder))

    with pytest.raises(KeyboardInterrupt):
        sample(end=2)
    texts = sample()
    assert texts.shape == (8, 10) and begun == [0, 1, 2, 2, 3]
    model = utils.load_model(folder, NUMPY)
    for row in texts[:2].tolist():  # the first batch is greedy
        for end in range(4, 10):
            assert model.read(row[:end], model.new_cache())[0].argmax() == row[end]


def test_a_model_is_trained_from_nothing_grown_distilled_and_given_heads(
    places, tmp_path, monkeypatch
):
    """As models/README.md does it, a few steps each."""
    monkeypatch.setattr(train, "N_CTX", 256)
    monkeypatch.setattr(train, "PROMPT_TOKENS", 200)
    few = places | {"steps": 2}
    monkeypatch.setattr(train, "TARGET_SHAPE", (2, 16, 2))
    with pytest.warns(UserWarning, match="corpus: is enough for 2.. tokens, not 2048"):
        train.tokenizer(**places)
    size = tmp_path / "7M"
    encoder = load_encoder(size)
    n_merges = len((size / "merges.txt").read_text().splitlines()) - 1
    assert encoder.end_of_text == encoder.n_vocab - 1 == 256 + n_merges
    train.target(**few)
    train.target(**few, start="7M", grow="0,1", target_model_size="17M")
    assert read_config(size.parent / "17M") == replace(read_config(size), n_embd=32, n_head=4)
    train.draft(**few, n_layer=2, n_embd=16, n_head=2)
    train.samples(**places, n_batches=1)
    train.draft(**few, start="0.7M", written=True, draft_model_size="0.5M")
    train.head(**few)
    train.head(**few, kind="medusa")
    for draft in ("0.7M", "0.5M", "eagle", "medusa"):
        load_pair("7M", draft, str(tmp_path))


def test_a_finished_run_goes_on_with_more_steps(places, monkeypatch):
    """Also from its own result, which it has replaced."""
    steps, rate_at = [], train.rate_at
    noted = lambda step, *given: steps.append(step) or rate_at(step, *given)
    monkeypatch.setattr(train, "rate_at", noted)
    for n in (2, 3):
        train.target(**places, target_model_size="17M", start="17M", steps=n)
    assert steps == [0, 0, 1, 1, 2, 2]  # of two optimizers


def test_another_model_of_the_same_name_begins_anew(places, folder, tmp_path, monkeypatch):
    """Its texts are not those of the old one, nor is a draft of another shape the old one."""
    path, weights = train.samples_path(folder), folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    assert train.samples_path(folder) != path
    few = places | {"steps": 2, "target_model_size": "17M", "draft_model_size": "0.7M"}
    for width in (8, 16):
        train.draft(**few, n_layer=1, n_embd=width, n_head=2)
        assert read_config(tmp_path / "0.7M").n_embd == width


def test_other_texts_are_another_run(places, tmp_path, monkeypatch):
    monkeypatch.setattr(train, "PROMPT_TOKENS", 4)
    monkeypatch.setattr(train, "WRITTEN_TOKENS", 9)
    few = places | {"target_model_size": "17M"}
    for text in ("the thing that they think ", "she sells what she shells "):
        (tmp_path / "corpus" / "a_train.txt").write_text(text * 200)
        train.draft(**few, draft_model_size="q", n_layer=1, n_embd=8, n_head=2, steps=1)
        train.samples(**few, n_batches=1)
    assert len({*train.CACHE.glob("q-*.pt")}) == 2
    assert len({*train.CACHE.glob("samples-*-0.npy")}) == 2


@pytest.mark.parametrize("damaged", [b"", b"hello", "cut", "empty"])
def test_a_damaged_checkpoint_is_named(places, tmp_path, monkeypatch, damaged):
    run = partial(train.draft, **places, target_model_size="17M", draft_model_size="q")
    shape = {"n_layer": 1, "n_embd": 8, "n_head": 2}
    run(**shape, steps=1)
    (checkpoint,) = train.CACHE.glob("q-*.pt")
    if damaged == "empty":
        torch.save({"step": 1, "states": []}, checkpoint)
    else:
        whole = checkpoint.read_bytes()
        checkpoint.write_bytes(whole[: len(whole) // 2] if damaged == "cut" else damaged)
    with pytest.raises(ValueError, match=f"{checkpoint.name}: cannot be read.*; delete it"):
        run(**shape, steps=2)


def test_where_the_disk_is_full_what_was_there_stays(places, tmp_path, monkeypatch):
    run = partial(train.draft, **places, target_model_size="17M", draft_model_size="q")
    run(n_layer=1, n_embd=8, n_head=2, steps=1)
    train.tokenizer(**places, target_model_size="t")
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def full(path, data):
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    for again in (
        partial(train.tokenizer, **places, target_model_size="t"),
        partial(run, n_layer=1, n_embd=8, n_head=2, steps=2),
        partial(train.write_model, train.GPT2(TINY), tmp_path / "17M", tmp_path / "q"),
    ):
        with pytest.raises(OSError, match="No space") as raised:
            again()
        assert raised.value.filename
    monkeypatch.undo()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == files


@pytest.mark.parametrize(
    "command, flags, said",
    [
        (train.draft, {"n_head": 0}, "--n_head 0: expected 1 or more"),
        (train.draft, {"n_embd": 9, "target_model_size": "17M"}, "--n_embd 9: expected a multiple"),
        (train.draft, {"n_embd": 1, "n_head": 1}, "--n_embd 1: expected 2 or more"),
        (train.draft, {"seed": -1, "target_model_size": "17M"}, "seed -1: expected 0 or more"),
        (train.draft, {"tokens_per_step": 9}, "--tokens_per_step 9: expected 24 or more"),
        (train.draft, {"draft_model_size": "7M"}, "--draft_model_size 7M: is the target"),
        (train.samples, {"n_batches": 0}, "--n_batches 0: expected 1 or more"),
        (train.tokenizer, {"target_model_size": ".."}, "a model named '..': expected letters"),
        (train.target, {"grow": "0"}, "--grow 0: expected --start"),
        (train.target, {"grow": "a", "start": "17M"}, "--grow 'a': expected layers"),
        (train.samples, {"target_model_size": "17M"}, "bad_train.txt: expected UTF-8"),
    ],
)
def test_what_cannot_be_trained_is_one_line(places, tmp_path, command, flags, said):
    (tmp_path / "corpus" / "bad_train.txt").write_bytes(b"\xff")
    with pytest.raises(ValueError, match=re.escape(said)):
        command(**places, **flags)


@pytest.mark.parametrize("width", [10**9, 10**20])
def test_a_model_too_large_for_memory_is_one_line(tmp_path, width):
    """As transformers makes its weights: torch has errors of its own for what memory lacks."""
    shape = f"--n_embd {width} --n_head 1 --draft_model_size q --target_model_size 17M".split()
    command = [sys.executable, "-m", "train.train", "draft", tmp_path, *shape]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and re.match("error: not enough memory for .*\\n$", done.stderr)


def test_models_that_cannot_read_the_passages_are_refused(places, tmp_path):
    write_checkpoint(tmp_path / "short", replace(TINY, n_ctx=TINY.n_ctx - 1))
    for command, flags in [
        (train.draft, {"target_model_size": "17M", "start": "short"}),
        (train.draft, {"target_model_size": "short"}),
        (train.target, {"target_model_size": "17M", "start": "short"}),
        (train.head, {"target_model_size": "short"}),
    ]:
        with pytest.raises(ValueError, match="short: a context of 23 tokens, expected 24 or more"):
            command(**places, **flags)
    write_pair(tmp_path, TINY)
    with pytest.raises(ValueError, match="--start other words: expected the vocabulary of 17M"):
        train.draft(**places, target_model_size="17M", start="other words")


def test_a_layer_that_is_not_there_is_refused():
    assert train.read_layers("", TINY) == [] and train.read_layers("1,0", TINY) == [1, 0]
    with pytest.raises(ValueError, match="layer 2: expected 0 to 1"):
        train.read_layers("0,2", TINY)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT to send")
def test_ctrl_c_while_modules_load_is_no_traceback():
    command = [sys.executable, "-X", "importtime", "-m", "train.train", "--help"]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True, cwd=ROOT) as loading:
        next(line for line in loading.stderr if "tqdm" in line)  # torch is next
        loading.send_signal(signal.SIGINT)
        assert "Traceback" not in loading.communicate()[1]
    assert loading.returncode == -signal.SIGINT


def test_one_line_where_a_package_is_missing():
    code = "import sys; sys.modules['torch'] = None; import train.train"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    expected = "error: training needs torch: pip install --group train, with pip 25.1 or newer\n"
    assert (done.returncode, done.stderr) == (2, expected)
