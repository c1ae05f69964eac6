"""The same weights in the programs people would run instead: plain and speculative decoding, and a
pass over K + 1 rows.

    pip install -r experiments/training/requirements-peers.txt
    python experiments/training/peers.py                                          # the embedded pair
    python experiments/training/peers.py --target 124M --weights random           # its shape, without files

Float32, batch 1, greedy, the same prompts and as many tokens for all, which take turns in a new
order each time; medians. Prefill is included: not every program tells it apart. A peer that is not
installed is listed as not run. With random weights a draft agrees with nothing, so only plain
decoding and the passes are compared.
"""

import json
import statistics
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import backends.blas  # noqa: E402, F401, isort: skip: before NumPy

import numpy as np  # noqa: E402
from tqdm import tqdm  # noqa: E402

import checkpoints  # noqa: E402
import utils  # noqa: E402
from backends.blas import N_THREADS  # noqa: E402
from encoder import END_OF_TEXT  # noqa: E402
from experiments.cli.exit_codes import exit_code, script  # noqa: E402
from experiments.cli.flags import call  # noqa: E402
from experiments.cli.validators import check_choice, check_numbers  # noqa: E402
from experiments.data.prompts import choose_prompts  # noqa: E402
from experiments.decoding.decoders import decode  # noqa: E402
from sampling import Filter  # noqa: E402
from utils import InputError  # noqa: E402

PAST = list(range(100, 164))  # what is in the caches before a pass that is timed


class Ours:
    name = "this project"

    def __init__(self, target, draft, K):
        arrays = utils.get_backend()
        self.model, self.draft, self.K = (
            utils.load_model(target, arrays),
            draft and utils.load_model(draft, arrays),
            K,
        )
        self.cache = self.model.new_cache()

    def generate(self, ids, n, decoder="autoregressive"):
        rounds = decode(decoder, self.model, self.draft, ids, n, K=self.K, filter=Filter(), seed=0)
        return [int(token) for one in rounds for token in one.tokens]

    def ways(self):
        """{how: function (ids, n) -> the new ids}"""
        speculative = {
            f"speculative, K = {self.K}": lambda ids, n: self.generate(ids, n, "speculative")
        }
        return {"plain": self.generate} | (speculative if self.draft else {})

    def row_seconds(self, past, ids):
        """Seconds of a pass over these ids after the past."""
        self.cache.length = 0
        self.model.read(past, self.cache)
        begin = time.perf_counter()
        self.model.read(past + ids, self.cache, n_last=len(ids))
        return time.perf_counter() - begin


class Transformers:
    name = "transformers + torch"

    def __init__(self, target, draft, K):
        import torch
        import transformers

        torch.set_num_threads(N_THREADS)
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        self.torch, self.K = torch, K
        load = transformers.GPT2LMHeadModel.from_pretrained
        self.model, self.draft = (
            where and load(where, dtype=torch.float32).eval() for where in (target, draft)
        )
        for model in filter(None, (self.model, self.draft)):
            # no token ends a text; it always drafts K
            model.generation_config = transformers.GenerationConfig(pad_token_id=0, do_sample=False)
            model.generation_config.update(
                num_assistant_tokens=K, num_assistant_tokens_schedule="constant"
            )
            model.generation_config.update(assistant_confidence_threshold=0)

    def generate(self, ids, n, assistant=None):
        with self.torch.no_grad():
            found = self.model.generate(
                self.torch.tensor([ids]), max_new_tokens=n, assistant_model=assistant
            )
        return found[0, len(ids) :].tolist()

    def ways(self):
        assisted = {f"assisted, K = {self.K}": lambda ids, n: self.generate(ids, n, self.draft)}
        return {"plain": self.generate} | (assisted if self.draft else {})

    def row_seconds(self, past, ids):
        with self.torch.no_grad():
            cache = self.model(self.torch.tensor([past]), use_cache=True).past_key_values
            begin = time.perf_counter()
            self.model(self.torch.tensor([ids]), past_key_values=cache, use_cache=True)
            return time.perf_counter() - begin


class CTranslate2:
    name = "CTranslate2"
    row_seconds = None  # it offers no pass over several rows with a cache

    def __init__(self, target, draft, K):
        import ctranslate2
        import transformers  # noqa: F401, its converter needs it

        ctranslate2.set_log_level(40)  # errors only
        self.symbols = {
            i: symbol
            for symbol, i in json.loads((Path(target) / "vocab.json").read_bytes()).items()
        }
        with tempfile.TemporaryDirectory() as folder:
            ctranslate2.converters.TransformersConverter(str(target)).convert(
                f"{folder}/model", quantization="float32"
            )
            self.generator = ctranslate2.Generator(
                f"{folder}/model", compute_type="float32", intra_threads=N_THREADS
            )

    def generate(self, ids, n):
        prompt = [[self.symbols[i] for i in ids]]
        limits = {
            "max_length": n,
            "min_length": n,
            "end_token": [],
            "include_prompt_in_result": False,
        }
        return self.generator.generate_batch(prompt, **limits)[0].sequences_ids[0]

    def ways(self):
        return {"plain": self.generate}


