"""Check the content of a run's file against a type; refuse it by file and key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from core.errors import InputError

T = TypeVar("T")

# Keys of a later version pass and are kept; nothing is converted.
TOLERANT = ConfigDict(
    strict=True, extra="allow", allow_inf_nan=False, use_attribute_docstrings=True
)


def validate(kind: TypeAdapter[T], value: Any, place: str, hint: str) -> T:
    """Return `value` if it is of that type. Raises InputError at the first key that is not."""
    try:
        return kind.validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        got = "nothing" if first["type"] == "missing" else repr(first["input"])
        raise InputError(
            f"{place}: {key}" if key else place,
            expected=first["msg"].removeprefix("Input should be "),
            got=got[:60],
            hint=hint,
        ) from error


def load_json(path: Path, hint: str) -> Any:
    """Return the value of a JSON file. Raises InputError if it cannot be read or is no JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        got = str(error.strerror or error)
        raise InputError(str(path), expected="this file", got=got, hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise InputError(str(path), expected="JSON", got=str(error), hint=hint) from error
