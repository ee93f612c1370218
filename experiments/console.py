"""Progress of a run on a terminal: steps with their duration, and a bar for each block."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


class Narrator:
    """Progress on a terminal; plain lines where the output is not one. Nothing with `quiet`."""

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self.console = console
        self._quiet = quiet

    def say(self, text: str, style: str = "") -> None:
        """Print one line as it is, brackets too."""
        if not self._quiet:
            self.console.print(text, style=style, highlight=False, markup=False)

    def detail(self, text: str) -> None:
        """Print one line in a dim style."""
        self.say(f"    {text}", style="dim")

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Print what begins, and afterwards how long it took."""
        begin_s = time.monotonic()
        self.say(title, style="bold")
        yield
        self.detail(f"{time.monotonic() - begin_s:.1f} s")

    @contextmanager
    def bar(self, title: str, total_s: float) -> Iterator[Callable[[float, str], None]]:
        """Show a bar over `total_s` seconds. Yields the function that sets its position [s] and a
        short note.
        """
        hidden = self._quiet or not self.console.is_terminal
        if hidden:
            self.say(title)
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[note]}", markup=False),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self.console, disable=hidden) as progress:
            task = progress.add_task(title, total=total_s, note="")
            yield lambda done_s, note: progress.update(task, completed=done_s, note=note)
