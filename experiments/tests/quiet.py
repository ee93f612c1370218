"""A narrator that nobody hears."""

from rich.console import Console

from experiments.console import Narrator

NOBODY = Narrator(Console(), quiet=True)
