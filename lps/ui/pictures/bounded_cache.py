"""A cache shared by all viewers and limited in bytes, so that large answers displace as many small ones."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable


class BoundedCache:
    """Cache of the most recent answers, up to `max_bytes` bytes but at least one; treat answers as read-only."""

    def __init__(self, max_bytes: int):
        self._max_bytes, self._bytes = max_bytes, 0
        self._answers: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, compute: Callable[[], object], size: Callable[[object], int]):
        """Return the answer for `key`, computed if it is not cached; size: its bytes. Raises errors of `compute`."""
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
                return self._answers[key][0]
        answer = compute()  # outside the lock, so that other keys need not wait
        with self._lock:
            self._remove(key)
            self._answers[key] = answer, size(answer)
            self._bytes += self._answers[key][1]
            while self._bytes > self._max_bytes and len(self._answers) > 1:
                self._remove(next(iter(self._answers)))
        return answer

    def _remove(self, key: Hashable) -> None:
        self._bytes -= self._answers.pop(key, (None, 0))[1]
