"""The forms of samplers: trees, batches, empty drafts, whole texts, filters; and what no right one
returns.
"""

import numpy as np
import own_loops as loops
import pytest

from proof import prove as referee
from proof.cases import BATCH_CASES, LOOP_CASES, MANY_ROWS, RULE_CASES, TREE_CASES, filtered
from proof.forms import loop_text, rule_text
from proof.prove import prove
from proof.words import describe
from sampling import SamplingParams, verify


@pytest.fixture(autouse=True)
def fewer_real_runs(monkeypatch):
    for name, n in dict(ACCUSE=4_000, MEASURE=300, CONFIRM=50, WIDE_RUNS=50).items():
        monkeypatch.setattr(referee, name, n)


def rest_of(p, q):
    rest = np.maximum(p - q, 0)
    return rest / rest.sum() if rest.sum() > 1e-9 else p


# ---------------------------------------------------------------- trees


def tree_rule(
    against=lambda rest, row: rest,
    ratio=lambda r, n, q: r,
    row_of=lambda path: path[-1] + 1 if path else 0,
    as_tokens=False,
):
    """Recursive rejection: each candidate in turn, the n-th of its parent, against what is left of
    p.
    """

    def rule(tokens, parents, p, q, sample, accept):
        path, node = [], -1
        while True:
            row = rest = p[row_of(path)]
            for n, i in enumerate([i for i, parent in enumerate(parents) if parent == node]):
                if accept(ratio(against(rest, row)[tokens[i]] / q[i, tokens[i]], n, q)):
                    path.append(i)
                    break
                rest = rest_of(rest, q[i])
            else:
                token = sample(rest)
                return [*(tokens[i] for i in path), token] if as_tokens else (path, token)
            node = path[-1]

    return rule


def test_a_rule_for_trees_is_judged():
    for rule in (tree_rule(), tree_rule(as_tokens=True)):
        result = prove(rule)
        assert result["verdict"] == "exact"
        for case in result["cases"]:
            assert case["distance"] < (1e-7 if case["name"] == "float32" else 1e-12)
        gained = {case["name"]: case["kept"] for case in result["cases"]}
        # by hand: p = .5 .3 .2, q = .2 .4 .4; one is accepted with .7, another of the rest 1 0 0
        # with .2
        assert gained["one candidate"] == pytest.approx(0.7)
        assert gained["two candidates, with replacement"] == pytest.approx(0.7 + 0.3 * 0.2)


@pytest.mark.parametrize("rule, said", [
    (tree_rule(lambda rest, row: row), "Text"),  # the second candidate against p as it was
    (tree_rule(ratio=lambda r, n, q: 1.1 * r), "Text"),
    (tree_rule(ratio=lambda r, n, q: r > 0 if n > 1 else r), "Text"),  # the third is not tossed for
    (tree_rule(ratio=lambda r, n, q: r > 0 if n and (q == q[0]).all() else r), "Text"),
    (tree_rule(row_of=lambda path: path[:2][-1] + 1 if path else 0), "Text"),  # below two levels
    (tree_rule(lambda rest, row: np.where((rest > 0) & (rest < 2e-4), 1, rest)), 'Text "3"'),
    (lambda t, parents, p, q, sample: ([*range(len(t))], sample(p[0])), "Text"),
    (lambda t, parents, p, q, sample: ([len(t)], sample(p[0])), "expected tokens below"),
])  # fmt: skip
def test_a_wrong_rule_for_trees_is_wrong(rule, said):
    result = prove(rule)
    assert result["verdict"] == "wrong" and said in describe(result)


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags", [{"temperature": 0.0}, {"top_k": 1}, {"top_k": 2}, {"top_p": 0.8}]
)
def test_a_tree_is_drafted_where_a_filter_leaves_fewer_tokens_than_candidates(flags):
    to_probs = filtered(**flags)
    rule = tree_rule()

    def filtering(tokens, parents, p, q, sample, accept):
        return rule(tokens, parents, np.array([*map(to_probs, p)]), q, sample, accept)

    result = prove(filtering, to_probs=to_probs)
    assert (result["verdict"], result["reason"]) == ("exact", None)


