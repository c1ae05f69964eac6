"""What is trained in PyTorch is what runs in NumPy: models and heads, before and after the disk."""

import contextlib
import dataclasses
from pathlib import Path

import numpy as np
import pytest
from decoding.head_files import fingerprint, load_head
from decoding.load import load
from toys import NUMPY, TINY, refusal, write_checkpoint

import utils
from checkpoints.folder import read_config
from checkpoints.vocabulary import load_encoder

for package in ("torch", "transformers", "safetensors", "tokenizers"):
    pytest.importorskip(package)

import torch  # noqa: E402

from experiments.training import models, texts, train, trainer  # noqa: E402
from experiments.training.texts import TrainingTexts  # noqa: E402

IDS = [3, 1, 4, 1, 5, 9, 2, 6, 5]


@pytest.fixture(autouse=True)
def float32(monkeypatch):
    """Training may compute in bfloat16; here every digit is wanted, of small matrices."""
    torch.set_num_threads(1)
    monkeypatch.setattr(trainer, "mixed_precision", contextlib.nullcontext)


def lively(module):
    """Random parameters large enough to make a difference, which float16 can tell."""
    torch.manual_seed(3)
    for p in module.parameters():
        p.data = (0.3 * torch.randn(p.shape)).half().float()
    return module.eval()


@pytest.fixture
def folder(tmp_path):
    folder = write_checkpoint(tmp_path / "17M")
    models.write_model(lively(models.GPT2(TINY)), folder)
    return folder


@torch.no_grad()
def test_a_model_is_the_same_in_numpy(folder):
    model, teacher = utils.load_model(folder, NUMPY), models.read_model(folder).eval()
    found = model.read(IDS, model.new_cache(), n_last=len(IDS))
    expected = teacher.logits(teacher.hidden(torch.tensor([IDS])))[0]
    assert np.allclose(found, expected, atol=1e-3)
    assert read_config(folder) == TINY


@torch.no_grad()
def test_positions_begin_at_the_offset(folder):
    teacher, ids = models.read_model(folder).eval(), torch.tensor([IDS])
    read = lambda offset: (teacher.embed(ids, offset), teacher.hidden(ids, offset))
    expected, wpe = read(4), teacher.transformer.wpe.weight
    wpe.copy_(wpe.roll(-4, 0))
    assert all(map(torch.allclose, read(0), expected))


def last_logits(target, head, n_text, ids):
    """Of a draft of ids[n_text:] that begins after the first n_text ids."""
    cache, own = target.new_cache(), head.new_cache()
    target.read(ids[: n_text - 1], cache, n_last=0)
    own.update_from_target(cache.hidden, n_text)
    return [head.read(ids[:end], own)[0] for end in range(n_text, len(ids) + 1)][-1]


HEADS = {  # how it is made, what its file notes, and how many guesses there are of a text
    "eagle": (lambda: models.Eagle(TINY, 8, 4), {"n_head": "4"}, 9 + 8 + 7 + 6),
    "medusa": (lambda: models.Medusa(TINY, 3), {}, 8 + 7 + 6),
}


@torch.no_grad()
@pytest.mark.parametrize("name", HEADS)
def test_a_head_drafts_as_it_was_trained(folder, name):
    make, notes, n_guesses = HEADS[name]
    head, path = lively(make()), folder / f"{name}.safetensors"
    models.write_tensors(head, path, target=fingerprint(folder), **notes)
    target = utils.load_model(folder, NUMPY)
    stored = load_head(name, folder, target)
    teacher, ids = models.read_model(folder).eval(), torch.tensor([IDS])
    # training guesses on a whole text at once
    for place, (first, logits) in enumerate(
        head.draft_logits(ids, 0, teacher.hidden(ids), teacher)
    ):
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
    assert torch.allclose(moved(trainer.Muon), expected, atol=1e-5)


