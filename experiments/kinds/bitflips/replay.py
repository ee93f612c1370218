"""The repetition of one injection of a run.

`python -m experiments.kinds.bitflips.replay RUN PROGRAM VARIANT NUMBER`
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import cast

from core.errors import InputError
from core.runfiles.manifest import manifest_if_any
from experiments.kinds.bitflips.build import build, make_compiler
from experiments.kinds.bitflips.inject import Injection, Limits, golden, inject
from experiments.kinds.bitflips.measure import BitflipsManifest


def replay(folder: Path, program: str, variant: str, number: int) -> Injection:
    """Compile, run undisturbed and inject `number`, all as the run in `folder` did.

    Raises: InputError if the run has no such program, or it compiles to another one now.
    """
    manifest = cast(BitflipsManifest, manifest_if_any(folder))
    asked = manifest["spec"]["bitflips"]
    known = {(one["program"], one["variant"]): one for one in manifest["programs"]}
    made = known.get((program, variant))
    with tempfile.TemporaryDirectory(prefix="sparecraft-bitflips-") as name:
        make_compiler()
        built = build(program, variant, Path(name), asked["sites"]) if made else None
        if made is None or built is None or built.digest != made["digest"]:
            raise InputError(
                f"{program}, {variant}",
                expected="a program of the run that compiles to the same result",
                got="another program" if made else "none such",
                hint="Check out the run's commit (manifest.json).",
            )
        sizes = (asked["memory_mb"] << 20, asked["output_mb"] << 20)
        limits = Limits(made["limit_cpu_s"], asked["wall_s"], *sizes)
        whole = replace(golden(built, limits, Path(name)), results=made["results"])
        return inject(
            built, whole, limits, Path(name),
            seed=manifest["seed"], number=number, bits=asked["bits"],
        )  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(replay(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))))
