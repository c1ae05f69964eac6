"""The same weights in the programs people would run instead: plain and speculative decoding, and a
pass over K + 1 rows.

    pip install -r experiments/training/requirements-peers.txt
    python experiments/training/peers.py                                         # the default pair
    python experiments/training/peers.py --target_model_size 124M --weights random

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

import utils  # noqa: E402
from backends.blas import N_THREADS  # noqa: E402
from encoder import END_OF_TEXT  # noqa: E402
from experiments.cli.exit_codes import exit_code, script  # noqa: E402
from experiments.cli.flags import call  # noqa: E402
from experiments.cli.validators import check_choice, check_numbers  # noqa: E402
from experiments.data.prompts import choose_prompts  # noqa: E402
from experiments.decoding.decoders import decode  # noqa: E402
from experiments.decoding.settings import Settings  # noqa: E402
from sampling import Filter  # noqa: E402
from utils import InputError  # noqa: E402

PAST = list(range(100, 164))  # what is in the caches before a pass that is timed


# ---------------------------------------------------------------- the programs
# Each is made from (target folder, draft folder or None, K). `ways` gives the decoders it has,
# {name: function (ids, n) -> the n new ids}; row_seconds(past, ids) the seconds of a pass over ids
# after the past, and is None where a program has no pass over several rows.


class Ours:
    name = "this project"

    def __init__(self, target, draft, K):
        backend = utils.get_backend()
        self.model = utils.load_model(target, backend)
        self.draft = utils.load_model(draft, backend) if draft else None
        self.K, self.cache = K, self.model.new_cache()

    def generate(self, ids, n, decoder="autoregressive"):
        how = {"K": self.K, "filter": Filter(), "seed": 0}
        rounds = decode(decoder, self.model, self.draft, ids, n, **how)
        return [int(token) for one in rounds for token in one.tokens]

    def ways(self):
        ways = {"plain": self.generate}
        if self.draft:
            name = f"speculative, K = {self.K}"
            ways[name] = lambda ids, n: self.generate(ids, n, "speculative")
        return ways

    def row_seconds(self, past, ids):
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

        def load(folder):
            model = transformers.GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float32)
            # no token ends a text, and it always drafts K
            config = transformers.GenerationConfig(pad_token_id=0, do_sample=False)
            config.update(num_assistant_tokens=K, num_assistant_tokens_schedule="constant")
            config.update(assistant_confidence_threshold=0)
            model.generation_config = config
            return model.eval()

        self.model = load(target)
        self.draft = load(draft) if draft else None

    def generate(self, ids, n, assistant=None):
        prompt = self.torch.tensor([ids])
        with self.torch.no_grad():
            found = self.model.generate(prompt, max_new_tokens=n, assistant_model=assistant)
        return found[0, len(ids) :].tolist()

    def ways(self):
        ways = {"plain": self.generate}
        if self.draft:
            ways[f"assisted, K = {self.K}"] = lambda ids, n: self.generate(ids, n, self.draft)
        return ways

    def row_seconds(self, past, ids):
        past, ids = self.torch.tensor([past]), self.torch.tensor([ids])
        with self.torch.no_grad():
            cache = self.model(past, use_cache=True).past_key_values
            begin = time.perf_counter()
            self.model(ids, past_key_values=cache, use_cache=True)
            return time.perf_counter() - begin


class CTranslate2:
    name = "CTranslate2"
    row_seconds = None

    def __init__(self, target, draft, K):
        import ctranslate2
        import transformers  # noqa: F401, its converter needs it

        ctranslate2.set_log_level(40)  # errors only
        vocabulary = json.loads((Path(target) / "vocab.json").read_bytes())
        self.symbols = {i: symbol for symbol, i in vocabulary.items()}
        converter = ctranslate2.converters.TransformersConverter(str(target))
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/model"
            converter.convert(path, quantization="float32")
            options = {"compute_type": "float32", "intra_threads": N_THREADS}
            self.generator = ctranslate2.Generator(path, **options)

    def generate(self, ids, n):
        found = self.generator.generate_batch(
            [[self.symbols[i] for i in ids]],
            max_length=n,
            min_length=n,
            end_token=[],
            include_prompt_in_result=False,
        )
        return found[0].sequences_ids[0]

    def ways(self):
        return {"plain": self.generate}


class LlamaCpp:
    name = "llama.cpp"

    def __init__(self, target, draft, K):
        import gguf
        import llama_cpp

        options = {
            "n_ctx": 0,
            "n_threads": N_THREADS,
            "n_threads_batch": N_THREADS,
            "use_mmap": False,
            "verbose": False,
        }
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/model.gguf"
            write_gguf(gguf, target, path)
            # one computes the logits of the last row of a pass, the other those of all rows
            self.last = llama_cpp.Llama(path, logits_all=False, **options)
            self.every = llama_cpp.Llama(path, logits_all=True, **options)

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


PROGRAMS = (Ours, Transformers, CTranslate2, LlamaCpp)


# ---------------------------------------------------------------- weights for them

GGUF_NAMES = {
    "wte": "token_embd",
    "wpe": "position_embd",
    "ln_f": "output_norm",
    "ln_1": "attn_norm",
    "ln_2": "ffn_norm",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}


def gguf_tensor(name, array):
    """(name, array) as llama.cpp has them: matrices of linear layers are transposed, so that a row
    belongs to an output.
    """
    layer, _, kind = name.rpartition(".")
    if not layer.startswith("h."):
        return f"{GGUF_NAMES[layer]}.{kind}", array
    _, number, layer = layer.split(".", 2)
    if array.ndim == 2:
        array = np.ascontiguousarray(array.T)
    return f"blk.{number}.{GGUF_NAMES[layer]}.{kind}", array


def write_gguf(gguf, folder, path):
    """The model in llama.cpp's format, in float32."""
    folder, config = Path(folder), utils.read_config(folder)
    vocabulary = json.loads((folder / "vocab.json").read_bytes())
    merges = (folder / "merges.txt").read_text(encoding="utf-8").splitlines()[1:]
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
    file.add_token_merges(merges or ["0 1"])
    file.add_bos_token_id(config.n_vocab - 1)
    file.add_eos_token_id(config.n_vocab - 1)
    tensors = utils.open_weights(folder, config)
    for name in config.shapes():
        file.add_tensor(*gguf_tensor(name, tensors[name].read(np.float32)))
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def write_random(config, folder):
    """A checkpoint folder of that shape with random weights, in float32."""
    rng, header, offset = np.random.default_rng(0), {}, 0
    shapes = {f"transformer.{name}": shape for name, shape in config.shapes().items()}
    for name, shape in shapes.items():
        end = offset + 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps({"__metadata__": {"format": "pt"}} | header).encode()
    # safetensors: a length, a JSON header, raw numbers
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in shapes.items():
            array = np.float32(0.02) * rng.standard_normal(shape, np.float32)
            if ".ln_" in name and name.endswith("weight"):
                array += 1
            file.write(array.tobytes())
    entries = {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "n_positions": config.n_ctx,
        "n_embd": config.n_embd,
        "n_layer": config.n_layer,
        "n_head": config.n_head,
        "vocab_size": config.n_vocab,
    }
    (folder / "config.json").write_text(json.dumps(entries))
    vocabulary = {str(i): i for i in range(config.n_vocab - 1)} | {END_OF_TEXT: config.n_vocab - 1}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return folder


