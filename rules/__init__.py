"""The optimiser: one `.rules` file per family. README.md tells how rules are written."""
