"""JSON Schemas of the contract of load workers: `python -m experiments.load.schemas NAME` prints
that of `plan`, `record` (a line of the records) or `message` (a line of the socket).
"""

from __future__ import annotations

import json
import sys

from experiments.load.plan import PLAN
from experiments.load.record_reader import MESSAGE, RECORD

SCHEMAS = {"plan": PLAN.json_schema, "record": RECORD.json_schema, "message": MESSAGE.json_schema}

if __name__ == "__main__":
    print(json.dumps(SCHEMAS[sys.argv[1]](), indent=2))
