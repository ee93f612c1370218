"""Secrets in recorded requests: removed by name, by place in a path, and by shape."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any
from urllib.parse import parse_qsl, urlencode

REMOVED = "removed"
_SECRET = re.compile(
    r"pass(wd|word|phrase|code)|pass$|pwd|secret|token|api.?key|access.?key|private.?key"
    r"|auth(?!or(?!i))|signature|^sig$|session|sess?id|credential|bearer|jwt|saml|assertion"
    r"|^otp$|^pin$|^code$|^key$|cookie|csrf|xsrf|card.?number|cvv|cvc",
    re.I,
)
# Words of a path after which a long segment is a link's secret.
_LINK = re.compile(r"verif|invit|confirm|reset|activat|unsubscribe|magic", re.I)
_LINK_SECRET = re.compile(r"(?=.*\d)[^/]{16,}")
_SHAPED = re.compile(
    r"eyJ[\w-]{6,}\.[\w-]{6,}\.|\b(basic|bearer)\s+\S{6,}|\bAKIA[0-9A-Z]{16}\b|\bgh[a-z]_\w{20,}"
    r"|\bsk_live_|\bxox[a-z]-|-----BEGIN",
    re.I,
)
_NAMED = re.compile(r"(?<![\w.\[\]-])([\w.\[\]-]{1,60})[\"']?\s{0,9}[=:]")
_WORD = re.compile(r"[\w.\[\]-]{1,100}")
# Headers that say which answer is wanted; all others are left to the load worker.
KEPT = frozenset({"accept", "accept-language", "content-type", "x-requested-with"})
_HEADER_MOST = 8_192


def is_secret(name: str) -> bool:
    """True for a name whose value is nobody else's business."""
    return bool(_SECRET.search(name))


def holds_secret(value: str) -> bool:
    """True for a value that has a secret's shape, or has a secret name with a value in it."""
    return bool(_SHAPED.search(value)) or any(map(is_secret, _NAMED.findall(value)))


def kept_segment(segment: str, before: str, removed: Counter[str]) -> str:
    """Return a segment of a path, as text, without secrets; `before` is the one in front of it."""
    first, *parameters = segment.split(";")
    after_secret = is_secret(before) or _LINK.search(before)
    if _SHAPED.search(first) or (after_secret and _LINK_SECRET.fullmatch(first)):
        removed[f"path after /{before}"[:80]] += 1
        first = REMOVED
    kept = []
    for one in parameters:
        key, equals, value = one.partition("=")
        kept.append(f"{key}{equals}{kept_value(key, value, 'path parameter', removed)}")
    return ";".join([first, *kept])


def kept_value(key: str, value: str, place: str, removed: Counter[str]) -> str:
    """Return the value of a key, replaced and counted where it is a secret."""
    if not value or not (is_secret(key) or holds_secret(value)):
        return value
    removed[f"{place} {key}"[:80]] += 1
    return REMOVED


def kept_headers(
    headers: list[tuple[str, str]], removed: Counter[str]
) -> tuple[tuple[str, str], ...]:
    """Return the kept headers that can be sent, sorted by name; secret ones are counted."""
    for name, _ in headers:
        if is_secret(name):
            removed[f"header {name}"[:80]] += 1
    kept = {
        name.title(): value
        for name, value in headers
        if name.lower() in KEPT and len(value) <= _HEADER_MOST and _one_line_of_latin_1(value)
    }
    return tuple(sorted(kept.items()))


def _one_line_of_latin_1(value: str) -> bool:
    return all(ord(one) < 256 and one not in "\r\n\0" for one in value)


def kept_body(text: str, content_type: str, removed: Counter[str]) -> str | None:
    """Return a body with secrets replaced, in JSON and in forms. None for another body that has a
    word which names a secret: what belongs to the word is not known there.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        pairs = parse_qsl(text, keep_blank_values=True)
        return urlencode([(key, kept_value(key, one, "body key", removed)) for key, one in pairs])
    if kind.endswith("json") or text.lstrip()[:1] in ("{", "["):
        try:
            return json.dumps(_cleaned(json.loads(text), removed), ensure_ascii=False)
        except (ValueError, RecursionError):
            pass
    hidden = holds_secret(text) or any(is_secret(word) for word in _WORD.findall(text))
    return None if hidden else text


def _cleaned(value: Any, removed: Counter[str], key: str = "", secret: bool = False) -> Any:
    """Return a value of JSON, without texts and numbers below a secret `key`."""
    if isinstance(value, dict):
        return {
            name: _cleaned(one, removed, key if secret else name, secret or is_secret(name))
            for name, one in value.items()
        }
    if isinstance(value, list):
        return [_cleaned(one, removed, key, secret) for one in value]
    if isinstance(value, str):
        return kept_value(key, value, "body key", removed)
    if secret and isinstance(value, int | float) and not isinstance(value, bool):
        removed[f"body key {key}"[:80]] += 1
        return 0
    return value
