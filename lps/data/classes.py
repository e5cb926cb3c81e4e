"""Number of classes: the only facts about a split that methods and scores need."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Classes:
    """Number of classes that a model distinguishes: `seen` with labels, `total` altogether."""

    seen: int
    total: int

    @property
    def novel(self) -> int:
        return self.total - self.seen
