"""Store what a run prints in log.txt: readable text, its beginning and its end. Standard library only."""

import contextlib
import os
import re
from pathlib import Path

from lps.files.atomic import open_regular, write_whole

_HEAD = 1 << 20  # bytes that are always kept
_TAIL = 10 << 20  # bytes after them; when they are full, the newer half is kept
_LINE = 1 << 16  # a longer line is broken
_RECENT = 1 << 16  # bytes in which the reason of a failure is looked for
# Escape sequences of terminals (colours, cursor, titles), and control characters but for tab and newline.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)"
    r"|\x1b[ -/]*[0-~]"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)


class Log:
    """log.txt: readable text without terminal codes, its first `head` bytes and at least half of the last `tail`."""

    def __init__(self, path: Path, head: int = _HEAD, tail: int = _TAIL):
        self.path, self.head, self.tail = path, head, tail
        self.recent = b""
        self._line = b""
        self._file = open_regular(path, "ab", buffering=0)
        self._size = self._file.tell()

    def write(self, data: bytes) -> None:
        """Add printed bytes. An incomplete last line waits for its end."""
        text = self._line + data
        end = text.rfind(b"\n") + 1
        complete, self._line = text[:end], text[end:]
        if len(self._line) > _LINE:
            complete, self._line = text + b"\n", b""
        if complete:
            self._append(readable(complete))

    def close(self) -> None:
        if self._line:
            self.write(b"\n")
        self._file.close()

    def _append(self, data: bytes) -> None:
        self.recent = (self.recent + data)[-_RECENT:]
        with contextlib.suppress(OSError):  # a full disk may lose output but must not end the run
            self._size += self._file.write(data)
            if self._size > self.head + self.tail:
                self._shorten()

    def _shorten(self) -> None:
        """Drop the middle of the log."""
        with open_regular(self.path) as file:
            head = file.read(self.head)
            file.seek(-self.tail // 2, os.SEEK_END)
            tail = file.read()
        head, tail = head[: head.rfind(b"\n") + 1], tail[tail.find(b"\n") + 1 :]
        write_whole(self.path, head + b"[the middle of this log was left out]\n" + tail)
        self._file.close()
        self._file = open_regular(self.path, "ab", buffering=0)
        self._size = self._file.tell()


def readable(data: bytes) -> bytes:
    """Return UTF-8 lines as a terminal finally shows them: \\r restarts a line, codes and colours are dropped."""
    text = data.decode("utf-8", "replace")
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _ESCAPES.sub("", text).encode()
