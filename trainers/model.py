"""The decoder: embedding, residual stack, head."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from keel_lab.settings import ModelSettings
from keel_lab.trial import Trial
from trainers import architectures
from trainers.attention import Attention, Rotary, head_width
from trainers.feedforward import MixtureOfExperts, feedforward
from trainers.initialisation import init_gains, init_std, initialise
from trainers.norm import at_least_fp32
from trainers.residual import Architecture, ResidualStack


class Transformer(nn.Module):
    """A decoder-only language model; its head is a matrix of its own or, tied, the embedding.

    Matrices hold no values until they are initialised; `build` does both. On the meta device it costs nothing.

    Args:
        shape: the decoder's shape.
        blocks: depth; the stack has 2 * blocks sub-layers, attention and FFN in turn.
        vocab: number of token ids.
        architecture: the residual scheme, built for this depth.

    Raises:
        UsageError: if the heads do not fit the width, or top_k the experts.
    """

    def __init__(self, shape: ModelSettings, blocks: int, vocab: int, architecture: Architecture) -> None:
        super().__init__()
        rotary = Rotary(head_width(shape), shape.context, shape.rope_theta)
        branches: list[nn.Module] = []
        for _ in range(blocks):
            branches.append(Attention(shape, rotary, architecture.branch_options))
            branches.append(feedforward(shape))
        self.context = shape.context
        self.embedding = nn.Parameter(torch.empty(vocab, shape.width))
        self.stack = ResidualStack(architecture, branches, shape.width, shape.norm_eps)
        self.head = self.embedding if shape.tied_head else nn.Parameter(torch.empty(vocab, shape.width))
        self._balance_weight = shape.balance_weight
        self._calibrate = architecture.calibrate

    def forward(
        self, tokens: Int64[Tensor, "batch time"], states: list[Tensor] | None = None
    ) -> Float[Tensor, "batch time vocab"]:
        """Logits of the next token at each position, in at least fp32.

        Args:
            tokens: ids in [0, vocab); time <= context.
            states: see `ResidualStack.forward`.

        Raises:
            ValueError: if the sequence is longer than the context.
        """
        if tokens.shape[-1] > self.context:
            raise ValueError(f"{tokens.shape[-1]} tokens, but the model was built for a context of {self.context}")
        hidden = self.stack(functional.embedding(tokens, self.embedding), states)
        return at_least_fp32(functional.linear(hidden, self.head))

    def balance_loss(self) -> Tensor | None:
        """The weighted load-balancing losses of the last forward pass, summed over its MoEs; None without any.

        It belongs to what is minimised, not to the loss of the model.
        """
        losses = [branch.balance_loss for branch in self.stack.branches if isinstance(branch, MixtureOfExperts)]
        return self._balance_weight * torch.stack(losses).sum() if losses else None

    def calibrate(self, tokens: Int64[Tensor, "batch time"]) -> None:
        """Lets the architecture set its constants from one batch: once, on initial weights, before training.

        Does nothing for an architecture that profiles nothing. What it sets is saved with the weights.
        """
        if self._calibrate is not None:
            with torch.no_grad():
                self._calibrate(self.stack, functional.embedding(tokens, self.embedding))


def assemble(trial: Trial) -> tuple[Transformer, Architecture]:
    """The trial's model without values (under `torch.device("meta")` also without memory), and its architecture.

    Raises:
        KeyError: if there is no such architecture.
        UsageError: if the shape is impossible.
    """
    if trial.data is None:
        raise ValueError(f"trial {trial.id} names no corpus, so the size of its vocabulary is unknown")
    scheme = architectures.find(trial.architecture)
    architecture = scheme.build(trial.blocks, scheme.DECLARATION.complete(trial.options))
    model = Transformer(trial.model, trial.blocks, trial.data.vocab, architecture)
    model.stack.checkpointed = trial.resources.checkpoint_activations
    return model, architecture


def build(trial: Trial) -> Transformer:
    """The trial's model with its initial weights, on the CPU in fp32.

    Raises:
        KeyError: as `assemble`.
        UsageError: as `assemble`.
    """
    model, architecture = assemble(trial)
    gains = init_gains(trial.model, trial.sublayers, architecture.init_gain)
    initialise(model, trial.init_seed, init_std(trial.model), gains)
    return model
