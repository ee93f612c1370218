"""Lines of Rust that tests execute, by crate.

`llvm-cov export -format=lcov ... | python -m ci.crate_coverage`
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

# A crate's product; tests are in `tests/`, or at the end of a file, or in a file of their own.
_PRODUCT = re.compile(r"agents/(\w+)/src/(?!.*tests?\.rs$)")


def lines_by_crate(lcov: Iterable[str], root: Path) -> dict[str, tuple[int, int]]:
    """Return the number of lines with code, and of those that were executed, of each crate.

    Lines from a file's first `#[cfg(test)]` on are no product.
    """
    counts: dict[str, tuple[int, int]] = {}
    crate, end = "", 0
    for record in lcov:
        kind, _, value = record.strip().partition(":")
        if kind == "SF":
            path = Path(value).relative_to(root) if Path(value).is_relative_to(root) else Path()
            match = _PRODUCT.match(path.as_posix())
            crate, end = (match[1], _end_of_product(root / path)) if match else ("", 0)
        elif kind == "DA" and crate:
            number, count = map(int, value.split(",")[:2])
            if number < end:
                lines, executed = counts.get(crate, (0, 0))
                counts[crate] = lines + 1, executed + (count > 0)
    return counts


def _end_of_product(path: Path) -> int:
    lines = path.read_text(encoding="utf-8").splitlines()
    tests = (number for number, line in enumerate(lines, 1) if line == "#[cfg(test)]")
    return next(tests, len(lines) + 1)


def main() -> None:
    """Print a row of a table for each crate, and one for all."""
    counts = lines_by_crate(sys.stdin, Path(__file__).resolve().parents[1])
    counts["all"] = tuple(map(sum, zip(*counts.values(), strict=True)))  # type: ignore[assignment]
    for crate, (lines, executed) in sorted(counts.items()):
        print(f"| {crate} | {lines:,} | {100 * executed / lines:.1f} |")


if __name__ == "__main__":
    main()
