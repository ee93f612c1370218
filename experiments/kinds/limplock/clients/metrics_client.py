"""A client of servers' own pages: one HTTP client for all of them, since to make one for each
request costs ten to twenty times as much of a core as the request, beside the store that is
measured."""

from __future__ import annotations

import json

import httpx

from core.json_object import JsonObject

_LIMIT_S = 2.0
_CLIENT = httpx.Client(timeout=_LIMIT_S, trust_env=False)


def page(url: str, **asked: str) -> str:
    """Return a page as text. Raises HTTPError, also where the server refuses."""
    return _CLIENT.get(url, params=asked or None).raise_for_status().text


def bean(host: str, port: int, name: str) -> JsonObject:
    """Return a bean's attributes; none where there is no such bean, or no answer. As `beans`."""
    return next(iter(beans(host, port, name)), {})


def beans(host: str, port: int, pattern: str) -> list[JsonObject]:
    """Beans as a server's `/jmx` has them; none where it does not answer.

    Parameters: host, mostly an address on the control network; pattern, a name or one with `*`.
    """
    try:
        said = page(f"http://{host}:{port}/jmx", qry=pattern)
        return [dict(one) for one in json.loads(said)["beans"]]
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return []
