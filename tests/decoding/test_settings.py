"""Settings: one validated dataclass, whose fields are flags of generate and keys of its JSON."""

import math

import pytest

from experiments.data.values import SettingError
from experiments.decoding.settings import Settings

KEYS = """prompt n_tokens_to_generate draft_model_size target_model_size models_dir K
draft_confidence temperature top_k top_p coupled seed stop mode mistake stream trace report backend
dtype kernels exact""".split()


def test_the_keys_of_the_json_object_are_what_files_of_results_have(as_json):
    assert sorted(Settings().as_json("a", 1)) == sorted(KEYS)
    assert sorted(as_json("--n_tokens_to_generate=1")["settings"]) == sorted(KEYS)


SAMPLED_PATHS = {"paths": 2, "temperature": 1.0}
REFUSED = [  # settings, of which the first is named
    {"K": 0},
    {"n_tokens_to_generate": 0},
    {"seed": -1},
    {"temperature": -1.0},
    {"temperature": math.inf},
    {"top_k": -1},
    {"top_p": 0.0},
    {"mode": "x"},
    {"verification": "x"},
    {"draft_confidence": 1.01},
    {"draft_confidence": math.nan},
    {"draft_confidence": 0.5, "coupled": True},
    {"draft_confidence": 0.5, "draft_model_size": "ngram"},
    {"coupled": True, "verification": "block"},
    {"trace": True, "mode": "autoregressive"},
    {"report": "x.html", "mode": "autoregressive"},
    {"mistake": "reseed", "trace": True},
    {"rule": "exercises.mine", "mistake": "reseed"},
    {"paths": 0},
    {"paths": 17},
    {"paths": 2},  # greedy
    SAMPLED_PATHS | {"top_k": 1},
    SAMPLED_PATHS | {"K": "auto"},
    SAMPLED_PATHS | {"draft_model_size": "eagle"},
]


@pytest.mark.parametrize("changes", REFUSED, ids=str)
def test_what_makes_no_sense_is_refused_by_name(changes):
    name = next(iter(changes))
    for make in (lambda: Settings(**changes), lambda: Settings().replace(**changes)):
        with pytest.raises(SettingError, match=f"^--{name} .*expected") as caught:
            make()
        assert caught.value.name == name


def test_what_runs_and_what_is_watched():
    assert Settings().decoders == ("autoregressive", "speculative") and not Settings().watched
    assert Settings(mode="speculative").decoders == ("speculative",)
    assert not Settings(mode="autoregressive").speculates
    for name in ("trace", "report", "coupled"):
        assert Settings(**{name: "x.html" if name == "report" else True}).watched
