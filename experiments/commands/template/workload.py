"""Requests of the shop's users. `[load] user` in experiment.toml names one of WORKLOADS."""

from __future__ import annotations

from experiments.design.workloads import PAGE_ZIPF, Operation, Population, Workload

# Some of the shop's flags, the most wanted first: popularity falls off as Zipf's law has it.
FLAGS = {
    "US": "United States",
    "JP": "Japan",
    "DE": "Germany",
    "BR": "Brazil",
    "IN": "India",
    "FR": "France",
    "CA": "Canada",
    "KE": "Kenya",
    "PT": "Portugal",
    "IS": "Iceland",
}


def shoppers() -> Population:
    """One operation for each flag: its name in the records, the path to get, and what the answer
    must contain. An answer without it counts as an error, however fast it was."""
    operations = (
        Operation(name, f"/flag/{code}", f"<title>{name}") for code, name in FLAGS.items()
    )
    return Population(tuple(operations), PAGE_ZIPF)


WORKLOADS = {"shopper": Workload(shoppers, roles=("shop",))}
