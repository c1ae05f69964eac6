"""What is trained in PyTorch is what runs in NumPy: models and heads, before and after the disk."""

import contextlib
import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from toys import NUMPY, TINY, refusal, tiny_vocabulary, write_checkpoint

import utils
from experiments.drafting.load import load
from experiments.drafting.stored import fingerprint, load_head
from experiments.training import train

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")

from experiments.training import distillation, run, tokens, torch_gpt2, torch_heads  # noqa: E402
from experiments.training.distillation import distances_from  # noqa: E402
from experiments.training.tokens import Texts  # noqa: E402

IDS = [3, 1, 4, 1, 5, 9, 2, 6, 5]


@pytest.fixture(autouse=True)
def float32(monkeypatch):
    """Training may compute in bfloat16; here every digit is wanted, of small matrices."""
    torch.set_num_threads(1)
    monkeypatch.setattr(torch, "autocast", lambda *names, **flags: contextlib.nullcontext())


def lively(module, seed=3):
    """Random parameters large enough to make a difference."""
    torch.manual_seed(seed)
    for p in module.parameters():
        torch.nn.init.normal_(p, std=0.3)
    return module.eval()


@pytest.fixture
def folder(tmp_path):
    folder = write_checkpoint(tmp_path / "17M")
    torch_gpt2.write_model(lively(torch_gpt2.GPT2(TINY)), folder)
    return folder


def test_a_model_is_the_same_in_numpy(folder):
    model, teacher = utils.load_model(folder, NUMPY), torch_gpt2.read_model(folder)
    cache = model.new_cache()
    found = model.read(IDS, cache, n_last=len(IDS))
    with torch.no_grad():
        hidden = teacher.hidden(torch.tensor([IDS]))[0].numpy()
        expected = teacher(torch.tensor([IDS]))[0].numpy()
    assert np.allclose(found, expected, atol=1e-3)
    assert np.allclose(cache.hidden[: len(IDS)], hidden, atol=1e-3)


def test_positions_begin_at_the_offset(folder):
    teacher = torch_gpt2.read_model(folder)
    with torch.no_grad():
        embedded = teacher.embed(torch.tensor([IDS]), 4)[0]
    expected = teacher.wte.weight[IDS] + teacher.wpe.weight[4 : 4 + len(IDS)]
    assert torch.allclose(embedded, expected)


def written_head(name, head, folder, **notes):
    path = folder / f"{name}.safetensors"
    torch_gpt2.write_tensors(torch_gpt2.stored(head), path, target=fingerprint(folder), **notes)
    # as it will be read: in float16
    halves = {k: v.half().float().numpy() for k, v in torch_gpt2.stored(head).items()}
    torch_gpt2.set_stored(head, halves)
    target = utils.load_model(folder, NUMPY)
    return target, load_head(name, folder, target)


def guesses(head, folder):
    """{(place, position): logits}, as training computes them on a whole text."""
    teacher, ids = torch_gpt2.read_model(folder), torch.tensor([IDS])
    with torch.no_grad():
        places = [*head.places(ids, 0, teacher.hidden(ids), teacher)]
    return {
        (place, i): row
        for place, (first, logits) in enumerate(places)
        for i, row in enumerate(logits[0].numpy(), first)
    }


def drafting(target, head, n_text, ids):
    """Logits after the first n_text ids, and after each more, as a draft is made of them."""
    cache, own = target.new_cache(), head.new_cache()
    target.read(ids[: n_text - 1], cache, n_last=0)
    own.look(cache.hidden, n_text)
    return [head.read(ids[:end], own)[0] for end in range(n_text, len(ids) + 1)]


HEADS = {  # how it is made, what its file notes, and how many guesses there are of a text
    "eagle": (lambda: torch_heads.Eagle(TINY.n_embd, 8, 4), {"n_head": "4"}, 9 + 8 + 7 + 6),
    "medusa": (lambda: torch_heads.Medusa(TINY.n_embd, 3), {}, 8 + 7 + 6),
}


