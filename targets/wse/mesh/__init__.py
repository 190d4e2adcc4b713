"""The mesh of PEs: one task IR, two engines that execute it, and the simulation that host code drives.

Must not know CSL's syntax, nor anything of the compiler but source spans and machine files.
"""
