"""What each key of a sweep file is, in a clause: the editor's help (`schema`) says it."""

from __future__ import annotations

from collections.abc import Mapping

MEANINGS: Mapping[str, str] = {
    "schema": "version of this file's format",
    "name": "of the sweep: its folder in storage and its MLflow experiment",
    "question": "what the sweep asks, in a sentence",
    "protocol": "ramp: the LR rises until training diverges; grid: every combination of LRs with a schedule; "
    "search: Optuna looks for the best point of a space",
    "trainer": "a module of your own that trains instead of ours: preflight(trial), run(trial, workdir, report)",
    "grid": "the axes: every combination is trained",
    "grid.architecture": "names of architectures, or package.module:Name of your own",
    "grid.depth": "in blocks or sub-layers; a block is attention and feed-forward, two sub-layers",
    "grid.depth.blocks": "depth in blocks",
    "grid.depth.sublayers": "depth in sub-layers, two a block",
    "grid.seed": "sets init_seed and data_seed",
    "grid.init_seed": "seed of the initial weights",
    "grid.data_seed": "seed of the data order",
    "per_architecture": "options that hold for one architecture",
    "model": "the decoder's shape, apart from depth and architecture",
    "model.width": "features of the residual stream",
    "model.heads": "attention heads; each has an even width",
    "model.kv_heads": "heads of keys and values; divides heads",
    "model.ffn_width": "width inside the feed-forward branch",
    "model.ffn": "kind of feed-forward branch",
    "model.context": "tokens of a sequence",
    "model.init_std": "standard deviation of the initial weights; match_width is 0.02 sqrt(1024 / width); depth_scaled "
    "shrinks what ends a branch with depth",
    "model.norm_eps": "eps of every RMSNorm",
    "model.rope_theta": "base of the rotary position embedding",
    "model.qk_norm": "normalise queries and keys per head, before the rotary embedding",
    "model.tied_head": "the head is the embedding",
    "model.experts": "of ffn: moe, how many",
    "model.top_k": "of ffn: moe, how many experts each token uses",
    "model.balance_weight": "of ffn: moe, factor of the load-balancing loss",
    "data": "the corpus; one a sweep",
    "data.corpus": "a corpus by name; stdlib: the source code of Python's standard library",
    "data.text": "text files instead, as a pattern relative to this file, such as notes/**/*.txt",
    "data.tokenizer": "how text becomes tokens",
    "train": "how the weights are updated",
    "train.batch_size": "sequences an update, over all micro-batches",
    "train.accumulate": "micro-batches an update; divides batch_size",
    "train.optimizer": "kind of optimizer; muon updates the hidden matrices, AdamW beside it all else",
    "train.betas": "of adamw, lion and muon: decay rates of the two moments",
    "train.eps": "of adamw and muon",
    "train.weight_decay": "decoupled (sgd: added to the gradient); gains and vectors take none",
    "train.clip_norm": "largest norm of a gradient, or off",
    "train.clip": "whose norm is bounded: of all gradients, or of each sub-layer's",
    "train.momentum": "of sgd and muon",
    "train.nesterov": "of sgd and muon",
    "train.ns_steps": "of muon: Newton-Schulz iterations",
    "train.z_loss": "factor of the z-loss, mean square of the logits' log-sum-exp; no part of the recorded loss",
    "train.precision": "of matrix products; the residual stream is fp32 always",
    "train.skip_nonfinite": "leave out an update whose gradient is not finite",
    "ramp": "the LR of protocol ramp, which only rises",
    "ramp.preset": "the numbers of a published test; keys beside it replace its own",
    "ramp.shape": "log: equal factors a step; linear: equal amounts",
    "ramp.from_lr": "where the ramp starts",
    "ramp.peak_lr": "where it ends; a run that has not diverged there is censored",
    "ramp.steps": "updates from start to peak",
    "schedule": "the LR of protocol grid: linear warm-up, then the shape",
    "schedule.shape": "what follows the warm-up",
    "schedule.lr": "peak LR; under grid also {from: SWEEP, pick: best | 0.5*max_lr}: what that sweep measured",
    "lr.from": "name of the sweep, in storage, that measured the LRs",
    "lr.pick": "best: the LR of the lowest mean validation loss of a grid sweep; 0.5*max_lr: half the median "
    "Max LR of a ramp sweep",
    "lr.per": "each cell (architecture, depth and other axes) gets its own",
    "lr.rates": "the LRs that were chosen, by cell; a resolved sweep has them, and then they count",
    "schedule.steps": "updates in all",
    "schedule.warmup_steps": "updates of the warm-up",
    "schedule.warmup": "length of the warm-up as a share of steps, instead of warmup_steps",
    "schedule.final_lr": "LR at the end of a cosine",
    "schedule.validation_sequences": "held-out sequences that the final validation loss is the mean of",
    "search": "what protocol search varies, and for what",
    "search.space": "the parameters: any key, with {uniform: [lo, hi]}, {log_uniform: [lo, hi]}, {choice: [...]} or, "
    "for alpha and its like, {power_of_L: [lo, hi]}; those of one architecture under per_architecture: {NAME: {...}}",
    "search.objectives": "val_loss, final_loss, max_lr, tokens_to_loss, cost or any metric that trials report, each "
    "with minimize or maximize; one or several",
    "search.per": "cell: each cell of the grid is searched by itself; all: the grid's axes are searched jointly",
    "search.sampler": "by Optuna's name: auto, tpe, gp, cma-es, nsga2, random, grid; or {name: tpe, OPTION: value}",
    "search.seed": "of the sampler",
    "search.pruner": "by Optuna's name: none, median, percentile, successive_halving, hyperband, threshold; or with "
    "options",
    "search.rungs": "how many times on its way a trial's loss is noted, and may be pruned",
    "search.points": "how many points each search asks",
    "search.remeasure": "so many of the best points are trained again, with so many fresh seeds; off for none",
    "search.warm_start": "points to begin with: as given, or the best of another sweep: {from: SWEEP, best: 5}",
    "search.parameters": "the width follows from the depth, so that the model has about so many parameters",
    "siblings": "the runs beside each ramp that its verdict is judged with",
    "siblings.reference": "the same ramp to a tenth of the peak, run first; for modes 1+2+3",
    "siblings.holds": "forks that hold the LR at so many levels passed on the way",
    "siblings.reversibility": "two forks at a tenth of the LR after a divergence: is it for good?",
    "siblings.fork_steps": "steps that the latter run",
    "divergence": "thresholds of the detectors; no part of a trial, so other ones need no training (`rejudge`)",
    "resources": "what one trial occupies; no part of a trial",
    "resources.cpus": "CPU cores of each worker",
    "resources.gpus": "GPUs of each worker; a fraction shares one",
    "resources.memory": "main memory of each worker",
    "resources.workers": "processes that train a trial together, each on its part of the batch",
    "resources.strategy": "of several workers; ddp: each has the whole model, fsdp: it is split over them",
    "resources.checkpoint_activations": "compute each block again for its gradients: less memory, two forward passes, "
    "the same numbers",
    "budget": "bounds on one run or resume of the sweep",
    "budget.max_concurrent": "trials at once",
    "budget.wall_time": "time after which running trials checkpoint and stop",
    "budget.trial_time": "time after which an attempt at a trial checkpoints and fails as a timeout; tried once more",
    "budget.max_failures": "failed trials after which no more are started",
    "budget.skip_above_divergence": "in a grid, run no LR above one at which an otherwise equal trial diverged",
    "budget.trials": "trials that one run or resume starts at most",
}


def attributes(docstring: str) -> dict[str, str]:
    """The first clause that a Google-style docstring's `Attributes:` says of each name."""
    found: dict[str, str] = {}
    name = ""
    for line in docstring.partition("Attributes:")[2].splitlines():
        text = line.strip()
        head, colon, rest = text.partition(": ")
        if line.startswith(" " * 8) and not line.startswith(" " * 9) and colon and head.isidentifier():
            name = head
            found[name] = rest
        elif name and text:
            found[name] += f" {text}"
    return {name: text.partition(";")[0].partition(". ")[0].rstrip(".") for name, text in found.items()}