def children_stand_together(tokens, parents, p, q, sample, accept):
    """A rule for trees that takes as many nodes as a node has children from the first of them."""
    node, path, row = -1, [], p[0]
    while node in parents:
        first = parents.index(node)
        for i in range(first, first + parents.count(node)):
            if accept(row[tokens[i]] / q[i, tokens[i]]):
                path.append(i)
                node, row = i, p[i + 1]
                break
            row = rest_of(row, q[i])
        else:
            break
    return path, sample(row)


def test_the_nodes_of_a_tree_come_in_any_order():
    result = prove(children_stand_together)
    wrong = [case["name"] for case in result["cases"] if case["first_wrong"]]
    assert (result["verdict"], wrong) == ("wrong", ["a tree, depth first"])


def test_accepted_nodes_are_a_path():
    found = prove(lambda t, parents, p, q: ([*range(len(t))], 0), [TREE_CASES[2]])
    assert found["verdict"] == "wrong" and "expected a path from the root" in describe(found)


# ---------------------------------------------------------------- batches


def padded(rows, n):
    out = np.full((len(rows), n), -1)
    for row, tokens in zip(out, rows):
        row[: len(tokens)] = tokens
    return out


def batch_rule(coins=lambda n, k: np.random.random((n, k)), p_of=lambda p: p):
    def rule(drafts, p, q):
        rows, coin = [], coins(*drafts.shape)
        for b, draft in enumerate(drafts):
            row = p_of(p)[b]
            ratio = [row[i, x] / q[b, i, x] for i, x in enumerate(draft)]
            n = next((i for i, r in enumerate(ratio) if coin[b, i] > r), len(draft))
            last = row[n] if n == len(draft) else rest_of(row[n], q[b, n])
            rows.append([*draft[:n], np.random.choice(len(last), p=last / last.sum())])
        return padded(rows, drafts.shape[1] + 1)

    return rule


def counted(drafts, p, q):
    tokens = batch_rule()(drafts, p, q)
    return np.maximum(tokens, 0), (tokens >= 0).sum(axis=1)


@pytest.mark.slow
def test_a_rule_for_batches_is_judged():
    for rule in (batch_rule(), counted):
        result = prove(rule, [*RULE_CASES[:8], *BATCH_CASES], batch=True)
        assert (result["verdict"], result["reason"]) == ("exact", None)
        rows = next(case for case in result["cases"] if case["name"] == "three rows")
        assert rows["kept"] == pytest.approx(rows["kept_by_verify"])


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.9, 0.99])
def test_a_batch_that_is_a_little_wrong_in_the_fourth_row(share):
    def coins(n, k):
        return np.random.random((n, k)) * np.where(np.arange(n) == 3, share, 1.0)[:, None]

    result = prove(batch_rule(coins), BATCH_CASES, batch=True)
    assert result["distance"] > (1 - share) / 20
    assert [case["name"] for case in result["cases"] if case["first_wrong"]] == ["six rows"]


@pytest.mark.slow
def test_a_row_of_three_with_the_q_of_the_row_before():
    def rule(drafts, p, q):
        q = q.copy()
        if len(q) == 3:
            q[2] = np.where(
                np.eye(q.shape[2])[drafts[2]] > 0, q[2], q[1]
            )  # but at what was drafted
        return batch_rule()(drafts, p, q)

    assert prove(rule, BATCH_CASES, batch=True)["verdict"] == "wrong"


def test_a_batch_that_is_wrong_from_the_fourth_row_on(monkeypatch):
    monkeypatch.setattr(referee, "WIDE_RUNS", 1_000)
    share = lambda n: np.where(np.arange(n) > 2, 0.5, 1.0)[:, None]
    rule = batch_rule(lambda n, k: np.random.random((n, k)) * share(n))
    cases = [RULE_CASES[0], *BATCH_CASES[:1]]
    assert prove(rule, cases, batch=True)["verdict"] == "exact"
    assert prove(rule, [*cases, MANY_ROWS], batch=True)["verdict"] == "wrong"


