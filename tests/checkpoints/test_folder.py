"""Folders of every kind: in several files, incomplete, too large for the memory; what the check
command says; 124M itself.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from make_tf_fixture import FOLDER as TF
from toys import NUMPY, TINY, random_tensors, write_checkpoint, write_safetensors

import checkpoints
import main
import utils
from backends import memory
from checkpoints import doctor
from checkpoints.folder import weights_path
from encoder import Encoder
from gpt2 import Config
from sampling import Filter, autoregressive

ROOT = Path(utils.__file__).resolve().parent
REAL = Path(utils.MODELS_DIR) / "124M"
GOLDEN = ROOT.parent / "shared" / "golden" / "gpt2_124M_golden.npz"
needs_124M = pytest.mark.skipif(
    bool(checkpoints.missing_files(REAL)), reason="there is no models/124M: download 124M"
)


@pytest.fixture
def folder(tmp_path):
    return write_checkpoint(tmp_path / "model")


# ---------------------------------------------------------------- weights in several files, and in none that is opened


@pytest.fixture
def sharded(folder):
    tensors = random_tensors(TINY)
    where = {name: f"model-0000{1 + i % 3}-of-00003.safetensors" for i, name in enumerate(tensors)}
    for file in set(where.values()):
        write_safetensors(
            folder / file, {name: tensors[name] for name in tensors if where[name] == file}
        )
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": 1}, "weight_map": where})
    )
    (folder / "model.safetensors").unlink()
    return folder


def test_a_model_in_several_files(sharded):
    assert checkpoints.missing_files(sharded) == []
    found = checkpoints.open_weights(sharded, TINY)
    for name, array in random_tensors(TINY).items():
        np.testing.assert_array_equal(found[name].read(np.float32), array)


def test_a_shard_that_is_missing(sharded):
    (sharded / "model-00002-of-00003.safetensors").unlink()
    assert checkpoints.missing_files(sharded) == ["model-00002-of-00003.safetensors"]
    with pytest.raises(utils.InputError, match="model-00002-of-00003.safetensors: is missing"):
        utils.load_model(sharded, NUMPY)


@pytest.mark.parametrize("index, said", [
    ({}, "expected a weight_map"),
    ({"weight_map": ["a.safetensors"]}, "expected a weight_map"),
    ({"weight_map": {"wte.weight": 3}}, "expected a weight_map"),
    ({"weight_map": {"wte.weight": "pytorch_model.bin"}}, "expected a weight_map"),
    ({"weight_map": {"wte.weight": "/etc/x.safetensors"}}, "expected a weight_map"),
    ({"weight_map": {"wte.weight": "..\\x.safetensors"}}, "expected a weight_map"),
    ({"weight_map": {"wte.weight": "model-00001-of-00003.safetensors"}}, "does not hold the tensors"),
])  # fmt: skip
def test_an_index_of_shards_that_is_wrong(sharded, index, said):
    (sharded / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(utils.InputError, match=said):
        utils.load_model(sharded, NUMPY)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model.bin.index.json"])
def test_a_pickle_is_never_opened(folder, name, monkeypatch):
    (folder / "model.safetensors").rename(folder / name)
    monkeypatch.setattr("pickle.load", None), monkeypatch.setattr("pickle.Unpickler", None)
    with pytest.raises(utils.InputError, match="is a pickle, .*; convert it") as refused:
        utils.load_model(folder, NUMPY)
    assert "\n" not in str(refused.value) and str(folder / name) in str(refused.value)


def test_a_folder_of_safetensors_comes_before_openais(folder):
    for path in TF.glob("model.ckpt.*"):
        shutil.copy(path, folder)
    assert weights_path(folder).name == "model.safetensors"


# ---------------------------------------------------------------- memory


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="no /proc on this system")
@pytest.mark.parametrize("kernels", ["plain", "64x2", "auto"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_loading_takes_little_more_memory_than_the_weights(tmp_path, kernels, dtype):
    """At its peak, 1.25 times: one tensor at a time is there twice, and its pages in the file count
    as well.
    """
    config = Config(6000, 64, 512, 8, 6)
    write_checkpoint(tmp_path / "m", config, random_tensors(config, dtype=dtype))
    script = f"""
