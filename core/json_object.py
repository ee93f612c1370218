"""A JSON or TOML object from a file or another program, for the code that reads it."""

from typing import Any

JsonObject = dict[str, Any]