@pytest.mark.parametrize("name", HEADS)
def test_a_head_drafts_as_it_was_trained(folder, name):
    make, notes, n_guesses = HEADS[name]
    head = lively(make())
    target, stored = written_head(name, head, folder, **notes)
    trained = guesses(head, folder)
    assert len(trained) == n_guesses
    for (place, i), row in trained.items():
        n_text = i + 1 - place  # the draft began after so many tokens
        found = drafting(target, stored, n_text, IDS[: i + 1])[-1]
        assert np.allclose(found, row, atol=1e-3)


# ---------------------------------------------------------------- a run


def texts(written=None, **tokens):
    ids = np.resize(np.random.default_rng(0).integers(0, TINY.n_vocab, 40), 5000).astype(np.uint16)
    return Texts(ids, ids, written, **tokens)


def settings(tmp_path, **values):
    return train.Training(cache_dir=str(tmp_path), **values)


MAKE = {name: make for name, (make, *_) in HEADS.items()}
MAKE["model"] = lambda: torch_gpt2.GPT2(TINY, dropout=0.1)


@pytest.mark.parametrize("name", MAKE)
def test_a_run_lowers_the_loss_and_resumes(folder, tmp_path, monkeypatch, name):
    """Interrupted after its checkpoint and started again, it ends where it would have ended."""
    monkeypatch.setattr(run, "EVERY", 20)
    monkeypatch.setattr(run.Run, "validation", lambda *arguments: 0.0)
    teacher = torch_gpt2.read_model(folder).requires_grad_(False)
    loss, seen = distances_from(teacher)[1], []

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
        chosen = settings(tmp_path / where, steps=36, learning_rate=1e-2)
        run.Run(model, chosen, texts(tokens=96), name).train(noted, noted, TINY.n_ctx)
        return [*model.parameters()]

    whole = trained("whole")
    assert sum(seen[-9:]) < sum(seen[:9])
    with pytest.raises(KeyboardInterrupt):
        trained("part", end=25)
    assert all(torch.equal(a, b) for a, b in zip(whole, trained("part"), strict=True))
    assert len(seen) == 16


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    model = torch_gpt2.GPT2(TINY)

    def begun(seed=1, model=model, **origin):
        return run.Run(model, settings(tmp_path, seed=seed), texts(), "model", **origin)

    first = begun(start="7M")
    first.step = 5
    first.save()
    assert begun(start="7M").step == 5
    other = torch_gpt2.GPT2(dataclasses.replace(TINY, n_layer=TINY.n_layer + 1))
    ways = ({}, {"start": ""}, {"start": "7M", "seed": 2}, {"start": "7M", "model": other})
    for way in ways:
        assert "give another --cache_dir" in refusal(lambda: begun(**way))
    # one that has replaced its start goes on from the new one
    first.save(start="new")
    assert begun(start="new").step == 5
    refusal(lambda: begun(start="7M"))


def test_every_other_batch_is_what_the_target_wrote():
    written = np.full((5, tokens.N_WRITTEN + 1), 7, np.uint16)
    books, own = (texts(written).batch(step, 100, 1, 24) for step in (0, 1))
    assert own[0].shape == (16, 257) and (own[0] == 7).all() and own[1] == 0
    assert not (books[0] == 7).all()
    # those of books take turns at the halves of the context all the same
    offsets = [texts(written).batch(step, 100, 1, 24)[1] for step in (0, 2, 4, 6, 80, 82)]
    assert offsets == [0, 12, 0, 12, 0, 0]


# ---------------------------------------------------------------- texts


@pytest.fixture
def places(folder, tmp_path):
    """Where a corpus and a model are; what is cached is in one folder."""
    (tmp_path / "corpus").mkdir()
    for split in ("train", "valid"):
        (tmp_path / "corpus" / f"a_{split}.txt").write_text("the thing that they think " * 200)
    return train.Places(str(tmp_path / "corpus"), str(tmp_path), str(tmp_path / "cache"), 3)


def test_a_vocabulary_is_the_encoders(tmp_path):
    tokens.learn(["the thing that they think " * 30]).save(str(tmp_path))
    encoder = utils.load_encoder(tmp_path)
    known, _ = tiny_vocabulary()
    vocabulary = json.loads((tmp_path / "vocab.json").read_text())
    assert [*vocabulary][:256] == [*known][:256]
    n_merges = len((tmp_path / "merges.txt").read_text().splitlines()) - 1
    assert encoder.end_of_text == len(vocabulary) - 1 == 256 + n_merges


