"""The settings of a run, in groups that commands put together.

A field of a group is a flag: its name, default, meaning and limits are defined here and nowhere
else. --help and the lists in docs/usage.md are generated from them. A command's settings are a
dataclass that inherits the groups it takes; where a flag accepts more in that command (a list of
sizes in place of one), the dataclass declares the field anew.
"""

import dataclasses
import math
from dataclasses import dataclass, field

import utils
from cli.prompts import choose_prompts
from cli.values import (
    AUTO,
    MOST,
    SettingError,
    check_choice,
    check_length,
    check_numbers,
    parse_K,
    parse_list,
)
from decoding.load import CHECKPOINT, RANDOM
from sampling import Filter

SEEDS = {"least": 0, "most": math.inf}  # that NumPy takes
FORMS = "a file of prompts: JSON Lines, a JSON array, HellaSwag's form, or one a line; or .gz, .bz2"

# {flag: the others that cannot be given with it}, some with one of their values only
APART = {
    "prompts": "prompt",
    "prompt_ids": "prompt prompts",
    "draft_confidence": "draft_model_size=ngram",  # n-grams give no probabilities
    "coupled": "verification=block rule",  # shared noise decides in place of a rule
    # what is about speculation needs some
    "trace": "mode=autoregressive json",
    "stream": "json",
    "report": "mode=autoregressive",
    "mistake": "mode=autoregressive",
    "rule": "mode=autoregressive",
    # workers have no mistakes, and none of this machine's files
    "cluster": "mistake rule",
    # benchmark: what measures something else, or has no figures for an output
    "corpus": "prompts weights=random",
    "programs": "batch_size synthetic_acceptance cluster dtype",
    "plot": "batch_size programs K=auto",  # the picture has one point for each K
    "resume": "batch_size programs",  # which keep nothing when they are interrupted
    "costs": "draft_cost",
}


def flag(default, meaning, reader=None, least=None, most=MOST, choices=()):
    """A field that is a flag, and what its value may be: from `least` to `most`, or one of the
    choices. reader(text) gives the value, where its type does not say how.
    """
    limits = {"least": least, "most": most, "choices": choices}
    return field(default=default, metadata={"meaning": meaning, "reader": reader, "limits": limits})


def check_limits(name, value, least, most, choices):
    if least is not None and value != AUTO:
        check_numbers(least, most, **{name: value})
    if choices:
        check_choice(name, value, *choices)


@dataclass(frozen=True)
class Group:
    """Some flags that belong together. `check` of each class refuses what its flags do not."""

    def __post_init__(self):
        # a flag that a class declares anew keeps its limits
        for kind in reversed(type(self).__mro__):
            for one in vars(kind).get("__dataclass_fields__", {}).values():
                check_limits(one.name, getattr(self, one.name), **one.metadata["limits"])
            if "check" in vars(kind):
                kind.check(self)
        check_apart(self)

    def has(self, given):
        """Whether a flag is not at its default; of "flag=value", whether it has that value."""
        name, equals, value = given.partition("=")
        if name not in vars(self):
            return False
        if equals:
            return str(getattr(self, name)) == value
        return getattr(self, name) != getattr(type(self), name)

    def replace(self, **changes):
        """The same settings but for these."""
        return dataclasses.replace(self, **changes)

    def as_dict(self):
        return dataclasses.asdict(self)


def check_apart(*groups):
    """Raises SettingError for flags of these groups that cannot be given together."""
    for name, others in APART.items():
        for other in others.split():
            if all(any(group.has(one) for group in groups) for one in (name, other)):
                problem = f"with --{other.replace('=', ' ')}: expected one of the two"
                raise SettingError(name, problem)


@dataclass(frozen=True)
class Ending(Group):
    heading = "Text"

    n_tokens_to_generate: int = flag(
        60,
        "how many tokens to write; <|endoftext|>, --stop or the end of the context may come first",
        least=1,
    )
    stop: str = flag("", "stop after the token that completes this string")


@dataclass(frozen=True)
class Folder(Group):
    heading = "Models"

    models_dir: str = flag(utils.MODELS_DIR, "the folder that holds a folder for each size")


@dataclass(frozen=True)
class Target(Folder):
    target_model_size: str = flag(
        "17M", "the model you want text from: a size in models_dir, or a folder"
    )

    def targets(self):
        return parse_list("target_model_size", self.target_model_size)


@dataclass(frozen=True)
class Models(Target):
    draft_model_size: str = flag(
        "0.7M-17M",
        "what proposes tokens: a size in models_dir, a folder, ngram (looks up what followed the "
        "last tokens earlier in the text), or eagle or medusa (trained heads on the target)",
    )

    def drafts(self):
        return parse_list("draft_model_size", self.draft_model_size)


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
    top_k: int = flag(0, "sample from the top_k most likely tokens; 0 keeps all", least=0)
    top_p: float = flag(
        1.0, "sample from the smallest set of most likely tokens with this total probability"
    )
    seed: int = flag(123, "seed of the random numbers", **SEEDS)

    def check(self):
        for temperature in self.temperatures():
            check_numbers(0, temperature=temperature)
        if not 0 < self.top_p <= 1:
            raise SettingError("top_p", f"{self.top_p}: expected a number above 0 and up to 1")

    def temperatures(self):
        return parse_list("temperature", self.temperature, float)

    def filters(self):
        """{temperature: Filter}, for one or several temperatures."""
        return {one: Filter(one, self.top_k, self.top_p) for one in self.temperatures()}

    @property
    def sampling(self):
        """The sampling parameters as the Filter of draft and target."""
        (filter,) = self.filters().values()
        return filter


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
        return self.verification


