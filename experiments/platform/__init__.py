"""Where a fleet lives. Nothing outside this package may know how a machine was made."""

from experiments.platform.base import MACHINE_KINDS, Platform
from experiments.platform.inventory import Endpoints, Identity, Inventory, Machine
from experiments.platform.local import LocalPlatform

__all__ = [
    "MACHINE_KINDS",
    "Endpoints",
    "Identity",
    "Inventory",
    "LocalPlatform",
    "Machine",
    "Platform",
]
