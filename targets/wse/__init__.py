"""The wafer target: CSL programs for a mesh of processing elements, checked and simulated.

`csl` reads and evaluates CSL, `chip` the machine files. Must not know the tensor compiler beyond spans, diagnostics
and machine files.
"""
