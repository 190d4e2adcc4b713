"""The files of `<kernels/fft/...>`."""
