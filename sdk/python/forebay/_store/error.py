"""The error of a store."""

from __future__ import annotations


class StoreError(Exception):
    """An error of a store. Its `code` is stable and the same as in the SDK for Node (`StoreErrorCode` there lists all), while the text may change:

        try:
            store.set("Person", id, person)
        except StoreError as error:
            if error.code == "full": ...
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        #: For example `key`, `not_json`, `value_too_long`, `read_only`, `full`, `no_store`, `not_unique`.
        self.code = code

    def __reduce__(self) -> "tuple[type, tuple[str, str]]":
        return (StoreError, (self.code, str(self)))
