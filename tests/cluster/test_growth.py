"""experiments/cluster/growth.py: from what a prompt costs to what many workers do."""

import pytest

pytest.importorskip("distributed", reason="distributed is not installed")

from experiments.cluster import growth  # noqa: E402


def rows_of(text):
    """{workers: [prompts per second, of one, how]} of the table."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return {int(n): cells for n, *cells in lines[2:]}


def test_a_table_of_known_times(monkeypatch, capsys):
    """A prompt takes a worker 0.5 s; a group of 8 takes the scheduler 0.04 s, which is 200 prompts
    per second: what 100 workers do.
    """
    times = {1: (0.5, 0.01, 0.04), 2: (0.3, 0.01, 0.04)}
    asked = []
    monkeypatch.setattr(growth, "measure", lambda n, *how: asked.append(how) or times[n])
    growth.growth(n_prompts=16, batch_size=8, n_tokens=5)
    assert [how[1:] for how in asked] == [(16, 8)] * 2 and asked[0][0].n_tokens_to_generate == 5
    text = capsys.readouterr().out
    assert "a worker 4.00 s" in text and "back 10.0 ms, of CPU time here 40.0 ms" in text
    assert "The scheduler feeds 100 workers." in text
    found = rows_of(text)
    assert [*found] == [*growth.WORKERS]
    # what was measured is not computed
    assert found[1] == ["2.00", "1.0", "measured"]
    assert found[2] == ["3.33", "1.7", "measured"]
    assert found[64] == ["128.00", "64.0", "computed"]
    assert found[256] == found[1024] == ["200.00", "100.0", "computed"]


@pytest.mark.parametrize("n_workers, speed", [(1, 4), (99, 396), (100, 400), (101, 400)])
def test_workers_are_fed_up_to_a_number(n_workers, speed):
    assert growth.computed(n_workers, 0.25, 0.0025) == pytest.approx(speed)
