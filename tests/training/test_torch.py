"""What is trained in PyTorch is what runs in NumPy: models and heads, before and after the disk."""

import contextlib
import dataclasses

import numpy as np
import pytest
from toys import TINY, tiny_vocabulary, write_checkpoint

import utils
from experiments.drafting.stored import fingerprint, load_head
from utils import InputError

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")

from experiments.training import run as training  # noqa: E402
from experiments.training import torch_gpt2, torch_heads  # noqa: E402
from experiments.training.distillation import draft_loss, head_loss, total_variation  # noqa: E402

IDS = [3, 1, 4, 1, 5, 9, 2, 6, 5]
NUMPY = utils.get_backend("numpy", kernels="plain")


@pytest.fixture(autouse=True)
def float32(monkeypatch):
    """Training may compute in bfloat16; here every digit is wanted."""
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
    torch_gpt2.set_stored(
        head, {k: v.half().float().numpy() for k, v in torch_gpt2.stored(head).items()}
    )
    target = utils.load_model(folder, NUMPY)
    return target, load_head(name, folder, target)


def guesses(head, folder):
    """{(place, position): logits}, as training computes them on a whole text."""
    teacher, ids = torch_gpt2.read_model(folder), torch.tensor([IDS])
    found = {}
    with torch.no_grad():
        hidden, embedded = teacher.hidden(ids), teacher.embed(ids, 0)
        for place, (first, logits) in enumerate(head.places(hidden, embedded, teacher)):
            for i, row in enumerate(logits[0].numpy(), first):
                found[place, i] = row
    return found


def drafting(target, head, n_text, ids):
    """Logits after the first n_text ids, and after each more, as a draft is made of them."""
    cache, own = target.new_cache(), head.new_cache()
    target.read(ids[: n_text - 1], cache, n_last=0)
    own.look(cache.hidden, n_text)
    return [head.read(ids[:end], own)[0] for end in range(n_text, len(ids) + 1)]


def test_eagle_drafts_as_it_was_trained(folder):
    head = lively(torch_heads.Eagle(TINY.n_embd, 8, 4, n_places=4))
    target, stored = written_head("eagle", head, folder, n_head="4")
    trained = guesses(head, folder)
    assert len(trained) == 9 + 8 + 7 + 6
    for (place, i), row in trained.items():
        n_text = i + 1 - place  # the draft began after so many tokens
        found = drafting(target, stored, n_text, IDS[: i + 1])[-1]
        assert np.allclose(found, row, atol=1e-3)


def test_medusa_drafts_as_it_was_trained(folder):
    head = lively(torch_heads.Medusa(TINY.n_embd, 3))
    target, stored = written_head("medusa", head, folder)
    trained = guesses(head, folder)
    assert len(trained) == 8 + 7 + 6
    for (place, i), row in trained.items():
        n_text = i + 1 - place
        found = drafting(target, stored, n_text, IDS[: i + 1])[-1]
        assert np.allclose(found, row, atol=1e-3)


def texts(written=None, **tokens):
    rng = np.random.default_rng(0)
    ids = rng.integers(0, TINY.n_vocab, 5000).astype(np.uint16)
    return training.Texts(ids, ids, written, **tokens)


@pytest.mark.parametrize("name", ["model", "eagle", "medusa"])
def test_a_step_lowers_the_loss_and_a_run_resumes(folder, tmp_path, monkeypatch, name):
    """Interrupted after 200 of 204 steps and started again, it ends where it would have ended."""
    monkeypatch.setattr(training, "validation_loss", lambda *arguments: 0.0)
    teacher = torch_gpt2.read_model(folder).requires_grad_(False)
    make = {
        "model": lambda: torch_gpt2.GPT2(TINY, dropout=0.1),
        "eagle": lambda: torch_heads.Eagle(TINY.n_embd, 8, 4, n_places=2),
        "medusa": lambda: torch_heads.Medusa(TINY.n_embd, 2),
    }[name]
    loss = (draft_loss if name == "model" else head_loss)(teacher, total_variation)
    steps, seen = 204, []

    def noted(model, batch, offset):
        seen.append(loss(model, batch, offset))
        return seen[-1]

    def run(path, loss_at):
        torch.manual_seed(0)
        model = make()
        schedule = training.Schedule(steps, 1e-2, 1, {})
        training.train(model, path, texts(tokens=48), loss_at, schedule, TINY.n_ctx)
        return model

    whole = run(tmp_path / "whole.pt", lambda step: noted)
    assert sum(seen[-20:]) < sum(seen[:20])

    def interrupted(step):
        if step == 202:
            raise KeyboardInterrupt
        return loss

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "part.pt", interrupted)
    resumed = run(tmp_path / "part.pt", lambda step: loss)
    for a, b in zip(whole.parameters(), resumed.parameters()):
        assert torch.equal(a, b)


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path, model = tmp_path / "model.pt", torch_gpt2.GPT2(TINY)

    def run(seed=1, **origin):
        return training.Run(model, path, training.Schedule(9, 1e-2, seed, origin))

    run(start="7M").save(5)
    assert run(start="7M").first == 5
    with pytest.raises(InputError, match="run with start '7M', not None"):
        run()
    with pytest.raises(InputError, match="run with start '7M', not ''; give another --cache_dir"):
        run(start="")
    with pytest.raises(InputError, match="run with seed 1, not 2"):
        run(seed=2, start="7M")
    model = torch_gpt2.GPT2(dataclasses.replace(TINY, n_layer=TINY.n_layer + 1))
    with pytest.raises(InputError, match="run with parameters"):
        run(start="7M")


