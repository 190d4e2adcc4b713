"""CSL libraries, imported as `<kernels/tally/...>`."""
