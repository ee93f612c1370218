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
from experiments.kinds.bitflips.inject import Injection, Limits, inject, run_golden
from experiments.kinds.bitflips.measure import BitflipsManifest


def replay(folder: Path, program: str, variant: str, number: int) -> Injection:
    """Compile, run undisturbed and inject `number`, as the run in `folder` did.

    Raises: InputError if the run has no such program, or it compiles to a different one now.
    """
    manifest = cast(BitflipsManifest, manifest_if_any(folder))
    section = manifest["spec"]["bitflips"]
    entries = {(entry["program"], entry["variant"]): entry for entry in manifest["programs"]}
    entry = entries.get((program, variant))
    with tempfile.TemporaryDirectory(prefix="sparecraft-bitflips-") as name:
        make_compiler()
        built = build(program, variant, Path(name), section["sites"]) if entry else None
        if entry is None or built is None or built.digest != entry["digest"]:
            raise InputError(
                f"{program}, {variant}",
                expected="a program of the run that compiles to the same result",
                got="another program" if entry else "none such",
                hint="Check out the run's commit (manifest.json).",
            )
        sizes = (section["memory_mb"] << 20, section["output_mb"] << 20)
        limits = Limits(entry["limit_cpu_s"], section["wall_s"], *sizes)
        reference = replace(run_golden(built, limits, Path(name)), results=entry["results"])
        return inject(
            built, reference, limits, Path(name),
            seed=manifest["seed"], number=number, bits=section["bits"],
        )  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(replay(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))))
