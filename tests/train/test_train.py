"""What is trained in PyTorch is what runs in NumPy: models and heads, before and after the disk."""

import errno
import json
import re
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from command_line import END, ROOT
from toys import TINY, load_model, refusal, write_checkpoint, write_pair

from checkpoints.checksum import sha256_of
from checkpoints.folder import read_config, weights_files
from checkpoints.registry import MODELS_DIR
from checkpoints.tokenizer import load_encoder
from cli import command
from decoding.decode import load_pair
from decoding.heads import load_head
from encoder import END_OF_TEXT

for package in ("torch", "transformers", "safetensors", "tokenizers"):
    pytest.importorskip(package)

import tokenizers  # noqa: E402
import torch  # noqa: E402

from train import files, learning, run, students, texts, train  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.* is enough for")  # fewer tokens, as it is short
IDS = [3, 1, 4, 1, 5, 9, 2, 6, 5]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    torch.set_float32_matmul_precision("highest")
    for module, name, value in (
        (train, "N_CTX", TINY.n_ctx),
        (train, "N_MARKED", 2),
        (texts, "OPENING", 4),
        (learning, "OPENING", 4),
    ):
        monkeypatch.setattr(module, name, value)


def lively(module):
    """Random parameters large enough to make a difference, which float16 can tell."""
    torch.manual_seed(3)
    for p in module.parameters():
        p.data = (0.3 * torch.randn(p.shape)).half().float()
    return module


@pytest.fixture
def folder(tmp_path):
    folder = write_checkpoint(tmp_path / "17M")
    files.write_model(lively(students.GPT2(TINY)), folder, folder)
    return folder


def read_teacher(folder):
    return students.GPT2(*files.read_model(folder)).requires_grad_(False)


@torch.no_grad()
@pytest.mark.parametrize("exact_gelu", [False, True])
def test_a_model_is_the_same_in_numpy(folder, exact_gelu):
    config = read_config(folder)
    assert config == TINY
    config = replace(config, exact_gelu=exact_gelu)
    files.write_model(lively(students.GPT2(config)), folder, folder)
    assert read_config(folder) == config
    model, teacher = load_model(folder), read_teacher(folder)
    found = model.read(IDS, model.new_cache(), n_last=len(IDS))
    expected = teacher.lm_head(teacher.hidden(torch.tensor([IDS])))[0]
    assert np.allclose(found, expected, atol=1e-3)


