"""Protocol `search`: Optuna asks for points, the runner tells what became of them (DESIGN section 7).

Storage is the truth: every point, as it was asked and told, is a file of the sweep (`store.points`), from which
`study` builds Optuna's study again. `samplers` knows Optuna's names, `space` its distributions, `cells` makes trials
of a point, `telling` turns results into what Optuna is told, `proposer` is what the runner asks, and `mirror` keeps an
Optuna storage for optuna-dashboard (`mirror_storage` opens it, `mirrored` is what it holds). Optuna is imported inside
functions only.
"""
