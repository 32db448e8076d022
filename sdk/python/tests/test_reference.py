"""docs/reference/python.md is what `reference.py` makes of the sources. `FOREBAY_REFRESH=1 python3 -m unittest tests.test_reference` renews it."""

import os
import unittest
from pathlib import Path

import reference

PAGE = Path(__file__).parents[3] / "docs/reference/python.md"


class ReferenceTest(unittest.TestCase):
    def test_the_reference_is_that_of_the_sources(self):
        made = reference.reference()
        if os.environ.get("FOREBAY_REFRESH"):
            PAGE.write_text(made, encoding="utf-8")
        self.assertEqual(PAGE.read_text(encoding="utf-8"), made, "stale: FOREBAY_REFRESH=1 python3 -m unittest tests.test_reference")

    def test_everything_that_is_exported_is_described(self):
        made = reference.reference()
        for section in made.split("\n### ")[1:]:
            title, _, text = section.partition("\n")
            self.assertRegex(text.split("\n## ")[0], r"\w", f"{title} has neither a docstring nor a comment")
