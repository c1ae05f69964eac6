"""The settings of a run, in groups that commands put together.

A field of a group is a flag: its name, default, meaning and limits are defined here and nowhere
else. --help and the lists in docs/usage.md are generated from them. A command's settings are a
dataclass that inherits the groups it takes; where a flag accepts more in that command (a list of
sizes in place of one), the dataclass declares the field anew.
"""

import dataclasses
import math
from dataclasses import dataclass, field

from checkpoints.errors import SettingError
from checkpoints.limits import COUNT, POSITIVE, PROBABILITY, TEMPERATURE, Limits
from checkpoints.registry import MODELS_DIR
from cli.values import AUTO, check_choice, check_number, parse_K, parse_list
from decoding.load import NGRAM
from sampling import SamplingParams
from utils import CHECKPOINT, RANDOM

SEEDS = Limits(0, math.inf, whole=True)  # that NumPy takes
FORMS = "a file of prompts: JSON Lines, a JSON array, HellaSwag's form, or one a line; or .gz, .bz2"


def flag(default, meaning, reader=None, limits=None, choices=(), conflicts=""):
    """Make a dataclass field that is a flag. The type of the default is the type of its values.

    meaning: what --help says
    reader: a function text -> value, if the type of the default does not say how to read a value
    limits: the Limits of a number. choices: the values allowed, if they are few
    conflicts: the flags, or values of flags, that it excludes, as "flag flag=value"
    """
    about = {"meaning": meaning, "reader": reader, "limits": limits, "choices": choices}
    return field(default=default, metadata=about | {"conflicts": conflicts.split()})


def check_value(setting, value):
    """Raise SettingError for a value that is not allowed. setting: a field that `flag` made."""
    limits, choices = setting.metadata["limits"], setting.metadata["choices"]
    if limits and value != AUTO:  # --K takes a number or auto
        check_number(setting.name, value, limits)
    if choices:
        check_choice(setting.name, value, *choices)


@dataclass(frozen=True)
class Group:
    """Flags that belong together. A subclass may define `check(self)`, which raises SettingError
    for what the limits of single flags cannot say.
    """

    def __post_init__(self):
        """Check all values. Raises SettingError."""
        for setting in dataclasses.fields(self):
            check_value(setting, getattr(self, setting.name))
        for group in reversed(type(self).__mro__):  # a command's own checks come last
            if "check" in vars(group):
                group.check(self)
        check_conflicts(self)

    def is_set(self, condition: str) -> bool:
        """Whether a flag is not at its default ("trace"), or has a value ("mode=speculative").
        False for a flag of other groups.
        """
        name, equals, value = condition.partition("=")
        if name not in vars(self):
            return False
        if equals:
            return str(getattr(self, name)) == value
        return getattr(self, name) != getattr(type(self), name)

    def replace(self, **changes):
        """Return a checked copy with these values of flags changed. Raises SettingError."""
        return dataclasses.replace(self, **changes)

    def as_dict(self):
        """{name of a flag: its value}."""
        return dataclasses.asdict(self)


def check_conflicts(*groups: Group):
    """Raise SettingError if two flags that exclude each other are set in these groups."""
    for group in groups:
        for setting in dataclasses.fields(group):
            if not group.is_set(setting.name):
                continue
            for conflict in setting.metadata["conflicts"]:  # "trace", or "mode=both"
                if any(other_group.is_set(conflict) for other_group in groups):
                    problem = f"with --{conflict.replace('=', ' ')}: expected one of the two"
                    raise SettingError(setting.name, problem)


@dataclass(frozen=True)
class Ending(Group):
    heading = "Text"

    n_tokens_to_generate: int = flag(
        60,
        "how many tokens to write; <|endoftext|>, --stop or the end of the context may come first",
        limits=POSITIVE,
    )
    stop: str = flag("", "stop after the token that completes this string")


@dataclass(frozen=True)
class Folder(Group):
    heading = "Models"

    models_dir: str = flag(MODELS_DIR, "the folder that holds a folder for each size")

    def portable_dict(self):
        """{name of a flag: its value}, without models_dir, which differs between machines."""
        settings = self.as_dict()
        del settings["models_dir"]
        return settings


