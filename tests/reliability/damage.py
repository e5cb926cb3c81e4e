"""Files of a run as a bad disk, a bad editor or a bad copy may leave them."""

import json
import os
import random
import re
from collections.abc import Callable
from pathlib import Path

FILES = "config.json meta.json want.json process.json exit.json progress.json names.json events.jsonl log.txt".split()
FILES += ["split.npz", "snapshots/epoch-0003.npz"]
VALUES = (None, True, -1, 10**400, 0.5, "", "\u0000\ud800", [], {}, [[[]]], {"a": None}, "x" * 5000, [1, "a", None])


def emptied(data: bytes, draws: random.Random) -> bytes:
    return b""


def shortened(data: bytes, draws: random.Random) -> bytes:
    return data[: draws.randrange(len(data))] if data else b""


def flipped(data: bytes, draws: random.Random) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(draws.choice((1, 1, 5, 100))):
        changed[draws.randrange(len(changed))] ^= 1 << draws.randrange(8)
    return bytes(changed)


def noise(data: bytes, draws: random.Random) -> bytes:
    return draws.randbytes(draws.choice((1, 40, 3000)))


def zeros(data: bytes, draws: random.Random) -> bytes:
    return b"\0" * len(data)


def foreign(data: bytes, draws: random.Random) -> bytes:
    """JSON that means nothing."""
    return json.dumps(draws.choice(VALUES)).encode("utf-8", "surrogatepass")


def retyped(data: bytes, draws: random.Random) -> bytes:
    """The same object, or lines of objects, with one value of another type."""
    lines = []
    for line in data.splitlines() if data[:1] == b"{" and b"\n{" in data else [data]:
        try:
            value = json.loads(line)
        except ValueError:
            return foreign(data, draws)
        if isinstance(value, dict) and value and draws.random() < 0.5:
            value[draws.choice(list(value))] = draws.choice(VALUES)
            if isinstance(inner := value.get("values"), dict) and inner:
                inner[draws.choice(list(inner))] = draws.choice(VALUES)
        lines.append(json.dumps(value).encode())
    return b"\n".join(lines) + b"\n"


HALF = "\ud800"  # half of a character: JSON can say it, and no text can hold it


def halved(data: bytes, draws: random.Random) -> bytes:
    """The same objects with half a character at the end of every text but those that the program acts on."""
    if data[:1] != b"{":
        return data + b"\xed\xa0\x80 half\n"
    lines = data.splitlines() if data.startswith(b'{"kind"') else [data]
    return b"".join(json.dumps(_halved(json.loads(line))).encode() + b"\n" for line in lines)


ACTED_ON = ("dataset", "method", "kind", "state", "phase", "want", "do", "boot_id")  # others are read by nobody


def _halved(value, key: str = ""):
    if isinstance(value, dict):
        return {name: _halved(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_halved(item) for item in value]
    return value + HALF if isinstance(value, str) and key not in ACTED_ON else value


def wholly_halved(data: bytes, draws: random.Random) -> bytes:
    """The same with half a character at the end of every text and every key."""
    return data if data[:1] != b"{" else re.sub(rb'(?<=[a-z0-9])"', rb'\\ud800"', data)


def link(folder: Path, name: str, target: Path) -> None:
    """The file as a link to another one, outside of the run."""
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(target)


def pipe(folder: Path, name: str) -> None:
    """The file as a pipe that nobody writes to: whoever opens it as a file waits for ever."""
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)


DAMAGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(emptied, shortened, flipped, noise, zeros, foreign, retyped),
)


def damage(folder: Path, name: str, harm: Callable, draws: random.Random) -> None:
    path = folder / name
    path.write_bytes(harm(path.read_bytes() if path.exists() else b"{}", draws))
