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
        """The request's, by which an answer has a body or none."""
        return self.request.method

    def judge(
        self, status: int, headers: Iterable[tuple[str, str]], body: bytes
    ) -> tuple[str, str]:
        """Return the outcome, and what the answer lacks; the user has its cookies and
        values then.
        """
        found = list(headers)
        _keep_cookies(self.user.cookies, found)
        if not any(low <= status <= high for low, high in self.request.status):
            return "bad_status", f"status {status}"
        answer = _Answer(found, body)
        for number, check in enumerate(self.request.checks, start=1):
            if not answer.passes(check):
                return "bad_content", f"check {number}"
        for taken in self.request.take:
            value = _as_text(answer.at(taken.json_path, taken.header))
            if value is None:
                return "bad_content", f"no {taken.name}"
            self.user.values[taken.name] = value
        return "ok", ""


def host_of(address: tuple[str, int]) -> str:
    """Return the Host header of requests to an address."""
    host = in_url(address[0])
    return host if address[1] == 80 else f"{host}:{address[1]}"


def bytes_of(request: HttpRequest, host: str, user: VirtualUser) -> bytes:
    """Return the whole request, as it is sent."""
    body = None if request.body is None else _joined(request.body, user.values)
    given = {name.lower() for name, _ in request.headers}
    lines = [request.method.encode() + b" " + _joined(request.path, user.values) + b" HTTP/1.1"]
    lines += [
        f"{name}: {value}".encode()
        for name, value in (("Host", host), ("User-Agent", "sparecraft"), ("Accept", "*/*"))
        if name.lower() not in given
    ]
    lines += [
        name.encode() + b": " + _joined(value, user.values) for name, value in request.headers
    ]
    if user.cookies and "cookie" not in given:
        cookies = "; ".join(f"{name}={value}" for name, value in user.cookies.items())
        lines.append(f"Cookie: {cookies}".encode("latin-1"))
    if body is not None or request.method in _BODY_METHODS:
        lines.append(b"Content-Length: %d" % len(body or b""))
    return b"\r\n".join([*lines, b"", body or b""])


def _joined(parts: Sequence[Part], values: Mapping[str, str]) -> bytes:
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
        found = self.at(check.json_path, check.header)
        if check.contains is not None:
            return isinstance(found, str) and check.contains in found
        if check.equals is not None:
            return _equal(found, check.equals)
        return found is not _MISSING

    def at(self, path: JsonPath | None, header: str | None) -> Any:
        """Return the value there, or _MISSING."""
        if header is not None:
            name = header.lower()
            return next((value for key, value in self.headers if key.lower() == name), _MISSING)
        if self._document is _MISSING:
            try:
                self._document = json.loads(self.body)
            except (ValueError, RecursionError):
                return _MISSING
        found = self._document
        for step in path or ():
            by_key = isinstance(found, dict) and isinstance(step, str)
            by_place = isinstance(found, list) and isinstance(step, int)
            try:
                found = found[step] if by_key or by_place else _MISSING
            except LookupError:
                found = _MISSING
        return found


def _equal(found: Any, wanted: Any) -> bool:
    """Equal in JSON: 7 is 7.0, and true is not 1."""
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    return bool(found == wanted)


def _as_text(found: Any) -> str | None:
    """Return a value that a later request can hold, as text; None of what is none."""
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, int | float):
        return json.dumps(found)
    if not isinstance(found, str) or len(found) > VALUE_MAX:
        return None
    unsendable = any(one in "\r\n\0" or "\ud800" <= one <= "\udfff" for one in found)
    return None if unsendable else found


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
    stated = {
        name.strip().lower(): value.strip()
        for name, _, value in (one.partition("=") for one in attributes)
    }
    if "max-age" in stated:
        return stated["max-age"].lstrip().startswith(("-", "0"))
    try:
        ends = parsedate_to_datetime(stated["expires"])
    except (KeyError, ValueError, TypeError):
        return False
    return (ends if ends.tzinfo else ends.replace(tzinfo=UTC)) <= datetime.now(UTC)
