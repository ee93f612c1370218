"""JSON: the type of an object from a file or another program, and the text of generated files."""

from __future__ import annotations

import json
from typing import Any

JsonObject = dict[str, Any]


def format_json(value: object, columns: int = 100, indent: str = "", used: int = 0) -> str:
    """Return a value as JSON: what fits into a line is in one, all else has a line per entry.

    Parameters: columns of a line; indent of the value's last line; used, columns of its first line
    that the key takes.
    """
    line = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if not isinstance(value, dict | list) or len(indent) + used + len(line) < columns:
        return line
    deeper = f"{indent}  "
    if isinstance(value, dict):
        opening, closing = "{}"
        entries = [(f"{json.dumps(key)}: ", entry) for key, entry in value.items()]
    else:
        opening, closing = "[]"
        entries = [("", entry) for entry in value]
    lines = [
        f"{deeper}{key}{format_json(entry, columns, deeper, len(key))}" for key, entry in entries
    ]
    return "\n".join([opening, ",\n".join(lines), f"{indent}{closing}"])
