"""Rules with shared noise, seeds, state, endless loops. Data of test_prove.py: none may be "exact",
raise or hang."""

import copy
import random
import sys

import numpy as np
from wrong_samplers import rest_of

STORED = np.random.random(1000)
STATE = {"n": 0, "coins": []}


def verify(coin, pick):
    def rule(draft, p, q):
        for i, x in enumerate(draft):
            if coin() >= p[i, x] / q[i, x]:
                return i, pick(rest_of(p[i], q[i]))
        return len(draft), pick(p[-1])

    return rule


def choice(w):
    return np.random.choice(len(w), p=w)


def stored():
    STATE["n"] += 1
    return STORED[STATE["n"] % 1000]


def remembered():
    """The coins of the first run, for ever."""
    if len(STATE["coins"]) < 2:
        STATE["coins"].append(random.random())
    STATE["n"] += 1
    return STATE["coins"][STATE["n"] % 2]


def one_gumbel_row_for_all(draft, p, q):
    noise = np.random.gumbel(size=p.shape[1])
    for i, x in enumerate(draft):
        if np.argmax(np.log(p[i]) + noise) != x:
            return i, np.argmax(np.log(rest_of(p[i], q[i])) + noise)
    return len(draft), np.argmax(np.log(p[-1]) + noise)


def seeds(draft, p, q):
    np.random.seed(0)
    return verify(np.random.random, choice)(draft, p, q)


def seeds_a_generator(draft, p, q):
    rng = np.random.default_rng(0)
    return verify(rng.random, lambda w: rng.choice(len(w), p=w))(draft, p, q)


def method_of_compiled_code(draft, p, q, rng):
    random = np.random.Generator.random
    return verify(lambda: random(rng), lambda w: rng.choice(len(w), p=w))(draft, p, q)


def draws_for_ever(draft, p, q, sample, accept):
    while True:
        sample(p[0])


def swallows_everything(draft, p, q, sample, accept):
    while True:
        try:
            sample(p[0])
        except BaseException:
            return 0, sample(p[0])


def recursion(draft, p, q):
    return recursion(draft, p, q)


def raises(draft, p, q):
    return 1 / 0


def exits(draft, p, q):
    sys.exit(0)


def returns_floats(draft, p, q):
    return 0.5, 1.5


def accepts_nan(draft, p, q, sample, accept):
    return 0 if accept(float("nan")) else 1, sample(p[0])


def compares_two_numbers(draft, p, q):
    return verify(lambda: float(np.random.random() < np.random.random()), choice)(draft, p, q)


sampled_normally = verify(lambda: abs(np.random.normal()), choice)
coins_in_turn = verify(stored, choice)
coins_remembered = verify(remembered, choice)
products = verify(lambda: random.random() * random.random(), choice)
copies_a_generator = verify(lambda: copy.deepcopy(np.random.default_rng()).random(), choice)
hashes = verify(lambda: hash(random.random()) % 997 / 997, choice)
sorted_coins = verify(lambda: sorted([random.random(), random.random()])[1] * 1.0, choice)


def rewinds(draft, p, q):
    state = random.getstate()
    result = verify(random.random, choice)(draft, p, q)
    random.setstate(state)
    return result


def seeded_by(seed):
    """A right rule, if a side door did not give each of its calls the same numbers."""

    def rule(draft, p, q):
        seed()
        return verify(random.random, choice)(draft, p, q)

    return rule


BITS = np.random.get_bit_generator()
BITS_STATE = BITS.state
seeds_the_instance = seeded_by(lambda: random._inst.seed(3))
sets_the_bit_generator = seeded_by(lambda: setattr(BITS, "state", BITS_STATE))
replaces_choice = seeded_by(lambda: setattr(np.random, "choice", lambda n, p: int(p.argmax())))
