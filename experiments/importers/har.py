"""A HAR file, as browsers and proxies export it (HTTP Archive 1.2), as traffic."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, ValidationError

from core.errors import InputError
from experiments.importers.secrets import kept_body, kept_headers
from experiments.importers.traffic import Seen, Traffic, without_secrets

BYTES_MOST = 64 * 1024 * 1024
BODY_MOST = 256 * 1024  # characters of one request's body
_HINT = "Export it from the network panel of a browser: Save all as HAR."


class _Pair(BaseModel):
    name: str
    value: str


class _Content(BaseModel):
    mimeType: str = ""
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
    """The requests to one host, the first one's where none is named; and that host.

    Raises InputError for a file that is no HAR, is too large, or has no request to the host.
    """
    entries = _entries(path)
    hosts = Counter(urlsplit(one.request.url).netloc.rpartition("@")[2] for one in entries)
    wanted = host or (next(iter(hosts)) if hosts else "")
    traffic = Traffic()
    for one in entries:
        own = urlsplit(one.request.url).netloc.rpartition("@")[2]
        if own != wanted:
            traffic.left_out[f"to another host, {own}"] += 1
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


def _add(entry: _Entry, traffic: Traffic) -> None:
    request = entry.request
    sent = request.postData
    body = sent.text if sent is not None else None
    if body is not None and (len(body) > BODY_MOST or (sent and sent.encoding)):
        traffic.left_out[f"with a body that is no text or exceeds {BODY_MOST} characters"] += 1
        return
    headers = [(one.name, one.value) for one in request.headers if not one.name.startswith(":")]
    if body is not None and sent is not None:
        body = kept_body(body, sent.mimeType, traffic.removed)
        if sent.mimeType:
            others = [(name, value) for name, value in headers if name.lower() != "content-type"]
            headers = [*others, ("Content-Type", sent.mimeType)]
    if entry.startedDateTime is not None:
        traffic.by_second[int(entry.startedDateTime.timestamp())] += 1
    traffic.add(
        Seen(
            request.method.upper(),  # type: ignore[arg-type]  # `add` leaves others out
            without_secrets(request.url, traffic.removed),
            entry.response.status,
            kept_headers(headers, traffic.removed),
            body or None,
        )
    )


def _entries(path: Path) -> list[_Entry]:
    try:
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
