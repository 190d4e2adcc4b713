"""The packages of the wheel, found in the tree: pyproject.toml cannot say "everything here, under the name tdslc"."""

from setuptools import find_packages, setup

# The rooms that are shipped; tests, docs, examples and bench stay out.
ROOMS = ("compiler", "grammar", "rules", "stdlib", "targets")

found = find_packages(include=[pattern for room in ROOMS for pattern in (room, f"{room}.*")])
setup(
    packages=["tdslc", *(f"tdslc.{name}" for name in found)],
    package_dir={"tdslc": "."},
    # Named, because under pip it is not argv[0]: setuptools leaves out the module of this name.
    script_name="setup.py",
    # Not build/, which is where users' builds go.
    options={"build": {"build_base": ".wheel"}},
)