@pytest.mark.slow
@pytest.mark.parametrize("other, one", [(0, 3), (1, 5), (3, 4)])
def test_a_batch_in_which_a_row_takes_the_noise_of_another(monkeypatch, other, one):
    monkeypatch.setattr(referee, "WIDE_RUNS", 4_000)

    def rule(drafts, p, q):
        noise, rows = [], []
        for b, draft in enumerate(drafts):
            noise.append(noise[other] if b == one else np.random.exponential(size=p.shape[2]))
            n = 0
            while n < len(draft) and np.random.random() * q[b, n, draft[n]] < p[b, n, draft[n]]:
                n += 1
            last = p[b, n] if n == len(draft) else rest_of(p[b, n], q[b, n])
            rows.append([*draft[:n], int((last / noise[b]).argmax())])
        return padded(rows, drafts.shape[1] + 1)

    result = prove(rule, [BATCH_CASES[0], MANY_ROWS], batch=True)
    assert result["verdict"] == "wrong"
    assert [case["name"] for case in result["cases"] if case["first_wrong"]] == [MANY_ROWS.name]


@pytest.mark.slow
@pytest.mark.parametrize("rule", [
    batch_rule(lambda n, k: np.tile(np.random.random(k), (n, 1))),  # each row right alone
    batch_rule(p_of=lambda p: p[::-1]),  # right for a batch of one
])  # fmt: skip
def test_rows_of_a_batch_must_not_influence_each_other(rule):
    result = prove(rule, [*RULE_CASES[:8], *BATCH_CASES], batch=True)
    assert result["verdict"] == "wrong"
    assert all("row" in case["name"] for case in result["cases"] if case["first_wrong"])


def with_indices(place):
    """A right rule for batches, but row b takes coin place(b, i, rows, K) for its draft i."""

    def rule(drafts, p, q):
        n_rows, K = drafts.shape
        flat = np.random.random(8 * (n_rows + K))
        at = [[place(b, i, n_rows, K) for i in range(K)] for b in range(n_rows)]
        return batch_rule(lambda n, k: flat[np.array(at, int).reshape(n, k)])(drafts, p, q)

    return rule


@pytest.mark.slow
@pytest.mark.parametrize("place", [
    *(lambda b, i, n, K, s=s: b * min(s, K) + i for s in (2, 3, 7)),
    lambda b, i, n, K: b * n + i,
    lambda b, i, n, K: i * 2 + b,
    lambda b, i, n, K: i * K + b,
])  # fmt: skip
def test_coins_of_a_batch_with_a_wrong_stride(place):
    three = [case for case in BATCH_CASES if "three rows" in case.name]
    assert (
        prove(with_indices(lambda b, i, n, K: b * K + i), three, batch=True)["verdict"] == "exact"
    )
    assert prove(with_indices(place), three, batch=True)["verdict"] == "wrong"


@pytest.mark.slow
def test_rows_of_a_batch_have_their_own_q_at_every_place():
    right = batch_rule(lambda n, k: np.random.random((n, k)))

    def wrong(drafts, p, q):
        q = q.copy()
        q[:, 1:] = q[:1, 1:]  # of the first row
        return right(drafts, p, q)

    two = [case for case in BATCH_CASES if "differ" in case.name]
    assert prove(right, two, batch=True)["verdict"] == "exact"
    assert prove(wrong, two, batch=True)["verdict"] == "wrong"


@pytest.mark.parametrize("result, said", [
    ([[0, 0, 0]], "1 to 1 tokens"),
    ([[-1, 0]], "of which 0 count"),
    (([[0, 0]], [3]), "of which 3 count"),
    ([[0], [0]], "2 rows: expected 1"),
])  # fmt: skip
def test_counts_that_cannot_be(result, said):
    found = prove(lambda drafts, p, q: result, [RULE_CASES[1]], batch=True)
    assert found["verdict"] == "wrong" and said in describe(found)


# ---------------------------------------------------------------- what no right one returns


@pytest.mark.parametrize("rule, said", [
    (lambda draft, p, q: (0, 99), "Its next token is "),
    (lambda draft, p, q: [0] * 20, "1 to 2 tokens"),
    (lambda draft, p, q: (-1, 0), "It accepts"),
    (lambda draft, p, q: (9, 0), "It accepts"),
    (lambda draft, p, q: [], "1 to 2 tokens"),
])  # fmt: skip
def test_what_cannot_be_a_text_is_wrong(rule, said):
    result = prove(rule, RULE_CASES[:1])
    assert result["verdict"] == "wrong" and said in describe(result)


