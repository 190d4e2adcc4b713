"""The model language: `.tdsl` texts to Graphs.

Must not know egglog, targets or plans. docs/language.md is the reference of the language.
"""

from .load import DimSpec, Model, check_file, load_model, stdlib_composites
from .reserved import reserved_names

__all__ = ["DimSpec", "Model", "check_file", "load_model", "reserved_names", "stdlib_composites"]
