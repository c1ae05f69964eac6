"""python main.py replay: try drafts, and every K, on the texts of a log, without the target that
wrote them. How that can be exact is in experiments/measuring/replay.py.
"""

import dataclasses
import json as json_format

from experiments.cli.validators import check_choice, check_seed, parse_K, parse_list
from experiments.data.recordings import read_log
from experiments.decoding.decoders import NGRAM
from experiments.decoding.settings import VERIFICATIONS
from experiments.drafting.pairs import load_draft
from experiments.measuring.latency import Latency
from experiments.measuring.replay import certainty, replay_draft
from utils import MODELS_DIR, InputError, find_folder, get_backend, load_encoder

MOST_K = 1000


@dataclasses.dataclass(frozen=True)
class ReplaySettings:
    """What a replay is. Raises InputError."""

    log: str
    draft_model_size: str
    models_dir: str
    K: str
    verification: str
    costs: str
    draft_cost: str
    verify_cost: str
    tokenizer: str
    seed: int
    backend: str
    kernels: str

    def __post_init__(self):
        check_seed(self.seed)
        check_choice("verification", self.verification, *VERIFICATIONS)
        if not self.log:
            raise InputError(
                "--log: expected the file that record wrote, or JSON Lines of prompt and output"
            )

    def drafts(self):
        return parse_list("draft_model_size", self.draft_model_size)

    def Ks(self):
        return parse_K(self.K, MOST_K)

    def cutter(self):
        """The encoder that cuts a foreign log into tokens."""
        models = [size for size in self.drafts() if size != NGRAM]
        size = self.tokenizer or (models[0] if models else "17M")
        return load_encoder(find_folder(size, self.models_dir))


def show_rows(result):
    """The rows for people."""
    line = "{:>8} {:>4} {:>11} {:>17} {:>12} {:>18}"
    print(line.format("draft", "K", "acceptance", "expected", "tokens/pass", "projected speedup"))
    for row in result["rows"]:
        rate, expected, speedup = "–", "–", "–"
        if row["acceptance_rate"] is not None:
            rate = f"{row['acceptance_rate']:.3f}"
        if row["expected_acceptance"] is not None:
            expected = "{:.4f} to {:.4f}".format(*row["expected_acceptance"])
        if row["projected_speedup"] is not None:
            speedup = f"{row['projected_speedup']:.2f}"
        per_pass = f"{row['tokens_per_target_pass']:.2f}"
        print(line.format(row["draft"], row["K"], rate, expected, per_pass, speedup))
    reasons = {why for row in result["rows"] for why in row["withheld"].values()}
    print(f"\n{result['certainty']}")
    for why in sorted(reasons):
        print(f"no projected speedup: {why}")


def replay(
    log="",
    draft_model_size="0.7M-17M,ngram",
    models_dir=MODELS_DIR,
    K="1..10",
    verification="token",
    costs="",
    draft_cost="",
    verify_cost="",
    tokenizer="",
    seed=123,
    backend="numpy",
    kernels="auto",
    json=False,
):
    """Run the speculative loop again on the texts of a log, with any draft and every K, without the
    target that wrote them.

    With --costs, or with --draft_cost and --verify_cost, it also projects the speedup.

    Args:
        log: the file that record wrote, or JSON Lines of prompt and output from another program
        draft_model_size: sizes in models_dir, folders, or ngram, separated by commas
        models_dir: the folder that holds a folder for each size
        K: how many tokens to draft per round, such as 1..10 or 1,2,4
        verification: the accept/reject rule: token or block
        costs: a results file of benchmark to take the draft and verify costs from, measured with
            the same verification
        draft_cost: instead of costs: the time of drafting one token, relative to a target pass over
            one row (token)
        verify_cost: with draft_cost: the time of the verify pass, relative to the same; one number,
            or one for each K, in the order of --K
        tokenizer: a size or folder whose tokenizer encodes another program's log; by default that
            of the first draft model
        seed: of the random decisions, where the log has a temperature above 0
        backend: what computes: numpy, or cupy on a GPU
        kernels: how NumPy multiplies: auto, plain, or WIDTHxTHREADS
        json: print one JSON object and nothing else
    """
    settings = ReplaySettings(
        log=log,
        draft_model_size=draft_model_size,
        models_dir=models_dir,
        K=K,
        verification=verification,
        costs=costs,
        draft_cost=draft_cost,
        verify_cost=verify_cost,
        tokenizer=tokenizer,
        seed=seed,
        backend=backend,
        kernels=kernels,
    )
    sizes, Ks = settings.drafts(), settings.Ks()
    arrays = get_backend(backend, kernels)
    texts = read_log(log, settings.cutter)
    latency = Latency(sizes, Ks, texts.target, costs, draft_cost, verify_cost, verification)
    vocabulary, of_log = (texts.tokenizer, texts.n_vocab), f"the log {log}"
    drafts = {size: load_draft(size, models_dir, arrays, vocabulary, of_log) for size in sizes}
    rows = []
    for size, draft in drafts.items():
        rows += replay_draft(size, draft, texts, Ks, seed, latency, verification)
    result = {
        "settings": dataclasses.asdict(settings),
        "log": {
            "target": texts.target,
            "tokenizer": texts.tokenizer,
            "settings": texts.settings,
        },
        "certainty": certainty(texts, sizes),
        "rows": rows,
    }
    if json:
        print(json_format.dumps(result))
    else:
        show_rows(result)