def test_a_next_token_beyond_the_vocabulary_comes_with_the_run_that_did_it():
    def rule(draft, p, q):
        for i, x in enumerate(draft):
            if np.random.random() >= p[i, x] / q[i, x]:
                rest = np.maximum(p[i] - q[i], 0)  # not scaled
                return i, int(np.searchsorted(rest.cumsum(), np.random.random()))
        return len(draft), np.random.choice(p.shape[1], p=p[-1])

    shown = describe(prove(rule, RULE_CASES[:1]))
    assert "Its next token is 3: expected tokens below 3. It happens so: drafted 1" in shown


def test_an_error_for_an_empty_draft_is_wrong():
    def rule(draft, p, q, sample, accept):
        for i, x in enumerate(draft):
            if not accept(p[i, x] / q[i, x]):
                return i, sample(rest_of(p[i], q[i]))
        return i + 1, sample(p[i + 1])

    shown = describe(prove(rule))
    assert "WRONG" in shown and "For an empty draft it raised UnboundLocalError" in shown

    def raises(draft, p, q):
        raise NotImplementedError

    assert prove(raises)["verdict"] == "undecidable"


# ---------------------------------------------------------------- texts


def draft_one_behind(target, draft_model, ids, n_tokens, K, sample, accept):
    """After a full acceptance the draft model has not read the last drafted token."""
    text, unread = [], False
    while len(text) < n_tokens:
        draft, q = [], []
        for _ in range(min(K, n_tokens - len(text) - 1)):
            known = ids + text + draft
            q.append(draft_model(known[:-2] + known[-1:] if unread else known)[-1])
            draft.append(sample(q[-1]))
        p = target(ids + text + draft)[-len(draft) - 1 :]
        n, token = loops.right_rule(draft, p, np.array(q), sample, accept)
        unread = n == len(draft) > 0
        text += [*draft[:n], token]
    return text


def read_wrong(context_of):
    """A loop whose models read context_of(ids, text, whether the last draft was accepted)."""

    def loop(target, draft_model, ids, n_tokens, K, sample, accept):
        text, all_kept = [], False
        while len(text) < n_tokens:
            context, draft, q = context_of(ids, text, all_kept), [], []
            for _ in range(min(K, n_tokens - len(text) - 1)):
                q.append(draft_model(context + draft)[-1])
                draft.append(sample(q[-1]))
            p = target(context + draft)[-len(draft) - 1 :]
            n, token = loops.right_rule(draft, p, np.array(q), sample, accept)
            all_kept = n == len(draft) > 0
            text += [*draft[:n], token]
        return text

    return loop


def draft_in_place_of_bonus(ids, text, all_kept):
    return ids + text[:-1] + text[-2:-1] if all_kept else ids + text


@pytest.mark.slow
@pytest.mark.parametrize("context_of, verdict", [
    (lambda ids, text, all_kept: ids + text, "exact"),
    (draft_in_place_of_bonus, "wrong"),
    (lambda ids, text, all_kept: ids[::-1] + text, "wrong"),
])  # fmt: skip
def test_a_loop_that_reads_other_tokens_is_wrong(context_of, verdict):
    assert prove(read_wrong(context_of), LOOP_CASES)["verdict"] == verdict


def test_a_draft_model_that_is_one_token_behind_gains_less():
    case = next(case for case in LOOP_CASES if case.name == "temperature 0, right drafts")
    result = prove(draft_one_behind, [case])
    assert result["verdict"] == "exact" and "fewer tokens than verify" in result["remarks"][0]


# ---------------------------------------------------------------- filters


@pytest.mark.parametrize(
    "T, k, p", [(1, 0, 1), (0.5, 0, 1), (1, 2, 1), (1, 0, 0.6), (0.7, 4, 0.8), (0, 0, 1)]
)
def test_filters_are_those_of_the_program(T, k, p):
    for row in np.random.default_rng(0).dirichlet(np.ones(6), 20):
        expected = SamplingParams(T, k, p)(np.log(row)[None])[0]
        assert filtered(T, k, p)(row) == pytest.approx(expected, abs=1e-12)


