"""Records of `<debug>` under the names that scripts import."""

from tdslc.targets.wse.host.debug import debug_util

__all__ = ["debug_util"]