def read_texts(written=None, **how):
    ids = np.resize(np.random.default_rng(0).integers(0, TINY.n_vocab, 40), 5000).astype(np.uint16)
    return TrainingTexts(ids, ids, written, **how)


MAKE = {name: make for name, (make, *_) in HEADS.items()}
MAKE["model"] = lambda: models.GPT2(TINY)


@pytest.mark.parametrize("name", MAKE)
def test_a_run_lowers_the_loss_and_resumes(folder, tmp_path, monkeypatch, name):
    """Interrupted after its checkpoint and started again, it ends where it would have ended."""
    monkeypatch.setattr(trainer, "STEPS_PER_CHECKPOINT", 20)
    monkeypatch.setattr(trainer.Trainer, "validate", lambda *arguments: 0.0)
    loss, seen = trainer.make_distillation_losses(models.read_model(folder))[1], []

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
        chosen = train.TrainingSettings(
            cache_dir=str(tmp_path / where), steps=36, learning_rate=3e-2
        )
        trainer.Trainer(model, chosen, read_texts(tokens_per_step=96), name).train(
            noted, noted, TINY.n_ctx
        )
        return [*model.parameters()]

    whole = trained("whole")
    assert sum(seen[-9:]) < sum(seen[:9])
    with pytest.raises(KeyboardInterrupt):
        trained("part", end=25)
    assert all(torch.equal(a, b) for a, b in zip(whole, trained("part"), strict=True))
    assert len(seen) == 16


def test_another_run_has_another_checkpoint(tmp_path):
    model = models.GPT2(TINY)
    other = models.GPT2(dataclasses.replace(TINY, n_layer=TINY.n_layer + 1))
    written = np.zeros((1, 257), np.uint16)

    def begun(seed=1, model=model, written=None, start="7M"):
        chosen = train.TrainingSettings(cache_dir=str(tmp_path), seed=seed)
        return trainer.Trainer(model, chosen, read_texts(written), "model", start=start)

    first = begun()
    first.step = 5
    first.save()
    assert begun().step == 5
    for other_run in ({"seed": 2}, {"model": other}, {"written": written}, {"start": ""}):
        assert begun(**other_run).step == 0
    # one that has replaced its start goes on from the new one
    first.save(start="new")
    assert begun(start="new").step == 5


def test_every_other_batch_is_what_the_target_wrote():
    written = np.full((5, texts.WRITTEN_TOKENS + 1), 7, np.uint16)
    (books, _), (own, offset) = (read_texts(written).batch(step, 100, 1, 24) for step in (0, 1))
    assert own.shape == (16, 257) and (own == 7).all() and offset == 0
    assert not (books == 7).all()
    # those of books take turns at the halves of the context all the same
    offsets = [read_texts(written).batch(step, 100, 1, 24)[1] for step in (0, 2, 4, 6, 80, 82)]
    assert offsets == [0, 12, 0, 12, 0, 0]


# ---------------------------------------------------------------- texts


@pytest.fixture
def places(folder, tmp_path):
    """Where a corpus and a model are; what is cached is in one folder."""
    (tmp_path / "corpus").mkdir()
    for split in ("train", "valid"):
        (tmp_path / "corpus" / f"a_{split}.txt").write_text("the thing that they think " * 200)
    return train.PathSettings(str(tmp_path / "corpus"), str(tmp_path), str(tmp_path / "cache"), 3)


def test_texts_are_cut_with_the_vocabulary_of_a_folder(places, folder):
    encoder, path = load_encoder(folder), Path(places.corpus) / "a_train.txt"
    ids = TrainingTexts.read(places, folder).train.tolist()
    assert ids == [*encoder.encode(path.read_text()), encoder.end_of_text]
    assert "train.py samples" in refusal(TrainingTexts.read, places, folder, True)
    path.write_text("short")
    assert "514" in refusal(TrainingTexts.read, places, folder)
    (folder / "merges.txt").unlink()
    assert "merges.txt" in refusal(TrainingTexts.read, places, folder)