def test_what_a_function_does_to_rows_is_told():
    to_probs = filtered(top_k=2)

    def rule(draft, p, q, rng):
        p, q = (np.array([*map(to_probs, rows)]).reshape(rows.shape) for rows in (p, q))
        return verify(draft, p, q, rng)

    cases = RULE_CASES[:12]
    assert prove(rule, cases)["verdict"] == "wrong"
    assert prove(rule, cases, to_probs=to_probs)["verdict"] == "exact"


def nucleus(row):
    """Top-p of 0.9, added up from the least likely token."""
    order = row.argsort(kind="stable")
    return np.where(row[order].cumsum()[order.argsort()] <= 1 - 0.9, 0, row)


@pytest.mark.slow
@pytest.mark.parametrize("cut, flags", [
    (nucleus, {"top_p": 0.9}),
    (lambda row: np.where(row < np.sort(row)[-2], 0, row), {"top_k": 2}),  # ties stay
])  # fmt: skip
def test_no_row_lies_on_the_cut_of_a_filter(cut, flags):
    def filtered_rows(table):
        return np.array([cut(row) / cut(row).sum() for row in table]).reshape(table.shape)

    def rule(draft, p, q):
        p, q = filtered_rows(p), filtered_rows(q)
        n = 0
        while n < len(draft) and np.random.random() * q[n, draft[n]] < p[n, draft[n]]:
            n += 1
        last = p[n] if n == len(draft) else rest_of(p[n], q[n])
        return n, np.random.choice(len(last), p=last / last.sum())

    assert prove(rule, to_probs=filtered(**flags))["verdict"] == "exact"


@pytest.mark.parametrize("k, verdict", [(50, "exact"), (40, "wrong"), (51, "wrong"), (0, "wrong")])
def test_a_cut_to_many_tokens_is_seen(monkeypatch, k, verdict):
    monkeypatch.setitem(referee.CASES, rule_text, RULE_CASES[:3])
    monkeypatch.setitem(referee.CASES, loop_text, LOOP_CASES[:3])
    to_probs = filtered(top_k=k)

    def rule(draft, p, q, rng):
        p, q = (np.array([*map(to_probs, rows)]).reshape(rows.shape) for rows in (p, q))
        return verify(draft, p, q, rng)

    def loop(target, draft_model, ids, n_tokens, K, sample, accept, end):
        models = [lambda ids, m=m: [*map(to_probs, m(ids))] for m in (target, draft_model)]
        return loops.loop()(*models, ids, n_tokens, K, sample, accept, end)

    for function in (rule, loop):
        result = prove(function, to_probs=filtered(top_k=50))
        assert (result["verdict"], result["remarks"]) == (verdict, [])
        wrong = [case["name"] for case in result["cases"] if case["first_wrong"]]
        assert wrong == ([] if k == 50 else ["53 tokens"])


@pytest.mark.slow
def test_top_k_is_missed_where_top_p_cuts_first():
    """Of 53 tokens, top_p leaves 47, and 44 after top_k."""
    to_probs = filtered(top_p=0.9)

    def rule(draft, p, q, rng):
        p, q = (np.array([*map(to_probs, rows)]).reshape(rows.shape) for rows in (p, q))
        return verify(draft, p, q, rng)

    for k, verdict in ((0, "exact"), (50, "wrong")):
        result = prove(rule, to_probs=filtered(top_k=k, top_p=0.9))
        wrong = [case["name"] for case in result["cases"] if case["first_wrong"]]
        assert result["verdict"] == verdict and wrong == (["53 tokens"] if k else [])


def test_a_cut_to_more_tokens_than_any_case_has_is_told():
    few = RULE_CASES[:2]
    for flags, told in (({"top_k": 100}, True), ({"temperature": 0.5}, False), ({}, False)):
        to_probs = filtered(**flags)
        result = prove(lambda draft, p, q, sample: (0, sample(to_probs(p[0]))), few, None, to_probs)
        assert result["verdict"] == "exact"
        assert ("cuts no row of the enumerated cases" in str(result["remarks"])) == told


@pytest.mark.slow
def test_rows_of_a_batch_are_drafted_through_the_filter():
    plain = batch_rule()
    top = lambda table: np.apply_along_axis(filtered(top_k=2), -1, table) if table.size else table
    rule = lambda drafts, p, q: plain(drafts, top(p), top(q))
    result = prove(rule, to_probs=filtered(top_k=2), batch=True)
    assert (result["verdict"], result["reason"]) == ("exact", None)
