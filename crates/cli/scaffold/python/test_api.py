import unittest

from api import app
from forebay.testing import testing


class Sums(unittest.TestCase):
    def test_numbers_are_added(self):
        with testing(app) as client:
            self.assertEqual(client.post("/sum", json=[1, 2, 3]).json(), {"sum": 6})

    def test_what_is_not_an_array_is_refused(self):
        with testing(app) as client:
            self.assertEqual(client.post("/sum", json={}).status, 400)


if __name__ == "__main__":
    unittest.main()
