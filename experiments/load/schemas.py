"""Prints a JSON Schema that a load worker is written by, `python -m experiments.load.schemas NAME`:
`plan` (what it is told), `record` (a line of its records), `message` (a line that it says)."""

from __future__ import annotations

import json
import sys

from experiments.load.plan import PLAN
from experiments.load.record_reader import MESSAGE, RECORD

SCHEMAS = {"plan": PLAN.json_schema, "record": RECORD.json_schema, "message": MESSAGE.json_schema}

if __name__ == "__main__":
    print(json.dumps(SCHEMAS[sys.argv[1]](), indent=2))
