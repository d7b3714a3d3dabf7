"""What several searches found, as one list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fdarx_core.records import Found

_WORDS = 16


def pool(found: Sequence[Sequence[Found]], shares: Sequence[int]) -> list[Found]:
    """The candidates, each search's best first, in turn; `found[i]` (best first) gives at most `shares[i]` of them.

    No chunk comes twice, and no text (white space aside): a search that meets one already drawn goes on down its list,
    so each should find more than its share. What a search that runs dry leaves is drawn by the others. Each candidate
    is numbered with the search that drew it. Raises ValueError where lists and shares differ in number.
    """
    drawer = _Drawer(found)
    left = {search: share for search, (_, share) in enumerate(zip(found, shares, strict=True))}
    drawn = list(drawer.rounds(left))
    return drawn + list(drawer.rounds(dict.fromkeys(left, sum(shares)), sum(shares) - len(drawn)))


class _Drawer:
    def __init__(self, found: Sequence[Sequence[Found]]) -> None:
        self._lists = [iter(one) for one in found]
        self._ids: set[str] = set()
        self._texts: dict[tuple[str, ...], list[str]] = {}

    def rounds(self, left: dict[int, int], most: int | None = None) -> Iterator[Found]:
        """One of each search after the other, until all have drawn what is `left` to them or run dry, or `most`."""
        left = {search: share for search, share in left.items() if share > 0}
        count = 0
        while left:
            for search in list(left):
                if count == most:
                    return
                one = self._next(search)
                if one is None:
                    del left[search]
                    continue
                left[search] -= 1
                if not left[search]:
                    del left[search]
                count += 1
                yield replace(one, search=search)

    def _next(self, search: int) -> Found | None:
        for one in self._lists[search]:
            if one.chunk.id not in self._ids and self._is_new(one.chunk.text):
                self._ids.add(one.chunk.id)
                return one
        return None

    def _is_new(self, text: str) -> bool:
        """Texts are long: only those that begin and end alike are compared whole."""
        ends = (*text.split(None, _WORDS)[:_WORDS], *text.rsplit(None, _WORDS)[-_WORDS:])
        alike = self._texts.setdefault(ends, [])
        words = text.split() if alike else []
        if any(words == other.split() for other in alike):
            return False
        alike.append(text)
        return True
