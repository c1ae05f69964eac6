"""Folders as they lie in public repositories: which load, with what note, and which are refused.

Each kind is a small model, written here byte by byte, and a change of its files. With transformers
installed, those that it loads are compared with it: logits, ids of prompts, greedy texts.
"""

import json
import shutil
import warnings

import numpy as np
import pytest
import torch_files
from edits import DTYPES, edit_header, edit_json, with_entry
from make_tf_fixture import FOLDER as TF
from toys import NUMPY, refusal, tiny_vocabulary, write_safetensors, write_shards

import utils
from gpt2 import Config
from sampling import Rng, SamplingParams, autoregressive, stop_condition

CONFIG = Config(n_vocab=259, n_ctx=32, n_embd=24, n_head=2, n_layer=2)
CONFIG_JSON = {
    "activation_function": "gelu_new",
    "architectures": ["GPT2LMHeadModel"],
    "eos_token_id": 258,
    "layer_norm_epsilon": 1e-5,
    "model_type": "gpt2",
    "n_embd": 24,
    "n_head": 2,
    "n_layer": 2,
    "n_positions": 32,
    "vocab_size": 259,
}
RNG = np.random.default_rng(0)
TENSORS = {
    f"transformer.{name}": RNG.normal(0, 0.3, shape).astype(np.float32)
    for name, shape in CONFIG.shapes().items()
}
WTE = TENSORS["transformer.wte.weight"]
PROMPTS = ["the other", "It's  1,000\n\nKäse 🙂", "then user_1 [PAD]the"]


# ---------------------------------------------------------------- changes of files


def config(**changes):
    return lambda folder: edit_json(folder / "config.json", lambda values: values | changes)


def write(name, content):
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return lambda folder: (folder / name).write_bytes(raw)


def settings(**values):
    return write("tokenizer_config.json", values)


def without(*names):
    return lambda folder: [(folder / name).unlink() for name in names]


def tensors(change, dtype="float32"):
    """Weights in safetensors: change(TENSORS), all of this dtype."""
    stored = {name: DTYPES[dtype](array) for name, array in change(dict(TENSORS)).items()}
    return lambda folder: write_safetensors(folder / "model.safetensors", stored)


def pytorch(change=dict, dtype="float32", old=False):
    """The same in a pytorch_model.bin, and no safetensors."""

    def edit(folder):
        stored = {name: DTYPES[dtype](array) for name, array in change(dict(TENSORS)).items()}
        torch_files.save(folder / "pytorch_model.bin", stored, old)
        (folder / "model.safetensors").unlink()

    return edit


def prefixed(prefix):
    def rename(stored):
        return {prefix + name: array for name, array in stored.items()}

    return rename


def more(**arrays):
    """Arrays besides, with __ for a point in their names."""
    return lambda stored: stored | {name.replace("__", "."): x for name, x in arrays.items()}


def rows(n):
    """n rows more in the embedding, and a config that says so."""
    padded = np.concatenate([WTE, RNG.normal(0, 0.01, (n, 24)).astype(np.float32)])

    def edit(folder):
        tensors(lambda stored: stored | {"transformer.wte.weight": padded})(folder)
        config(vocab_size=259 + n)(folder)

    return edit


