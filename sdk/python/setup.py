"""Puts the native library of the store into the package, where `make sdk` has built it. The rest is in pyproject.toml."""

import pathlib
import shutil

from setuptools import setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:
    # Before setuptools 70.1.
    from wheel.bdist_wheel import bdist_wheel

LIBRARY = pathlib.Path(__file__).resolve().parents[1] / "node" / "dist" / "forebay.node"


class Build(build_py):
    def run(self):
        super().run()
        if LIBRARY.exists():
            shutil.copy(LIBRARY, pathlib.Path(self.build_lib) / "forebay")


class Wheel(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = not LIBRARY.exists()

    def get_tag(self):
        # The library belongs to a system, and to no version of Python.
        return super().get_tag() if self.root_is_pure else ("py3", "none", super().get_tag()[2])


setup(cmdclass={"build_py": Build, "bdist_wheel": Wheel})
