"""The package's documents: the code of its README, and its version."""

import pathlib
import re
import sys
import tempfile
import unittest

import forebay

FOLDER = pathlib.Path(__file__).parents[1]


def code_of(document):
    """The Python blocks of a document, by the file name in their first line."""
    blocks = re.findall(r"```python\n# (\S+)\n(.*?)```", document.read_text("utf-8"), re.DOTALL)
    assert blocks, document
    return dict(blocks)


class DocumentsTest(unittest.TestCase):
    def test_the_code_of_the_readme_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, code in code_of(FOLDER / "README.md").items():
                (pathlib.Path(folder) / name).write_text(code)
            sys.path.insert(0, folder)
            try:
                import test_api
            finally:
                sys.path.remove(folder)
            self.assertEqual(test_api.client.get("/users/7").json(), {"name": "Ada"})

    def test_the_code_of_the_guide_runs(self):
        blocks = code_of(FOLDER.parents[1] / "docs/guide/python.md")
        found = {}
        for name, code in blocks.items():
            module = {"__name__": name}
            exec(code, module)
            found[name] = module["app"]
        self.assertEqual(found["app.py"].test_client().get("/hello/ada").json, {"hello": "ada"})
        from forebay.testing import testing

        with testing(found["api.py"]) as client:
            self.assertEqual(client.get("/users/9").status, 404)
            self.assertEqual(client.post("/users", json={}).headers["location"], "/users/8")
        with testing(found["people.py"]) as client:
            self.assertEqual(client.post("/people", json={"name": "Ada"}).json(), {"id": 1})
            self.assertEqual(client.get("/people/1").json(), {"name": "Ada"})

    def test_the_versions_agree(self):
        project = (FOLDER / "pyproject.toml").read_text("utf-8")
        self.assertIn(f'version = "{forebay.__version__}"', project)

    def test_everything_that_is_public_is_there_and_told(self):
        for name in forebay.__all__:
            value = getattr(forebay, name)
            if name != "__version__":
                self.assertTrue(value.__doc__, name)