def tokenizer(merges_as=list, added=(), **changes):
    """A tokenizer.json in the place of vocabulary and merges."""

    def edit(folder):
        vocabulary, merges = tiny_vocabulary()
        model = {"type": "BPE", "vocab": vocabulary, "merges": [*map(merges_as, merges)]}
        model |= {"dropout": None, "continuing_subword_prefix": "", "unk_token": None}
        plain = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
        flags = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
        end = {"id": 258, "content": "<|endoftext|>", "special": True} | flags
        tokens = [end, *(flags | {"special": False} | token for token in added)]
        values = {"version": "1.0", "added_tokens": tokens, "normalizer": None, "model": model}
        values |= {"pre_tokenizer": plain, "post_processor": plain, "decoder": plain} | changes
        write("tokenizer.json", values)(folder)
        write("tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})(folder)
        without("vocab.json", "merges.txt")(folder)

    return edit


def both(*edits):
    return lambda folder: [edit(folder) for edit in edits]


def shards_of_pytorch(folder):
    names = write_shards(folder, TENSORS)
    index = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    for name in names:
        own = {tensor: TENSORS[tensor] for tensor, file in index.items() if file == name}
        torch_files.save(folder / name.replace(".safetensors", ".bin"), own)
    index = {tensor: file.replace(".safetensors", ".bin") for tensor, file in index.items()}
    write("pytorch_model.bin.index.json", {"metadata": {}, "weight_map": index})(folder)
    without("model.safetensors", "model.safetensors.index.json", *names)(folder)


def openai(name):
    """OpenAI's files, with this name of the checkpoint, as gpt-2-simple leaves them."""

    def edit(folder):
        shutil.rmtree(folder)
        shutil.copytree(TF, folder)
        for path in folder.glob("model.ckpt.*"):
            path.rename(folder / path.name.replace("model.ckpt", name))
        shutil.copy(folder / f"{name}.index", folder / "model-1.index")  # of an earlier step
        write("checkpoint", f'model_checkpoint_path: "run1/{name}"\n'.encode())(folder)

    return edit


def only_the_head(stored):
    stored["lm_head.weight"] = stored.pop("transformer.wte.weight")
    return stored


def transposed(stored):
    """Some matrices as the views that tensor.t() makes."""
    views = {name: np.asfortranarray(x) for name, x in stored.items() if "mlp" in name}
    return stored | views


def tied(stored):
    """The embedding twice in one storage, and the masks of old versions."""
    mask = np.tril(np.ones((1, 1, 32, 32), np.uint8))
    masks = {f"transformer.h.{i}.attn.bias": mask for i in range(2)}
    return stored | masks | {"lm_head.weight": stored["transformer.wte.weight"]}


def vocabulary_with(*symbols):
    """These symbols behind the others, without a merge."""
    return lambda folder: edit_json(
        folder / "vocab.json", lambda ids: ids | {s: 259 + i for i, s in enumerate(symbols)}
    )


def windows(folder):
    for name, start in (("config.json", ""), ("vocab.json", ""), ("merges.txt", "")):
        raw = (folder / name).read_bytes().replace(b"\n", b"\r\n")
        (folder / name).write_bytes(b"\xef\xbb\xbf" + start.encode() + raw)


USER = {"id": 259, "content": "user_1"}
PAD = {"id": 260, "content": "[PAD]"}
LOADS = {  # {kind: change}
    "transformers 4": lambda folder: None,
    "float16": tensors(dict, "float16"),
    "bfloat16": tensors(dict, "bfloat16"),
    "float64": tensors(dict, "float64"),
    "openai-community/gpt2": tensors(
        lambda stored: {name.removeprefix("transformer."): x for name, x in stored.items()}
    ),
    "a head that claims to be untied": both(
        tensors(more(lm_head__weight=WTE)), config(tie_word_embeddings=False)
    ),
    "the embedding as head only": tensors(only_the_head),
    "causal masks": tensors(
        more(transformer__h__0__attn__masked_bias=np.float32([-1e4]))
    ),
    "two heads": tensors(more(multiple_choice_head__summary__bias=np.float32([1]))),
    "shards": lambda folder: [
        write_shards(folder, TENSORS),
        (folder / "model.safetensors").unlink(),
    ],
    "pytorch": pytorch(),
    "pytorch, old": pytorch(old=True),
    "pytorch, float16": pytorch(dtype="float16"),
    "pytorch, bfloat16": pytorch(dtype="bfloat16", old=True),
    "pytorch, shards": shards_of_pytorch,
    "pytorch, transposed views": pytorch(transposed),
    "pytorch, tied and masks": pytorch(tied),
    "pytorch, tied and masks, old": pytorch(tied, old=True),
    "a value head of reinforcement learning": pytorch(more(v_head__summary__bias=np.float32([1]))),
    "DataParallel": pytorch(prefixed("module.")),
    "torch.compile": tensors(prefixed("_orig_mod.")),
    "safetensors beside a damaged pickle": write("pytorch_model.bin", b"PK\3\4"),
    "OpenAI": openai("model.ckpt"),
    "gpt-2-simple": openai("model-1000"),
    "tokenizer.json, texts": tokenizer(" ".join),
    "tokenizer.json, pairs": tokenizer(),
    "tokenizer.json, added tokens": both(rows(2), tokenizer(added=[USER, PAD])),
    "tokenizer.json, an empty template": tokenizer(
        post_processor={
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": x, "type_id": i}} for i, x in enumerate("AB")],
            "special_tokens": {},
        }
    ),
    "added_tokens.json": both(rows(2), write("added_tokens.json", {"user_1": 259, "[PAD]": 260})),
    "added_tokens_decoder": both(
        rows(1),
        write("tokenizer_config.json", {"added_tokens_decoder": {"259": {"content": "[PAD]"}}}),
    ),
    "a padded embedding": rows(61),
    "a token without a row": write("added_tokens.json", {"[PAD]": 259}),
    "PAD in the vocabulary": both(
        rows(1), vocabulary_with("PAD"), write("special_tokens_map.json", {"pad_token": "PAD"})
    ),
    "ends of generation_config.json": both(
        write("generation_config.json", {"eos_token_id": [*range(0, 259, 3)]}),
        config(eos_token_id=1),
    ),
    "ends of config.json": config(eos_token_id=[*range(1, 259, 3)]),
    "one end": config(eos_token_id=220),
    "no end in generation_config.json": both(
        write("generation_config.json", {"do_sample": False}), config(eos_token_id=[*range(9, 90)])
    ),
    "an end that is null": both(
        write("generation_config.json", {"eos_token_id": None}), config(eos_token_id=[*range(99)])
    ),
    "tokenizer.json beside other merges": both(
        tokenizer(),
        write("vocab.json", tiny_vocabulary()[0]),
        write("merges.txt", b"#version: 0.2\n"),
    ),
    "tokens that begin alike": both(
        rows(3), write("added_tokens.json", {"user_1": 259, "user": 260, "[PAD]": 261})
    ),
    "n_ctx beside n_positions": config(n_ctx=16),
    "n_ctx null": config(n_ctx=None),
    "hidden_size": lambda folder: edit_json(
        folder / "config.json",
        lambda values: {
            {"n_embd": "hidden_size", "n_head": "num_attention_heads"}.get(name, name): value
            for name, value in values.items()
        },
    ),
    "the number of heads left out": lambda folder: edit_json(
        folder / "config.json", lambda values: {k: v for k, v in values.items() if k != "n_head"}
    ),
    "Megatron": config(activation_function="gelu_fast"),
    "the newer name of gelu": config(activation_function="gelu_pytorch_tanh"),
    "Cerebras": config(activation_function="gelu", n_inner=96, attn_pdrop=0.0),
    "Mistral of Stanford": config(
        scale_attn_by_inverse_layer_idx=True, reorder_and_upcast_attn=True
    ),
    "attention without its scale": config(scale_attn_weights=False),
    "both": config(scale_attn_weights=False, scale_attn_by_inverse_layer_idx=True),
    "pytorch-pretrained-bert": lambda folder: edit_json(
        folder / "config.json",
        lambda values: {k: v for k, v in values.items() if k not in ("model_type", "eos_token_id")},
    ),
    "what training leaves": both(
        write("training_args.bin", b"\x80"),
        write("optimizer.pt", b""),
        write("trainer_state.json", {}),
    ),
    "saved on Windows": windows,
}  # fmt: skip
NOTES = {
    "a padded embedding": "the last 61 rows",
    "a token without a row": "no row for the token '[PAD]'",
}
# transformers does not read these files, or these names
OURS_ONLY = {
    "DataParallel",
    "torch.compile",
    "OpenAI",
    "gpt-2-simple",
    "saved on Windows",
    "the embedding as head only",
}


# here, special tokens of the vocabulary, and those without a row, are text in a prompt
SPECIAL_IS_TEXT = {"PAD in the vocabulary", "a token without a row"}


@pytest.fixture
def build(tmp_path):
    """A function (change) -> the folder of the small model with this change."""

    def build(change):
        folder = tmp_path / "model"
        folder.mkdir()
        vocabulary, merges = tiny_vocabulary()
        write_safetensors(folder / "model.safetensors", TENSORS)
        write("config.json", CONFIG_JSON)(folder)
        write("vocab.json", vocabulary)(folder)
        lines = [f"{a} {b}\n" for a, b in merges]
        write("merges.txt", "".join(["#version: 0.2\n", *lines]).encode())(folder)
        change(folder)
        return folder

    return build


def load(folder):
    """(model, encoder, the notes)."""
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        (model,), encoder = utils.load_models([str(folder)], folder.parent, NUMPY)
    return model, encoder, " ".join(str(note.message) for note in notes)


@pytest.mark.parametrize("kind", LOADS)
def test_kinds_that_load(build, kind):
    model, encoder, notes = load(build(LOADS[kind]))
    assert NOTES.get(kind, "") in notes and bool(notes) == (kind in NOTES)
    assert model.config.n_vocab == encoder.n_vocab
    for prompt in PROMPTS:
        ids = encoder.encode(prompt)
        assert encoder.decode(ids) == prompt
        ids = ids[: model.config.n_ctx]  # of OpenAI's, 4
        assert np.isfinite(model.read(ids, model.new_cache())).all()


def greedy(model, encoder, ids, n):
    """At most n tokens after ids, up to the end of the text."""
    rounds = autoregressive(model, ids, n, SamplingParams(0.0), Rng(0), stop_condition(encoder))
    return [token for one in rounds for token in one.tokens]


@pytest.mark.oracle
@pytest.mark.parametrize("kind", [kind for kind in LOADS if kind not in OURS_ONLY])
def test_kinds_that_load_are_what_transformers_computes(build, kind):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    folder = build(LOADS[kind])
    model, encoder, _ = load(folder)
    theirs = transformers.GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float32).eval()
    of = transformers.GPT2Tokenizer if kind == "pytorch-pretrained-bert" else None
    their_encoder = (of or transformers.AutoTokenizer).from_pretrained(folder)
    n_vocab = model.config.n_vocab
    for prompt in PROMPTS[: 2 if kind in SPECIAL_IS_TEXT else 3]:
        ids = encoder.encode(prompt)
        assert their_encoder(prompt)["input_ids"] == ids
        with torch.no_grad():
            expected = theirs(torch.tensor([ids])).logits[0, :, :n_vocab].numpy()
        found = model.read(ids, model.new_cache(), n_last=len(ids))
        assert abs(found - expected).max() < 5e-5
        n = min(12, model.config.n_ctx - len(ids))
        text = theirs.generate(torch.tensor([ids]), max_new_tokens=n, do_sample=False)
        assert greedy(model, encoder, ids, n) == text[0, len(ids) :].tolist()


