"""The commands of `keel-lab`, one module a group; each imports what it does inside its functions.

Reading a sweep file: `files`. Running: `running`. Looking at a sweep in storage: `looking`. Verdicts: `verdicts`.
MLflow: `mirror`. What they share: `options`, `completion`.
"""
