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
    """The request lacks a policy variable; a pattern with that variable matches nothing."""


def allows(policies: Iterable[Policy], action: str, resource: str, context: Context) -> bool:
    """An explicit deny wins; else one allow is needed; else the request is denied."""
    keys = {name.lower(): listed(value) for name, value in context.items()}
    effects = {
        statement["Effect"]
        for policy in policies
        for statement in listed(policy["Statement"])
        if _applies(statement, action, resource, keys)
    }
    return effects == {"Allow"}


def _applies(
    statement: Mapping[str, Any], action: str, resource: str, keys: Mapping[str, list[str]]
) -> bool:
    def names(element: str, value: str, *, case: bool) -> bool:
        """The element names the value; a statement without it names all."""
        if element in statement:
            return any(
                _like(pattern, value, keys, case=case) for pattern in listed(statement[element])
            )
        without = listed(statement.get(f"Not{element}", []))
        return not any(_like(pattern, value, keys, case=case) for pattern in without)

    return (
        names("Action", action, case=False)
        and names("Resource", resource, case=True)
        and all(
            _condition(operator, key, listed(patterns), keys)
            for operator, block in statement.get("Condition", {}).items()
            for key, patterns in block.items()
        )
    )


def _condition(operator: str, key: str, values: list[Any], keys: Mapping[str, list[str]]) -> bool:
    """Evaluate one key of one operator: any value has to match; if negated, none may."""
    quantifier, _, operator = operator.rpartition(":")
    name = operator.removesuffix("IfExists")
    actual = keys.get(key.lower())
    patterns = [_word(value) for value in values]
    if name == "Null":
        return any((actual is None) == (pattern == "true") for pattern in patterns)
    if actual is None:
        negated = name.startswith(("StringNot", "NumericNot", "DateNot", "ArnNot", "NotIp"))
        return negated or name != operator or quantifier == "ForAllValues"
    compare, is_negated = _operator(name)

    def matches(value: str) -> bool:
        if is_negated:
            return all(not compare(pattern, value, keys) for pattern in patterns)
        return any(compare(pattern, value, keys) for pattern in patterns)

    return all(map(matches, actual)) if quantifier == "ForAllValues" else any(map(matches, actual))


_Compare = Callable[[str, str, Mapping[str, list[str]]], bool]


@cache
def _operator(name: str) -> tuple[_Compare, bool]:
    """The comparison of an operator, and that it is negated. Raises KeyError for an unknown one."""
    plain = name.replace("Not", "", 1)
    if plain in ("StringEquals", "BinaryEquals"):
        return lambda pattern, value, keys: _same(pattern, value, keys), plain != name
    if plain == "StringEqualsIgnoreCase":
        return lambda pattern, value, keys: _same(pattern, value, keys, case=False), plain != name
    if plain == "StringLike":
        return lambda pattern, value, keys: _like(pattern, value, keys, case=True), plain != name
    if plain in ("ArnEquals", "ArnLike"):
        return _arn, plain != name
    if plain == "Bool":
        return lambda pattern, value, _: pattern.lower() == value.lower(), False
    if plain == "IpAddress":
        return _within, plain != name
    kind, order = re.fullmatch(r"(Numeric|Date)(\w+)", plain).groups()  # type: ignore[union-attr]
    number = float if kind == "Numeric" else _seconds
    orders: dict[str, Callable[[float, float], bool]] = {
        "Equals": lambda limit, actual: actual == limit,
        "LessThan": lambda limit, actual: actual < limit,
        "LessThanEquals": lambda limit, actual: actual <= limit,
        "GreaterThan": lambda limit, actual: actual > limit,
        "GreaterThanEquals": lambda limit, actual: actual >= limit,
    }
    compare = orders[order]
    return lambda limit, value, _: compare(number(limit), number(value)), plain != name


def _same(pattern: str, value: str, keys: Mapping[str, list[str]], *, case: bool = True) -> bool:
    try:
        text = _filled(pattern, keys, str)
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
    """Compare each of the six parts of an ARN by itself."""
    parts, value_parts = pattern.split(":", 5), value.split(":", 5)
    if re.search(r"\$\{", pattern):  # a variable has a colon in its name
        return _like(pattern, value, keys, case=True)
    return len(parts) == len(value_parts) == 6 and all(
        _like(part, value_part, keys, case=True)
        for part, value_part in zip(parts, value_parts, strict=True)
    )


def _filled(
    text: str,
    keys: Mapping[str, list[str]],
    rest: Callable[[str], str],
    literal: Callable[[str], str] = str,
) -> str:
    """Replace each `${key}` and `${key, 'default'}`; `rest` converts the text between them."""
    output, position = "", 0
    for match in re.finditer(r"\$\{([^},]+)(?:,\s*'([^']*)')?\}", text):
        output += rest(text[position : match.start()])
        name, default = match[1].strip(), match[2]
        if name in ("*", "?", "$"):
            output += literal(name)
        else:
            values = keys.get(name.lower(), [] if default is None else [default])
            if len(values) != 1:
                raise UndefinedError(name)
            output += literal(values[0])
        position = match.end()
    return output + rest(text[position:])


def _expression(text: str) -> str:
    """A regular expression of a text with `*` and `?`; a `[` is no class, as in fnmatch it is."""
    return "".join({"*": ".*", "?": "."}.get(character, re.escape(character)) for character in text)


def _within(network: str, value: str, _: Mapping[str, list[str]]) -> bool:
    return ipaddress.ip_address(value) in ipaddress.ip_network(network, strict=False)


def _seconds(text: str) -> float:
    if text.isdigit():
        return float(text)
    when = datetime.fromisoformat(text)
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
