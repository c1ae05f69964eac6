"""A verdict on a black box from its texts alone: a bet against the law that they should have.

Whoever thinks that a sampler is wrong bets on its next text. A bettor who predicts x with
probability predicted(x) is paid predicted(x) / right(x). If the sampler is exact, that is 1 on
average, whatever is predicted from the texts before; so the capital E, which starts at 1, is a
martingale, and it ever exceeds 1 / alpha with probability alpha at most (Ville 1939). No number of
runs has to be chosen, and one may look at any time. If the sampler is wrong, a predictor that
learns grows rich.
"""

import math
from collections import Counter, defaultdict

Text = tuple[int, ...]

STRENGTHS = (10.0, 100.0, 1_000.0, 10_000.0, 100_000.0)
Z_19_OF_20 = 1.645  # 19 of 20 values of a normal variable lie above its mean - 1.645 deviations


class Bettors:
    """Bettors on the first `length` tokens of each text, the text's beginning: one bettor for each
    of STRENGTHS.

    law: {beginning: its right probability}
    seen: {beginning: how many texts had it}
    n_outside: how many texts had a beginning that is not in the law
    log_capitals: ln of the capital of each bettor, in the order of STRENGTHS; 0 at first
    """

    def __init__(self, right: dict[Text, float], length: int):
        """right: {text: probability}, the law of whole texts. No text is seen yet."""
        self.length = length
        self.law = beginnings(right, length)
        self.seen: Counter[Text] = Counter()
        self.n_outside = 0
        self.log_capitals = [0.0] * len(STRENGTHS)

    def add(self, text: Text, n_before: int, rounding: float) -> None:
        """Pay each bettor for one more text, after n_before of them, and count it: log_capitals,
        seen and n_outside change. Its capital is multiplied by the probability that it predicted,
        the frequency until now if a texts of the law (a: its strength) had come before the first.
        It is divided by the largest one that is right; by 0, so that it is infinite, if the text
        should never come.

        rounding: the right probability of a beginning may be larger than in the law by this share,
            and that of all beginnings outside the law together is at most `rounding`
        """
        beginning = text[: self.length]
        share = self.law.get(beginning, 0.0)
        if share > 0:
            count = self.seen[beginning]
            right_at_most = share * (1 + rounding)
        else:  # all beginnings outside the law count as one
            share = right_at_most = rounding
            count = self.n_outside
            self.n_outside += 1
        sum_of_shares = 1 + rounding
        for i, a in enumerate(STRENGTHS):
            predicted = (count + a * share) / (n_before + a * sum_of_shares)
            gain = math.log(predicted / right_at_most) if right_at_most > 0 else math.inf
            self.log_capitals[i] += gain
        self.seen[beginning] += 1


