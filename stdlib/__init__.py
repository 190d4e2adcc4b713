"""Layers and models in `.tdsl`, importable by every model."""
