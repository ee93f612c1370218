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
from experiments.importers.traffic import Request, Traffic, format_counts, without_secrets

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
    """The content of a log: the traffic, the number of lines, and the broken ones, of which the
    first have their line numbers in `broken_at`.
    """

    traffic: Traffic
    lines: int = 0
    broken: int = 0
    broken_at: tuple[int, ...] = ()


def read_access_log(path: Path, matching: str | None, without: str | None) -> LogRead:
    """Return the reads of a log whose path and query match `matching` and not `without`.

    Raises InputError for a file that cannot be read, an invalid pattern, a file with more broken
    lines than valid ones, and a file without reads.
    """
    included, excluded = _compile("--matching", matching), _compile("--without", without)
    log = LogRead(Traffic())
    for line in _read_lines(path):
        log.lines += 1
        fields = _parse(line)
        if fields is None:
            log.broken += 1
            if len(log.broken_at) < BROKEN_SHOWN:
                log.broken_at = (*log.broken_at, log.lines)
            continue
        method, target, status, second = fields
        if (included and not included.search(target)) or (excluded and excluded.search(target)):
            log.traffic.left_out["by --matching and --without"] += 1
        elif method not in READS:
            log.traffic.left_out[f"{method}, whose body a log does not have"] += 1
        else:
            if second is not None:
                log.traffic.by_second[second] += 1
            target = without_secrets(target, log.traffic.removed)
            log.traffic.add(Request(method, target, status))  # type: ignore[arg-type]
    if log.lines >= LINES_MOST:
        log.traffic.left_out[f"lines after the first {LINES_MOST:,}"] += 1
    if (valid := log.lines - log.broken) >= log.broken and valid and not log.traffic.counts:
        raise InputError(
            str(path),
            expected=f"reads ({' or '.join(READS)})",
            got=f"no read of {valid} lines",
            hint=f"Left out: {format_counts(log.traffic.left_out)}. Give a log with reads.",
        )
    if log.broken > valid or not log.traffic.counts:
        raise InputError(
            str(path),
            expected="lines in the Combined or Common form, or a JSON object a line, with reads",
            got=f"{log.lines} lines, {log.broken} of them of another form, "
            f"{sum(log.traffic.counts.values())} reads",
            hint="JSON needs a method, a path and a status: "
            + "; ".join(f"{name}: {', '.join(keys[:3])} ..." for name, keys in _KEYS.items()),
        )
    return log


def _read_lines(path: Path) -> Iterator[str]:
    try:
        with _open(path) as file:
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


def _open(path: Path) -> BinaryIO:
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InputError(str(path), expected="an access log", got="a device or a pipe")
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _parse(line: str) -> tuple[str, str, int, int | None] | None:
    """Return method, path with query, status, and second since 1970; None for a broken line."""
    if line.lstrip().startswith("{"):
        try:
            return _parse_json(json.loads(line))
        except (ValueError, RecursionError):
            return None
    match = _LINE.match(line)
    if match is None:
        return None
    return match["method"], match["target"], int(match["status"]), _parse_second(match["time"])


def _parse_json(record: Mapping[str, Any]) -> tuple[str, str, int, int | None] | None:
    method, target, status = (_find_value(record, name) for name in ("method", "target", "status"))
    if not isinstance(method, str) or not isinstance(target, str) or not target.isprintable():
        return None
    try:
        return method.upper(), target, int(status), _parse_second(_find_value(record, "time"))
    except (TypeError, ValueError, OverflowError):
        return None


def _find_value(record: Mapping[str, Any], name: str) -> Any:
    for key in _KEYS[name]:
        value: Any = record
        for part in [key] if key in record else key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None:
            return value
    return None


def _parse_second(time: Any) -> int | None:
    """Return the second since 1970 of a number or of a common form; None for other forms."""
    try:
        if isinstance(time, int | float):
            return int(time / 1000 if time > 1e11 else time)
        text = str(time)
        if re.fullmatch(r"\d+(\.\d+)?", text):
            return _parse_second(float(text))
        if "/" in text:
            return int(datetime.strptime(text, _TIME).timestamp())
        moment = datetime.fromisoformat(text)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError, OSError):
        return None


def _compile(option: str, text: str | None) -> re.Pattern[str] | None:
    if text is None:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise InputError(
            option, expected="a regular expression", got=f"{text!r}: {error}"
        ) from None
