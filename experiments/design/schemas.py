"""JSON Schemas of the files that people write: `python -m experiments.design.schemas NAME` prints
that of `role` (role.json), `fleet` (the values of fleet.tfvars), `experiment` (experiment.toml) or
`plan` (the keys of plan.json that are read)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping

from core.json_object import JsonObject
from experiments.design.cases import Case
from experiments.design.contracts import FAULT_KINDS, KINDS
from experiments.design.experiment import Experiment
from experiments.design.fleet import Fleet
from experiments.design.prediction import Prediction
from experiments.design.roles import Role


def experiment_schema() -> JsonObject:
    """experiment.toml; a kind of fault has its parameters, a kind of experiment its table."""
    schema = Experiment.model_json_schema()
    schema["additionalProperties"] = {"type": "object"}
    schema["properties"]["cases"] = {"type": "array", "items": Case.model_json_schema()}
    schema["$defs"]["Fault"]["allOf"] = [
        {
            "if": {"properties": {"kind": {"const": kind}}},
            "then": {"properties": {"parameters": KINDS[kind].model.model_json_schema()}},
        }
        for kind in FAULT_KINDS
    ]
    return schema


SCHEMAS: Mapping[str, Callable[[], JsonObject]] = {
    "role": Role.model_json_schema,
    "fleet": Fleet.model_json_schema,
    "experiment": experiment_schema,
    "plan": Prediction.model_json_schema,
}

if __name__ == "__main__":
    print(json.dumps(SCHEMAS[sys.argv[1]](), indent=2))
