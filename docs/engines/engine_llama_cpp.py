"""llama.cpp's server, in the package xllamacpp, for judge.py: drafts of a model, and of n-grams."""

from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import requests
import xllamacpp as llama
from to_gguf import write_gguf

VERSION = f"llama.cpp's server, xllamacpp {version('xllamacpp')}"
WAYS = {
    "draft-simple": "draft-simple",
    "draft-probabilistic": "draft-simple, drafts sampled",
    "ngram-simple": "ngram-simple",
    "ngram-map-k": "ngram-map-k",
    "ngram-map-k4v": "ngram-map-k4v",
    "ngram-cache": "ngram-cache",
    "plain": "without speculation, as a control",
}
TOGETHER = 5


def start(way, target, draft, K, folder):
    """Convert the models of the folders `target` and `draft` to GGUF files in `folder`, and serve
    them. Returns write(prompts, job, seed) -> (texts, passes of the target).

    way: one of WAYS
    K: most drafted tokens in a round
    """
    files = [folder / f"{path.name}.gguf" for path in (target, draft)]
    for path, file in zip((target, draft), files):
        write_gguf(path, file)
    params = llama.CommonParams()
    params.model.path = str(files[0])
    params.port = 0  # any that is free
    params.verbosity = 0
    params.n_parallel = TOGETHER
    params.n_ctx = 256 * TOGETHER
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # of models this small
    set_up(params.speculative, way, str(files[1]), K)
    server = llama.Server(params)
    session = requests.Session()
    session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=TOGETHER))
    threads = ThreadPoolExecutor(TOGETHER)

    def ask(ids, job, seed):
        request = dict(
            prompt=ids,
            n_predict=job.n_tokens,
            temperature=job.temperature,
            top_k=job.top_k,
            top_p=job.top_p,
            min_p=0.0,
            samplers=["temperature", "top_k", "top_p"],
            seed=seed,
            cache_prompt=False,
            return_tokens=True,
            ignore_eos=True,
        )
        answer = session.post(f"{server.listening_address}/completion", json=request, timeout=60)
        return answer.json()

    def write(prompts, job, seed):
        seeds = [seed * len(prompts) + i for i in range(len(prompts))]
        answers = [*threads.map(ask, prompts, [job] * len(prompts), seeds)]
        texts = [answer["tokens"] for answer in answers]
        accepted = sum(answer["timings"].get("draft_n_accepted", 0) for answer in answers)
        # each pass adds one token of its own to the accepted drafts
        n_passes = sum(map(len, texts)) - accepted
        return texts, n_passes

    write.server = server  # it ends with the last reference to it
    return write


def set_up(speculative, way, draft, K):
    """Change `speculative`, the server's settings of that name, to one of WAYS; "plain" leaves them
    as they are.

    draft: path of the draft model's file
    K: most drafted tokens in a round, also of n-grams
    """
    if way == "plain":
        return
    kinds = llama.common_speculative_type
    name = "draft-simple" if way == "draft-probabilistic" else way
    speculative.types = [
        getattr(kinds, f"COMMON_SPECULATIVE_TYPE_{name.upper().replace('-', '_')}")
    ]
    if way.startswith("draft"):
        speculative.draft.mparams.path = draft
        speculative.draft.probabilistic = way == "draft-probabilistic"
    for kind in (speculative.ngram_simple, speculative.ngram_map_k, speculative.ngram_map_k4v):
        kind.size_n, kind.size_m = 2, K  # after the same two tokens, what followed: K tokens
        kind.min_hits = 1  # it needs to have followed once
    speculative.draft.n_max = K