@dataclass(frozen=True)
class Target(Folder):
    target_model_size: str = flag(
        "17M", "the model you want text from: a size in models_dir, or a folder"
    )

    def targets(self):
        """The list of names in --target_model_size; some commands take several, with commas."""
        return parse_list("target_model_size", self.target_model_size)


@dataclass(frozen=True)
class Models(Target):
    draft_model_size: str = flag(
        "0.7M-17M",
        "what proposes tokens: a size in models_dir, a folder, ngram (looks up what followed the "
        "last tokens earlier in the text), or eagle or medusa (trained heads on the target)",
    )

    def drafts(self):
        """The list of names in --draft_model_size; some commands take several, with commas."""
        return parse_list("draft_model_size", self.draft_model_size)

    def check(self):
        """Raise SettingError for the draft "none", which turns drafting off in other programs."""
        if self.draft_model_size.lower() == "none":
            expected = "expected a draft; to decode without one, give --mode autoregressive"
            raise SettingError("draft_model_size", f"{self.draft_model_size}: {expected}")


@dataclass(frozen=True)
class Weights(Group):
    heading = "Models"

    weights: str = flag(
        CHECKPOINT,
        "checkpoint, or random (sizes 82M to 1558M need no files; texts mean nothing)",
        choices=(CHECKPOINT, RANDOM),
    )


@dataclass(frozen=True)
class Sampling(Group):
    heading = "Sampling"

    temperature: float = flag(0.0, "0 is greedy decoding")
    top_k: int = flag(0, "sample from the top_k most likely tokens; 0 keeps all", limits=COUNT)
    top_p: float = flag(
        1.0, "sample from the fewest most likely tokens that together reach this probability"
    )
    seed: int = flag(123, "seed of the random numbers", limits=SEEDS)

    def check(self):
        """Raise SettingError for a temperature or top_p outside its limits."""
        for temperature in self.temperatures():
            check_number("temperature", temperature, TEMPERATURE)
        if not 0 < self.top_p <= 1:
            raise SettingError("top_p", f"{self.top_p}: expected a number above 0 and up to 1")

    def temperatures(self):
        """The list of temperatures as floats; some commands take several, with commas."""
        return parse_list("temperature", self.temperature, float)

    def sampling_params(self):
        """{temperature: SamplingParams}, for one or several temperatures."""
        return {t: SamplingParams(t, self.top_k, self.top_p) for t in self.temperatures()}

    @property
    def to_probs(self):
        """The SamplingParams (called as logits -> probabilities) of the only temperature."""
        (to_probs,) = self.sampling_params().values()
        return to_probs


@dataclass(frozen=True)
class Verification(Group):
    heading = "Speculation"

    verification: str = flag(
        "token",
        "the accept/reject rule: token decides on each drafted token in turn; block decides on all "
        "those of a round together, and on average accepts at least as many",
        choices=("token", "block"),
    )

    @property
    def rule_name(self):
        """The accept/reject rule, "token" or "block"."""
        return self.verification


@dataclass(frozen=True)
class Drafting(Verification, Models):
    heading = "Speculation"

    K: int | str = flag(
        4,
        "how many tokens to draft per round; auto chooses for each round, from the acceptance rate "
        "and the time that rounds take, and decodes one text at a time",
        parse_K,
        limits=Limits(1, math.inf, whole=True),
    )
    draft_confidence: float = flag(
        0.0,
        "stop drafting where the draft model gives no token this much probability; not with "
        "n-grams",
        limits=PROBABILITY,
    )
    coupled: bool = flag(
        False,
        "the draft model and the target share the sampling noise of each position, so that the two "
        "texts are the same at any temperature",
        conflicts="verification=block rule",  # shared noise decides in place of a rule
    )

    def check(self):
        """Raise SettingError for --draft_confidence with n-grams."""
        if self.draft_confidence and NGRAM in self.drafts():
            why = "n-grams give no probabilities; expected one of the two"
            raise SettingError("draft_confidence", f"with --draft_model_size {NGRAM}: {why}")


