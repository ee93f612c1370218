"""Traffic from an access log, in the Combined or Common format or with a JSON object per line."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, cast

from core.errors import InputError
from experiments.importers.traffic import Request, Traffic, without_secrets

LINES_MOST = 1_000_000
LINE_MOST = 64 * 1024
BYTES_MOST = 4 * 1024 * 1024 * 1024  # of a log that is unpacked
BROKEN_SHOWN = 3
READS = ("GET", "HEAD")  # a log has no bodies

_LINE = re.compile(
    r'\S+ \S+ .*?\[(?P<time>[^\]]{1,40})\] "(?P<method>[A-Z]{1,20}) '
    r'(?P<target>(?:[^\s"\\]|\\.)+)(?: [^"]*)?" '
    r"(?P<status>\d{3}) "
)
_TIME = "%d/%b/%Y:%H:%M:%S %z"
# Keys of nginx's, Caddy's, Traefik's and Envoy's examples; a dot goes into an object.
_KEYS = {
    "method": (
        "method",
        "request_method",
        "request.method",
        "RequestMethod",
        "http_method",
        "verb",
    ),
    "target": ("request_uri", "uri", "request.uri", "RequestPath", "path", "url"),
    "status": ("status", "status_code", "DownstreamStatus", "response_code", "http_status"),
    "time": ("time", "ts", "time_iso8601", "@timestamp", "timestamp", "StartUTC", "msec"),
}


@dataclass
class LogRead:
    """The content of a log: the traffic, lines in all, and the first broken ones by number."""

    traffic: Traffic
    lines: int = 0
    broken: int = 0
    broken_at: tuple[int, ...] = ()


def read_access_log(path: Path, matching: str | None, without: str | None) -> LogRead:
    """Return the reads of a log whose path and query match `matching` and not `without`.

    Raises InputError for a file that cannot be read, patterns that are none, and a file of which
    more lines are broken than whole.
    """
    wanted, unwanted = _pattern("--matching", matching), _pattern("--without", without)
    read = LogRead(Traffic())
    for line in _lines(path):
        read.lines += 1
        found = _parsed(line)
        if found is None:
            read.broken += 1
            if len(read.broken_at) < BROKEN_SHOWN:
                read.broken_at = (*read.broken_at, read.lines)
            continue
        method, target, status, second = found
        if (wanted and not wanted.search(target)) or (unwanted and unwanted.search(target)):
            read.traffic.left_out["by --matching and --without"] += 1
        elif method not in READS:
            read.traffic.left_out[f"{method}, whose body a log does not have"] += 1
        else:
            if second is not None:
                read.traffic.by_second[second] += 1
            target = without_secrets(target, read.traffic.removed)
            read.traffic.add(Request(method, target, status))  # type: ignore[arg-type]
    if read.lines >= LINES_MOST:
        read.traffic.left_out[f"lines after the first {LINES_MOST:,}"] += 1
    if read.broken > read.lines - read.broken or not read.traffic.seen:
        raise InputError(
            str(path),
            expected="lines in the Combined or Common form, or a JSON object a line, with reads",
            got=f"{read.lines} lines, {read.broken} of them of another form, "
            f"{sum(read.traffic.seen.values())} reads",
            hint="JSON needs a method, a path and a status: "
            + "; ".join(f"{name}: {', '.join(keys[:3])} ..." for name, keys in _KEYS.items()),
        )
    return read


def _lines(path: Path) -> Iterator[str]:
    try:
        with _opened(path) as file:
            for _ in range(LINES_MOST):
                if file.tell() > BYTES_MOST:
                    raise _too_large(path)
                line = file.readline(LINE_MOST)
                if not line:
                    return
                if len(line) == LINE_MOST and not line.endswith(b"\n"):
                    while (rest := file.readline(LINE_MOST)) and not rest.endswith(b"\n"):
                        if file.tell() > BYTES_MOST:
                            raise _too_large(path)
                    line = b"a line that is too long"
                if line.strip():
                    yield line.decode("utf-8", "replace")
    except (OSError, EOFError, zlib.error) as error:
        got = str(getattr(error, "strerror", None) or error)
        raise InputError(str(path), expected="an access log", got=got) from error


def _too_large(path: Path) -> InputError:
    return InputError(
        str(path),
        expected=f"a log of at most {BYTES_MOST >> 30} GiB, unpacked",
        got="more",
        hint="Cut out the hours that matter.",
    )


def _opened(path: Path) -> BinaryIO:
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InputError(str(path), expected="an access log", got="a device or a pipe")
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _parsed(line: str) -> tuple[str, str, int, int | None] | None:
    """Method, path and query, status, second since 1970; None for a broken line."""
    if line.lstrip().startswith("{"):
        try:
            return _from_json(json.loads(line))
        except (ValueError, RecursionError):
            return None
    found = _LINE.match(line)
    if found is None:
        return None
    return found["method"], found["target"], int(found["status"]), _second(found["time"])


def _from_json(said: Mapping[str, Any]) -> tuple[str, str, int, int | None] | None:
    method, target, status = (_value(said, name) for name in ("method", "target", "status"))
    if not isinstance(method, str) or not isinstance(target, str) or not target.isprintable():
        return None
    try:
        return method.upper(), target, int(status), _second(_value(said, "time"))
    except (TypeError, ValueError, OverflowError):
        return None


def _value(said: Mapping[str, Any], name: str) -> Any:
    for key in _KEYS[name]:
        value: Any = said
        for part in [key] if key in said else key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None:
            return value
    return None


def _second(said: Any) -> int | None:
    """Since 1970, of a number or of the usual forms; None for others."""
    try:
        if isinstance(said, int | float):
            return int(said / 1000 if said > 1e11 else said)
        text = str(said)
        if re.fullmatch(r"\d+(\.\d+)?", text):
            return _second(float(text))
        if "/" in text:
            return int(datetime.strptime(text, _TIME).timestamp())
        found = datetime.fromisoformat(text)
        return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError, OSError):
        return None


def _pattern(option: str, text: str | None) -> re.Pattern[str] | None:
    if text is None:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise InputError(
            option, expected="a regular expression", got=f"{text!r}: {error}"
        ) from None
