"""A watched folder in which everything happens that may: pictures arrive in halves, change, vanish, and are none."""

import os
import random
from collections import Counter
from pathlib import Path

import numpy as np
from PIL import Image

from lps.errors import UserError
from lps.inference import prediction_files
from lps.inference.folder_watch import FolderWatch
from lps.store.runs import Run


def trouble(run: Run, folder: Path, table: Path, looks: int, draws: random.Random) -> tuple[Counter, list[str]]:
    """Look that often at a folder in which something happens before each look; what was done, and what is wrong."""
    folder.mkdir()
    (folder.parent / "outside.txt").write_text("no picture")
    watch, done, wrong, news = FolderWatch(run, folder), Counter(), [], None
    for number in range(looks):
        name, act = draws.choice(ACTS)
        if folder.with_name("away").exists():
            folder.with_name("away").rename(folder)
        act(folder, number, draws)
        done[name] += 1
        try:
            found = watch.check()
        except UserError as error:
            done["refused"] += 1
            wrong += [] if "\n" not in str(error) else [f"look {number}: more than one line: {error}"]
            found = None
        except Exception as error:
            wrong.append(f"look {number} after {name}: {type(error).__name__}: {error}")
            break
        if found is not None:
            news = found
            prediction_files.write_csv(table, news.prediction, 1.0)
    if folder.with_name("away").exists():
        folder.with_name("away").rename(folder)
    watch.check(), watch.check()  # what arrived last has settled
    news = watch.check(at_once=True) or news
    wrong += _lost(folder, watch)
    if news is not None:
        files = news.prediction.files
        wrong += [f"{name} has {count} rows" for name, count in Counter(files).items() if count > 1]
        done["predicted"] = len(files)
    done["left out"] = len(watch._skipped)
    return done, wrong


def _lost(folder: Path, watch: FolderWatch) -> list[str]:
    """Whole pictures that are there and have no row."""
    known = set(watch._rows.files) if watch._rows else set()
    there = [path for path in folder.rglob("*.png") if path.is_file() and not path.is_symlink() and _is_picture(path)]
    return [f"{path.name!r} has no row" for path in there if os.fspath(path.relative_to(folder)) not in known]


def _is_picture(path: Path) -> bool:
    try:
        with Image.open(path) as found:
            found.load()
            return found.mode == "L" and found.size == (8, 8)
    except Exception:
        return False


def _picture(path: Path, draws: random.Random) -> None:
    Image.fromarray(np.random.default_rng(draws.randrange(9**9)).integers(0, 255, (8, 8), np.uint8)).save(path)


def _whole(folder, number, draws):
    for place in range(draws.randrange(1, 4)):
        _picture(folder / f"p{number}-{place}.png", draws)


def _half(folder, number, draws):
    _picture(folder / f"h{number}.png", draws)
    data = (folder / f"h{number}.png").read_bytes()
    (folder / f"h{number}.png").write_bytes(data[: len(data) // 2])
    (folder.parent / f"h{number}.rest").write_bytes(data)


def _finish(folder, number, draws):
    """The rest of a picture that has lain there in half arrives at last."""
    for rest in sorted(folder.parent.glob("h*.rest"))[:2]:
        (folder / f"{rest.stem}.png").write_bytes(rest.read_bytes())
        rest.unlink()


def _vanish(folder, number, draws):
    for path in draws.sample(sorted(folder.glob("p*.png")), k=min(2, len(list(folder.glob("p*.png"))))):
        path.unlink()


def _link(folder, number, draws):
    (folder / f"l{number}.png").symlink_to(draws.choice([folder.parent / "outside.txt", folder / "nowhere", folder]))


def _pipe(folder, number, draws):
    os.mkfifo(folder / f"f{number}.png")


def _as_folder(folder, number, draws):
    (folder / f"d{number}.png").mkdir()
    _picture(folder / f"d{number}.png" / "in.png", draws)


def _strange_name(folder, number, draws):
    names = (b"n%d\xff.png", b"n%d\n\x1b[31m.png", "n%d\u202e\U0001f600.png".encode(), b"=n%d()" + b"x" * 200 + b".png")
    path = Path(os.fsdecode(folder)) / os.fsdecode(draws.choice(names) % number)
    _picture(path, draws)


def _no_picture(folder, number, draws):
    (folder / f"x{number}.png").write_bytes(
        draws.choice([b"", b"GIF89a", b"\x89PNG\r\n\x1a\n" + b"\0" * 99, b"\0" * 9999])
    )


def _colours(folder, number, draws):
    Image.new("RGB", (8, 8), (255, 0, 0)).save(folder / f"c{number}.png")


def _away(folder, number, draws):
    """The folder itself is moved away, and found again at the next act."""
    folder.rename(folder.with_name("away"))


_ALL = (_whole, _whole, _half, _finish, _vanish, _link, _pipe, _as_folder, _strange_name, _no_picture, _colours, _away)
ACTS = [(act.__name__[1:].replace("_", " "), act) for act in _ALL]
