"""Traffic from a HAR file (HTTP Archive 1.2), as browsers and proxies export it."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

from pydantic import BaseModel, Field, ValidationError

from core.errors import InputError
from experiments.importers.secrets import clean_body, clean_headers
from experiments.importers.traffic import Request, Traffic, format_counts, without_secrets

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
    """Return the requests to one host, and that host; without `host`, that of the first request.

    Raises InputError for a file that is no HAR, is too large, or has no request to the host.
    """
    entries = _read_entries(path)
    hosts = Counter(recorded for entry in entries if (recorded := _find_host(entry.request.url)))
    host_read = (host or next(iter(hosts), "")).lower()
    traffic = Traffic()
    for entry in entries:
        entry_host = _find_host(entry.request.url)
        if entry_host != host_read or not entry_host:
            reason = (
                f"to another host, {entry_host}"[:120] if entry_host else "to no host over HTTP"
            )
            traffic.left_out[reason] += 1
            continue
        _add(entry, traffic)
    if not traffic.counts:
        reasons, hint = traffic.left_out, _HINT
        if hosts[host_read]:
            hint = "Record it again with other requests, or name another host by --host."
        elif hosts:
            reasons, hint = hosts, "Name the host of your service by --host."
        raise InputError(
            str(path),
            expected=f"requests to {host_read or 'a host'} that were answered",
            got=format_counts(reasons) or "no requests",
            hint=hint,
        )
    return traffic, host_read


def _find_host(url: str) -> str:
    """Return host and port of a URL, without user and password; "" if it has none."""
    match = _HOST.match(url)
    return match[1].lower() if match else ""


def _add(entry: _Entry, traffic: Traffic) -> None:
    request = entry.request
    content = request.postData
    headers = [
        (header.name, header.value) for header in request.headers if not header.name.startswith(":")
    ]
    body = None
    if content is not None:
        body = _text(content)
        if body is None or len(body) > BODY_MOST:
            traffic.left_out[f"with a body that is no text or exceeds {BODY_MOST} characters"] += 1
            return
        body = clean_body(body, content.mimeType, traffic.removed)
        if body is None:
            traffic.left_out["with a body that names a secret, neither JSON nor a form"] += 1
            return
        if content.mimeType:
            other_headers = [
                (name, value) for name, value in headers if name.lower() != "content-type"
            ]
            headers = [*other_headers, ("Content-Type", content.mimeType)]
    second = _to_second(entry.startedDateTime)
    if second is not None:
        traffic.by_second[second] += 1
    traffic.add(
        Request(
            request.method.upper(),  # type: ignore[arg-type]  # `add` leaves others out
            without_secrets(request.url, traffic.removed),
            entry.response.status,
            clean_headers(headers, traffic.removed),
            body or None,
        )
    )


def _text(content: _Content) -> str | None:
    """Return the body; None if it is no text. A form may be in `params` only."""
    if content.encoding:
        return None
    if content.text is None and content.params:
        is_form = content.mimeType.partition(";")[0].strip().lower() == FORM
        return (
            urlencode([(param.name, param.value) for param in content.params]) if is_form else None
        )
    return content.text or ""


def _to_second(time: datetime | None) -> int | None:
    try:
        return None if time is None else int(time.timestamp())
    except (ValueError, OverflowError, OSError):
        return None


def _read_entries(path: Path) -> list[_Entry]:
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
        return _Har.model_validate_json(path.read_bytes().removeprefix(BOM_UTF8)).log.entries
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
