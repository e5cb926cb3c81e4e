"""Answers that are kept for all viewers as far as they fit into some bytes: one of a large run counts as many small."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable


class Bounded:
    """The answers that were asked for last, `most` bytes of them, but one at least; treat them as read-only."""

    def __init__(self, most: int):
        self._most, self._bytes = most, 0
        self._found: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], object], size: Callable[[object], int]):
        """The answer of `key`, made now where it is not kept; size: bytes of an answer. Raises what `make` raises."""
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
