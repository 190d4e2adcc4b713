"""Planning: from a saturated e-graph to kernels, layouts, placement and a schedule.

Asks the target everything through `target.py`. Must not know any one target.
"""
