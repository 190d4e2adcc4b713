"""What every test has: `--bless`, the `golden` fixture, and one hypothesis profile."""

from collections.abc import Generator

import pytest
from golden import Golden
from hypothesis import HealthCheck, settings

# Every run draws the same examples, so that a failure is the change's and not the day's. A shared machine may stall
# any example: time is not what these tests are about.
settings.register_profile(
    "tdslc",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tdslc")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="write what golden tests saw as what they expect")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares a text with what a golden file expects, or rewrites it under --bless."""
    return Golden(bool(request.config.getoption("--bless")))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """A test that takes a golden file and does not check it proves nothing."""
    result = yield
    golden = pyfuncitem.funcargs.get("golden")
    if isinstance(golden, Golden) and not golden.used:
        pytest.fail("the test has the `golden` fixture and never called golden.check")
    return result
