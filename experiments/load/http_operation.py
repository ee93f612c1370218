"""One operation over HTTP: its bytes for an arrival's values and cookies, and its answer judged.

A session keeps the values and cookies of its user. Of a cookie only name and value are kept, and
a deletion (`Max-Age` of 0 or less, a past `Expires`); its domain and path are assumed to be the
service's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, quote_plus

from experiments.design.http_request import AnswerCheck, Encoding, HttpRequest, JsonPath, Part
from experiments.design.target import in_url

VALUE_MAX = 8192  # characters of a value that is taken from an answer, and of a cookie
COOKIES_MAX = 50
_BODY_METHODS = ("POST", "PUT", "PATCH")
_MISSING = object()
_ENCODED: Mapping[Encoding, Callable[[str], bytes]] = {
    "plain": lambda value: value.encode(),
    "path": lambda value: quote(value, safe="").encode(),
    "json": lambda value: json.dumps(value, ensure_ascii=False)[1:-1].encode(),
    "form": lambda value: quote_plus(value).encode(),
}


@dataclass
class VirtualUser:
    """The values of an arrival, and the cookies of its session."""

    values: dict[str, str]
    cookies: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Expected:
    """The good answer to one request of one user."""

    request: HttpRequest
    user: VirtualUser

    @property
    def method(self) -> str:
        """The method of the request; an answer to HEAD has no body."""
        return self.request.method

    def judge(
        self, status: int, headers: Iterable[tuple[str, str]], body: bytes
    ) -> tuple[str, str]:
        """Return the outcome and the reason why an answer is not good; give the user the answer's
        cookies and values.
        """
        header_pairs = list(headers)
        _keep_cookies(self.user.cookies, header_pairs)
        if not any(low <= status <= high for low, high in self.request.status):
            return "bad_status", f"status {status}"
        answer = _Answer(header_pairs, body)
        for number, check in enumerate(self.request.checks, start=1):
            if not answer.passes(check):
                return "bad_content", f"check {number}"
        for capture in self.request.take:
            value = _as_text(answer.at(capture.json_path, capture.header))
            if value is None:
                return "bad_content", f"no {capture.name}"
            self.user.values[capture.name] = value
        return "ok", ""


def host_of(address: tuple[str, int]) -> str:
    """Return the Host header of requests to an address."""
    host = in_url(address[0])
    return host if address[1] == 80 else f"{host}:{address[1]}"


def bytes_of(request: HttpRequest, host: str, user: VirtualUser) -> bytes:
    """Return the whole request, as it is sent."""
    body = None if request.body is None else _join(request.body, user.values)
    header_names = {name.lower() for name, _ in request.headers}
    lines = [request.method.encode() + b" " + _join(request.path, user.values) + b" HTTP/1.1"]
    lines += [
        f"{name}: {value}".encode()
        for name, value in (("Host", host), ("User-Agent", "sparecraft"), ("Accept", "*/*"))
        if name.lower() not in header_names
    ]
    lines += [name.encode() + b": " + _join(value, user.values) for name, value in request.headers]
    if user.cookies and "cookie" not in header_names:
        cookies = "; ".join(f"{name}={value}" for name, value in user.cookies.items())
        lines.append(f"Cookie: {cookies}".encode("latin-1"))
    if body is not None or request.method in _BODY_METHODS:
        lines.append(b"Content-Length: %d" % len(body or b""))
    return b"\r\n".join([*lines, b"", body or b""])


def _join(parts: Sequence[Part], values: Mapping[str, str]) -> bytes:
    return b"".join(
        _ENCODED[part.encoding](values[part.value]) if part.value else part.text.encode("latin-1")
        for part in parts
    )


@dataclass
class _Answer:
    headers: list[tuple[str, str]]
    body: bytes
    _document: Any = _MISSING

    def passes(self, check: AnswerCheck) -> bool:
        if check.text is not None:
            return check.text.encode() in self.body
        if check.bytes_min is not None or check.bytes_max is not None:
            most = len(self.body) if check.bytes_max is None else check.bytes_max
            return (check.bytes_min or 0) <= len(self.body) <= most
        value = self.at(check.json_path, check.header)
        if check.contains is not None:
            return isinstance(value, str) and check.contains in value
        if check.equals is not None:
            return _equal(value, check.equals)
        return value is not _MISSING

    def at(self, path: JsonPath | None, header: str | None) -> Any:
        """Return the value there, or _MISSING."""
        if header is not None:
            name = header.lower()
            return next((text for key, text in self.headers if key.lower() == name), _MISSING)
        if self._document is _MISSING:
            try:
                self._document = json.loads(self.body)
            except (ValueError, RecursionError):
                return _MISSING
        value = self._document
        for step in path or ():
            by_key = isinstance(value, dict) and isinstance(step, str)
            by_index = isinstance(value, list) and isinstance(step, int)
            try:
                value = value[step] if by_key or by_index else _MISSING
            except LookupError:
                value = _MISSING
        return value


def _equal(value: Any, expected: Any) -> bool:
    """Equal in JSON: 7 is 7.0, and true is not 1."""
    if isinstance(value, bool) or isinstance(expected, bool):
        return value is expected
    return bool(value == expected)


def _as_text(value: Any) -> str | None:
    """Return a value as text for a later request; None if it cannot be sent."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return json.dumps(value)
    if not isinstance(value, str) or len(value) > VALUE_MAX:
        return None
    unsendable = any(
        character in "\r\n\0" or "\ud800" <= character <= "\udfff" for character in value
    )
    return None if unsendable else value


def _keep_cookies(cookies: dict[str, str], headers: Iterable[tuple[str, str]]) -> None:
    for key, line in headers:
        if key.lower() != "set-cookie" or len(line) > VALUE_MAX:
            continue
        pair, *attributes = line.split(";")
        name, separator, value = pair.strip().partition("=")
        if not separator or not name.strip():
            continue
        if _is_deleted(attributes):
            cookies.pop(name.strip(), None)
        elif name.strip() in cookies or len(cookies) < COOKIES_MAX:
            cookies[name.strip()] = value.strip()


def _is_deleted(attributes: Iterable[str]) -> bool:
    settings = {
        name.strip().lower(): value.strip()
        for name, _, value in (attribute.partition("=") for attribute in attributes)
    }
    if "max-age" in settings:
        return settings["max-age"].lstrip().startswith(("-", "0"))
    try:
        expires = parsedate_to_datetime(settings["expires"])
    except (KeyError, ValueError, TypeError):
        return False
    return (expires if expires.tzinfo else expires.replace(tzinfo=UTC)) <= datetime.now(UTC)
