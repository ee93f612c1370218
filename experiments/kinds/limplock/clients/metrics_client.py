"""A client of servers' own pages. All requests share one HTTP client, because a new client for
each request takes ten to twenty times as much CPU as the request, beside the store that is
measured."""

from __future__ import annotations

import json

import httpx

from core.json_object import JsonObject

_LIMIT_S = 2.0
_CLIENT = httpx.Client(timeout=_LIMIT_S, trust_env=False)


def page(url: str, **parameters: str) -> str:
    """Return a page as text. Raises HTTPError, also if the server refuses."""
    return _CLIENT.get(url, params=parameters or None).raise_for_status().text


def bean(host: str, port: int, name: str) -> JsonObject:
    """Return a bean's attributes; empty if there is no such bean, or no answer. As `beans`."""
    return next(iter(beans(host, port, name)), {})


def beans(host: str, port: int, pattern: str) -> list[JsonObject]:
    """Return the beans of a server's `/jmx`; none if it does not answer.

    Parameters: host, mostly an address on the control network; pattern, a name or one with `*`.
    """
    try:
        text = page(f"http://{host}:{port}/jmx", qry=pattern)
        return [dict(attributes) for attributes in json.loads(text)["beans"]]
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return []
