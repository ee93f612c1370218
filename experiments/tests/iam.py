"""Policies of AWS, evaluated as AWS documents it: by Principal Mapper's local simulation.

It knows actions, resources, conditions with their operators and quantifiers, and variables; moto's
own check knows no condition. It is as old as Python 3.9: its names of `collections` have moved.
"""

from __future__ import annotations

import collections
import collections.abc
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

for _name in ("Mapping", "MutableMapping"):
    if not hasattr(collections, _name):
        setattr(collections, _name, getattr(collections.abc, _name))

from principalmapper.querying.local_policy_simulation import (  # noqa: E402
    policy_has_matching_statement,
)
from principalmapper.util.case_insensitive_dict import CaseInsensitiveDict  # noqa: E402

Policy = Mapping[str, Any]


def read(*files: Path) -> list[Policy]:
    """Policy documents."""
    return [json.loads(file.read_text()) for file in files]


def allows(
    policies: Sequence[Policy], action: str, resource: str, context: Mapping[str, str | list[str]]
) -> bool:
    """Whether policies of one identity let one authorisation through: one allows, none denies.
    A call of several resources asks for each."""
    keys = CaseInsensitiveDict(dict(context))

    def any_says(effect: str) -> bool:
        return any(
            policy_has_matching_statement(dict(policy), effect, action, resource, keys)
            for policy in policies
        )

    return any_says("Allow") and not any_says("Deny")


def allows_within(
    boundary: Policy, own: Policy, action: str, resource: str, context: Mapping[str, str]
) -> bool:
    """The same of a role that has a permissions boundary: both have to allow."""
    return all(allows([policy], action, resource, context) for policy in (boundary, own))