def test_samples_go_on_where_they_were_interrupted(places, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(train, "SAMPLES_BATCH", 2)
    monkeypatch.setattr(texts, "PROMPT_TOKENS", 4)
    monkeypatch.setattr(texts, "WRITTEN_TOKENS", 9)
    write, begun = texts.continue_passages, []

    def sample(where, end=None):
        def written(model, ids, seed, batch, batch_size):
            begun.append(batch)
            if batch == end:
                raise KeyboardInterrupt
            return write(model, ids, seed, batch, batch_size)

        monkeypatch.setattr(texts, "continue_passages", written)
        values = vars(places) | {"cache_dir": str(tmp_path / where)}
        chosen = train.SamplesSettings(**values, target_model_size="17M", n_batches=4)
        train.write_samples(chosen)
        (path,) = (tmp_path / where).iterdir()  # nothing unfinished is left
        return np.load(path)

    whole = sample("a")
    with pytest.raises(KeyboardInterrupt):
        sample("b", end=2)
    assert whole.shape == (8, 10) and np.array_equal(whole, sample("b"))
    assert begun == [0, 1, 2, 3, 0, 1, 2, 2, 3]
    # a text is what the model writes: greedily in the first batch
    model = utils.load_model(folder, NUMPY)
    for row in whole[:2].tolist():
        for end in range(4, 10):
            assert model.read(row[:end], model.new_cache())[0].argmax() == row[end]
    # with other weights, the target would have written something else
    weights = folder / "model.safetensors"
    path = texts.samples_path(places.cache_dir, folder)
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\0\0\0")
    assert texts.samples_path(places.cache_dir, folder) != path


# ---------------------------------------------------------------- commands


def test_a_model_is_trained_from_nothing_grown_distilled_and_given_heads(places, monkeypatch):
    """As models/README.md does it, a few steps each."""
    monkeypatch.setattr(trainer.Trainer, "validate", lambda *arguments: 0.0)
    monkeypatch.setattr(texts, "MIN_TOKENS", {"train": 60, "valid": 60})
    small = dataclasses.replace(TINY, n_ctx=256)
    monkeypatch.setattr(train, "SIZES", {"0.7M": small, "7M": small})
    where = [f"--{name}={value}" for name, value in vars(places).items() if name != "seed"]
    update, steps = trainer.Trainer.update, []

    def noted(self, loss):
        steps.append(self.step)
        update(self, loss)

    monkeypatch.setattr(trainer.Trainer, "update", noted)

    def command(*words, code=0):
        assert train.main([*words, *where]) == code

    few = ("--steps=2",)
    command("tokenizer")
    size = Path(places.models_dir) / "7M"
    encoder = load_encoder(size)
    n_merges = len((size / "merges.txt").read_text().splitlines()) - 1
    assert encoder.end_of_text == encoder.n_vocab - 1 == 256 + n_merges
    command("target", *few)
    command("target", "--start=7M", "--layers=0,2", *few, code=2)
    command("target", "--start=7M", "--layers=0,1", "--target_model_size=17M", *few)
    monkeypatch.setattr(texts, "PROMPT_TOKENS", 200)
    monkeypatch.setattr(train, "SAMPLES_BATCH", 2)
    command("draft", "--start=0.7M", *few, code=2)
    command("samples", "--n_batches=1")
    command("draft", *few)
    steps.clear()
    command("draft", "--start=0.7M", "--written", *few)
    command("draft", "--start=0.7M", "--written", "--steps=3")  # on from its own result
    assert steps == [0, 1, 2]
    command("eagle", *few)
    command("medusa", *few)
    load("7M", ["0.7M", "eagle", "medusa"], places.models_dir, NUMPY)
    grown = read_config(Path(places.models_dir) / "17M")
    assert (grown.n_embd, grown.n_layer) == (2 * small.n_embd, 2)
