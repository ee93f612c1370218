"""Remove secrets from recorded requests: by name, by place in a path, and by shape."""

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
# Headers that select the answer; the load worker sets all others.
KEPT_HEADERS = frozenset({"accept", "accept-language", "content-type", "x-requested-with"})
_HEADER_MOST = 8_192


def is_secret(name: str) -> bool:
    """True for a name whose value has to stay secret."""
    return bool(_SECRET.search(name))


def holds_secret(value: str) -> bool:
    """True for a value shaped like a secret, or one that holds a secret name with a value."""
    return bool(_SHAPED.search(value)) or any(map(is_secret, _NAMED.findall(value)))


def clean_segment(segment: str, before: str, removed: Counter[str]) -> str:
    """Return a segment of a path, as text, without secrets; `before` is the segment before it."""
    first, *parameters = segment.split(";")
    after_secret = is_secret(before) or _LINK.search(before)
    if _SHAPED.search(first) or (after_secret and _LINK_SECRET.fullmatch(first)):
        removed[f"path after /{before}"[:80]] += 1
        first = REMOVED
    cleaned = []
    for parameter in parameters:
        key, equals, value = parameter.partition("=")
        cleaned.append(f"{key}{equals}{clean_value(key, value, 'path parameter', removed)}")
    return ";".join([first, *cleaned])


def clean_value(key: str, value: str, place: str, removed: Counter[str]) -> str:
    """Return the value of a key; a secret is replaced and counted."""
    if not value or not (is_secret(key) or holds_secret(value)):
        return value
    removed[f"{place} {key}"[:80]] += 1
    return REMOVED


def clean_headers(
    headers: list[tuple[str, str]], removed: Counter[str]
) -> tuple[tuple[str, str], ...]:
    """Return the headers of KEPT_HEADERS that can be sent, by name; count the secret ones."""
    for name, _ in headers:
        if is_secret(name):
            removed[f"header {name}"[:80]] += 1
    cleaned = {
        name.title(): value
        for name, value in headers
        if name.lower() in KEPT_HEADERS and len(value) <= _HEADER_MOST and _is_latin_1_line(value)
    }
    return tuple(sorted(cleaned.items()))


def _is_latin_1_line(value: str) -> bool:
    return all(ord(letter) < 256 and letter not in "\r\n\0" for letter in value)


def clean_body(text: str, content_type: str, removed: Counter[str]) -> str | None:
    """Return a body of JSON or of a form with its secrets replaced.

    Any other body is returned as it is, or as None if a word in it names a secret: the value that
    belongs to the word is unknown there.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        pairs = parse_qsl(text, keep_blank_values=True)
        return urlencode(
            [(key, clean_value(key, value, "body key", removed)) for key, value in pairs]
        )
    if kind.endswith("json") or text.lstrip()[:1] in ("{", "["):
        try:
            return json.dumps(_clean_json(json.loads(text), removed), ensure_ascii=False)
        except (ValueError, RecursionError):
            pass
    has_secret_name = holds_secret(text) or any(is_secret(word) for word in _WORD.findall(text))
    return None if has_secret_name else text


def _clean_json(value: Any, removed: Counter[str], key: str = "", secret: bool = False) -> Any:
    """Return a value of JSON, without texts and numbers below a secret `key`."""
    if isinstance(value, dict):
        return {
            name: _clean_json(item, removed, key if secret else name, secret or is_secret(name))
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [_clean_json(item, removed, key, secret) for item in value]
    if isinstance(value, str):
        return clean_value(key, value, "body key", removed)
    if secret and isinstance(value, int | float) and not isinstance(value, bool):
        removed[f"body key {key}"[:80]] += 1
        return 0
    return value
