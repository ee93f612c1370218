"""Traffic from a HAR file (HTTP Archive 1.2), as browsers and proxies export it."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

from pydantic import BaseModel, Field, ValidationError

from core.errors import InputError
from experiments.importers.secrets import kept_body, kept_headers
from experiments.importers.traffic import Request, Traffic, without_secrets

BYTES_MOST = 64 * 1024 * 1024
BODY_MOST = 256 * 1024  # characters of one request's body
FORM = "application/x-www-form-urlencoded"
_HOST = re.compile(r"https?://(?:[^/?#]*@)?([^/?#@]+)", re.I)
_HINT = "Export it from the network panel of a browser: Save all as HAR."


class _Pair(BaseModel):
    name: str
    value: str


class _Param(BaseModel):
    name: str
    value: str = ""


class _Content(BaseModel):
    mimeType: str = ""
    params: list[_Param] = []
    text: str | None = None
    encoding: str | None = None


class _Request(BaseModel):
    method: str
    url: str
    headers: list[_Pair] = []
    postData: _Content | None = None


class _Response(BaseModel):
    status: int = 0


class _Entry(BaseModel):
    startedDateTime: datetime | None = None
    request: _Request
    response: _Response


class _Log(BaseModel):
    entries: Annotated[list[_Entry], Field(max_length=200_000)]


class _Har(BaseModel):
    log: _Log


def read_har(path: Path, host: str | None) -> tuple[Traffic, str]:
    """Return the requests to one host, the first one's where none is named; and that host.

    Raises InputError for a file that is no HAR, is too large, or has no request to the host.
    """
    entries = _entries(path)
    hosts = Counter(found for one in entries if (found := _host(one.request.url)))
    wanted = (host or next(iter(hosts), "")).lower()
    traffic = Traffic()
    for one in entries:
        own = _host(one.request.url)
        if own != wanted or not own:
            why = f"to another host, {own}"[:120] if own else "to no host over HTTP"
            traffic.left_out[why] += 1
            continue
        _add(one, traffic)
    if not traffic.seen:
        raise InputError(
            str(path),
            expected=f"requests to {wanted or 'a host'} that were answered",
            got=", ".join(f"{name} ({count})" for name, count in hosts.most_common(5)) or "none",
            hint="Name the host of your service by --host.",
        )
    return traffic, wanted


def _host(url: str) -> str:
    """Host and port of a URL, without user and password; "" where there are none."""
    found = _HOST.match(url)
    return found[1].lower() if found else ""


def _add(entry: _Entry, traffic: Traffic) -> None:
    request = entry.request
    sent = request.postData
    headers = [(one.name, one.value) for one in request.headers if not one.name.startswith(":")]
    body = None
    if sent is not None:
        body = _text(sent)
        if body is None or len(body) > BODY_MOST:
            traffic.left_out[f"with a body that is no text or exceeds {BODY_MOST} characters"] += 1
            return
        body = kept_body(body, sent.mimeType, traffic.removed)
        if body is None:
            traffic.left_out["with a body that names a secret, neither JSON nor a form"] += 1
            return
        if sent.mimeType:
            others = [(name, value) for name, value in headers if name.lower() != "content-type"]
            headers = [*others, ("Content-Type", sent.mimeType)]
    second = _second(entry.startedDateTime)
    if second is not None:
        traffic.by_second[second] += 1
    traffic.add(
        Request(
            request.method.upper(),  # type: ignore[arg-type]  # `add` leaves others out
            without_secrets(request.url, traffic.removed),
            entry.response.status,
            kept_headers(headers, traffic.removed),
            body or None,
        )
    )


def _text(sent: _Content) -> str | None:
    """Return the body; None if it is not text. A form may stand in `params` alone."""
    if sent.encoding:
        return None
    if sent.text is None and sent.params:
        form = sent.mimeType.partition(";")[0].strip().lower() == FORM
        return urlencode([(one.name, one.value) for one in sent.params]) if form else None
    return sent.text or ""


def _second(at: datetime | None) -> int | None:
    try:
        return None if at is None else int(at.timestamp())
    except (ValueError, OverflowError, OSError):
        return None


def _entries(path: Path) -> list[_Entry]:
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise InputError(str(path), expected="a HAR file", got="a device or a pipe", hint=_HINT)
        size = path.stat().st_size
        if size > BYTES_MOST:
            raise InputError(
                str(path),
                expected=f"a HAR file of at most {BYTES_MOST >> 20} MiB",
                got=f"{size / (1 << 20):.0f} MiB",
                hint="Export it without the contents of answers, or fewer pages at a time.",
            )
        return _Har.model_validate_json(path.read_bytes()).log.entries
    except OSError as error:
        got = str(error.strerror)
        raise InputError(str(path), expected="a HAR file", got=got, hint=_HINT) from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise InputError(
            f"{path}: {key}" if key else str(path),
            expected=f"a HAR file, {first['msg'][0].lower()}{first['msg'][1:]}",
            got="nothing" if first["type"] == "missing" else repr(first["input"])[:60],
            hint=_HINT,
        ) from error
