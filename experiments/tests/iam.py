"""Policies of AWS, evaluated as AWS documents it, by two that know nothing of each other: Principal
Mapper's local simulation, and `iam_documented`.

The former knows actions, resources, conditions with their operators and quantifiers; moto's own
check knows no condition. It is as old as Python 3.9: its names of `collections` have moved.
"""

from __future__ import annotations

import collections
import collections.abc
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

for _name in ("Mapping", "MutableMapping"):
    if not hasattr(collections, _name):
        setattr(collections, _name, getattr(collections.abc, _name))

from principalmapper.querying.local_policy_simulation import policy_has_matching_statement  # noqa: E402
from principalmapper.util.case_insensitive_dict import CaseInsensitiveDict  # noqa: E402

from experiments.tests import iam_documented as documented  # noqa: E402

Policy = Mapping[str, Any]


def read(*files: Path) -> list[Policy]:
    return [json.loads(file.read_text()) for file in files]


def allows(
    policies: Sequence[Policy], action: str, resource: str, context: Mapping[str, str | list[str]]
) -> bool:
    """Policies of one identity let one authorisation through: one allows, none denies. A call of
    several resources asks for each. Two evaluators say so; AssertionError where they differ."""
    keys = {name: value for name, value in context.items() if value != []}
    is_allowed = documented.allows(policies, action, resource, keys)
    assert mapper_allows(policies, action, resource, keys) == is_allowed, (action, resource, keys)
    return is_allowed


def mapper_allows(
    policies: Sequence[Policy], action: str, resource: str, context: Mapping[str, str | list[str]]
) -> bool:
    """Return the verdict of Principal Mapper alone."""
    keys = CaseInsensitiveDict(dict(context))
    filled = [_filled(policy, context) for policy in policies]

    def any_says(effect: str) -> bool:
        return any(
            policy_has_matching_statement(policy, effect, action, resource, keys)
            for policy in filled
        )

    return any_says("Allow") and not any_says("Deny")


def _filled(policy: Policy, context: Mapping[str, str | list[str]]) -> dict[str, Any]:
    """Replace the policy's variables; Principal Mapper itself replaces those of resources only."""
    text = json.dumps(policy)
    variables = {name.lower() for name in re.findall(r"\$\{([^}]+)\}", text)}
    for name, value in context.items():
        if name.lower() in variables and isinstance(value, str):
            replacement = json.dumps(value)[1:-1].replace("\\", r"\\")
            text = re.sub(re.escape(f"${{{name}}}"), replacement, text, flags=re.IGNORECASE)
    filled: dict[str, Any] = json.loads(text) if variables else dict(policy)
    return filled
