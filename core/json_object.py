"""A JSON or TOML object as a file or another program gave it: for the edge where it is read."""

from typing import Any

JsonObject = dict[str, Any]