# ---------------------------------------------------------------- measuring


def measure(contenders, prompts, n_tokens, repeats):
    """{name: (median seconds summed over prompts, texts)} of contenders {name: generate}, taking
    turns.
    """
    seconds = {name: [[] for _ in prompts] for name in contenders}
    texts = {name: [None] * len(prompts) for name in contenders}
    names, rng = list(contenders), np.random.default_rng(0)
    n_runs = len(prompts) * (repeats + 1) * len(names)
    bar = tqdm(total=n_runs, unit=" runs", leave=False, disable=None)
    for i, ids in enumerate(prompts):
        for repeat in range(repeats + 1):
            for j in rng.permutation(len(names)):
                name = names[j]
                begin = time.perf_counter()
                texts[name][i] = contenders[name](ids, n_tokens)
                elapsed = time.perf_counter() - begin
                if repeat:  # the first is the warm-up
                    seconds[name][i].append(elapsed)
                bar.update()
    bar.close()
    return {name: (sum(map(statistics.median, seconds[name])), texts[name]) for name in names}


def measure_rows(peers, n_rows, repeats):
    """{name: (seconds of one row, of n_rows)}, medians, the peers taking turns; without those that
    have no such pass.
    """
    ids = list(range(200, 200 + n_rows))
    able = [peer for peer in peers if peer.row_seconds]
    times = {peer.name: ([], []) for peer in able}
    for repeat in range(4 * repeats + 1):
        for peer in able:
            one, many = peer.row_seconds(PAST, ids[:1]), peer.row_seconds(PAST, ids)
            if repeat:  # the first is the warm-up
                times[peer.name][0].append(one)
                times[peer.name][1].append(many)
    return {
        name: (statistics.median(one), statistics.median(many))
        for name, (one, many) in times.items()
    }


