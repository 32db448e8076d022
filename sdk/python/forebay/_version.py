"""This package's version; a test holds it against pyproject.toml."""

VERSION = "0.1.0"
