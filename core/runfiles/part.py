"""The part of a run's result that a model is fed with, checked against a form of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from core.config_file import Written, check, read_json
from core.errors import InputError
from core.runfiles.result import FILE


class Part(Written):
    """The keys of the head that every such form has; the kind's own key stands beside them."""

    run: str
    valid: bool

    def require_valid(self, place: str) -> None:
        """Raise InputError at `place` for a run that does not count."""
        if not self.valid:
            raise InputError(
                place,
                expected="a valid run",
                got=f"{self.run}, which is not",
                hint="Its report says why; measure again.",
            )


_Form = TypeVar("_Form", bound=Part)


def part_of(folder: Path, kind: str, form: type[_Form], place: str) -> _Form:
    """Return the result of a run of that kind, as far as `form` has its keys.

    Raises: InputError at `place` for a folder without one, by file and key for a wrong value.
    """
    path = folder / FILE
    source = read_json(path) if path.is_file() else None
    if source is None or source.values.get("kind", kind) != kind:
        raise InputError(
            place,
            expected=f"a run of kind {kind}, with {FILE} in it",
            got=str(folder) if source is None else f"kind {source.values['kind']} in {folder}",
            hint="`sparecraft run` of such a design makes one; `sparecraft list` shows the runs.",
        )
    return check(source, form)
