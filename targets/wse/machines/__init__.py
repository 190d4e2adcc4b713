"""Machine files of the wafer target."""
