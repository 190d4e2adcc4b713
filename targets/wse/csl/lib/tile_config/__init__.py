"""CSL libraries, imported as `<tile_config/...>`."""
