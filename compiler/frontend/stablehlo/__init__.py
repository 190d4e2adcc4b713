"""StableHLO texts to Graphs and back: the pretty and the generic form, as JAX and stablehlo-opt print them.

The reader is ours, without dependencies. Must not know targets.
"""

from .importer import Imported, import_module, import_text
from .read import read_module

__all__ = ["Imported", "import_module", "import_text", "read_module"]
