"""Errors of databases, and their responses."""

from __future__ import annotations

import re
from typing import Optional, Tuple

_STATE = re.compile("[0-9A-Z]{5}").fullmatch


class SqlError(Exception):
    """An error of a statement, reported by the database or by the server. If a handler does not catch it, the client gets the response that a
    route with the same statement would give."""

    def __init__(self, message: str, code: str, **more: Optional[str]) -> None:
        super().__init__(message)
        #: The SQLSTATE, five characters; without an answer of the server, a word such as `full`, `timeout`, `unreachable`, `broken` or
        #: `over`.
        self.code = code
        self.detail = more.get("detail")
        self.hint = more.get("hint")
        #: The violated constraint.
        self.constraint = more.get("constraint")
        position = more.get("position")
        #: The position of the error in the statement, in characters from 1.
        self.position = None if position is None else int(position)
        #: The name of the database in the configuration; None if the statement did not get that far.
        self.database = more.get("database")

    def _problem(self) -> Tuple[int, str]:
        """Status and message, the same as those of a route with this statement (`crates/server/src/failure/sql.rs`);
        `protocol/vectors/sql/problems.json` tests both."""
        code, message, database = self.code, str(self), f"database `{self.database}`"
        known = {
            "timeout": (504, message),
            "full": (503, message),
            "cancelled": (503, message),
            "unreachable": (503, f"{database} cannot be reached"),
            "broken": (502, f"the connection to {database} broke; whether the statement took effect is not known"),
            "P0001": (422, message),
            "57014": (504, f"{database} has cancelled the statement"),
            "40001": (503, f"transactions in {database} stood in each other's way"),
            "40P01": (503, f"transactions in {database} stood in each other's way"),
        }
        if code in known:
            return known[code]
        away = (503, f"{database} takes no statements at the moment")
        classes = {"22": (400, message), "23": (409, message), "08": away, "53": away, "57": away}
        if self._is_state() and code[:2] in classes:
            return classes[code[:2]]
        return 500, "the handler failed"

    def _is_state(self) -> bool:
        return _STATE(self.code) is not None
