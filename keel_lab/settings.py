"""The sections of a sweep file as typed, frozen values; a trial carries the ones that make up its question.

Strict: a string is never taken for a number, nor a boolean for an integer. Integers are accepted for floats, so that
`clip_norm: 1` and `clip_norm: 1.0` are one value and one trial id.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
LARGEST = 2**53  # beyond it JSON readers disagree
Count = Annotated[int, Field(ge=1, le=LARGEST)]
Seed = Annotated[int, Field(ge=0, le=LARGEST)]
Blocks = Annotated[int, Field(ge=1, le=100_000)]
AtLeastTwo = Annotated[int, Field(ge=2, le=LARGEST)]


class Settings(BaseModel):
    """Base of every section: immutable, unknown keys forbidden, no coercion between types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ModelSettings(Settings):
    """The decoder's shape, apart from its depth and architecture (DESIGN section 5; paper, Table 8).

    Attributes:
        kv_heads: heads of keys and values: as many as `heads` (MHA), fewer (grouped), or 1 (MQA).
        ffn_width: inner width of the FFN, and of each expert.
        init_std: see `trainers.initialisation`.
        qk_norm: queries and keys are normalised per head, before RoPE.
        tied_head: the head is the embedding.
        experts, top_k: of a `moe`: how many there are, and how many each token uses.
        balance_weight: factor of the load-balancing loss, which is added for each `moe` to what is minimised, and to no
            loss that is recorded.
    """

    width: AtLeastTwo = 32
    heads: Count = 4
    kv_heads: Count = 2
    ffn_width: Count = 96
    ffn: Literal["swiglu", "gelu", "moe"] = "swiglu"
    context: AtLeastTwo = 32
    init_std: Positive | Literal["match_width", "depth_scaled", "match_width_depth_scaled"] = 0.02
    norm_eps: Positive = 1e-5
    rope_theta: Positive = 10_000.0
    qk_norm: bool = False
    tied_head: bool = False
    experts: Count = 4
    top_k: Count = 2
    balance_weight: NonNegative = 0.01


MOE_ONLY = ("experts", "top_k", "balance_weight")  # make no difference to another FFN than moe


class TrainSettings(Settings):
    """How the weights are updated. `batch_size` counts sequences an update, over all micro-batches.

    Attributes:
        betas, eps: of AdamW (Muon leaves to it what is no hidden matrix); Lion has betas alone.
        momentum, nesterov: of SGD and Muon.
        ns_steps: Newton-Schulz iterations of Muon.
        weight_decay: decoupled; SGD adds it to the gradient (L2).
        clip: whose norm `clip_norm` bounds: of all gradients, or of each sub-layer's; `off` is no bound.
        z_loss: factor of the mean square of the logits' log-sum-exp, which is added to what is minimised, and to no
            loss that is recorded.
    """

    batch_size: Count = 8
    accumulate: Count = 1
    optimizer: Literal["adamw", "sgd", "lion", "muon"] = "adamw"
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.95)
    eps: Positive = 1e-8
    weight_decay: NonNegative = 0.01
    clip_norm: Positive | Literal["off"] = 1.0
    precision: Literal["fp32", "bf16"] = "fp32"
    skip_nonfinite: bool = False
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.95
    nesterov: bool = True
    ns_steps: Annotated[int, Field(ge=1, lt=100)] = 5
    clip: Literal["global", "per_sublayer", "off"] = "global"
    z_loss: NonNegative = 0.0


OPTIMIZERS = {  # what each makes use of; another's options make no difference to it
    "adamw": ("betas", "eps"),
    "sgd": ("momentum", "nesterov"),
    "lion": ("betas",),
    "muon": ("momentum", "nesterov", "ns_steps", "betas", "eps"),
}
OPTIMIZER_ONLY = tuple(dict.fromkeys(name for names in OPTIMIZERS.values() for name in names))


