"""tdslc: a tensor compiler whose optimiser is text."""
