"""The paired loss: the loss with the batch's own difficulty taken out (DESIGN section 6)."""

from __future__ import annotations


def paired_loss(loss: float, unigram_loss: float, unigram_entropy: float | None, weight: float = 1.0) -> float:
    """Paired loss y = loss - b * (unigram_loss - H1), or the raw loss where the data does not give it.

    Args:
        loss: nats a token.
        unigram_loss: cross-entropy of the same targets under the corpus's unigrams, nats; not finite if unknown.
        unigram_entropy: H1 in nats, or None if unknown.
        weight: b; 1 for bytes, where it was fitted to 0.91 to 1.06.

    Returns:
        y in nats, comparable with H1.
    """
    if unigram_entropy is None or unigram_loss - unigram_loss != 0.0:  # NaN and Inf differ from themselves so
        return loss
    return loss - weight * (unigram_loss - unigram_entropy)
