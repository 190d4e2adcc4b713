"""mxu: a TPU-like core. Matrix units and vector units over a fast VMEM behind HBM, copies by DMA.

Rooms: `chip` (figures), `work` (work counts), `choose` (cost and tiles), `stages`, `emit_*`, `lower`
(code), `isa`, `text`, `verify` (the program), `timing`, `values`, `numerics` (the simulator). Nothing
outside this folder knows it; it is found by its entry point and speaks `compiler/plan/target.py`.
"""

from .target import TARGET, MxuMachine, MxuTarget

__all__ = ["TARGET", "MxuMachine", "MxuTarget"]
