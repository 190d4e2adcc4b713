"""CSL libraries, imported as `<kernels/...>`."""
