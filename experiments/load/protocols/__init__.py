"""One file for each protocol that the load speaks: its name is the scheme of an entry's URL, its
`CLIENT` is a class of `experiments/load/client.py`."""

from __future__ import annotations

from importlib import import_module

from experiments.design.workloads import SPOKEN
from experiments.errors import InputError
from experiments.load.client import Client


def check_protocol(protocol: str) -> None:
    """Raises: InputError for one that has no file here."""
    if protocol not in SPOKEN:
        raise InputError(
            "load: protocol of the entry",
            expected=f"one of {', '.join(SPOKEN)}, or a workload with a client of its own",
            came=protocol,
            do="Give the workload a client: experiments/load/README.md shows how.",
        )


def client_class(protocol: str) -> type[Client]:
    """The client of a protocol. Raises: InputError for one that has no file here."""
    check_protocol(protocol)
    found: type[Client] = import_module(f"{__name__}.{protocol}").CLIENT
    return found