def test_token_ids_are_kept_for_one_vocabulary_and_corpus(places, folder):
    first = Texts.read(places, folder)
    encoder, path = utils.load_encoder(folder), Path(places.corpus) / "a_train.txt"
    assert first.train.tolist() == [*encoder.encode(path.read_text()), encoder.end_of_text]
    path.write_text("think of the thing they say" * 200)
    second = Texts.read(places, folder)
    assert len(second.train) != len(first.train) and second.origin != first.origin
    path.write_text("short")
    assert "514" in refusal(Texts.read, places, folder)
    (folder / "merges.txt").unlink()
    assert "merges.txt" in refusal(Texts.read, places, folder)


def test_other_samples_make_another_run(places, folder):
    assert "train.py samples" in refusal(Texts.read, places, folder, True)
    origins = []
    for value in (1, 2):
        tokens.save_array(np.full((2, 257), value), tokens.samples_path(places, folder))
        origins.append([Texts.read(places, folder, written).origin for written in (True, False)])
    assert origins[0][0] != origins[1][0] and origins[0][1] == origins[1][1]


def test_samples_go_on_where_they_were_interrupted(places, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(distillation, "N_PROMPT", 4)
    monkeypatch.setattr(distillation, "N_WRITTEN", 9)
    write = distillation.written_batch

    def sample(where, interrupted=False):
        def written(model, ids, seed, batch, batch_size):
            if interrupted and batch == 2:
                raise KeyboardInterrupt
            return write(model, ids, seed, batch, batch_size)

        monkeypatch.setattr(distillation, "written_batch", written)
        values = vars(places) | {"cache_dir": str(tmp_path / where)}
        chosen = train.SamplesSettings(**values, target_model_size="17M", n_batches=4, batch_size=2)
        path = tokens.samples_path(chosen, folder)
        try:
            train.samples(chosen)
        except KeyboardInterrupt:
            assert not path.exists()
        return path

    whole = np.load(sample("a"))
    resumed = (sample("b", interrupted=True), sample("b"))[1]
    assert whole.shape == (8, 10) and np.array_equal(whole, np.load(resumed))
    assert not [*resumed.parent.glob("*.part")]
    # a text is what the model writes: greedily in the first batch
    model = utils.load_model(folder, NUMPY)
    for row in whole[:2].tolist():
        for end in range(4, 10):
            assert model.read(row[:end], model.new_cache())[0].argmax() == row[end]
    # with other weights, the target would have written something else
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\0\0\0")
    assert not tokens.samples_path(places, folder).exists()


# ---------------------------------------------------------------- commands


def test_a_model_is_trained_from_nothing_grown_distilled_and_given_heads(places, monkeypatch):
    """As models/README.md does it, a few steps each."""
    monkeypatch.setattr(run.Run, "validation", lambda *arguments: 0.0)
    monkeypatch.setattr(tokens, "LEAST", {"train": 60, "valid": 60})
    small = dataclasses.replace(TINY, n_ctx=256)
    monkeypatch.setattr(train, "SHAPES", {"0.7M": small, "7M": small})
    where = {name: value for name, value in vars(places).items() if name != "seed"}

    def command(*words):
        flags = [f"--{name}={value}" for name, value in where.items()]
        assert train.main([*words, *flags]) == 0

    few = ("--steps=2",)
    command("tokenizer")
    command("target", *few)
    command("target", "--start=7M", "--layers=0,1", "--target_model_size=17M", *few)
    monkeypatch.setattr(distillation, "N_PROMPT", 200)
    command("samples", "--n_batches=1", "--batch_size=2")
    command("draft", *few)
    command("draft", "--start=0.7M", "--written", *few)
    command("draft", "--start=0.7M", "--written", "--steps=3")  # on from its own result
    command("eagle", "--width=8", *few)
    command("medusa", *few)
    load("7M", ["0.7M", "eagle", "medusa"], places.models_dir, NUMPY)
    grown = utils.read_config(Path(places.models_dir) / "17M")
    assert (grown.n_embd, grown.n_layer) == (2 * small.n_embd, 2)
