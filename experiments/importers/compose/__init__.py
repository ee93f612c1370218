"""A design from a Compose file: `sparecraft import compose`.

Read `design.py` first: it makes the folder from the file.
"""

from experiments.importers.compose.design import Imported, import_compose
from experiments.importers.compose.tiers import Answer

__all__ = ["Answer", "Imported", "import_compose"]