LINE = "{:<38}{:>9}{:>14}{:>12}{:>10}{:>11}{:>7}"


def show(results, rows, n_tokens, n_rows):
    """One table: speed, how many texts are ours, and what passes cost."""
    heads = ["tokens/s", "against ours", "same texts", "1 row ms", f"{n_rows} rows ms", "ratio"]
    print(LINE.format("", *heads))
    ours, our_texts = next(iter(results.values()))
    for (peer, way), (seconds, texts) in results.items():
        speed, against = "withheld", "–"
        # texts of other lengths cannot be compared
        if all(len(text) == n_tokens for text in texts):
            speed, against = f"{n_tokens * len(texts) / seconds:.1f}", f"{ours / seconds:.2f}"
        same = sum(text == our_text for text, our_text in zip(texts, our_texts))
        passes = ["–", "–", "–"]
        if way == "plain" and peer in rows:
            one, many = rows[peer]
            passes = [f"{1e3 * one:.2f}", f"{1e3 * many:.2f}", f"{many / one:.2f}"]
        print(LINE.format(f"{peer}, {way}", speed, against, f"{same} of {len(texts)}", *passes))


def start_programs(target, draft, K, weights):
    """(programs that are installed, a line for each that is not, the encoder)."""
    peers, missing = [], []
    with tempfile.TemporaryDirectory() as temporary:
        if weights == "random":
            folder, draft_folder = write_random(utils.SIZES[target], Path(temporary)), None
            # its own vocabulary cuts no text
            encoder = utils.load_encoder(utils.find_folder(Settings.target_model_size))
        else:
            folder, draft_folder = utils.find_folder(target), utils.find_folder(draft)
            encoder = utils.load_encoder(folder)
        for program in PROGRAMS:
            try:
                peers.append(program(folder, draft_folder, K))
            except ImportError as error:
                missing.append(f"{program.name}: not run, {error.name} is not installed")
    return peers, missing, encoder


def compare(
    target_model_size=Settings.target_model_size,
    draft_model_size=Settings.draft_model_size,
    weights="checkpoint",
    K=4,
    prompts="",
    n_prompts=8,
    n_tokens=60,
    repeats=3,
):
    """Print one table: this project and the programs that are installed, with the same weights.

    Args:
        target_model_size: a size in models/, or a folder
        draft_model_size: likewise
        weights: checkpoint, or random (any size, no files needed; no draft)
        K: tokens drafted per round; passes over K + 1 rows are timed
        prompts: a file of prompts; without it, built-in ones
        n_prompts: how many of them
        n_tokens: how many tokens to generate for each
        repeats: of each measurement; medians are reported
    """
    check_choice("weights", weights, "checkpoint", "random")
    if weights == "random" and target_model_size not in utils.SIZES:
        sizes = ", ".join(utils.SIZES)
        raise InputError(
            f"--target_model_size {target_model_size!r}: expected one of {sizes} for random weights"
        )
    check_numbers(1, K=K, n_prompts=n_prompts, n_tokens=n_tokens, repeats=repeats)
    peers, missing, encoder = start_programs(target_model_size, draft_model_size, K, weights)
    n_ctx = peers[0].model.config.n_ctx
    if n_ctx < len(PAST) + K + 1:
        most = n_ctx - len(PAST) - 1
        raise InputError(
            f"--K {K}: expected at most {most}, as passes over K + 1 tokens follow {len(PAST)}"
        )
    texts, _ = choose_prompts(prompts, n_prompts, encoder, n_ctx - n_tokens)
    contenders = {}
    for peer in peers:
        contenders |= {(peer.name, way): generate for way, generate in peer.ways().items()}
    results = measure(contenders, texts, n_tokens, repeats)
    rows = measure_rows(peers, K + 1, repeats)
    print(f"{target_model_size}, {weights} weights, float32, {N_THREADS} threads, ", end="")
    print(f"{len(texts)} prompts, {n_tokens} tokens each, prefill included")
    show(results, rows, n_tokens, K + 1)
    for line in missing:
        print(line)


if __name__ == "__main__":
    script(lambda: exit_code(lambda: call(compare, sys.argv[1:])))
