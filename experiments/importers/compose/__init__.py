"""A design from a Compose file: `sparecraft import compose`.

Read `design.py` first: it leads from the file to the folder.
"""

from experiments.importers.compose.design import Imported, import_compose
from experiments.importers.compose.tiers import Answer

__all__ = ["Answer", "Imported", "import_compose"]
