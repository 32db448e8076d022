"""Names with values: of a query, a form, and the headers of a request."""

from __future__ import annotations

from typing import Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union, overload
from urllib.parse import parse_qsl

Default = TypeVar("Default")


class Fields(Mapping[str, str]):
    """Names with one or more values, such as those of a query or a form. As a mapping it gives each name's first value:

        request.query.get("page", "1")
        request.query.get_all("tag")        # every value, in order
        request.query.pairs                 # as received, repeated names repeated
    """

    __slots__ = ("pairs",)

    def __init__(self, pairs: Sequence[Tuple[str, str]]) -> None:
        #: Names and values in the order received, repeated names included.
        self.pairs: Sequence[Tuple[str, str]] = pairs

    @classmethod
    def parsed(cls, text: str) -> "Fields":
        """Those of `a=1&b=2`, percent-decoded."""
        return cls(parse_qsl(text, keep_blank_values=True) if text else ())

    def __getitem__(self, name: str) -> str:
        for key, value in self.pairs:
            if key == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for name, _ in self.pairs))

    def __len__(self) -> int:
        return len({name for name, _ in self.pairs})

    def get_all(self, name: str) -> List[str]:
        """Each value of the name, in order; empty when there is none."""
        return [value for key, value in self.pairs if key == name]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.pairs)!r})"


class Headers(Mapping[str, str]):
    """The headers of a request. Names are compared without regard to case; the bytes of values appear as Latin-1 text. Nothing is
    decoded before the first access.

        request.headers.get("content-type")     # "application/json", or None
        request.headers["host"]                 # KeyError when there is none
        request.headers.pairs                   # as received, repeated names repeated

    The values of a repeated header are joined by `, ` (those of `cookie` by `; `).
    """

    __slots__ = ("_read", "_pairs", "_joined")

    def __init__(self, read: Callable[[], List[Tuple[bytes, bytes]]]) -> None:
        self._read = read
        self._pairs: Optional[List[Tuple[str, str]]] = None
        self._joined: Optional[Dict[str, str]] = None

    @property
    def pairs(self) -> List[Tuple[str, str]]:
        """Lower-case names and values, in the order received."""
        if self._pairs is None:
            self._pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in self._read()]
        return self._pairs

    @property
    def _values(self) -> Dict[str, str]:
        if self._joined is None:
            joined: Dict[str, str] = {}
            for name, value in self.pairs:
                before = joined.get(name)
                between = "; " if name == "cookie" else ", "
                joined[name] = value if before is None else before + between + value
            self._joined = joined
        return self._joined

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    @overload
    def get(self, name: str, /) -> Optional[str]: ...

    @overload
    def get(self, name: str, /, default: Union[str, Default]) -> Union[str, Default]: ...

    def get(self, name: str, /, default: object = None) -> object:
        """The header's value, or the default."""
        return self._values.get(name.lower(), default)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def get_all(self, name: str) -> List[str]:
        """Each value of the header, in the order received."""
        wanted = name.lower()
        return [value for key, value in self.pairs if key == wanted]

    def __repr__(self) -> str:
        return f"Headers({self.pairs!r})"
