"""A Locust file, imported as Locust imports it."""

from __future__ import annotations

import traceback
from pathlib import Path

from locust import LoadTestShape, User
from locust.util.load_locustfile import load_locustfile


def load_file(path: Path) -> tuple[dict[str, type[User]], list[LoadTestShape]]:
    """Return by name the user classes with a weight above 0, and the shapes. Raises: any error of
    the file.
    """
    users, shapes = load_locustfile(str(path))
    return {name: user for name, user in users.items() if user.weight > 0}, shapes


def error_place(path: Path, error: BaseException) -> tuple[int, str]:
    """Return the line of the file at which it failed (0: unknown), and the error in one line."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno or 0, text
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno or 0 for frame in frames if frame.filename == str(path)]
    return (lines[-1] if lines else 0), text
