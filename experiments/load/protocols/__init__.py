"""The protocols of the Python worker, one file each. A file's name is the scheme of an entry's URL,
its `CLIENT` a class of `experiments/load/client.py`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from core.errors import InputError
from experiments.design.contracts import SPOKEN
from experiments.load.client import Client

IN_PYTHON = tuple(sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py")))


def check_protocol(protocol: str, spoken: tuple[str, ...] = SPOKEN) -> None:
    """Raise InputError for a protocol that no built-in client speaks."""
    if protocol not in spoken:
        raise InputError(
            "load: protocol of the entry",
            expected=f"one of {', '.join(spoken)}, or a workload with a client of its own",
            got=protocol,
            hint="Give the workload a client: experiments/load/protocols/README.md shows how.",
        )


def client_class(protocol: str) -> type[Client]:
    """Return the client class of a protocol. Raises: InputError for one that has no file here."""
    check_protocol(protocol, IN_PYTHON)
    client: type[Client] = import_module(f"{__name__}.{protocol}").CLIENT
    return client