# ---------------------------------------------------------------- what is refused


def instead(name, content=b"?"):
    """A file in the place of the weights."""
    return both(without("model.safetensors"), write(name, content))


def made_of(name):
    """A file in the place of vocabulary and merges."""
    return both(without("vocab.json", "merges.txt"), write(name, b"?"))


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 548105171\n"
REFUSED = {  # {kind: (change, what is said)}
    "llama": (config(model_type="llama"), "model_type is 'llama'; only GPT-2's"),
    "gpt_neo": (config(model_type="gpt_neo", n_embd=None), "model_type is 'gpt_neo'"),
    "a config without a size": (config(model_type="t5", n_ctx=None), "model_type is 't5'"),
    "relu": (config(activation_function="relu"), "activation_function is 'relu'"),
    "a narrow MLP": (config(n_inner=48), "n_inner is 48"),
    "half of an encoder and decoder": (config(add_cross_attention=True), "add_cross_attention"),
    "bitsandbytes": (config(quantization_config={"load_in_8bit": True}), "quantization_config"),
    "MLX, 4 bits": (config(quantization={"bits": 4}), "quantization is"),
    "int32": (
        lambda folder: edit_header(
            folder / "model.safetensors", with_entry("transformer.ln_f.bias", dtype="I32")
        ),
        "transformer.ln_f.bias is int32",
    ),
    "float8": (
        lambda folder: edit_header(
            folder / "model.safetensors", with_entry("transformer.ln_f.bias", dtype="F8_E4M3")
        ),
        "model.safetensors: cannot be read ('F8_E4M3')",
    ),
    "an untied head": (tensors(more(lm_head__weight=WTE + 1)), "lm_head.weight differs"),
    "a classifier": (tensors(more(score__weight=WTE)), "such as 'score.weight'"),
    "LoRA": (instead("adapter_model.safetensors"), "adapter_model.safetensors is a LoRA adapter"),
    "nanoGPT": (instead("ckpt.pt"), "ckpt.pt is nanoGPT's checkpoint"),
    "GGUF": (instead("model-q4.gguf"), "model-q4.gguf is llama.cpp's format"),
    "ggml": (instead("ggml-model.bin"), "ggml-model.bin is ggml's format"),
    "Keras": (instead("tf_model.h5"), "tf_model.h5 is Keras weights"),
    "Flax": (instead("flax_model.msgpack"), "flax_model.msgpack is Flax weights"),
    "transformers.js": (both(without("model.safetensors"), lambda f: (f / "onnx").mkdir()), "onnx"),
    "a variant": (instead("model.fp16.safetensors"), "is a variant: rename it"),
    "a folder of training": (
        both(without("config.json"), lambda f: (f / "checkpoint-500").mkdir()),
        "checkpoint-500 is a step of a training: give this folder",
    ),
    "a pointer for weights": (write("model.safetensors", LFS), "git lfs pull"),
    "a pointer for words": (write("vocab.json", LFS), "git lfs pull"),
    "BERT's words": (made_of("vocab.txt"), "vocab.txt is BERT's WordPiece vocabulary"),
    "SentencePiece": (made_of("spiece.model"), "spiece.model is a SentencePiece vocabulary"),
    "an embedding of another model": (rows(2000), "the model has 2259 tokens, its vocabulary 259"),
    "a vocabulary of another model": (vocabulary_with("<a>", "<b>"), "its vocabulary 261"),
    "merges cut off": (
        vocabulary_with(*(f"Ġ{i}" for i in range(1300))), "2 merges cannot make 1559 tokens"
    ),
    "a prefix of a space": (settings(add_prefix_space=True), "add_prefix_space is True"),
    "a token before": (settings(add_bos_token=True), "add_bos_token is True"),
    "lower case": (settings(do_lower_case=True), "do_lower_case is True"),
    "WordPiece": (tokenizer(model={"type": "WordPiece", "vocab": {}}), "its model makes other"),
    "KoGPT2": (tokenizer(pre_tokenizer={"type": "Metaspace"}), "its pre_tokenizer makes other"),
    "StarCoder": (
        tokenizer(pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Digits"}]}),
        "its pre_tokenizer makes other",
    ),
    "NFKC": (tokenizer(normalizer={"type": "NFKC"}), "its normalizer makes other"),
    "RoBERTa's ends": (
        tokenizer(post_processor={"type": "RobertaProcessing"}), "its post_processor makes other"
    ),
    "a space before all": (
        tokenizer(pre_tokenizer={"type": "ByteLevel", "add_prefix_space": True}), "add_prefix_space"
    ),
    "Llama 3's merges": (
        tokenizer(model={"type": "BPE", "vocab": {}, "merges": [], "ignore_merges": True}),
        "ignore_merges is True",
    ),
    "a token that takes spaces": (
        both(rows(1), tokenizer(added=[USER | {"lstrip": True}])), "lstrip is True"
    ),
    "an empty tokenizer.json": (both(tokenizer(), write("tokenizer.json", {})), "is damaged"),
    "a checkpoint of a training": (
        both(
            instead("pytorch_model.bin"),
            lambda folder: torch_files.write_zip(
                folder / "pytorch_model.bin",
                torch_files.state_dict({"epoch": torch_files.number(3)}), {},
            ),
        ),
        "'epoch' is no tensor",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_kinds_that_are_refused_name_what_was_found(build, kind):
    change, said = REFUSED[kind]
    folder = build(change)
    message = refusal(utils.load_models, [str(folder)], folder.parent, NUMPY)
    assert said in message and str(folder) in message and len(message) < 500