class Bet:
    """The evidence that texts do not come from a law.

    right: {text: probability}, of every text that is possible
    alpha: how likely an exact sampler may be called wrong, however many texts are added
    rounding: how well the law is known: the true probability of a text may be larger by this share,
        and that of all texts that are not in it up to `rounding`. E is then 1 on average at most.
        It is for laws that come from float32; with 0 one text outside the law settles it
    Raises ValueError if `right` is no distribution.

    The predictor starts at the law, as if it had seen a texts from it, and learns from the counts:

        predicted(x) = (count(x) + a right(x)) / (n + a)

    The bettor spreads the capital evenly over five strengths a (a small one is quick to find a
    large fault, a large one finds a small fault among many texts), and over the texts cut to
    1, 2, ... tokens: a wrong first token is soon seen among few beginnings.

    >>> bet = Bet({(0,): 0.5, (1,): 0.5})
    >>> for _ in range(40): bet.add((0,))
    >>> bet.wrong, bet.runs, bet.worst()
    (True, 40, ((0,), 1.0, 0.5))
    """

    def __init__(self, right: dict[Text, float], alpha: float = 1e-6, rounding: float = 0.0):
        """Start without a text. The class says what the arguments are, and what is refused."""
        total = sum(right.values())  # of no texts it is 0
        if abs(total - 1) > 1e-6 or min(right.values()) < 0:
            problem = f"a law that sums to {total:.6g}"
            raise ValueError(f"{problem}: expected probabilities that sum to 1")
        self.right, self.alpha, self.rounding = right, alpha, rounding
        self.runs = 0
        self.counts: Counter[Text] = Counter()  # of whole texts, also of those not in the law
        self.most = 0.0  # log_odds at their highest
        longest = max(len(text) for text in right)
        self.bettors_by_length = [Bettors(right, length) for length in range(1, longest + 1)]

    def add(self, text: Text) -> None:
        """Count one more text that the sampler has written. Every bettor is paid for it, by what it
        predicted before, and then learns from it: runs, counts, `most` and the property log_odds
        change. A text outside the law counts, too: with rounding 0 it makes log_odds infinite. The
        caller has cut it to the length of the longest text of the law; further tokens are not
        looked at.
        """
        for bettors in self.bettors_by_length:
            bettors.add(text, self.runs, self.rounding)
        self.counts[text] += 1
        self.runs += 1
        self.most = max(self.most, self.log_odds)

    @property
    def log_odds(self) -> float:
        """The natural logarithm of the evidence E, the mean of what all bettors have; infinite if
        one text has settled it.
        """
        logs = [log for bettors in self.bettors_by_length for log in bettors.log_capitals]
        top = max(logs)
        if math.isinf(top):
            return top
        shares = [math.exp(log - top) for log in logs]  # of the richest, so that none overflows
        return top + math.log(sum(shares) / len(shares))

    @property
    def wrong(self) -> bool:
        """Whether E has ever exceeded 1 / alpha."""
        return self.most > -math.log(self.alpha)

    def worst(self) -> tuple[Text, float, float]:
        """The beginning of a text that speaks most against the sampler: (its tokens, its frequency,
        its right probability). Of those that come too often it is the one with the largest
        divergence of the frequency from the right probability; of several that should never come,
        or if none comes too often, the most frequent; of equals the shortest. Without a run it is
        ((), 1.0, 1.0).
        """
        seen: list[tuple[Text, float, float]] = []  # beginnings of 1 token first, then of 2, ...
        for bettors in self.bettors_by_length:
            for beginning, count in bettors.seen.items():
                right = bettors.law.get(beginning, 0.0)
                seen.append((beginning, count / self.runs, right))

        def rank(of_one: tuple[Text, float, float]) -> tuple[float, float]:
            _, share, right = of_one
            excess = divergence(share, right) if share > right else 0.0
            return excess, share

        return max(seen, key=rank, default=((), 1.0, 1.0))  # of equals the first

    def would_show(self) -> float:
        """How far from the right distribution a sampler must be, as a total variation distance, to
        be called wrong 19 times of 20 in as many runs as were made until now, in whichever texts it
        differs; 1.0 if no distance would do, as without a run. Changes nothing.

        It is a calculation for small distances, not a bound for each sampler. With d + 1 texts,
        2 n KL(frequencies || law) is nearly a chi-squared variable G with d degrees of freedom,
        shifted by 2 n KL(sampler || law), which is at least 4 n distance^2 (Pinsker). A bettor of
        strength a then has

            ln E = G / 2 * n / (n + a) - d / 2 * ln(1 + n / a),

        which must reach a price: 1 / alpha, as often as there are bettors, since the others may
        have lost all, and what `rounding` takes from each payment. The best bettor counts.
        """
        n = self.runs
        if n == 0:
            return 1.0
        d = sum(share > 0 for share in self.right.values()) - 1
        n_bettors = len(STRENGTHS) * len(self.bettors_by_length)
        price = -math.log(self.alpha) + math.log(n_bettors) + n * math.log1p(self.rounding)
        # of each bettor the G / 2 with which ln E is the price
        half_g = [(price + d / 2 * math.log1p(n / a)) * (n + a) / n for a in STRENGTHS]
        n_times_kl = shift_to_reach(min(half_g), d)  # the best bettor reaches it 19 times of 20
        return min(1.0, math.sqrt(n_times_kl / (2 * n)))  # Pinsker: n KL is 2 n distance^2


def beginnings(texts: dict[Text, float], length: int) -> dict[Text, float]:
    """Cut the texts of a distribution, {text: probability}, to their first `length` tokens. Returns
    {beginning: the probability of all texts that begin so}, a dict in which a beginning that no
    text has is 0.
    """
    found: dict[Text, float] = defaultdict(float)
    for text, probability in texts.items():
        found[text[:length]] += probability
    return found


def shift_to_reach(needed: float, d: int) -> float:
    """The shift S, 0 or more, for which G / 2 reaches `needed` 19 times of 20, if G is a
    chi-squared variable with d degrees of freedom, shifted by 2 S: nearly a normal one, G / 2 has
    the mean d / 2 + S and the variance d / 2 + 2 S.
    """
    # 19 of 20 lie above mean - Z deviation. As the mean is (d / 2 + deviation^2) / 2, that is
    # `needed` where deviation^2 - 2 Z deviation + d / 2 - 2 needed = 0
    deviation = Z_19_OF_20 + math.sqrt(Z_19_OF_20**2 + max(0.0, 2 * needed - d / 2))
    return max(0.0, deviation**2 - d / 2) / 2


def divergence(share: float, right: float) -> float:
    """The Kullback-Leibler divergence of a coin with probability `share` from one with `right`, in
    nats.

    >>> divergence(0.5, 0.5), divergence(0.5, 0.0)
    (0.0, inf)
    """
    total = 0.0
    for x, y in ((share, right), (1 - share, 1 - right)):  # of heads, of tails
        if x > 0:  # in the limit, 0 log 0 is 0
            total += x * math.log(x / y) if y > 0 else math.inf
    return total
