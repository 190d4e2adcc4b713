"""CSL libraries, imported as `<memcpy/...>`."""
