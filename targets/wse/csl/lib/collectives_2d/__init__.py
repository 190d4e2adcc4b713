"""CSL libraries, imported as `<collectives_2d/...>`."""
