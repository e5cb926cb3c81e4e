"""A cache shared by all viewers, limited in bytes: one answer of a large run counts as much as many small ones."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable


class BoundedCache:
    """Cache of the most recent answers, up to `most` bytes but at least one; treat answers as read-only."""

    def __init__(self, most: int):
        self._most, self._bytes = most, 0
        self._found: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], object], size: Callable[[object], int]):
        """Return the answer for `key`, computed now if it is not cached; size: its bytes. Raises what `make` raises."""
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key][0]
        answer = make()  # outside the lock: whoever asks for another one need not wait
        with self._lock:
            self._forget(key)
            self._found[key] = answer, size(answer)
            self._bytes += self._found[key][1]
            while self._bytes > self._most and len(self._found) > 1:
                self._forget(next(iter(self._found)))
        return answer

    def _forget(self, key: Hashable) -> None:
        self._bytes -= self._found.pop(key, (None, 0))[1]
