"""JSON Schemas of a run's files: `python -m core.runfiles.schemas NAME` prints that of `result`,
`manifest` or `event` (a line of events.jsonl)."""

from __future__ import annotations

import json
import sys
from typing import Any

from pydantic import TypeAdapter

from core.runfiles.events import Event
from core.runfiles.manifest import Manifest
from core.runfiles.result import Head

KINDS: dict[str, type[Any]] = {"result": Head, "manifest": Manifest, "event": Event}

if __name__ == "__main__":
    print(json.dumps(TypeAdapter(KINDS[sys.argv[1]]).json_schema(), indent=2))
