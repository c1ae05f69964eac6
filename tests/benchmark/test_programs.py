"""The same weights in other programs, with a stand-in for these."""

from decoding.drafts import ModelDraft
from decoding.load import Pair
from decoding.run import Run
from toys import tiny_model

from experiments.benchmark import programs

MODEL = tiny_model(1)
PAIR = Pair(MODEL, ModelDraft(MODEL), None)
RUN = Run(PAIR, [], 6, K=2)
SHORT = programs.Program("short", "1", {"plain": lambda ids, n: ([0] * (n - 1), n)})


def test_figures_of_texts_of_another_length_are_withheld():
    ours = programs.start_ours(PAIR, RUN)
    plain, fast, short = programs.compare_programs(
        [ours, SHORT], [[5, 6], [7]], RUN, repeats=3, seed=0
    )
    assert [row["decoder"] for row in (plain, fast, short)] == ["plain", "speculative", "plain"]
    assert [row["same_texts"] for row in (plain, fast, short)] == [2, 2, 0]
    assert plain["against_ours"] == {"value": 1, "low": 1, "high": 1}
    # a draft that is the target: after the prefill's passes, three tokens in each
    assert (plain["tokens_per_target_pass"], fast["tokens_per_target_pass"]) == (1, 3)
    assert short["tokens_per_second"] is None and short["against_ours"] is None
    assert short["tokens_per_target_pass"] is None
