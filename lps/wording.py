"""Format counts, sizes, durations and ages in the same way everywhere."""

import math
import re
from collections.abc import Mapping, Sequence

_HANDFUL = 30  # things, below which a percentage says too little without their number


def capitalized(text: str) -> str:
    """Return the text with a capital first letter and all other letters unchanged."""
    return text[:1].upper() + text[1:]


def counted(number: float, noun: str) -> str:
    """Format a number with its noun: "1 epoch", "2,000 images", "2 classes"."""
    suffix = "" if number == 1 else "es" if noun.endswith(("s", "x")) else "s"
    return f"{number:,.0f} {noun}{suffix}"


def listed(texts: Sequence[str]) -> str:
    """Return "a", "a and b", or "a, b and c"."""
    *others, last = texts
    return f"{', '.join(others)} and {last}" if others else last


def first_of(texts: Sequence[object], most: int) -> str:
    """Return "a, b, …": at most `most` texts, and a mark if there are more."""
    return ", ".join(map(str, texts[:most])) + ", …" * (len(texts) > most)


def step_in_words(values: Mapping[str, object]) -> str:
    """Describe the time of a training step and of its stages from the measurements of an epoch; "" without stages."""
    stages = {"read": "to read the data", "views": "to make the views", "network": "to run the network"}
    spent = {label: values.get(f"time/{stage}_s") for stage, label in stages.items()}
    total = sum(seconds for seconds in spent.values() if isinstance(seconds, (int, float)))
    if not total > 0 or not all(isinstance(seconds, (int, float)) for seconds in spent.values()):
        return ""
    shares = ", ".join(f"{100 * seconds / total:.0f} % {label}" for label, seconds in spent.items())
    rate = values.get("throughput/decoded_per_s")
    decoded = (
        f" The worker processes can decode {rate:,.0f} pictures a second." if isinstance(rate, (int, float)) else ""
    )
    return f"A training step takes {total:.3g} s: {shares}.{decoded}"


def with_minus(text: str) -> str:
    """Replace the hyphen before each negative number by a minus sign: "−4.8 to 44.8"."""
    return re.sub(r"(^|[\s\[(])-(?=\d)", r"\1−", text)


def percent(share: float, digits: int = 0) -> str:
    """Format a share as "62 %"; no line breaks between number and sign."""
    return f"{100 * share:.{digits}f}\u00a0%"


def points_between(first: float, second: float) -> float:
    """Return how many points the first share is above the second, as displayed: each as a percentage with one digit."""
    return round(round(100 * first, 1) - round(100 * second, 1), 1) + 0.0


def share_of(share: float, count: int) -> str:
    """Format a share of `count` things: "62.5 % of 240"; if there are few, "5 of 8". The caller adds the noun."""
    return f"{part_of(share, count)} of {count:,}"


def part_of(share: float, count: int) -> str:
    """Format a share of `count` things that the sentence has named: "62.5 %"; if there are few, "5"."""
    return f"{round(share * count)}" if count < _HANDFUL else f"{100 * share:.1f} %"


def data_size(count: float) -> str:
    """Format bytes as "3 MB" or "1.2 GB", in powers of ten."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{max(1, round(count / 1e6))} MB"


def duration(seconds: float) -> str:
    """Format a measured time span in its largest fitting unit."""
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"


def ago(seconds: float) -> str:
    """Format an age: "4 min ago"."""
    return f"{duration(seconds)} ago"


def estimated(seconds: float) -> str:
    """Format an estimated time span coarsely, so that small corrections do not show: "20 s", "4 min", "2.5 h"."""
    if seconds < 100:
        return f"{10 * math.ceil(seconds / 10) if seconds > 5 else 5} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


def estimated_range(least: float, most: float) -> str:
    """Format an estimated range: "4 to 20 min", "50 s to 5 min"; one value if both ends look the same."""
    (low, unit), (high, last) = estimated(least).split(), estimated(most).split()
    if (low, unit) == (high, last):
        return f"{high} {last}"
    return f"{low} to {high} {last}" if unit == last else f"{low} {unit} to {high} {last}"
