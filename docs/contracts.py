"""JSON Schemas of contracts/, from the models: `python -m docs.contracts FOLDER` writes them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, NoDefault
from pydantic_core import core_schema

from core.json_object import JsonObject, format_json
from core.runfiles.events import Event
from core.runfiles.manifest import Manifest
from core.runfiles.result import Head
from experiments.design.cases import Case
from experiments.design.contracts import FAULT_KINDS, KINDS
from experiments.design.experiment import Experiment
from experiments.design.fleet import Fleet
from experiments.design.prediction import Prediction
from experiments.design.roles import Role
from experiments.load.plan import PLAN
from experiments.load.record_reader import MESSAGE, RECORD


class _Schema(GenerateJsonSchema):
    """Schemas without the titles that pydantic makes of the fields' names."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


class _TomlSchema(_Schema):
    """Schemas of TOML files: without null, which TOML does not have."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def get_default_value(self, schema: core_schema.WithDefaultSchema) -> Any:
        default = super().get_default_value(schema)
        return NoDefault if default is None else default


def experiment_schema() -> JsonObject:
    """experiment.toml; a kind of fault has its parameters, a kind of experiment its table."""
    schema = Experiment.model_json_schema(schema_generator=_TomlSchema)
    schema["additionalProperties"] = {"type": "object"}
    # A kind of this name has a table of its own in the place of the fail-over's.
    schema["if"] = {"properties": {"kind": {"const": "failover"}}, "required": ["kind"]}
    schema["else"] = {"properties": {"failover": schema["properties"].pop("failover")}}
    cases = Case.model_json_schema(schema_generator=_TomlSchema)
    schema["properties"]["cases"] = {"type": "array", "items": cases}
    schema["$defs"]["Fault"]["allOf"] = [
        {
            "if": {"properties": {"kind": {"const": kind}}},
            "then": {
                "properties": {
                    "parameters": KINDS[kind].model.model_json_schema(schema_generator=_TomlSchema)
                }
            },
        }
        for kind in FAULT_KINDS
    ]
    return schema


_TYPES: Mapping[str, TypeAdapter[Any]] = {
    "role": TypeAdapter(Role),
    "fleet": TypeAdapter(Fleet),
    "plan": TypeAdapter(Prediction),
    "result": TypeAdapter(Head),
    "manifest": TypeAdapter(Manifest),
    "event": TypeAdapter(Event),
    "load-plan": PLAN,
    "load-record": RECORD,
    "load-message": MESSAGE,
}


def schemas() -> dict[str, JsonObject]:
    """Return each file's schema: what people write, a run's files, and a load worker's."""
    of_types = {name: kind.json_schema(schema_generator=_Schema) for name, kind in _TYPES.items()}
    return {"experiment": experiment_schema(), **of_types}


if __name__ == "__main__":
    for file, schema in schemas().items():
        text = f"{format_json(schema)}\n"
        (Path(sys.argv[1]) / f"{file}.schema.json").write_text(text, encoding="utf-8")
