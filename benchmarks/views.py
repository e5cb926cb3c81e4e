"""Time the views of a CIFAR image: whole batches of tensors against PIL image by image, on one CPU thread.

    python -m benchmarks.views [--rounds 10]

Prints microseconds per image: the best round of each, the two measured in turn. Processor time, not wall time, so that
other programs on the machine hardly change it.
"""

import argparse
import time

import torch
from PIL import Image

from benchmarks import pil_views
from lps.data.views import FAMILIES

BATCH, PIL_BATCH = 384, 96
VIEWS = {
    "weak": ["weak"],
    "strong": ["strong"],
    "simclr": ["simclr"],
    "LPS: 2 weak + 1 strong": ["weak", "weak", "strong"],
    "1 weak + 2 strong": ["weak", "strong", "strong"],
}


def smooth_pictures(count: int) -> torch.Tensor:
    """uint8 (count, 3, 32, 32): random colours that change slowly over the picture, as photographs do."""
    coarse = torch.rand(count, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    fine = torch.nn.functional.interpolate(coarse, (32, 32), mode="bicubic")
    return (fine * 255).clamp(0, 255).to(torch.uint8)


def ours(images: torch.Tensor, names: list[str]) -> float:
    """Processor seconds per image."""
    generator = torch.Generator().manual_seed(1)
    start = time.process_time()
    for name in names:
        FAMILIES["cifar"][name](images, generator)
    return (time.process_time() - start) / len(images)


def reference(pixels, names: list[str]) -> float:
    """Processor seconds per image."""
    start = time.process_time()
    for array in pixels:
        image = Image.fromarray(array)
        for name in names:
            getattr(pil_views, name)(image)
    return (time.process_time() - start) / len(pixels)


def measure(rounds: int) -> list[dict]:
    """Per set of views: microseconds per image of both, and their ratio; the best of `rounds` rounds, in turn."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    images = smooth_pictures(BATCH)
    pixels = images[:PIL_BATCH].permute(0, 2, 3, 1).contiguous().numpy()
    rows = []
    for title, names in VIEWS.items():
        times = [(ours(images, names), reference(pixels, names)) for _ in range(rounds)]
        own, pil = (1e6 * min(column) for column in zip(*times))
        rows.append({"views": title, "ours us": own, "PIL us": pil, "ratio": pil / own})
    torch.set_num_threads(threads)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="microseconds per image of the CIFAR views, ours and PIL")
    parser.add_argument("--rounds", type=int, default=10, help="rounds of each; the best one counts")
    print(f"{'us per image':26}{'ours':>8}{'PIL':>8}{'ratio':>8}")
    for row in measure(parser.parse_args().rounds):
        print(f"{row['views']:26}{row['ours us']:8.1f}{row['PIL us']:8.1f}{row['ratio']:8.1f}")


if __name__ == "__main__":
    main()
