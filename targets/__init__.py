"""The targets: one folder per kind of machine, each found by its entry point and none knowing another."""
