"""StableHLO texts to Graphs and back: the pretty and the generic form, as JAX and stablehlo-opt print them.

The reader is ours, without dependencies. Must not know targets.
"""

from .export import export_text
from .importer import Imported, import_file, import_module, import_text
from .read import read_module

__all__ = ["Imported", "export_text", "import_file", "import_module", "import_text", "read_module"]
