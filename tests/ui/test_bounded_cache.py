"""What pages keep for all viewers is bounded by bytes, not by how many there are."""

from concurrent.futures import ThreadPoolExecutor

from lps.ui.pictures.bounded_cache import BoundedCache


def test_as_many_are_kept_as_fit_and_the_ones_asked_for_last(monkeypatch):
    kept, made = BoundedCache(100), []

    def ask(key, size=40):
        return kept.get(key, lambda: made.append(key) or key * 2, lambda _: size)

    assert [ask("a"), ask("b"), ask("a"), ask("c"), ask("a"), ask("b")] == ["aa", "bb", "aa", "cc", "aa", "bb"]
    assert made == ["a", "b", "c", "b"]  # b had to go for c: a was asked for since
    assert ask("large", 1000) == ask("large", 1000) == "largelarge" and made.count("large") == 1
    ask("a")
    assert ask("large", 1000) and made.count("large") == 2


def test_what_fails_is_not_kept_and_many_may_ask_at_once():
    kept, counts = BoundedCache(50), []

    def fail():
        counts.append(1)
        raise ValueError

    for _ in range(2):
        try:
            kept.get("x", fail, len)
        except ValueError:
            continue
    assert len(counts) == 2

    def ask_often(first):
        for key in range(first, first + 500):
            kept.get(key % 7, lambda: b"0" * 10, len)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask_often, range(8)))
    assert kept._bytes == sum(size for _, size in kept._answers.values()) <= 50
