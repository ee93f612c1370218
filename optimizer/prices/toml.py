"""Typed look-ups in a TOML file: each refuses by the file's name and the key's path."""

from __future__ import annotations

import datetime
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optimizer.errors import InputError, require_positive
from optimizer.prices.instance import unknown


@dataclass(frozen=True)
class Table:
    """A table of a TOML file, and where it is: `place` is shown in every refusal."""

    place: str
    raw: Mapping[str, Any]

    def only(self, *allowed: str) -> None:
        """Refuse keys that mean nothing here: a misspelt one must not be lost in silence."""
        extra = sorted(set(self.raw) - set(allowed))
        if extra:
            raise InputError(
                f"{self.place}.{extra[0]}", expected=f"only {', '.join(allowed)}", came=extra[0]
            )

    def at(self, key: str) -> str:
        return f"{self.place}.{key}"

    def table(self, key: str) -> Table:
        value = self.raw.get(key)
        if not isinstance(value, dict) or not value:
            came = "nothing" if value is None else repr(value)
            raise InputError(self.at(key), expected="a table that is not empty", came=came)
        return Table(self.at(key), value)

    def tables(self) -> dict[str, Table]:
        return {key: self.table(key) for key in self.raw}

    def text(self, key: str) -> str:
        value = self.raw.get(key)
        if not isinstance(value, str) or not value.strip():
            raise InputError(self.at(key), expected="a text", came=repr(value))
        return value

    def day(self, key: str) -> str:
        """A date as text, YYYY-MM-DD."""
        value = self.raw.get(key)
        text = value.isoformat() if isinstance(value, datetime.date) else self.text(key)
        try:
            return datetime.date.fromisoformat(text).isoformat()
        except ValueError as error:
            raise InputError(self.at(key), expected="YYYY-MM-DD", came=repr(text)) from error

    def positive(self, key: str) -> float:
        return require_positive(self.at(key), self.raw.get(key, "nothing"))

    def not_negative(self, key: str) -> float:
        value = self.raw.get(key, 0.0)
        return 0.0 if value == 0 and not isinstance(value, bool) else self.positive(key)

    def name_in(self, key: str, known: Collection[str]) -> str:
        name = self.text(key)
        if name not in known:
            raise unknown(self.at(key), name, known)
        return name


def read(path: Path) -> Table:
    """The whole file. Raises InputError if it is not there, is no TOML, or names a key twice."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        came = str(getattr(error, "strerror", None) or error)
        raise InputError(
            str(path),
            expected="a price book",
            came=came,
            do="The built-in books are ec2 and on-prem.",
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            str(path), expected="TOML", came=f"{error}{_line(path, str(error))}"
        ) from error
    return Table(path.name, raw)


def _line(path: Path, message: str) -> str:
    """The line that the parser stumbled over: for a key given twice it names the key."""
    found = re.search(r"at line (\d+)", message)
    if found is None:
        return ""
    lines = path.read_text(encoding="utf-8").splitlines()
    number = int(found[1])
    return f": {lines[number - 1].strip()}" if number <= len(lines) else ""
