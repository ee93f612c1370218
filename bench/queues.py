"""Two stations in a row in Ciw or SimPy; runs in the peers' own environment.

`python queues.py ciw|simpy CORES RATE_PER_S REQUESTS SEED`: first come, first served, exponential
work of mean 1 s at both; prints JSON. The first tenth of the requests is not in the mean.
"""

import json
import random
import sys
import time
from collections.abc import Iterator
from typing import Any


def in_ciw(cores: int, rate_per_s: float, requests: int, seed: int) -> tuple[float, int]:
    """Return the mean time in both stations [s], and the requests served."""
    import ciw

    ciw.seed(seed)
    exponential = ciw.dists.Exponential
    network = ciw.create_network(
        arrival_distributions=[exponential(rate_per_s), None],
        service_distributions=[exponential(1.0), exponential(1.0)],
        routing=[[0.0, 1.0], [0.0, 0.0]],
        number_of_servers=[cores, cores],
    )
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_customers(requests, method="Finish")
    spent: dict[int, float] = {}
    for record in simulation.get_all_records():
        stay_s = record.exit_date - record.arrival_date
        spent[record.id_number] = spent.get(record.id_number, 0.0) + stay_s
    measured = [stay_s for number, stay_s in spent.items() if number > requests / 10]
    return sum(measured) / len(measured), len(spent)


def in_simpy(cores: int, rate_per_s: float, requests: int, seed: int) -> tuple[float, int]:
    """Return the mean time in both stations [s], and the requests served."""
    import simpy

    rng = random.Random(seed)
    world: Any = simpy.Environment()
    stations = [simpy.Resource(world, capacity=cores) for _ in range(2)]
    spent: list[float] = []

    def request(number: int) -> Iterator[Any]:
        start_s = world.now
        for station in stations:
            with station.request() as turn:
                yield turn
                yield world.timeout(rng.expovariate(1.0))
        if number > requests / 10:
            spent.append(world.now - start_s)

    def arrivals() -> Iterator[Any]:
        for number in range(requests):
            yield world.timeout(rng.expovariate(rate_per_s))
            world.process(request(number))

    world.process(arrivals())
    world.run()
    return sum(spent) / len(spent), requests


def main() -> None:
    from importlib.metadata import version

    name = sys.argv[1]
    cores, rate_per_s = int(sys.argv[2]), float(sys.argv[3])
    requests, seed = int(sys.argv[4]), int(sys.argv[5])
    model = {"ciw": in_ciw, "simpy": in_simpy}[name]
    start_s = time.perf_counter()
    mean_s, served = model(cores, rate_per_s, requests, seed)
    seconds = time.perf_counter() - start_s
    figures = {"mean_s": mean_s, "requests": served, "seconds": seconds, "version": version(name)}
    json.dump(figures, sys.stdout)


if __name__ == "__main__":
    main()
