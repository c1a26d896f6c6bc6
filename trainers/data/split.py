"""Which tokens are held out: every 20th block of the corpus, so that a corpus of one file can be split too.

The rule is arithmetic over token positions. It is streamed, so that a corpus never has to fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

EVERY = 20
LARGEST_BLOCK = 65_536


@dataclass(frozen=True)
class Split:
    """Block `j` (tokens `j * block` to `(j + 1) * block`) is held out if `j % every == every - 1`.

    What is left of each side is joined: a window may run across a seam, as it may across documents.

    Attributes:
        block: tokens in a block.
        every: one block of so many is held out.
    """

    block: int
    every: int = EVERY

    @classmethod
    def of(cls, tokens: int) -> Split:
        """The split of a corpus of `tokens` tokens: at least one whole block is held out.

        Args:
            tokens: at least EVERY.
        """
        return cls(min(LARGEST_BLOCK, tokens // EVERY))

    def pieces(self, start: int, length: int) -> Iterator[tuple[bool, int, int]]:
        """Cuts `length` tokens that begin at corpus position `start`.

        Yields:
            (held out, first, last + 1), counted from the first of these tokens.
        """
        first = 0
        while first < length:
            index, offset = divmod(start + first, self.block)
            last = min(length, first + self.block - offset)
            yield index % self.every == self.every - 1, first, last
            first = last

    def to_json(self) -> dict[str, int]:
        """JSON-ready."""
        return asdict(self)
