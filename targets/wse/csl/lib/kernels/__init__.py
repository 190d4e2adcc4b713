"""The files of `<kernels/...>`."""
