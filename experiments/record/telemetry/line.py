"""InfluxDB's line protocol, in the form that 1.x, 2.x and 3.x read.

Rules: a tag value may be neither empty nor end in a backslash, nor have a line break; a
field may not be NaN; a field whose type changes is refused, so floats always carry a dot and
integers an `i`. Line breaks in strings become spaces, because one point is one line in the spool.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

Value = float | int | bool | str


@dataclass(frozen=True)
class Point:
    """One sample. Tags that are None or empty, and fields that are None or NaN, are left out."""

    measurement: str
    tags: Mapping[str, str | None]
    fields: Mapping[str, Value | None]
    time_ns: int

    def line(self) -> bytes:
        """Return the point in line protocol, without the line break. Raises ValueError without
        fields.
        """
        fields = [
            f"{_escape(key, ',= ')}={_field(value)}"
            for key, value in self.fields.items()
            if value is not None and not (isinstance(value, float) and not math.isfinite(value))
        ]
        if not fields:
            raise ValueError(f"point {self.measurement}: expected at least one field, came none")
        tags = [
            f",{_escape(key, ',= ')}={_tag(value)}"
            for key, value in sorted(self.tags.items())
            if value
        ]
        head = _escape(self.measurement, ", ") + "".join(tags)
        return f"{head} {','.join(fields)} {self.time_ns}".encode()


def _one_line(text: str) -> str:
    return " ".join(text.splitlines()) if "\n" in text or "\r" in text else text


def _escape(text: str, special: str) -> str:
    text = _one_line(text)
    for character in special:
        text = text.replace(character, "\\" + character)
    return text


def _tag(value: str) -> str:
    text = _escape(value, ",= ")
    # A trailing backslash would escape the separator after it; there is no way to write one.
    return text.rstrip("\\") + "/" * (len(text) - len(text.rstrip("\\")))


def _field(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value}i"
    if isinstance(value, float):
        return repr(float(value))
    text = _one_line(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
