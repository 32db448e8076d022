"""Puts into the package what is no Python: the native library of the store where `make sdk` has built it, and the server where FOREBAY_BINARY
names it, as a command. The rest is in pyproject.toml."""

import os
import pathlib
import shutil

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
# Of setuptools, too: it brings its own copy.
from distutils.command.build_scripts import build_scripts

LIBRARY = pathlib.Path(__file__).resolve().parents[1] / "node" / "dist" / "forebay.node"
BINARY = os.environ.get("FOREBAY_BINARY")


class Build(build_py):
    def run(self):
        super().run()
        if LIBRARY.exists():
            shutil.copy(LIBRARY, pathlib.Path(self.build_lib) / "forebay")


class Scripts(build_scripts):
    """Copies the binary as it is. The base class takes scripts for text, and their names for paths in this folder."""

    def copy_scripts(self):
        self.mkpath(self.build_dir)
        return [shutil.copy(BINARY, pathlib.Path(self.build_dir) / "forebay")], []


class Native(Distribution):
    def has_ext_modules(self):
        return LIBRARY.exists() or BINARY is not None


class Wheel(bdist_wheel):
    def get_tag(self):
        # The library and the server belong to a system, and to no version of Python.
        return super().get_tag() if self.root_is_pure else ("py3", "none", super().get_tag()[2])


setup(
    distclass=Native,
    scripts=["forebay"] if BINARY else [],
    cmdclass={"build_py": Build, "build_scripts": Scripts, "bdist_wheel": Wheel},
)
