"""The files of `<collectives_2d/...>`."""