HEADS = {  # how it is made, and how many guesses there are of a text
    "eagle": (lambda: students.Eagle(TINY, 8, 4), 9 + 8 + 7 + 6),
    "medusa": (lambda: students.Medusa(TINY, 3), 8 + 7 + 6),
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
    make, n_guesses = HEADS[name]
    head = lively(make())
    files.write_student(files.Student(name, head, ""), folder, folder)
    target = load_model(folder)
    stored = load_head(name, folder, target)
    teacher, ids = read_teacher(folder), torch.tensor([IDS])
    # training guesses on a whole text at once
    guesses = head.draft_logits(ids, teacher.hidden(ids), teacher)
    for place, (first, logits) in enumerate(guesses):
        for i, row in enumerate(logits[0].numpy(), first):
            n_text = i + 1 - place  # the draft began after this many tokens
            assert np.allclose(last_logits(target, stored, n_text, IDS[: i + 1]), row, atol=1e-3)
            n_guesses -= 1
    assert n_guesses == 0


# ---------------------------------------------------------------- texts


def numbers(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_teacher_writes_what_the_model_in_numpy_writes(folder):
    model, openings = load_model(folder), torch.tensor([IDS[:4], IDS[4:8]])
    teacher = read_teacher(folder)
    greedy = texts.continued(teacher, openings, 9)
    sampled, rng = texts.continued(teacher, openings, 9, numbers()), numbers()
    assert torch.equal(sampled[:, :4], openings) and not torch.equal(sampled, greedy)
    for end in range(4, 9):
        noise = -torch.empty(2, TINY.n_vocab).exponential_(generator=rng).log()
        for text, added in ((greedy, 0 * noise), (sampled, noise)):
            for row, by in zip(text.tolist(), added.numpy()):
                assert (model.read(row[:end], model.new_cache())[0] + by).argmax() == row[end]


def test_a_step_reads_books_and_what_the_teacher_wrote(folder, monkeypatch):
    """Of 600 tokens, in a context of 24: 17 texts that fill it, 5 of books, and 17 half as long."""
    wrote = []

    def written(teacher, openings, n_seq, rng=None):
        wrote.append((len(openings), n_seq, rng is None))
        return torch.full((len(openings), n_seq), 2 + len(wrote))

    monkeypatch.setattr(texts, "continued", written)
    lesson = partial(texts.steps_of_teacher, read_teacher(folder), torch.ones(99).long(), 600, 1)
    steps = [*lesson(0, 8)]
    assert wrote == [(12 * 8 / 4, 24, False), (17 * 8 / 4, 12, True)]
    for long, short in steps:
        assert long.shape == (17, 24) and long[:, 0].tolist() == 12 * [3] + 5 * [1]
        assert short.shape == (17, 12) and (short == 4).all()


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
    assert torch.allclose(moved(learning.Muon), expected, atol=1e-5)


def test_the_learning_rate_rises_and_falls():
    assert [learning.rate_at(step, 100) for step in (0, 20, 70, 99)] == [0.5, 1, 0.5, 1 / 60]


@pytest.fixture
def learn(folder, tmp_path):
    """Let students learn for 24 steps on a text that repeats; end: of the steps before Ctrl-C."""
    books = torch.from_numpy(np.resize(np.random.default_rng(0).integers(0, TINY.n_vocab, 40), 999))
    teacher = read_teacher(folder)
    make = {name: make for name, (make, *_) in HEADS.items()}
    make["model"] = lambda: students.GPT2(TINY)

    def learned(where, *names, end=None):
        learners, seen = [], []
        for name in names:
            torch.manual_seed(0)
            learners.append(files.Student(name, make[name](), "by total variation"))

        def losses(ids, progress):
            if len(seen) == end:
                raise KeyboardInterrupt
            found = [*learning.losses_of_drafts(teacher, learners, ids, progress)]
            seen.append(sum(found).item())
            return found

        lesson = partial(texts.steps_of_books, books, 96, 24, 1)
        models = [learner.module for learner in learners]
        rates, exam = [3e-2] * len(models), lambda: ""
        run.train(tmp_path / where, {"seed": 1}, models, rates, lesson, losses, exam, 24)
        return seen, [[*model.parameters()] for model in models]

    return learned


def same(a, b):
    return all(map(torch.equal, chain(*a), chain(*b)))


@pytest.mark.parametrize("name", [*HEADS, "model"])
def test_a_run_lowers_the_loss_and_resumes(learn, monkeypatch, name):
    """Interrupted after its checkpoint and started again, it ends where it would have ended."""
    monkeypatch.setattr(run, "ROUND", 10)
    seen, whole = learn("whole", name)
    assert sum(seen[-6:]) < sum(seen[:6])
    with pytest.raises(KeyboardInterrupt):
        learn("part", name, end=15)
    seen, rest = learn("part", name)
    assert len(seen) == 14 and same(whole, rest)


def test_students_of_one_run_learn_as_each_does_alone(learn):
    (_, together), (_, head), (_, model) = (
        learn("".join(names), *names) for names in (["eagle", "model"], ["eagle"], ["model"])
    )
    assert same(together, head + model)


# ---------------------------------------------------------------- commands


@pytest.fixture
def places(folder, tmp_path):
    """The words of a corpus and of a folder for a result, for short texts."""
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for split in ("train", "valid"):
        (corpus / f"a_{split}.txt").write_text("the thing that they think " * 200)
    return str(corpus), str(tmp_path / "made")


def words_of(tmp_path):
    """{flag: value} of the commands target and distil, for one short step."""
    return {
        "target": {"vocabulary": str(tmp_path / "17M"), "shape": "1x64", "steps": 1},
        "distil": {"target_model_size": str(tmp_path / "17M"), "students": "1x32", "steps": 1},
    }


def test_texts_are_cut_with_the_vocabulary_of_a_folder(places, folder):
    encoder, path = load_encoder(folder), Path(places[0]) / "a_train.txt"
    read = partial(texts.read_ids, places[0], "train", folder, 25)
    assert read().tolist() == [*encoder.encode(path.read_text()), encoder.end_of_text]
    path.write_text("short")
    with pytest.raises(ValueError, match="expected at least 25"):
        read()


def test_a_target_is_trained_and_drafts_and_heads_learn_from_it(places, tmp_path, capsys):
    """As models/README.md does it: from nothing, then on from what was learned."""
    corpus, _ = places
    words, size, drafts, more = (str(tmp_path / name) for name in ("words", "big", "a", "b"))
    with pytest.warns(UserWarning, match="corpus: is enough for 2.. tokens, not 2048"):
        train.tokenizer(corpus, words)
    encoder = load_encoder(Path(words))
    n_merges = len(Path(words, "merges.txt").read_text().splitlines()) - 1
    assert encoder.end_of_text == encoder.n_vocab - 1 == 256 + n_merges
    train.target(corpus, size, vocabulary=words, shape="2x64", steps=2)
    expected = {"n_vocab": encoder.n_vocab, "n_ctx": 24, "n_embd": 64, "n_head": 1, "n_layer": 2}
    assert vars(read_config(Path(size))).items() >= expected.items()
    few = {"target_model_size": size, "steps": 2, "tokens_per_step": 96}
    train.distil(corpus, drafts, students="1x32,2x64,eagle,medusa", **few)
    trained = f"{drafts}/1x32,{drafts}/eagle.safetensors,1x64"
    train.distil(corpus, more, students=trained, **few)
    out = capsys.readouterr().out
    said = re.findall(r"(\w+) (\d\.\d{3}) (\d\.\d{3})", out)
    assert len(said) == 7
    for kind in ("eagle", "medusa"):
        path = Path(more if kind == "eagle" else drafts, f"{kind}.safetensors")
        Path(size, path.name).write_bytes(path.read_bytes())
    for draft in (f"{drafts}/1x32", f"{drafts}/2x64", f"{more}/1x32", "eagle", "medusa"):
        load_pair(size, draft, MODELS_DIR)


def test_a_finished_run_goes_on_with_more_steps(places, tmp_path, monkeypatch):
    steps, rate_at = [], run.rate_at
    monkeypatch.setattr(run, "rate_at", lambda step, of: steps.append(step) or rate_at(step, of))
    flags = words_of(tmp_path)["target"]
    results = []
    for n in (2, 3, 3):
        train.target(*places, **flags | {"steps": n})
        results.append(Path(places[1], "model.safetensors").read_bytes())
    assert steps == [0, 1, 2] and results[0] != results[1] == results[2]
    said = refusal(partial(train.target, *places, **flags | {"steps": 2}))
    assert said == f"--steps 2: {places[1]} has taken 3; give as many or more"


def test_a_vocabulary_in_one_file_comes_with_the_model(places, folder, tmp_path):
    vocabulary = [folder / "vocab.json", folder / "merges.txt"]
    expected = load_encoder(folder)
    tokenizers.ByteLevelBPETokenizer(*map(str, vocabulary)).save(str(folder / "tokenizer.json"))
    for path in vocabulary:
        path.unlink()
    train.target(*places, **words_of(tmp_path)["target"])
    assert load_encoder(tmp_path / "made") == load_encoder(folder) == expected


def test_the_tokens_that_a_folder_lists_come_with_the_model(places, folder, tmp_path):
    (folder / "special_tokens_map.json").write_text(json.dumps({"eos_token": END_OF_TEXT}))
    train.target(*places, **words_of(tmp_path)["target"])
    ids = load_encoder(folder).encode(f"a {END_OF_TEXT}")
    assert ids[-1] == END and load_encoder(tmp_path / "made").encode(f"a {END_OF_TEXT}") == ids


def change_weights(model):
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")


CHANGES = {  # what is said: change(folder of all, flags)
    "students ['q ": lambda folder, flags: change_weights(folder / "q"),
    "target '": lambda folder, flags: change_weights(folder / "17M"),
    "texts '": lambda folder, flags: (folder / "corpus" / "a_train.txt").write_text("she " * 2000),
    "seed 1, not 2": lambda folder, flags: flags.update(seed=2),
    "not ['1x32 ']": lambda folder, flags: flags.update(students="1x32"),
}


@pytest.mark.parametrize("said", CHANGES)
def test_a_run_of_other_weights_texts_or_flags_is_not_resumed(places, tmp_path, said):
    """A model is told by its weights, whatever its name."""
    start = tmp_path / "q"
    files.write_model(students.GPT2(TINY), start, tmp_path / "17M")
    flags = words_of(tmp_path)["distil"] | {"students": str(start)}
    train.distil(*places, **flags)
    before = sha256_of([tmp_path / "made" / "q" / "model.safetensors"])
    CHANGES[said](tmp_path, flags)
    with pytest.raises(ValueError, match=re.escape(said)) as raised:
        train.distil(*places, **flags | {"steps": 2})
    assert "its run has" in str(raised.value) and "give a new folder" in str(raised.value)
    assert sha256_of([tmp_path / "made" / "q" / "model.safetensors"]) == before


def test_a_run_that_keeps_one_setting_more_is_not_resumed(tmp_path):
    run.save(tmp_path, 1, {"seed": 1, "books": 2}, [])
    with pytest.raises(ValueError, match="its run has books 2, not None"):
        run.resume(tmp_path, {"seed": 1}, [])


@pytest.mark.parametrize("name", ["tokenizer", "target", "distil"])
@pytest.mark.parametrize("where", ["a folder", "a file", "17M", "7M"])
def test_nothing_is_overwritten(places, tmp_path, name, where):
    """Neither what someone has, nor what ships."""
    path = tmp_path / "17M" if "a f" in where else Path(MODELS_DIR, where)
    path = path / "vocab.json" if where == "a file" else path
    before = sha256_of([*weights_files(path), path / "vocab.json"]) if path.is_dir() else None
    with pytest.raises(ValueError, match="is there already, and no run to resume"):
        getattr(train, name)(places[0], str(path), **words_of(tmp_path).get(name, {}))
    assert not before or sha256_of([*weights_files(path), path / "vocab.json"]) == before


def test_a_vocabulary_does_not_replace_that_of_a_run(places, tmp_path):
    train.target(*places, **words_of(tmp_path)["target"])
    before = (tmp_path / "made" / "vocab.json").read_bytes()
    with pytest.raises(ValueError, match="is there already; give a new folder"):
        train.tokenizer(*places)
    assert (tmp_path / "made" / "vocab.json").read_bytes() == before


@pytest.mark.parametrize("damaged", [b"", b"hello", "cut", "empty"])
def test_a_damaged_checkpoint_is_named(places, tmp_path, damaged):
    flags = words_of(tmp_path)["target"]
    train.target(*places, **flags)
    checkpoint = tmp_path / "made" / "training.pt"
    if damaged == "empty":
        saved = torch.load(checkpoint, weights_only=True)
        torch.save(saved | {"states": []}, checkpoint)
    else:
        whole = checkpoint.read_bytes()
        checkpoint.write_bytes(whole[: len(whole) // 2] if damaged == "cut" else damaged)
    with pytest.raises(ValueError, match=f"{checkpoint.name}: .*; delete it, and the run"):
        train.target(*places, **flags | {"steps": 2})


def test_where_the_disk_is_full_what_was_there_stays(places, tmp_path, monkeypatch):
    flags = words_of(tmp_path)["target"]
    train.target(*places, **flags)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def full(path, data):
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    for again in (
        partial(train.tokenizer, places[0], str(tmp_path / "t")),
        partial(train.target, *places, **flags | {"steps": 2}),
        partial(files.write_model, students.GPT2(TINY), tmp_path / "made", tmp_path / "17M"),
    ):
        with pytest.raises(OSError, match="No space") as raised:
            again()
        assert raised.value.filename
    monkeypatch.undo()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name, flags, said", [
    ("distil", {"steps": 0}, "--steps 0: expected 1 or more"),
    ("distil", {"learning_rate": 1.0}, "--learning_rate 1.0: expected more than 0"),
    ("distil", {"students": "1x33"}, "'1x33': expected layers x width, a multiple of 32"),
    ("distil", {"students": "1x32,1x32"}, "--students 1x32,1x32: expected names that differ"),
    ("distil", {"students": "nosuch"}, "no model 'nosuch'"),
    ("distil", {"students": "nosuch/eagle.safetensors"}, "nosuch/eagle.safetensors"),
    ("distil", {"seed": -1}, "seed -1: expected 0 or more"),
    ("target", {"shape": "0x64"}, "'0x64': expected layers x width, a multiple of 64"),
    ("target", {"shape": "8by64"}, "'8by64': expected layers x width"),
    ("target", {"device": "cuda"}, "--device cuda: torch finds no GPU"),
    ("target", {}, "bad_train.txt: expected UTF-8"),
])  # fmt: skip
def test_what_cannot_be_trained_is_one_line(places, tmp_path, monkeypatch, name, flags, said):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (tmp_path / "corpus" / "bad_train.txt").write_bytes(b"\xff")
    with pytest.raises((ValueError, OSError), match=re.escape(said)):
        getattr(train, name)(*places, **words_of(tmp_path)[name] | flags)


@pytest.mark.parametrize("width", [32 * 10**8, 32 * 10**19])
def test_a_model_too_large_for_memory_is_one_line(places, capsys, width):
    """As transformers makes its weights: torch has errors of its own for what memory lacks."""
    assert command.run(["distil", *places, "--students", f"1x{width}"], train.COMMANDS) == 2
    assert re.match("error: not enough memory for .*\\n$", capsys.readouterr().err)


def test_a_folder_that_cannot_be_made_is_told_before_the_work(places, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "move", lambda *arguments: pytest.fail("it has worked"))
    path = tmp_path / "file" / "made"
    path.parent.write_text("")
    with pytest.raises(OSError, match="made"):
        train.target(places[0], str(path), **words_of(tmp_path)["target"])


def test_a_part_of_a_first_checkpoint_does_not_block_a_folder(tmp_path):
    (tmp_path / "training.part").write_text("")
    assert run.run_folder(str(tmp_path)) == tmp_path


def test_students_that_cannot_read_the_teachers_texts_are_refused(places, tmp_path):
    write_checkpoint(tmp_path / "short", replace(TINY, n_ctx=TINY.n_ctx - 1))
    write_pair(tmp_path, TINY)
    flags = words_of(tmp_path)["distil"]
    for name, said in (
        ("short", "short: a context of 23 tokens, expected 24"),
        ("other words", "other words: expected the vocabulary of 17M"),
    ):
        with pytest.raises(ValueError, match=said):
            train.distil(*places, **flags | {"students": str(tmp_path / name)})


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT to send")
def test_ctrl_c_while_modules_load_is_no_traceback():
    words = [sys.executable, "-X", "importtime", "-m", "train.train", "--help"]
    with subprocess.Popen(words, stdout=-1, stderr=-1, text=True, cwd=ROOT) as loading:
        next(line for line in loading.stderr if "before_numpy" in line)  # torch is next
        loading.send_signal(signal.SIGINT)
        assert "Traceback" not in loading.communicate()[1]
    assert loading.returncode == -signal.SIGINT


def test_help_names_the_commands(capsys):
    assert command.run(["--help"], train.COMMANDS) == 0
    page = capsys.readouterr().out
    assert all(name in page for name in train.COMMANDS)


def test_one_line_where_a_package_is_missing():
    code = "import sys; sys.modules['torch'] = None; import train.train"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    expected = "error: training needs torch: pip install --group train, with pip 25.1 or newer\n"
    assert (done.returncode, done.stderr) == (2, expected)