import backends.blas, math, pathlib, utils
read = lambda name: next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(name))
before = read("VmRSS")
model = utils.load_model(pathlib.Path({str(tmp_path / "m")!r}), utils.get_backend("numpy", {kernels!r}))
print((read("VmHWM") - before) / (4 * sum(map(math.prod, model.config.shapes().values()))))
"""
    # one, of this process
    mine = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=mine,
        capture_output=True,
        text=True,
        check=True,
    )
    assert 0.9 < float(done.stdout) < 1.25


def fake_linux(tmp_path, monkeypatch, files):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "cg")


MACHINES = {  # what the system's files say: how many bytes a process may take
    "nothing": ({}, float("inf")),
    "a machine": ({"proc/meminfo": "MemTotal: 16 kB\nMemAvailable:    8 kB\n"}, 8192),
    "no limit": ({"proc/meminfo": "MemAvailable: 8 kB\n", "proc/self/cgroup": "0::/\n", "cg/memory.max": "max\n"}, 8192),
    "a limit": ({"proc/meminfo": "MemAvailable: 8 kB\n", "proc/self/cgroup": "0::/\n", "cg/memory.max": "5000\n",
                 "cg/memory.current": "3000\n", "cg/memory.stat": "anon 7\ninactive_file 1000\n"}, 3000),
    "a limit above": ({"proc/self/cgroup": "0::/a/b\n", "cg/a/memory.max": "5000\n", "cg/a/memory.current": "4000\n",
                       "cg/a/b/memory.max": "9000\n", "cg/a/b/memory.current": "10\n"}, 1000),
    "version 1": ({"proc/self/cgroup": "5:cpu:/x\n4:hugetlb,memory:/x\n", "cg/memory/x/memory.limit_in_bytes": "5000\n",
                   "cg/memory/x/memory.usage_in_bytes": "3000\n"}, 2000),
    "another root": ({"proc/self/cgroup": "0::/../../elsewhere\n", "proc/meminfo": "MemAvailable: 8 kB\n"}, 8192),
}  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES)
def test_how_much_memory_there_is(tmp_path, monkeypatch, machine):
    files, expected = MACHINES[machine]
    fake_linux(tmp_path, monkeypatch, files)
    assert memory.available() == expected


def test_what_cannot_fit_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 7e9)
    with pytest.raises(utils.InputError, match=r"need 7\.\d GB of memory, 7\.0 GB are available"):
        utils.require_memory([utils.SIZES["1558M"], utils.SIZES["124M"]], NUMPY)
    utils.require_memory([utils.SIZES["774M"]], NUMPY)


@pytest.mark.parametrize("n_texts", [3000, 10**22, 10**400])
def test_texts_together_are_weighed_by_their_caches(monkeypatch, n_texts):
    config = utils.SIZES["124M"]  # a cache of 75 MB
    monkeypatch.setattr(memory, "available", lambda: 7e9)
    utils.require_caches([config], NUMPY, 90)
    utils.require_memory([config], NUMPY, n_texts=80)
    with pytest.raises(utils.InputError, match="7.0 GB are available; use a smaller --batch_size"):
        utils.require_caches([config], NUMPY, n_texts)
    with pytest.raises(utils.InputError, match="7.0 GB are available; use a smaller model"):
        utils.require_memory([config], NUMPY, n_texts=n_texts)


def test_random_weights_are_weighed_before_they_are_sampled(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 6e9)
    monkeypatch.setattr(np.random, "default_rng", None)
    with pytest.raises(utils.InputError, match=r"need 6\.\d GB of memory, 6\.0 GB are available"):
        utils.random_model(utils.SIZES["1558M"], NUMPY)


def test_a_pair_is_weighed_together(folder, tmp_path, monkeypatch):
    one = (
        4 * sum(int(np.prod(shape)) for shape in TINY.shapes().values())
        + 8 * TINY.n_layer * TINY.n_ctx * TINY.n_embd
    )
    monkeypatch.setattr(memory, "available", lambda: 1.9 * one)
    utils.load_pair("model", None, tmp_path, NUMPY)
    monkeypatch.setattr(utils, "build_model", None)  # nothing is read
    with pytest.raises(utils.InputError, match="smaller model"):
        utils.load_pair("model", "model", tmp_path, NUMPY)


# ---------------------------------------------------------------- the check command


@pytest.fixture
def check(capsys, tmp_path):
    """A function (*words) -> code, out, err of python main.py check."""

    def check(*words):
        try:
            code = main.main(["check", f"--models_dir={tmp_path}", *map(str, words)])
        except SystemExit as stop:
            code = stop.code
        out, err = capsys.readouterr()
        return SimpleNamespace(code=code, out=out, err=err)

    return check


def test_a_folder_that_is_well(check, folder):
    done = check("model")
    assert done.code == 0 and done.err == "" and done.out.endswith("\nAll is well.\n")
    for name, shape in TINY.shapes().items():
        assert re.search(
            rf"(?m)^{re.escape(name)} +{' x '.join(map(str, shape))} +float32 +none stated +-?0",
            done.out,
        )


def test_a_folder_of_openais(check):
    done = check(TF, "--json")
    report = json.loads(done.out)
    assert (
        done.code == 0
        and report["well"]
        and report["vocabulary"] == 259
        and len(report["tensors"]) == 16
    )
    assert {found["checksum"] for found in report["tensors"]} == {"right"}


def test_padding_that_is_not_zero_is_a_warning(check, tmp_path):
    folder = shutil.copytree(TF, tmp_path / "model")
    assert "warning" not in check("model").out
    raw = bytearray((folder / "model.ckpt.index").read_bytes())
    raw[-9] = 1
    (folder / "model.ckpt.index").write_bytes(raw)
    done, report = check("model"), json.loads(check("model", "--json").out)
    assert done.code == 0 and "\n1 warning:\n" in done.out and "All is well." in done.out
    assert report["well"] and report["problems"] == []
    (warning,) = report["warnings"]
    assert str(folder / "model.ckpt.index") in warning and "1 bytes of its padding" in warning


def damage_tensor(folder):
    raw = bytearray((folder / "model.ckpt.data-00000-of-00001").read_bytes())
    raw[100] ^= 1
    (folder / "model.ckpt.data-00000-of-00001").write_bytes(raw)


def rewrite(name, change):
    def damage(folder):
        (folder / name).write_text(change((folder / name).read_text()))

    return damage


DAMAGES = {  # what is said: how to get there
    "do not match their checksum": damage_tensor,
    "lacks the tensor h.1": rewrite(
        "hparams.json", lambda text: text.replace('"n_layer": 1', '"n_layer": 2')
    ),
    "the model has 260 tokens": rewrite("hparams.json", lambda text: text.replace("259", "260")),
    "cannot be read as JSON": rewrite("encoder.json", lambda text: text[:-5]),
    "has no vocab.json or encoder.json": lambda folder: (folder / "encoder.json").unlink(),
    "has no model.ckpt.data": lambda folder: (folder / "model.ckpt.data-00000-of-00001").unlink(),
    "damaged": lambda folder: (folder / "model.ckpt.index").write_bytes(b"no"),
    "has shape": rewrite("hparams.json", lambda text: text.replace('"n_ctx": 4', '"n_ctx": 5')),
}


@pytest.mark.parametrize("said", DAMAGES)
def test_a_folder_that_is_not_well(check, tmp_path, said):
    folder = shutil.copytree(TF, tmp_path / "model")
    DAMAGES[said](folder)
    done, as_json = check("model"), check(folder, "--json")
    report = json.loads(as_json.out)
    assert done.code == as_json.code == 1 and done.err == as_json.err == ""
    assert "All is well" not in done.out and not report["well"]
    assert any(said in problem and str(folder) in problem for problem in report["problems"])
    assert all(problem in done.out and "\n" not in problem for problem in report["problems"])


@pytest.mark.parametrize(
    "change", [lambda array: 0 * array, lambda array: array + 9, lambda array: 1e4 * array]
)
def test_numbers_that_no_gpt2_has(check, tmp_path, change):
    tensors = random_tensors(TINY)
    write_checkpoint(
        tmp_path / "model",
        TINY,
        tensors | {"h.1.mlp.c_fc.weight": change(tensors["h.1.mlp.c_fc.weight"])},
    )
    done = check("model")
    assert (
        done.code == 1 and "h.1.mlp.c_fc.weight has mean" in done.out and "1 problem:" in done.out
    )


def test_a_file_that_is_not_what_was_downloaded(check, folder):
    said = {
        "url": "https://example.org/some/model/vocab.json",
        "etag": None,
        "size": None,
        "sha256": "0" * 64,
    }
    (folder / "download.json").write_text(json.dumps({"vocab.json": said}))
    done = check("model")
    assert done.code == 1 and "from https://example.org/some/model\n" in done.out
    assert f"{folder / 'vocab.json'}: is not the file that was downloaded" in done.out


def test_whether_two_can_pair(check, folder, tmp_path):
    other = write_checkpoint(tmp_path / "other", Config(259, 8, 8, 2, 1))
    assert "can pair" in check("model", "--against", "other").out
    vocabulary = json.loads((other / "vocab.json").read_text())
    vocabulary |= {"a": vocabulary["b"], "b": vocabulary["a"]}
    (other / "vocab.json").write_text(json.dumps(vocabulary))
    done = check("model", "--against", "other")
    assert done.code == 1 and "different vocabularies" in done.out


@pytest.mark.parametrize(
    "words, said", [([], "not 0"), (["a", "b"], "--against"), (["nowhere"], "no model 'nowhere'")]
)
def test_words_that_are_no_check(check, folder, words, said):
    done = check(*words)
    assert done.code == 2 and done.out == "" and said in done.err and done.err.count("\n") == 1


def test_the_embedded_pair_is_well(capsys):
    for size in ("7M", "0.7M"):
        if not (Path(utils.MODELS_DIR) / size / "model.safetensors").is_file():
            pytest.skip("the embedded pair of models is not there")
        assert main.main(["check", size]) == 0


@pytest.mark.parametrize("name, code", [("124M", 1), ("mine", 0)])
def test_weights_of_124Ms_shape_that_are_others(check, tmp_path, monkeypatch, name, code):
    """Under OpenAI's name that is wrong; under another it is somebody's own model. Here 124M is as
    small as TINY.
    """
    golden = [{"ids": [1, 2], "top": [5, 6, 7, 8, 9], "logits": [9, 8, 7, 6, 5]}]
    (tmp_path / "golden.json").write_text(json.dumps(golden))
    monkeypatch.setattr(doctor, "GOLDEN", tmp_path / "golden.json")
    monkeypatch.setitem(utils.SIZES, "124M", TINY)
    folder = write_checkpoint(tmp_path / name)
    done = check(name)
    assert done.code == code and "These are not the weights of OpenAI's 124M" in done.out
    model = utils.load_model(folder, NUMPY)
    golden[0]["logits"] = model.read([1, 2], model.new_cache())[0][5:10].tolist()
    (tmp_path / "golden.json").write_text(json.dumps(golden))
    done = check(name)
    assert (
        done.code == 0
        and "These are the weights of OpenAI's 124M" in done.out
        and "goes on with" in done.out
    )


def test_the_golden_logits_kept_here_are_those_of_the_whole_file():
    if not GOLDEN.is_file():
        pytest.skip("the golden logits of models/124M are not beside the repository")
    with np.load(GOLDEN) as whole:
        for i, one in enumerate(json.loads(doctor.GOLDEN.read_text())):
            assert one["ids"] == whole[f"ids{i}"].tolist()
            assert one["top"] == np.argsort(-whole[f"logits{i}"])[:5].tolist()
            np.testing.assert_allclose(one["logits"], whole[f"logits{i}"][one["top"]], atol=1e-4)


# ---------------------------------------------------------------- OpenAI's 124M


@pytest.fixture(scope="module")
def real():
    return utils.load_pair("124M", None, utils.MODELS_DIR, NUMPY)


@needs_124M
def test_124M_is_well(capsys):
    assert main.main(["check", "124M"]) == 0
    assert "These are the weights of OpenAI's 124M." in capsys.readouterr().out


@needs_124M
def test_the_greedy_text_of_124M(real):
    """What transformers' own tests expect after "The dog"."""
    expected = (
        "464 3290 373 1043 287 257 2214 1474 262 16246 286 2688 290 2688 27262 13 198 198 464 3290"
    )
    expected = [int(token) for token in expected.split()]
    rounds = autoregressive(real[0], expected[:2], 18, Filter(0.0), np.random.default_rng(0))
    assert expected[:2] + [int(token) for one in rounds for token in one.tokens] == expected


@needs_124M
def test_the_vocabulary_of_124M(real):
    assert isinstance(real[2], Encoder) and real[2].n_vocab == 50257
    assert real[2].encode("The dog") == [464, 3290]
