"""The runtime and the layout interface under the names that scripts import."""

from tdslc.targets.wse.host.arrays import MemcpyDataType, MemcpyOrder
from tdslc.targets.wse.host.placing import (
    Color,
    Edge,
    Route,
    RoutingPosition,
    SdkLayout,
    SdkTarget,
    SimfabConfig,
    get_edge_routing,
    get_platform,
)
from tdslc.targets.wse.host.runtime import SdkRuntime

__all__ = [
    "Color", "Edge", "MemcpyDataType", "MemcpyOrder", "Route", "RoutingPosition", "SdkLayout", "SdkRuntime",
    "SdkTarget", "SimfabConfig", "get_edge_routing", "get_platform",
]  # fmt: skip
