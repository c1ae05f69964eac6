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
REFUSED = {  # {the flag that is named: settings}
    "K": [{"K": 0}, {"K": -1}],
    "n_tokens_to_generate": [{"n_tokens_to_generate": 0}],
    "seed": [{"seed": -1}],
    "temperature": [{"temperature": -1.0}, {"temperature": math.inf}],
    "top_k": [{"top_k": -1}],
    "top_p": [{"top_p": 0.0}],
    "mode": [{"mode": "x"}],
    "verification": [{"verification": "x"}],
    "draft_confidence": [
        *({"draft_confidence": x} for x in (1.01, math.nan)),
        *(
            {"draft_confidence": 0.5, **x}
            for x in ({"coupled": True}, {"draft_model_size": "ngram"})
        ),
    ],
    "coupled": [{"coupled": True, "verification": "block"}],
    "trace": [{"trace": True, "mode": "autoregressive"}],
    "report": [{"report": "x.html", "mode": "autoregressive"}],
    "mistake": [
        {"mistake": "reseed", "mode": "autoregressive"},
        *({"mistake": "reseed", name: True} for name in ("coupled", "trace")),
    ],
    "rule": [
        {"rule": "exercises.mine", "mode": "autoregressive"},
        *({"rule": "exercises.mine", x: "x"} for x in ("mistake", "coupled", "trace", "report")),
    ],
    "paths": [
        *({"paths": n} for n in (0, 17, 2)),  # the last is greedy
        SAMPLED_PATHS | {"top_k": 1},
        SAMPLED_PATHS | {"mode": "autoregressive"},
        SAMPLED_PATHS | {"K": "auto"},
        SAMPLED_PATHS | {"draft_confidence": 0.5},
        *(SAMPLED_PATHS | {"draft_model_size": name} for name in ("ngram", "eagle", "medusa")),
        *(SAMPLED_PATHS | {x: "x"} for x in ("coupled", "mistake", "rule", "trace", "report")),
    ],
}


@pytest.mark.parametrize(
    "name, changes", [(name, one) for name in REFUSED for one in REFUSED[name]]
)
def test_what_makes_no_sense_is_refused_by_name(name, changes):
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
