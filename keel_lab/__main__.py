"""`python -m keel_lab`: the same as `keel-lab`."""

from keel_lab.cli import console

console()