@dataclass(frozen=True)
class Speculation(Drafting):
    mistake: str = flag(
        "",
        "make a known mistake on purpose; python main.py mistakes lists them. A mistake of the "
        "block rule selects that rule",
        conflicts="mode=autoregressive",
    )
    rule: str = flag(
        "",
        "an accept/reject rule of your own (docs/exercises.md): exercises.mine, another module or "
        "a .py file. Also prints its distance from the target's distribution, and what it keeps",
        conflicts="mode=autoregressive",
    )

    @property
    def rule_name(self):
        """The accept/reject rule, "token" or "block": of --mistake, else of --verification."""
        if not self.mistake:
            return self.verification
        from proving.mistakes import changed_rule

        return changed_rule(self.mistake) or self.verification


@dataclass(frozen=True)
class Machine(Group):
    heading = "Machine"

    backend: str = flag("numpy", "what computes: numpy, or cupy on a GPU")
    kernels: str = flag(
        "auto",
        "how NumPy multiplies: auto measures, plain is NumPy's own product, 64x2 is tiles of 64 "
        "columns on 2 threads",
    )
    dtype: str = flag("float32", "float32, or float16 with cupy")
    exact: bool = flag(
        False,
        "make each logit independent of how many tokens share a pass, to the last bit, so that "
        "greedy texts are identical even at a tie",
    )


@dataclass(frozen=True)
class Workers(Group):
    heading = "Machine"

    cluster: str = flag(
        "",
        "spread several prompts over the workers of a Dask cluster: local:4 starts four here, "
        "tcp://HOST:8786 is a running scheduler",
        conflicts="mistake rule",  # workers have no mistakes, and none of this machine's files
    )


@dataclass(frozen=True)
class Tracing(Group):
    heading = "Output"

    trace: bool = flag(
        False,
        "print the speculative text round by round, and mark where each token came from; not with "
        "--json",
        conflicts="mode=autoregressive json",
    )


@dataclass(frozen=True)
class Showing(Tracing):
    stream: bool = flag(
        False, "print the text while it is written; not with --json", conflicts="json"
    )
    report: str = flag(
        "",
        "write a page to this .html file, with the numbers of every decision of the speculative "
        "run",
        conflicts="mode=autoregressive",
    )


@dataclass(frozen=True)
class Json(Group):
    heading = "Output"

    json: bool = flag(False, "print one JSON object and nothing else")


@dataclass(frozen=True)
class Settings(Showing, Machine, Sampling, Speculation, Ending):
    """All that decides what a run does, except its prompt: the flags of `generate`, and the keys of
    "settings" in its JSON object. Raises InputError for a value that makes no sense.
    """

    mode: str = flag(
        "both",
        "which decoders to run: both, autoregressive or speculative",
        choices=("both", "autoregressive", "speculative"),
    )
    seed: int = flag(
        123,
        "seed of the random numbers; prompt n of several uses seed + n - 1. The same seed gives "
        "the same text, unless measured times decide: with --K auto, and with --kernels auto where "
        "logits are not --exact",
        limits=SEEDS,
    )
    heading = "Text"

    def check(self):
        """Raise InputError if --mistake is unknown, or changes code that these flags never run."""
        if not self.mistake:
            return
        from cli.hints import find_mistake  # here: a plain run makes no mistake
        from proving.mistakes import require_usable

        find_mistake(self.mistake)
        # shared noise or a reader's rule decides in place of the token and the block rule
        rule_name = "other" if self.coupled or self.rule else self.rule_name
        require_usable(self.mistake, rule_name, self.draft_model_size)
        if self.rule_name == "token" and self.verification == "block":  # rule_name: the mistake's
            problem = f"{self.mistake} with --verification block: it is made in the token rule"
            raise SettingError("mistake", f"{problem}; expected no --verification")

    @property
    def decoders(self):
        """The names of the decoders to run, a tuple: "autoregressive", "speculative" or both."""
        return ("autoregressive", "speculative") if self.mode == "both" else (self.mode,)

    @property
    def speculates(self):
        """Whether the speculative decoder is to run."""
        return "speculative" in self.decoders

    def as_json(self, prompt, seed, ids=()):
        """{flag: value} that make a run write the same text: the "settings" of a JSON object.

        prompt: the text (str), or None for a prompt of token `ids`; seed: the prompt's own
        """
        prompt_ids = list(ids) if prompt is None else None
        prompt_flags = {"prompt": prompt, "prompt_ids": prompt_ids}
        own = {"seed": seed, "verification": self.rule_name}  # a --mistake may imply a rule
        return prompt_flags | self.as_dict() | own


DEFAULTS = Settings().as_dict()
