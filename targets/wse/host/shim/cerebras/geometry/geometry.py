"""Places in a grid under the names that scripts import."""

from tdslc.targets.wse.host.placing import IntRectangle, IntVector

__all__ = ["IntRectangle", "IntVector"]
