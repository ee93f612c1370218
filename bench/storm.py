"""One availability model in the Storm model checker; runs in Storm's own environment.

`python storm.py NEEDED POOL REPAIR_S|none`: passive failover on-premises, one crash a year, 15 s of
fail-over, a year; prints JSON. Time is in years and the result is the downtime, because Storm's
precision is relative and its absorbing states get a rate of one.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import stormpy

YEAR_S = 365 * 86_400.0

MODEL = """ctmc
const double failover = {failover!r};
const double repair = {repair!r};
module fleet
  up : [0..{needed}] init {needed};
  pool : [0..{pool}] init {pool};
  [] up > 0 -> up : (up' = up - 1);
  [] up < {needed} & pool > 0 -> failover : (up' = up + 1) & (pool' = pool - 1);
  {repairs}
endmodule
rewards "down"
  up < {needed} : 1;
endrewards
"""


def main() -> None:
    needed, pool = int(sys.argv[1]), int(sys.argv[2])
    repair = 0.0 if sys.argv[3] == "none" else YEAR_S / float(sys.argv[3])
    text = MODEL.format(
        needed=needed,
        pool=pool,
        failover=YEAR_S / 15.0,
        repair=repair,
        repairs=f"[] pool < {pool} -> repair : (pool' = pool + 1);" if repair else "",
    )
    with tempfile.NamedTemporaryFile("w", suffix=".prism") as file:
        file.write(text)
        file.flush()
        program = stormpy.parse_prism_program(str(Path(file.name)), prism_compatibility=True)
    properties = stormpy.parse_properties('R{"down"}=? [ C<=1 ]', program)
    start_s = time.perf_counter()
    model = stormpy.build_model(program, properties)
    result = stormpy.model_checking(model, properties[0], only_initial_states=True)
    json.dump(
        {
            "unavailability": result.get_value(model.initial_states[0]),
            "states": model.nr_states,
            "seconds": time.perf_counter() - start_s,
            "version": stormpy.__version__,
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
