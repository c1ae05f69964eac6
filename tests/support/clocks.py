"""A clock that goes forward only where a test says so."""


class Time:
    """Stands in for time.perf_counter."""

    now = 0.0

    def __call__(self):
        return self.now


class Slow:
    """A model that puts a Time forward by so many seconds for each row of logits."""

    def __init__(self, model, seconds, time):
        self.model, self.seconds, self.time = model, seconds, time
        self.config, self.new_cache = model.config, model.new_cache

    def read(self, ids, cache, n_last=1):
        self.time.now += n_last * self.seconds
        return self.model.read(ids, cache, n_last)
