"""The text of the files of a fleet and an experiment; `load_design` reads equal values back.

TOML and HCL have the same syntax for strings, numbers, lists and tables within a line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from experiments.design.experiment import Experiment
from experiments.design.fleet import Fleet


def fleet_text(fleet: Fleet, comment: str) -> str:
    """Return the text of fleet.tfvars, without values that are defaults."""
    values = fleet.model_dump(mode="json", exclude_defaults=True)
    lines = _comment_lines(comment)
    for key, value in values.items():
        if key in ("tiers", "arbiters"):
            rows = [f"  {name} = {_format_value(table)}" for name, table in value.items()]
            lines += [f"{key} = {{", *rows, "}"]
        else:
            lines.append(f"{key} = {_format_value(value)}")
    return "\n".join([*lines, ""])


def experiment_text(experiment: Experiment, comment: str) -> str:
    """Return the text of experiment.toml. An arm has only the settings that are set, because a tier
    without an arbiter must not have a policy.
    """
    values = experiment.model_dump(mode="json", exclude_none=True)
    lines = _comment_lines(comment)
    for key, value in values.items():
        if key == "faults":
            for fault in value:
                lines += ["", "[[faults]]", *_format_pairs(fault)]
        elif key == "arms":
            for name, arm in experiment.arms.items():
                values_of_arm = arm.model_dump(mode="json", exclude_none=True, exclude_unset=True)
                settings = _format_pairs(values_of_arm.pop("settings", {}))
                arm_table = (
                    [f"[arms.{_format_key(name)}]", *_format_pairs(values_of_arm)]
                    if values_of_arm
                    else []
                )
                lines += ["", *arm_table, f"[arms.{_format_key(name)}.settings]", *settings]
        elif isinstance(value, dict):
            lines += _format_table(key, value)
        else:
            lines.append(f"{key} = {_format_value(value)}")
    return "\n".join([*lines, ""])


def _format_table(key: str, values: Mapping[str, Any]) -> list[str]:
    """Return the lines of a table and of its lists of tables, without empty values."""
    filled = {name: value for name, value in values.items() if value not in ([], {})}
    lists = [name for name, value in filled.items() if _holds_tables(value)]
    lines = [
        f"[{key}]",
        *_format_pairs({name: filled[name] for name in filled if name not in lists}),
    ]
    for name in lists:
        for row in filled[name]:
            lines += ["", f"[[{key}.{name}]]", *_format_pairs(row)]
    return ["", *lines] if filled else []


def _holds_tables(value: Any) -> bool:
    return isinstance(value, list) and isinstance(value[0], Mapping)


def toml_text(values: Mapping[str, Any], comment: str) -> str:
    """Return the values of any TOML file as TOML, a line for each key."""
    return "\n".join([*_comment_lines(comment), *_format_pairs(values), ""])


def _comment_lines(text: str) -> list[str]:
    return [f"# {line}" for line in text.splitlines()]


def _format_pairs(table: Mapping[str, Any]) -> list[str]:
    return [f"{_format_key(key)} = {_format_value(value)}" for key, value in table.items()]


def _format_key(name: str) -> str:
    """Return a key, without quotes if both languages allow it."""
    bare = name.replace("-", "").replace("_", "")
    return name if bare.isascii() and bare.isalnum() else json.dumps(name, ensure_ascii=False)


def _format_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(_format_pairs(value))} }}" if value else "{}"
    if isinstance(value, list):
        return f"[{', '.join(_format_value(item) for item in value)}]"
    return json.dumps(value, ensure_ascii=False)
