"""python main.py replay: try drafts, and every K, on the texts of a log, without the target that
wrote them. How that can be exact is in experiments/replay/simulate.py.
"""

import json
import textwrap
from dataclasses import dataclass

from cli.flags import SEEDS, Folder, Json, Machine, Verification, flag
from cli.from_flags import spec_from
from cli.values import parse_list
from decoding.drafts import ModelDraft
from decoding.load import HEADS, NGRAM, is_size

from checkpoints.errors import InputError, SettingError
from checkpoints.search import find_folder
from checkpoints.vocabulary import load_encoder
from decoding.ngrams import NGrams
from experiments.benchmark.flag_values import parse_Ks
from experiments.benchmark.tables import legend, table
from experiments.replay.latency import Latency, read_latencies
from experiments.replay.recordings import read_log
from experiments.replay.simulate import describe_certainty, replay_draft

COLUMNS = ["draft", "K", "acceptance_rate", "tokens_per_target_pass", "projected_speedup"]


@dataclass(frozen=True)
class ReplaySettings(Machine, Verification, Folder):
    """What decides the figures of a replay. Raises InputError."""

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
        """Raise SettingError for a wrong --K, for heads as drafts, and without --log."""
        self.Ks()
        for head in {*self.drafts()} & {*HEADS}:
            problem = f"{head}: expected a model, as a head needs to see its target, not a log"
            raise SettingError("draft_model_size", problem)
        if not self.log:
            expected = "expected the file that record wrote, or JSON Lines of prompt and output"
            raise SettingError("log", f"missing: {expected}")

    def drafts(self):
        """Return the names of the drafts, a list."""
        return parse_list("draft_model_size", self.draft_model_size)

    def Ks(self):
        """Return the values of --K, a list of ints. Raises SettingError for other texts."""
        return parse_Ks(self.K)

    def load_log_encoder(self):
        """Load the Encoder for the log of another program: that of --tokenizer; without this flag
        that of the first draft model, or of 17M if no draft is a model. Raises InputError if its
        files are missing or damaged.
        """
        sizes = [name for name in self.drafts() if is_size(name)]
        name = self.tokenizer or (sizes[0] if sizes else "17M")
        return load_encoder(find_folder(name, self.models_dir))

    def read_costs(self, target):
        """Read the file of --costs. Returns {name of a draft: Latency}, what its rounds cost.
        Without this flag no Latency knows a cost.

        target: the name of the log's target; None if the log does not state it
        Raises InputError if --costs is not a results file of benchmark.
        """
        if self.costs:
            return read_latencies(self.costs, self.drafts(), target, self.verification)
        return dict.fromkeys(self.drafts(), Latency({}, "no latency model; give --costs FILE"))


def load_drafts(settings, log):
    """Load the drafts that ReplaySettings name, to be tried on a Log. Returns {name: Draft}. Raises
    InputError if the drafts' vocabulary is not the log's, or if their files cannot be used.
    """
    drafts = {NGRAM: NGrams()}
    names = settings.drafts()
    sizes = [name for name in names if is_size(name)]
    # there is no target: the first draft model is loaded in its place
    if sizes:
        first, *other_drafts = sizes
        models = spec_from(settings, first, other_drafts).load()
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

    With --costs, it also projects the speedup.
    """
    Ks, seed, rule = settings.Ks(), settings.seed, settings.verification
    log = read_log(settings.log, settings.load_log_encoder)
    if settings.tokenizer and not log.foreign:
        problem = (
            f"{settings.tokenizer}: expected the log of another program, as this one holds token "
            "ids already; leave it out"
        )
        raise SettingError("tokenizer", problem)
    latencies = settings.read_costs(log.target)
    rows = []
    for name, draft in load_drafts(settings, log).items():
        rows += replay_draft(name, draft, log, Ks, seed, latencies[name], rule)
    result = {
        "settings": settings.portable_dict(),
        "log": {"target": log.target, "tokenizer": log.tokenizer, "settings": log.settings},
        "certainty": describe_certainty(log, settings.drafts()),
        "rows": rows,
    }
    if output.json:
        print(json.dumps(result))
        return
    print(table(rows, COLUMNS))
    print(f"\n{legend(rows, COLUMNS)}\n\n{textwrap.fill(result['certainty'], 100)}")
    reasons = {reason for row in rows for reason in row["withheld"].values()}
    for reason in sorted(reasons):
        print(textwrap.fill(f"no projected speedup: {reason}", 100))