class LlamaCpp:
    name = "llama.cpp"

    def __init__(self, target, draft, K):
        import gguf
        import llama_cpp

        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/model.gguf"
            write_gguf(gguf, target, path)
            options = {
                "n_ctx": 0,
                "n_threads": N_THREADS,
                "n_threads_batch": N_THREADS,
                "use_mmap": False,
                "verbose": False,
            }
            # two of them: one that computes the logits of the last row of a pass, one those of all
            # rows
            self.last, self.every = (
                llama_cpp.Llama(path, logits_all=every, **options) for every in (False, True)
            )

    def generate(self, ids, n):
        return list(islice(self.last.generate(ids, temp=0.0), n))

    def ways(self):
        return {"plain": self.generate}

    def row_seconds(self, past, ids):
        self.every.reset()
        self.every.eval(past)
        begin = time.perf_counter()
        self.every.eval(ids)
        return time.perf_counter() - begin


def write_gguf(gguf, folder, path):
    """The model in llama.cpp's format, float32: matrices transposed, so that a row belongs to an
    output.
    """
    config, vocabulary = (
        utils.read_config(folder),
        json.loads((Path(folder) / "vocab.json").read_bytes()),
    )
    file = gguf.GGUFWriter(path, "gpt2")
    file.add_context_length(config.n_ctx)
    file.add_embedding_length(config.n_embd)
    file.add_feed_forward_length(4 * config.n_embd)
    file.add_block_count(config.n_layer)
    file.add_head_count(config.n_head)
    file.add_layer_norm_eps(config.epsilon)
    file.add_tokenizer_model("gpt2")
    file.add_tokenizer_pre("gpt-2")
    file.add_token_list(sorted(vocabulary, key=vocabulary.get))
    file.add_token_merges(
        (Path(folder) / "merges.txt").read_text(encoding="utf-8").splitlines()[1:] or ["0 1"]
    )
    file.add_bos_token_id(config.n_vocab - 1)
    file.add_eos_token_id(config.n_vocab - 1)
    names = {
        "wte": "token_embd",
        "wpe": "position_embd",
        "ln_f": "output_norm",
        "ln_1": "attn_norm",
        "ln_2": "ffn_norm",
    }
    names |= {
        "attn.c_attn": "attn_qkv",
        "attn.c_proj": "attn_output",
        "mlp.c_fc": "ffn_up",
        "mlp.c_proj": "ffn_down",
    }
    tensors = checkpoints.open_weights(Path(folder), config)
    for name in config.shapes():
        where, _, kind = name.rpartition(".")
        place, _, layer = (
            where.removeprefix("h.").partition(".") if name.startswith("h.") else ("", "", where)
        )
        array = tensors[name].read(np.float32)
        array = np.ascontiguousarray(array.T) if place and array.ndim == 2 else array
        file.add_tensor(
            f"blk.{place}.{names[layer]}.{kind}" if place else f"{names[layer]}.{kind}", array
        )
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def write_random(config, folder):
    """A checkpoint folder of that shape with random weights, stored as safetensors: a length, a
    JSON header, raw float32.
    """
    rng, header, offset = np.random.default_rng(0), {}, 0
    shapes = {f"transformer.{name}": shape for name, shape in config.shapes().items()}
    for name, shape in shapes.items():
        end = offset + 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps({"__metadata__": {"format": "pt"}} | header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in shapes.items():
            # a layer norm scales by about 1
            mean = np.float32(".ln_" in name and name.endswith("weight"))
            file.write((mean + np.float32(0.02) * rng.standard_normal(shape, np.float32)).tobytes())
    numbers = {
        "n_embd": config.n_embd,
        "n_layer": config.n_layer,
        "n_head": config.n_head,
        "vocab_size": config.n_vocab,
    }
    more = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_positions": config.n_ctx}
    (folder / "config.json").write_text(json.dumps(numbers | more))
    vocabulary = {str(i): i for i in range(config.n_vocab - 1)} | {END_OF_TEXT: config.n_vocab - 1}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return folder


def measure(contenders, prompts, n_tokens, repeats):
    """{name: (median seconds summed over prompts, texts)} of contenders {name: generate}, taking
    turns.
    """
    seconds = {name: [[] for _ in prompts] for name in contenders}
    texts, rng = {name: [None] * len(prompts) for name in contenders}, np.random.default_rng(0)
    bar = tqdm(
        total=len(prompts) * (repeats + 1) * len(contenders),
        unit=" runs",
        leave=False,
        disable=None,
    )
    for i, ids in enumerate(prompts):
        for repeat in range(repeats + 1):  # the first does not count
            for name in [[*contenders][j] for j in rng.permutation(len(contenders))]:
                begin = time.perf_counter()
                texts[name][i] = contenders[name](ids, n_tokens)
                seconds[name][i] += [time.perf_counter() - begin] if repeat else []
                bar.update()
    bar.close()
    return {name: (sum(map(statistics.median, seconds[name])), texts[name]) for name in contenders}


def measure_rows(peers, n_rows, repeats):
    """{name: (seconds of one row, of n_rows)}, medians, the peers taking turns; without those that
    offer no such pass.
    """
    more = list(range(200, 200 + n_rows))
    times = {peer.name: ([], []) for peer in peers if peer.row_seconds}
    for repeat in range(4 * repeats + 1):
        for peer in peers:
            for i, ids in enumerate((more[:1], more) if peer.row_seconds else ()):
                times[peer.name][i].extend([peer.row_seconds(PAST, ids)][: bool(repeat)])
    return {name: tuple(map(statistics.median, lists)) for name, lists in times.items()}


def show(results, rows, n_tokens, n_rows):
    """One table: speed, how many texts are ours, and what passes cost."""
    line = "{:<38}{:>9}{:>14}{:>12}{:>10}{:>11}{:>7}"
    print(
        line.format(
            "", "tokens/s", "against ours", "same texts", "1 row ms", f"{n_rows} rows ms", "ratio"
        )
    )
    ours, our_texts = next(iter(results.values()))
    for (peer, way), (seconds, texts) in results.items():
        # other counts of tokens cannot be compared
        fair = all(len(text) == n_tokens for text in texts)
        speed = (
            (f"{n_tokens * len(texts) / seconds:.1f}", f"{ours / seconds:.2f}")
            if fair
            else ("withheld", "–")
        )
        same = sum(text == our_text for text, our_text in zip(texts, our_texts))
        one, many = rows.get(peer, (None, None)) if way == "plain" else (None, None)
        passes = (f"{1e3 * one:.2f}", f"{1e3 * many:.2f}", f"{many / one:.2f}") if one else "–––"
        print(line.format(f"{peer}, {way}", *speed, f"{same} of {len(texts)}", *passes))


def compare(
    target="7M",
    draft="0.7M",
    weights="checkpoint",
    K=4,
    prompts="",
    n_prompts=8,
    n_tokens=60,
    repeats=3,
):
    """Print one table: this project and the programs that are installed, with the same weights.

    Args:
        target: a size in models/, or a folder
        draft: likewise
        weights: checkpoint, or random (any size, no files needed; no draft)
        K: tokens drafted per round; passes over K + 1 rows are timed
        prompts: a file of prompts; without it, built-in ones
        n_prompts: how many of them
        n_tokens: how many tokens to generate for each
        repeats: of each measurement; medians are reported
    """
    check_choice("weights", weights, "checkpoint", "random")
    if weights == "random" and target not in utils.SIZES:
        raise InputError(
            f"--target {target!r}: expected one of {', '.join(utils.SIZES)} for random weights"
        )
    check_numbers(1, K=K, n_prompts=n_prompts, n_tokens=n_tokens, repeats=repeats)
    encoder, peers, missing = utils.load_encoder(utils.find_folder("7M")), [], []
    with tempfile.TemporaryDirectory() as temporary:
        if weights == "random":
            where, draft = (write_random(utils.SIZES[target], Path(temporary)), None)
        else:
            where, draft = utils.find_folder(target), utils.find_folder(draft)
            encoder = utils.load_encoder(where)
        for kind in (Ours, Transformers, CTranslate2, LlamaCpp):
            try:
                peers.append(kind(where, draft, K))
            except ImportError as error:
                missing.append(f"{kind.name}: not run, {error.name} is not installed")
    if (n_ctx := peers[0].model.config.n_ctx) < len(PAST) + K + 1:
        raise InputError(
            f"--K {K}: expected at most {n_ctx - len(PAST) - 1}, as passes over K + 1 tokens follow {len(PAST)}"
        )
    texts, _ = choose_prompts(prompts, n_prompts, encoder, peers[0].model.config.n_ctx - n_tokens)
    contenders = {
        (peer.name, way): generate for peer in peers for way, generate in peer.ways().items()
    }
    results, rows = (
        measure(contenders, texts, n_tokens, repeats),
        measure_rows(peers, K + 1, repeats),
    )
    print(f"{target}, {weights} weights, float32, {N_THREADS} threads, ", end="")
    print(f"{len(texts)} prompts, {n_tokens} tokens each, prefill included")
    show(results, rows, n_tokens, K + 1)
    print(*missing, sep="\n", end="\n" if missing else "")


if __name__ == "__main__":
    script(lambda: exit_code(lambda: call(compare, sys.argv[1:])))
