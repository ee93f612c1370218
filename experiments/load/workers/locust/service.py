"""A service that somebody else runs, for users of a Locust file.

It is asked by its name, at the address that was resolved before the run, and its certificates are
checked by the plan's rules.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import gevent
import locust.clients
from locust.clients import HttpSession
from locust.contrib.fasthttp import FastHttpSession

from experiments.load.plan import LoadPlan, PlanTarget
from experiments.load.tls import PlanTls, context_of


def hosts_of(plan: LoadPlan) -> list[str]:
    """Return the URLs that users get in turn: a service's with its name, a fleet's with its
    addresses.
    """
    urls = [url.rstrip("/") for urls in plan.entries.values() for url in urls]
    if plan.target is None:
        return urls
    return [f"{urlsplit(url).scheme}://{plan.target.authority}" for url in urls]


def resolve(target: PlanTarget) -> None:
    """Resolve the target's name to its address in this process, independently of resolvers."""
    name = urlsplit(f"//{target.authority}").hostname
    resolver = gevent.get_hub().resolver
    original = resolver.getaddrinfo

    @functools.wraps(original)
    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        text = host.decode() if isinstance(host, bytes) else host
        return original(target.address if text == name else host, *arguments, **options)

    resolver.getaddrinfo = getaddrinfo


def check_certificates(tls: PlanTls) -> None:
    """Make both of Locust's clients check certificates by the plan's rules, whatever the file says.

    Call it before the file is imported. One context serves all users, because loading certificates
    takes long.
    """
    context = context_of(tls)
    locust.clients._preloaded_ssl_context = context
    session_options = {"verify": not tls.insecure}
    send = HttpSession._send_request_safe_mode
    HttpSession._send_request_safe_mode = _with_options(send, session_options)  # type: ignore[method-assign]
    # geventhttpclient loads this host's authorities; the plan's context replaces them.
    fast_options = {"insecure": tls.insecure, "ssl_context_factory": lambda **_: context}
    FastHttpSession.__init__ = _with_options(FastHttpSession.__init__, fast_options)  # type: ignore[method-assign]


def _with_options(call: Callable[..., Any], fixed_options: Mapping[str, Any]) -> Any:
    """Return the call with these options in place of those that it gets."""

    @functools.wraps(call)
    def wrapper(*arguments: Any, **options: Any) -> Any:
        return call(*arguments, **{**options, **fixed_options})

    return wrapper
