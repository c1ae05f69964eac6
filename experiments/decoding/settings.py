"""What a run is: its settings, checked once, in one place."""

import dataclasses
from dataclasses import dataclass, field

import utils
from experiments.drafting.pairs import NGRAM
from experiments.drafting.stored import HEADS
from sampling import Filter
from utils import InputError

AUTO = "auto"  # a K that is chosen anew each round
MODES = ("both", "autoregressive", "speculative")
VERIFICATIONS = ("token", "block")
MOST_PATHS = 16  # each is a text of its own in the target's pass


class SettingError(InputError):
    """A setting that cannot be used. The message names it as the flag it has on the command line;
    `name` and `problem` are kept apart for callers that have no flags.
    """

    def __init__(self, name, problem):
        super().__init__(f"--{name} {problem}")
        self.name, self.problem = name, problem


def parse_K(text):
    """A number of drafts, or "auto". Raises SettingError."""
    if text == AUTO:
        return AUTO
    try:
        return int(text)
    except ValueError:
        raise SettingError("K", f"{text!r}: expected one whole number, or auto") from None


@dataclass(frozen=True)
class Settings:
    """Everything that decides what a run does, its prompt apart. The field names are the flags of
    `generate` and the keys of "settings" in its JSON object. Raises SettingError, one line, for a
    value that makes no sense.

    Text:
        n_tokens_to_generate: how many tokens to write; fewer if <|endoftext|>, the stop string or
            the end of the context comes first
        stop: stop after the token that completes this string
        mode: which decoders to run: both, autoregressive or speculative

    Models:
        target_model_size: the model whose text is wanted: a size in models_dir, or a folder
        draft_model_size: what proposes tokens: a size in models_dir, a folder, ngram (looks up what
            followed the last tokens earlier in the text), or eagle or medusa (trained heads on the
            target)
        models_dir: the folder that holds a folder for each size

    Speculation:
        K: how many tokens to draft per round; auto chooses K for each round, from the acceptance
            rate and the time that rounds take
        verification: the accept/reject rule: token decides on each drafted token in turn; block
            decides on all of a round together, and on average accepts at least as many
        paths: how many whole drafts to sample per round; the target scores all in one pass, and the
            best is verified. For a draft model and a single prompt at a temperature above 0,
            without --K auto, --draft_confidence, --coupled, --mistake, --trace or --report
        draft_confidence: stop drafting where the draft model gives no token this much probability;
            not with n-grams or --coupled
        coupled: draft and target share the sampling noise of each position, so that the two texts
            are the same at any temperature
        mistake: a known way to get speculative decoding wrong, for the speculative decoder to make;
            python main.py mistakes lists them, measures how wrong each is, and shows its lines. A
            mistake in one accept/reject rule is made with that rule

    Sampling:
        temperature: 0 is greedy decoding
        top_k: sample from this many most likely tokens; 0 keeps all
        top_p: sample from the smallest set of most likely tokens with this total probability
        seed: of the random numbers; prompt n of several uses seed + n - 1. The same seed gives the
            same text, except with --K auto, which depends on how long passes take

    Output:
        stream: print the text while it is written
        trace: print the speculative text round by round, and mark where each token came from; not
            with --json
        report: write a page to this .html file, with the numbers of every decision of the
            speculative run

    Machine:
        backend: what computes: numpy, or cupy on a GPU
        dtype: float32, or float16 with cupy
        kernels: how NumPy multiplies: auto measures, plain is NumPy's own product, 64x2 is tiles of
            64 columns on 2 threads
        exact: make each logit independent of how many tokens share a pass, to the last bit, so that
            greedy texts are identical even at a tie
    """

    n_tokens_to_generate: int = 60
    draft_model_size: str = "0.7M-17M"
    target_model_size: str = "17M"
    models_dir: str = utils.MODELS_DIR
    K: int | str = field(default=4, metadata={"parse": parse_K})
    verification: str = "token"
    paths: int = 1
    draft_confidence: float = 0.0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    coupled: bool = False
    seed: int = 123
    stop: str = ""
    mode: str = "both"
    mistake: str = ""
    stream: bool = False
    trace: bool = False
    report: str = ""
    backend: str = "numpy"
    dtype: str = "float32"
    kernels: str = "auto"
    exact: bool = False

    def __post_init__(self):
        self.check_ranges()
        self.check_combinations()

    def check_ranges(self):
        if self.K != AUTO and self.K < 1:
            raise SettingError("K", f"{self.K}: expected 1 or more")
        if not 1 <= self.paths <= MOST_PATHS:
            raise SettingError("paths", f"{self.paths}: expected 1 to {MOST_PATHS}")
        if self.n_tokens_to_generate < 1:
            n = self.n_tokens_to_generate
            raise SettingError("n_tokens_to_generate", f"{n}: expected 1 or more")
        if self.seed < 0:
            raise SettingError("seed", f"{self.seed}: expected 0 or more")
        if not 0 <= self.draft_confidence <= 1:
            problem = f"{self.draft_confidence}: expected a probability, 0 to 1"
            raise SettingError("draft_confidence", problem)
        for name, choices in (("mode", MODES), ("verification", VERIFICATIONS)):
            value = getattr(self, name)
            if value not in choices:
                *others, last = choices
                expected = f"{', '.join(others)} or {last}" if others else last
                raise SettingError(name, f"{value!r}: expected {expected}")
        self.sampling  # raises for temperature, top_k and top_p

    def check_combinations(self):
        if self.paths > 1:
            self.check_paths()
        if self.draft_confidence and self.coupled:
            problem = "with --coupled: expected one of the two, as noise hides what the draft knows"
            raise SettingError("draft_confidence", problem)
        if self.mistake and (self.trace or self.report or self.coupled):
            problem = (
                "with --trace, --report or --coupled: expected it alone, they watch right code"
            )
            raise SettingError("mistake", problem)
        if self.draft_confidence and self.draft_model_size == NGRAM:
            problem = "with n-grams: expected a draft model, as n-grams give no probabilities"
            raise SettingError("draft_confidence", problem)
        if self.coupled and self.verification == "block":
            problem = "with --coupled: expected token, as shared noise decides in place of a rule"
            raise SettingError("verification", problem)
        for name in ("trace", "report", "mistake"):
            if getattr(self, name) and self.mode == "autoregressive":
                problem = "with --mode autoregressive: expected --mode both or speculative"
                raise SettingError(name, problem)

    def check_paths(self):
        """Several paths need a draft model, and drafts of one length that nothing else changes."""
        if self.draft_model_size in (NGRAM, *HEADS):
            problem = f"with --draft_model_size {self.draft_model_size}: expected a draft model"
            raise SettingError("paths", problem)
        if self.K == AUTO:
            raise SettingError("paths", "with --K auto: expected a number, such as --K 4")
        for name in ("draft_confidence", "coupled", "mistake", "trace", "report"):
            if getattr(self, name):
                raise SettingError("paths", f"with --{name}: expected one of the two")
        if self.sampling.greedy or self.top_k == 1:
            problem = "with greedy decoding: expected a temperature above 0 and no --top_k 1"
            raise SettingError("paths", f"{problem}, as all paths would be the same")
        if not self.speculates:
            problem = "with --mode autoregressive: expected --mode both or speculative"
            raise SettingError("paths", problem)

    @property
    def sampling(self):
        """The sampling parameters as the Filter of draft and target. Raises SettingError."""
        try:
            return Filter(self.temperature, self.top_k, self.top_p)
        except ValueError as error:
            # a Filter's message begins with the name of the parameter
            name, problem = str(error).split(" ", 1)
            raise SettingError(name, problem) from None

    @property
    def decoders(self):
        """The decoders that run, in order."""
        return ("autoregressive", "speculative") if self.mode == "both" else (self.mode,)

    @property
    def speculates(self):
        return "speculative" in self.decoders

    @property
    def watched(self):
        """Whether the numbers of every round are kept: to be shown, or to compare two rules."""
        return bool(self.trace or self.report or self.coupled)

    def replace(self, **changes):
        """The same settings but for these."""
        return dataclasses.replace(self, **changes)

    def as_json(self, prompt, seed, ids=()):
        """The "settings" of a JSON object: those that give the text of one prompt alone. ids: where
        the prompt has no text.
        """
        settings = {"prompt": prompt} | dataclasses.asdict(self) | {"seed": seed}
        if prompt is None:
            settings["prompt_ids"] = list(ids)
        if self.verification == "token":  # newer settings are named where they are not the default
            del settings["verification"]
        if self.paths == 1:
            del settings["paths"]
        return settings
