"""A second evaluator of AWS's policies, from the documentation of their language alone.

Written from "Policy evaluation logic", "Condition operators", "Conditions with multiple context
keys or values" and "Variables and tags" of the IAM User Guide, apart from Principal Mapper, which
`iam.py` has: where the two differ, one is wrong.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

Context = Mapping[str, str | Sequence[str]]
Policy = Mapping[str, Any]


class UndefinedError(LookupError):
    """A policy variable that the request does not have: what names it matches nothing."""


def allows(policies: Iterable[Policy], action: str, resource: str, context: Context) -> bool:
    """An explicit deny wins; else one allow is needed; else the request is denied."""
    keys = {name.lower(): _listed(value) for name, value in context.items()}
    effects = {
        statement["Effect"]
        for policy in policies
        for statement in _listed(policy["Statement"])
        if _applies(statement, action, resource, keys)
    }
    return effects == {"Allow"}


def _applies(
    statement: Mapping[str, Any], action: str, resource: str, keys: Mapping[str, list[str]]
) -> bool:
    def names(element: str, value: str, *, case: bool) -> bool:
        """The element names the value; a statement without it names all."""
        if element in statement:
            return any(_like(one, value, keys, case=case) for one in _listed(statement[element]))
        without = _listed(statement.get(f"Not{element}", []))
        return not any(_like(one, value, keys, case=case) for one in without)

    return (
        names("Action", action, case=False)
        and names("Resource", resource, case=True)
        and all(
            _condition(operator, key, _listed(wanted), keys)
            for operator, block in statement.get("Condition", {}).items()
            for key, wanted in block.items()
        )
    )


def _condition(operator: str, key: str, wanted: list[Any], keys: Mapping[str, list[str]]) -> bool:
    """One key of one operator: any of the wanted values; all of them have to differ if negated."""
    quantifier, _, operator = operator.rpartition(":")
    name = operator.removesuffix("IfExists")
    came = keys.get(key.lower())
    words = [_word(one) for one in wanted]
    if name == "Null":
        return any((came is None) == (one == "true") for one in words)
    if came is None:
        negated = name.startswith(("StringNot", "NumericNot", "DateNot", "ArnNot", "NotIp"))
        return negated or name != operator or quantifier == "ForAllValues"
    compare, is_negated = _operator(name)

    def matches(value: str) -> bool:
        if is_negated:
            return all(not compare(one, value, keys) for one in words)
        return any(compare(one, value, keys) for one in words)

    return all(map(matches, came)) if quantifier == "ForAllValues" else any(map(matches, came))


_Compare = Callable[[str, str, Mapping[str, list[str]]], bool]


@cache
def _operator(name: str) -> tuple[_Compare, bool]:
    """The comparison of an operator, and that it is negated. Raises KeyError for an unknown one."""
    plain = name.replace("Not", "", 1)
    if plain in ("StringEquals", "BinaryEquals"):
        return lambda one, value, keys: _same(one, value, keys), plain != name
    if plain == "StringEqualsIgnoreCase":
        return lambda one, value, keys: _same(one, value, keys, case=False), plain != name
    if plain == "StringLike":
        return lambda one, value, keys: _like(one, value, keys, case=True), plain != name
    if plain in ("ArnEquals", "ArnLike"):
        return _arn, plain != name
    if plain == "Bool":
        return lambda one, value, _: one.lower() == value.lower(), False
    if plain == "IpAddress":
        return _within, plain != name
    kind, order = re.fullmatch(r"(Numeric|Date)(\w+)", plain).groups()  # type: ignore[union-attr]
    number = float if kind == "Numeric" else _seconds
    orders: dict[str, Callable[[float, float], bool]] = {
        "Equals": lambda wanted, came: came == wanted,
        "LessThan": lambda wanted, came: came < wanted,
        "LessThanEquals": lambda wanted, came: came <= wanted,
        "GreaterThan": lambda wanted, came: came > wanted,
        "GreaterThanEquals": lambda wanted, came: came >= wanted,
    }
    ordered = orders[order]
    return lambda one, value, _: ordered(number(one), number(value)), plain != name


def _same(one: str, value: str, keys: Mapping[str, list[str]], *, case: bool = True) -> bool:
    try:
        text = _filled(one, keys, str)
    except UndefinedError:
        return False
    return text == value if case else text.lower() == value.lower()


def _like(pattern: str, value: str, keys: Mapping[str, list[str]], *, case: bool) -> bool:
    """`*` and `?` are wild in the policy, never in what a variable stands for."""
    try:
        expression = _filled(pattern, keys, _expression, literal=re.escape)
    except UndefinedError:
        return False
    return re.fullmatch(expression, value, re.DOTALL | (0 if case else re.IGNORECASE)) is not None


def _arn(pattern: str, value: str, keys: Mapping[str, list[str]]) -> bool:
    """Each of the six parts for itself."""
    parts, came = pattern.split(":", 5), value.split(":", 5)
    if re.search(r"\$\{", pattern):  # a variable has a colon in its name
        return _like(pattern, value, keys, case=True)
    return len(parts) == len(came) == 6 and all(
        _like(one, other, keys, case=True) for one, other in zip(parts, came, strict=True)
    )


def _filled(
    text: str,
    keys: Mapping[str, list[str]],
    rest: Callable[[str], str],
    literal: Callable[[str], str] = str,
) -> str:
    """The text with each `${key}` and `${key, 'default'}`; `rest` is done to what is between."""
    done, at = "", 0
    for found in re.finditer(r"\$\{([^},]+)(?:,\s*'([^']*)')?\}", text):
        done += rest(text[at : found.start()])
        name, default = found[1].strip(), found[2]
        if name in ("*", "?", "$"):
            done += literal(name)
        else:
            held = keys.get(name.lower(), [] if default is None else [default])
            if len(held) != 1:
                raise UndefinedError(name)
            done += literal(held[0])
        at = found.end()
    return done + rest(text[at:])


def _expression(text: str) -> str:
    """A regular expression of a text with `*` and `?`; a `[` is no class, as in fnmatch it is."""
    return "".join({"*": ".*", "?": "."}.get(one, re.escape(one)) for one in text)


def _within(network: str, value: str, _: Mapping[str, list[str]]) -> bool:
    return ipaddress.ip_address(value) in ipaddress.ip_network(network, strict=False)


def _seconds(text: str) -> float:
    if text.isdigit():
        return float(text)
    when = datetime.fromisoformat(text)
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
