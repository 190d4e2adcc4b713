"""Handlers of ONNX operators, a module for each family. Importing this package fills the table."""

from . import (
    activations,
    arithmetic,
    attention,
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
    shapes,
    spectral,
)

__all__ = [
    "activations", "arithmetic", "attention", "control", "convolutions", "indexing", "logic", "movement", "norms",
    "pools", "products", "quantised", "recurrent", "reductions", "resize", "shapes", "spectral",
]  # fmt: skip
