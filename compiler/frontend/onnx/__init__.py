"""ONNX models to Graphs and back. `onnx` itself is an optional dependency, asked for when a model is read.

Every operator is a row of a table, in a module of its family. Must not know targets.
"""

from . import families as families
from .export import export_model
from .importer import Imported, dims_of, import_model

__all__ = ["Imported", "dims_of", "export_model", "import_model"]
