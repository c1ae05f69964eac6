"""python main.py replay: try drafts, and every K, on the texts of a log, without the target that
wrote them. How that can be exact is in experiments/replay/simulate.py.
"""

import json
from dataclasses import dataclass

from checkpoints.errors import InputError, SettingError
from checkpoints.search import find_folder
from checkpoints.vocabulary import load_encoder
from cli.flags import SEEDS, Folder, Json, Machine, Verification, flag
from cli.runs import spec_from
from cli.values import DRAFT_COST, VERIFY_COST, parse_Ks, parse_list, parse_number
from decoding.drafts import ModelDraft
from decoding.load import HEADS, NGRAM, is_size
from decoding.ngrams import NGrams
from experiments.benchmark.tables import legend, table
from experiments.replay.recordings import read_log
from experiments.replay.simulate import Latency, describe_certainty, read_latencies, replay_draft

COLUMNS = ["draft", "K", "acceptance_rate", "expected_acceptance"]
COLUMNS += ["tokens_per_target_pass", "projected_speedup"]


@dataclass(frozen=True)
class ReplaySettings(Machine, Verification, Folder):
    """What a replay is."""

    log: str = flag(
        "", "the file that record wrote, or JSON Lines of prompt and output from another program"
    )
    draft_model_size: str = flag(
        "0.7M-17M,ngram", "sizes in models_dir, folders, or ngram, separated by commas"
    )
    K: str = flag("1..10", "how many tokens to draft per round, such as 1..10 or 1,2,4")
    costs: str = flag(
        "",
        "a results file of benchmark to take the draft and verify costs from, measured with the "
        "same verification",
        conflicts="draft_cost",
    )
    draft_cost: str = flag(
        "",
        "instead of costs: the time of drafting one token, relative to a target pass over one row "
        "(token)",
    )
    verify_cost: str = flag(
        "",
        "with draft_cost: the time of the verify pass, relative to the same; one number, or one "
        "for each K, in the order of --K",
    )
    tokenizer: str = flag(
        "",
        "a size or folder whose tokenizer encodes another program's log; by default that of the "
        "first draft model",
    )
    seed: int = flag(
        123, "seed of the random decisions, where the log has a temperature above 0", limits=SEEDS
    )

    def check(self):
        self.Ks()
        self.given_latency()
        for head in {*self.drafts()} & {*HEADS}:
            problem = f"{head}: expected a model, as a head needs to see its target, not a log"
            raise SettingError("draft_model_size", problem)
        if not self.log:
            expected = "expected the file that record wrote, or JSON Lines of prompt and output"
            raise SettingError("log", f"'': {expected}")

    def drafts(self):
        return parse_list("draft_model_size", self.draft_model_size)

    def Ks(self):
        return parse_Ks(self.K)

    def encoder(self):
        """Load the Encoder for a foreign log: --tokenizer, or that of the first draft model."""
        first = next(filter(is_size, self.drafts()), "17M")
        return load_encoder(find_folder(self.tokenizer or first, self.models_dir))

    def given_latency(self):
        """Return the Latency of --draft_cost and --verify_cost; None without them.

        Raises InputError if only one of the two is given.
        """
        flags = self.draft_cost, self.verify_cost
        if not any(flags):
            return None
        if not all(flags):
            raise InputError("--draft_cost, --verify_cost: a latency model needs both; give both")
        Ks = self.Ks()
        c = parse_number("draft_cost", self.draft_cost, DRAFT_COST)
        parts = self.verify_cost.split(",")
        v = [parse_number("verify_cost", part, VERIFY_COST) for part in parts]
        if len(v) == 1:
            v *= len(Ks)
        if len(v) != len(Ks):
            expected = f"expected one number, or one for each of {len(Ks)} K"
            raise SettingError("verify_cost", f"{self.verify_cost!r}: {expected}")
        return Latency({K: (c, cost) for K, cost in sorted(zip(Ks, v))})

    def latencies(self, target):
        """Return {name of a draft: Latency}, read from --costs, or from --draft_cost and
        --verify_cost. Without any of these flags, each Latency has no points.

        target: the name of the log's target; None if the log does not state it
        Raises InputError if --costs is not a results file.
        """
        if self.costs:
            return read_latencies(self.costs, self.drafts(), target, self.verification)
        none = Latency({}, "no latency model; give --costs FILE, or --draft_cost and --verify_cost")
        return dict.fromkeys(self.drafts(), self.given_latency() or none)


def load_drafts(settings, log):
    """Load the drafts. Returns {name: Draft}. Raises InputError if their vocabulary is not the
    log's.
    """
    drafts = {NGRAM: NGrams()}
    names = settings.drafts()
    sizes = [*filter(is_size, names)]
    if sizes:  # the first is loaded as a target is
        first, *others = sizes
        models = spec_from(settings, first, others).load()
        if (models.encoder.fingerprint, models.encoder.n_vocab) != (log.tokenizer, log.n_vocab):
            raise InputError(
                f"draft {first} and the log {settings.log} have different vocabularies: "
                "they cannot pair"
            )
        drafts |= {first: ModelDraft(models.target), **models.drafts}
    return {name: drafts[name] for name in names}


def replay(settings: ReplaySettings, output: Json):
    """Run the speculative loop again on the texts of a log, with any draft and every K, without the
    target that wrote them.

    With --costs, or with --draft_cost and --verify_cost, it also projects the speedup.
    """
    Ks, seed, rule = settings.Ks(), settings.seed, settings.verification
    log = read_log(settings.log, settings.encoder)
    if settings.tokenizer and not log.foreign:
        problem = f"{settings.tokenizer}: expected the log of another program, as this one holds "
        raise SettingError("tokenizer", f"{problem}token ids already; leave it out")
    latencies = settings.latencies(log.target)
    rows = []
    for name, draft in load_drafts(settings, log).items():
        rows += replay_draft(name, draft, log, Ks, seed, latencies[name], rule)
    result = {
        "settings": settings.portable(),
        "log": {"target": log.target, "tokenizer": log.tokenizer, "settings": log.settings},
        "certainty": describe_certainty(log, settings.drafts()),
        "rows": rows,
    }
    if output.json:
        print(json.dumps(result))
        return
    print(table(rows, COLUMNS))
    print(f"\n{legend(rows, COLUMNS)}\n\n{result['certainty']}")
    for why in sorted({why for row in rows for why in row["withheld"].values()}):
        print(f"no projected speedup: {why}")
