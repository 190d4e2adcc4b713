"""Handlers of ONNX operators, a module for each family. Importing this package fills the table."""

from . import (
    activations,
    arithmetic,
    control,
    convolutions,
    indexing,
    logic,
    movement,
    norms,
    pools,
    products,
    quantised,
    recurrent,
    reductions,
    resize,
    sampling,
    sequences,
    shapes,
    spectral,
)

__all__ = [
    "activations", "arithmetic", "control", "convolutions", "indexing", "logic", "movement", "norms", "pools",
    "products", "quantised", "recurrent", "reductions", "resize", "sampling", "sequences", "shapes", "spectral",
]  # fmt: skip
