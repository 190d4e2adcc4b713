"""The files of `<kernels/tally/...>`."""
