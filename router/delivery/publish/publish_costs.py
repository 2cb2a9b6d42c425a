"""What storing costs in one stream, one by one and together: measured, so that the dearer way is
left.

    one by one   seconds = n × each
    together     seconds = of a batch as such + n × each in it

With `sync_interval: always` each message that is stored by itself waits for the disk, and a batch
waits a few times: it pays from some ten messages. Without, the server stores a message in the time
that the router needs to make it, and a batch only adds files
(docs/explanation/durability.md#atomic-batch).
"""

from __future__ import annotations

# One by one, a stream is no bottleneck: the router itself needs as long for a message.
CHEAP_S = 100e-6
TRIAL_EVERY_S = 60.0  # the way that is not taken is tried so often: disks change
TRIAL_BATCHES = 3  # one alone may meet a hiccup
MANY = 500  # as many as gather while a slow stream stores others
LEAST_TRIAL = 20  # messages, or a trial tells of the server's answer and not of the disk
_KEPT = 0.9  # weight of what was seen before, at each sample
_SPREAD = 0.05  # below this variance, as a share of the mean's square, counts are one count
_WORST = 4.0  # a sample counts at most as so many times what was expected: a disk has hiccups


class CostLine:
    """Seconds by the number of messages: a line through the samples, the newest of which count
    most.
    """

    __slots__ = ("_counts", "_products", "_samples", "_seconds", "_squares")

    def __init__(self) -> None:
        self._samples = self._counts = self._seconds = self._squares = self._products = 0.0

    def __bool__(self) -> bool:
        return self._samples > 0

    def add(self, messages: int, seconds: float) -> None:
        if self:
            seconds = min(seconds, _WORST * self.predict(messages))
        self._samples = self._samples * _KEPT + 1
        self._counts = self._counts * _KEPT + messages
        self._seconds = self._seconds * _KEPT + seconds
        self._squares = self._squares * _KEPT + messages * messages
        self._products = self._products * _KEPT + messages * seconds

    def predict(self, messages: int) -> float:
        """Seconds for so many."""
        mean, seconds = self._counts / self._samples, self._seconds / self._samples
        return max(seconds / 10, seconds + self._find_slope(mean, seconds) * (messages - mean))

    def _find_slope(self, mean: float, seconds: float) -> float:
        variance = self._squares / self._samples - mean * mean
        if variance <= _SPREAD * mean * mean:
            return 0.0
        slope = (self._products / self._samples - mean * seconds) / variance
        return min(max(0.0, slope), seconds / mean)


class PublishCosts:
    """Of one stream. Times are steady seconds."""

    __slots__ = ("_batch_at", "_many_at", "_messages", "_seconds", "_trials", "batch", "lone_s")

    def __init__(self) -> None:
        self.batch = CostLine()
        self.lone_s = 0.0  # until the publish ack of a message that is alone
        self._seconds = self._messages = 0.0  # of many, one by one
        self._many_at = self._batch_at = 0.0  # when each way was seen last
        self._trials = 0  # batches that are still to be tried, whatever the others took

    @property
    def each_s(self) -> float:
        """One message of many, one by one; 0: many were not seen yet."""
        return self._seconds / self._messages if self._messages else 0.0

    def add_singles(self, messages: int, seconds: float, now: float) -> None:
        if messages == 1:
            bound = _WORST * self.lone_s or seconds
            self.lone_s += (min(seconds, bound) - self.lone_s) * (1 - _KEPT if self.lone_s else 1)
        elif messages >= LEAST_TRIAL:
            self._many_at = now
            bound = _WORST * self.each_s * messages or seconds
            self._seconds = self._seconds * _KEPT + min(seconds, bound)
            self._messages = self._messages * _KEPT + messages

    def add_batch(self, messages: int, seconds: float, now: float) -> None:
        self._batch_at = now
        self._trials = max(0, self._trials - 1)
        self.batch.add(messages, seconds)

    @property
    def is_dear(self) -> bool:
        """Whether both ways were seen, and many are stored sooner together."""
        return bool(self.batch) and self.each_s >= CHEAP_S and self.pays(MANY)

    def pays(self, messages: int) -> bool:
        """Whether so many are stored sooner together, or are a trial of that."""
        if self._trials or not self.batch:
            return messages >= LEAST_TRIAL
        return messages > 1 and self.batch.predict(messages) < messages * self.each_s

    def begin_trial(self, on_the_way: int, now: float) -> bool:
        """Whether a stream that is written one by one gets batches for a trial."""
        is_due = not self.batch or now - self._batch_at > TRIAL_EVERY_S
        if on_the_way < LEAST_TRIAL or self.each_s < CHEAP_S or not is_due:
            return False
        self._trials = TRIAL_BATCHES
        return True

    def is_single_due(self, messages: int, now: float) -> bool:
        """Whether a stream that is written in batches is worth a trial one by one."""
        return messages >= LEAST_TRIAL and now - self._many_at > TRIAL_EVERY_S

    @property
    def hold_s(self) -> float:
        """How long a message may wait for company: a tenth of a publish ack."""
        return self.lone_s / 10