class RampSchedule(Settings):
    """The paper's test (section 5.1): the LR only rises, at step s = 1..steps; see `learning_rate.lr_at`."""

    kind: Literal["ramp"] = "ramp"
    shape: Literal["log", "linear"] = "log"
    from_lr: NonNegative = 1e-4
    peak_lr: Positive = 0.1
    steps: AtLeastTwo = 600


class GridSchedule(Settings):
    """Linear warm-up to `lr` over `warmup_steps`, then cosine to `final_lr` or constant; `steps` in all."""

    kind: Literal["grid"] = "grid"
    shape: Literal["cosine", "constant"] = "cosine"
    lr: Positive
    steps: AtLeastTwo = 600
    warmup_steps: Annotated[int, Field(ge=0, le=LARGEST)] = 60
    final_lr: NonNegative = 1e-7
    validation_sequences: Count = 256


class ForkSchedule(Settings):
    """A trunk's schedule up to step `at`; from there on the LR is held at `lr`, until step `steps`.

    A complete question by itself: a fork trained from its first step gives the same numbers as one that starts at its
    trunk's checkpoint.
    """

    kind: Literal["fork"] = "fork"
    trunk: Annotated[RampSchedule | GridSchedule, Field(discriminator="kind")]
    at: Count
    lr: Positive
    steps: AtLeastTwo

    @property
    def shape(self) -> str:
        """Of the trunk."""
        return self.trunk.shape


AnySchedule = RampSchedule | GridSchedule | ForkSchedule
Schedule = Annotated[AnySchedule, Field(discriminator="kind")]


class SiblingSettings(Settings):
    """The runs beside each ramp that its verdict is judged with (DESIGN section 6). Not part of a trial's id.

    Attributes:
        reference: the same ramp to a tenth of the peak, run first: what a run that learns looks like. Degradation is
            judged beside it, and a ramp that has not learned by three times its step is stopped.
        holds: forks that hold the LR at so many levels the ramp passed on its way.
        reversibility: two forks at a tenth of the LR after a divergence, from before and from after it.
        fork_steps: length of the latter two.
    """

    reference: bool = True
    holds: Annotated[int, Field(ge=0, le=100)] = 0
    reversibility: bool = False
    fork_steps: Annotated[int, Field(ge=32, le=LARGEST)] = 200


ALONE = SiblingSettings(reference=False)


class Resources(Settings):
    """What one trial occupies. Not part of a trial's id. `memory` is in bytes here, `2GiB` in the file.

    Attributes:
        cpus, gpus, memory: of each worker.
        workers: processes that train it together, each on its part of the batch; several go through Ray Train.
        strategy: of several workers: `ddp`, each has the whole model, or `fsdp`, split over them (FSDP2).
        checkpoint_activations: each block keeps its input alone and is computed again for its gradients: less memory
            for a second forward pass, with the same numbers. A choice of the user's, since what pays depends on tokens,
            width, depth and the machine together, and not on depth alone.
    """

    cpus: Count = 1
    gpus: NonNegative = 0.0
    memory: Count = 2 * 1024**3
    workers: Annotated[int, Field(ge=1, le=100_000)] = 1
    strategy: Literal["ddp", "fsdp"] = "ddp"
    checkpoint_activations: bool = False


class Budget(Settings):
    """Bounds on one run or resume of a sweep; None means no bound. `wall_time` in seconds here, `90m` in the file.

    With `skip_above_divergence` a grid trial does not run if one that differs in its lower LR only has diverged. With
    `max_failures` trials given up, no more are started: a mistake shared by all must not fail thousands, each
    several times. An attempt at a trial that takes longer than `trial_time` (seconds here) checkpoints and fails as a
    timeout; it is tried once more, from there.
    """

    max_concurrent: Count | None = None
    wall_time: Positive | None = None
    trial_time: Positive | None = None
    trials: Count | None = None
    max_failures: Count | None = None
    skip_above_divergence: bool = False
