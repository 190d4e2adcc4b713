"""Helpers of scripts under the names that they import."""

from tdslc.targets.wse.host.utils import calculate_cycles, input_array_to_u32, make_u48, memcpy_view

__all__ = ["calculate_cycles", "input_array_to_u32", "make_u48", "memcpy_view"]