def test_token_ids_are_kept_for_one_vocabulary_and_corpus(tmp_path, monkeypatch):
    from experiments.training import tokens

    corpus, folder, cache = tmp_path / "corpus", tmp_path / "model", tmp_path / "cache"
    corpus.mkdir()
    (corpus / "a_train.txt").write_text("the thing that they think " * 200)
    with pytest.raises(InputError, match="train.py tokenizer makes those"):
        tokens.read_token_ids(corpus, "train", folder, cache)
    vocabulary, merges = tokens.learn(["the thing that they think " * 30])
    tokens.write_vocabulary(folder, vocabulary, merges)
    with pytest.raises(InputError, match="training expects 2048"):
        tokens.read_token_ids(corpus, "train", folder, cache)
    monkeypatch.setattr(tokens, "N_VOCAB", len(vocabulary))
    found = tokens.read_token_ids(corpus, "train", folder, cache)
    assert found[-1] == vocabulary["<|endoftext|>"]
    (corpus / "a_train.txt").write_text("think of the thing they say" * 200)
    assert len(tokens.read_token_ids(corpus, "train", folder, cache)) != len(found)
    (corpus / "a_train.txt").write_text("short")
    with pytest.raises(InputError, match="expected at least 514"):
        tokens.read_token_ids(corpus, "train", folder, cache)


def test_every_other_batch_is_what_the_target_wrote():
    written = np.full((5, training.N_WRITTEN + 1), 7, np.uint16)
    books, own = (texts(written).batch(step, 100, 1, 24) for step in (0, 1))
    assert own[0].shape == (16, 257) and (own[0] == 7).all() and own[1] == 0
    assert not (books[0] == 7).all()
    # those of books take turns at the halves of the context all the same
    assert [texts(written).batch(step, 100, 1, 24)[1] for step in (0, 2, 4, 6, 80, 82)] == [
        0,
        12,
        0,
        12,
        0,
        0,
    ]


def test_the_vocabulary_is_the_encoders():
    from experiments.training.tokens import learn

    text = ["the thing that they think " * 30]
    vocabulary, merges = learn(text)
    known, _ = tiny_vocabulary()
    assert list(vocabulary)[:256] == list(known)[:256]
    assert vocabulary["<|endoftext|>"] == len(vocabulary) - 1 == 256 + len(merges)


def test_a_run_with_another_start_or_other_samples_is_another_run(folder, tmp_path, monkeypatch):
    from experiments.training import tokens, train

    monkeypatch.setattr(tokens, "digest", lambda *arguments: "text")
    places = train.Places("", str(folder.parent), str(tmp_path))
    samples = places.samples(folder)

    def origin(written):
        begun = train.fingerprint(folder)
        return places.schedule(9, 1e-2, folder, written=written, start=begun).origin

    samples.write_bytes(b"one")
    before = origin(True), origin(False)
    samples.write_bytes(b"two")
    assert origin(True) != before[0] and origin(False) == before[1]
    with (folder / "model.safetensors").open("ab") as weights:
        weights.write(b"\0")
    assert origin(False) != before[1]


def test_a_run_that_replaced_its_start_can_go_on(tmp_path):
    path, model = tmp_path / "run.pt", torch.nn.Linear(2, 2)
    schedule = lambda start: training.Schedule(9, 1e-2, 1, {"start": start})
    training.Run(model, path, schedule("before")).save(9)
    training.go_on_from(path, "after")
    assert training.Run(model, path, schedule("after")).first == 9
    with pytest.raises(InputError, match="start 'after', not 'before'"):
        training.Run(model, path, schedule("before"))


def test_samples_go_on_where_they_were_interrupted(folder, tmp_path, monkeypatch):
    from experiments.training import distillation, tokens, train

    monkeypatch.setattr(distillation, "N_PROMPT", 4)
    monkeypatch.setattr(distillation, "N_WRITTEN", 9)
    ids = np.random.default_rng(0).integers(0, TINY.n_vocab, 500).astype(np.uint16)
    monkeypatch.setattr(train.Places, "token_ids", lambda *arguments: ids)
    monkeypatch.setattr(tokens, "digest", lambda *arguments: "text")
    places = [train.Places("", str(folder.parent), str(tmp_path / name), 3) for name in "ab"]
    for each in places:
        (tmp_path / each.cache_dir).mkdir()
    train.samples(places[0], "17M", n_batches=4, batch_size=2)

    write = distillation.written_batch

    def interrupted(model, ids, seed, batch, batch_size):
        if batch == 2:
            raise KeyboardInterrupt
        return write(model, ids, seed, batch, batch_size)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(distillation, "written_batch", interrupted)
        train.samples(places[1], "17M", n_batches=4, batch_size=2)
    assert not places[1].samples(folder).exists()
    train.samples(places[1], "17M", n_batches=4, batch_size=2)
    whole, resumed = (np.load(each.samples(folder)) for each in places)
    assert whole.shape == (8, 10) and np.array_equal(whole, resumed)
    assert list((tmp_path / "b").iterdir()) == [places[1].samples(folder)]
    # a text is what the model writes: greedily in the first batch
    model = utils.load_model(folder, NUMPY)
    for row in whole[:2].tolist():
        for end in range(4, 10):
            assert model.read(row[:end], model.new_cache())[0].argmax() == row[end]
    # with other weights, the target would have written something else
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\0\0\0")
    assert not places[1].samples(folder).exists()