@dataclass(frozen=True)
class Drafting(Verification, Models):
    heading = "Speculation"

    K: int | str = flag(
        4,
        "how many tokens to draft per round; auto chooses for each round, from the acceptance rate "
        "and the time that rounds take",
        parse_K,
        least=1,
        most=math.inf,
    )
    draft_confidence: float = flag(
        0.0,
        "stop drafting where the draft model gives no token this much probability; not with "
        "n-grams",
        least=0,
        most=1,
    )
    coupled: bool = flag(
        False,
        "the draft model and the target share the sampling noise of each position, so that the two "
        "texts are the same at any temperature",
    )


@dataclass(frozen=True)
class Speculation(Drafting):
    mistake: str = flag(
        "",
        "make a known mistake on purpose; python main.py mistakes lists them. A mistake of the "
        "block rule selects that rule",
    )
    rule: str = flag(
        "",
        "an accept/reject rule of your own (docs/exercises.md): exercises.mine, another module or "
        "a .py file. Also prints its distance from the target's distribution, and what it keeps",
    )

    @property
    def rule_name(self):
        """The accept/reject rule: that of --verification, or the one a mistake is made in."""
        if not self.mistake:
            return self.verification
        from proving.mistakes import rule_of

        return rule_of(self.mistake) or self.verification


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

    def get_backend(self):
        return utils.get_backend(self.backend, self.kernels, self.exact, self.dtype)


@dataclass(frozen=True)
class Workers(Group):
    heading = "Machine"

    cluster: str = flag(
        "",
        "spread several prompts over the workers of a Dask cluster: local:4 starts four here, "
        "tcp://HOST:8786 is a running scheduler",
    )


@dataclass(frozen=True)
class PromptFile(Group):
    heading = "Text"

    prompts: str = flag("", f"{FORMS}. By default built-in stories")
    n_prompts: int = flag(12, "how many prompts to use; 0 is all", least=0)
    n_tokens_to_generate: int = flag(60, "how many tokens to write after each prompt", least=1)

    def longest(self, pairs):
        """The most tokens of a prompt."""
        n_ctx, n_tokens = pairs.target.config.n_ctx, self.n_tokens_to_generate
        check_length("n_tokens_to_generate", n_tokens, n_ctx - 1)
        return n_ctx - n_tokens

    def chosen(self, pairs):
        """(the prompts' ids, how many longer ones were skipped)."""
        return choose_prompts(self.prompts, self.n_prompts, pairs.encoder, self.longest(pairs))


@dataclass(frozen=True)
class Tracing(Group):
    heading = "Output"

    trace: bool = flag(
        False,
        "print the speculative text round by round, and mark where each token came from; not with "
        "--json",
    )


@dataclass(frozen=True)
class Showing(Tracing):
    stream: bool = flag(False, "print the text while it is written; not with --json")
    report: str = flag(
        "",
        "write a page to this .html file, with the numbers of every decision of the speculative "
        "run",
    )


@dataclass(frozen=True)
class Json(Group):
    heading = "Output"

    json: bool = flag(False, "print one JSON object and nothing else")


@dataclass(frozen=True)
class Settings(Showing, Machine, Sampling, Speculation, Ending):
    """Everything that decides what a run does, its prompt apart. The field names are the flags of
    `generate` and the keys of "settings" in its JSON object. Raises SettingError, one line, for a
    value that makes no sense.
    """

    mode: str = flag(
        "both",
        "which decoders to run: both, autoregressive or speculative",
        choices=("both", "autoregressive", "speculative"),
    )
    seed: int = flag(
        123,
        "seed of the random numbers; prompt n of several uses seed + n - 1. The same seed gives "
        "the same text, except with --K auto, which depends on measured times",
    )
    heading = "Text"

    def check(self):
        if not self.mistake:
            return
        from proving.mistakes import require_made

        other = self.coupled or self.rule  # decides in place of the two rules
        require_made(self.mistake, "other" if other else self.rule_name, self.draft_model_size)
        if (self.rule_name, self.verification) == ("token", "block"):
            problem = f"{self.mistake} with --verification block: it is made in the token rule"
            raise SettingError("mistake", f"{problem}; expected no --verification")

    @property
    def decoders(self):
        """The decoders that run, in order."""
        return ("autoregressive", "speculative") if self.mode == "both" else (self.mode,)

    @property
    def speculates(self):
        return "speculative" in self.decoders

    def as_json(self, prompt, seed, ids=()):
        """The "settings" of a JSON object: those that give one prompt's text alone."""
        # newer settings are named where they are not the default
        settings = {"prompt": prompt} | self.as_dict() | {"seed": seed}
        settings["verification"] = self.rule_name
        unnamed = {name for name in ("verification", "rule") if settings[name] == DEFAULTS[name]}
        if prompt is None:
            settings["prompt_ids"] = list(ids)
        return {name: value for name, value in settings.items() if name not in unnamed}


DEFAULTS = Settings().as_dict()
