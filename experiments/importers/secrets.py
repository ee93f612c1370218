"""Secrets in requests that were recorded: removed by the names of headers, parameters and keys."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any
from urllib.parse import parse_qsl, urlencode

REMOVED = "removed"
_SECRET = re.compile(
    r"pass(wd|word|phrase)?$|secret|token|api.?key|access.?key|private.?key|auth|signature|^sig$"
    r"|session|sess?id|credential|jwt|^otp$|^pin$|^code$|^key$|cookie|csrf|xsrf|card.?number|cvv",
    re.I,
)
# Headers that say which answer is wanted; all others are left to the load worker.
KEPT = frozenset({"accept", "accept-language", "content-type", "x-requested-with"})


def is_secret(name: str) -> bool:
    """True for a name whose value is nobody else's business."""
    return bool(_SECRET.search(name))


def kept_headers(
    headers: list[tuple[str, str]], removed: Counter[str]
) -> tuple[tuple[str, str], ...]:
    """Those that are kept, by name; secret ones are counted."""
    for name, _ in headers:
        if is_secret(name):
            removed[f"header {name}"] += 1
    kept = {name.title(): value for name, value in headers if name.lower() in KEPT}
    return tuple(sorted(kept.items()))


def kept_body(text: str, content_type: str, removed: Counter[str]) -> str:
    """A body with the values of secret keys replaced, in JSON and in forms; others as they are."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind.endswith("json"):
        try:
            return json.dumps(_cleaned(json.loads(text), removed), ensure_ascii=False)
        except (ValueError, RecursionError):
            return text
    if kind == "application/x-www-form-urlencoded":
        pairs = parse_qsl(text, keep_blank_values=True)
        return urlencode([(key, _value(key, value, removed)) for key, value in pairs])
    return text


def _cleaned(value: Any, removed: Counter[str]) -> Any:
    if isinstance(value, dict):
        return {
            key: _value(key, one, removed) if isinstance(one, str) else _cleaned(one, removed)
            for key, one in value.items()
        }
    return [_cleaned(one, removed) for one in value] if isinstance(value, list) else value


def _value(key: str, value: str, removed: Counter[str]) -> str:
    if not is_secret(key) or not value:
        return value
    removed[f"body key {key}"] += 1
    return REMOVED
