"""The text of a fleet's and an experiment's files; `load_design` reads equal values back.

TOML and HCL write strings, numbers, lists and the tables within a line in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from experiments.design.experiment import Experiment
from experiments.design.fleet import Fleet


def fleet_text(fleet: Fleet, comment: str) -> str:
    """fleet.tfvars; values that are the defaults of the fleet are left out."""
    values = fleet.model_dump(mode="json", exclude_defaults=True)
    lines = _comment(comment)
    for key, value in values.items():
        if key in ("tiers", "arbiters"):
            rows = [f"  {name} = {_value(one)}" for name, one in value.items()]
            lines += [f"{key} = {{", *rows, "}"]
        else:
            lines.append(f"{key} = {_value(value)}")
    return "\n".join([*lines, ""])


def experiment_text(experiment: Experiment, comment: str) -> str:
    """experiment.toml. Of an arm's settings only those that are set: a tier without an arbiter may
    have no policy."""
    values = experiment.model_dump(mode="json", exclude_none=True)
    lines = _comment(comment)
    for key, value in values.items():
        if key == "faults":
            for fault in value:
                lines += ["", "[[faults]]", *_pairs(fault)]
        elif key == "arms":
            for name, arm in experiment.arms.items():
                found = arm.model_dump(mode="json", exclude_none=True, exclude_unset=True)
                settings = _pairs(found.pop("settings", {}))
                own = [f"[arms.{_key(name)}]", *_pairs(found)] if found else []
                lines += ["", *own, f"[arms.{_key(name)}.settings]", *settings]
        elif isinstance(value, dict):
            lines += _table(key, value)
        else:
            lines.append(f"{key} = {_value(value)}")
    return "\n".join([*lines, ""])


def _table(key: str, values: Mapping[str, Any]) -> list[str]:
    """Return a table, its lists of tables below it; what is empty is left out."""
    stated = {name: value for name, value in values.items() if value not in ([], {})}
    lists = [name for name, value in stated.items() if _holds_tables(value)]
    lines = [f"[{key}]", *_pairs({name: stated[name] for name in stated if name not in lists})]
    for name in lists:
        for one in stated[name]:
            lines += ["", f"[[{key}.{name}]]", *_pairs(one)]
    return ["", *lines] if stated else []


def _holds_tables(value: Any) -> bool:
    return isinstance(value, list) and isinstance(value[0], Mapping)


def toml_text(values: Mapping[str, Any], comment: str) -> str:
    """Any TOML file's values as TOML, a line for each key of the file."""
    return "\n".join([*_comment(comment), *_pairs(values), ""])


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in text.splitlines()]


def _pairs(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(key)} = {_value(value)}" for key, value in table.items()]


def _key(name: str) -> str:
    """Bare where both languages allow it."""
    bare = name.replace("-", "").replace("_", "")
    return name if bare.isascii() and bare.isalnum() else json.dumps(name, ensure_ascii=False)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(_pairs(value))} }}" if value else "{}"
    if isinstance(value, list):
        return f"[{', '.join(_value(one) for one in value)}]"
    return json.dumps(value, ensure_ascii=False)
