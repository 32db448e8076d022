"""Selects a route by method and path, by the same rules as the server's routes and the SDK for Node."""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Dict, Generic, Iterable, List, NamedTuple, Optional, Set, Tuple, TypeVar
from urllib.parse import unquote

from ._reply import HttpError

Target = TypeVar("Target")

#: Methods that get their own entry in the lookup tables for an `all` route.
_COMMON_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
#: The key of an `all` route among the methods of a path.
ANY = "*"

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch
_NOT_IN_PATTERNS = re.compile(r"[%?#\x00-\x1f\x7f]").search
_VISIBLE_ASCII = re.compile(r"[\x21-\x7e]+").fullmatch
#: A segment that needs no decoding: not empty, ASCII, without percent-encoding.
_PLAIN = re.compile(r"[\x00-\x24\x26-\x7e]+").fullmatch
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})").search


class Route(Generic[Target]):
    """A pattern and its target."""

    __slots__ = ("pattern", "names", "target")

    def __init__(self, pattern: str, names: Tuple[str, ...], target: Target) -> None:
        self.pattern = pattern
        self.names = names
        self.target = target


class _Node(Generic[Target]):
    """A node in the tree of patterns; each level is a segment."""

    __slots__ = ("statics", "param", "rest", "routes")

    def __init__(self) -> None:
        self.statics: Dict[str, "_Node[Target]"] = {}
        #: The child for `:name`. Names belong to the routes, so `/:a/x` and `/:b/y` share this child.
        self.param: Optional["_Node[Target]"] = None
        #: Routes for `*rest` below this node, by method.
        self.rest: Optional[Dict[str, Route[Target]]] = None
        #: Routes for a path that ends at this node, by method.
        self.routes: Dict[str, Route[Target]] = {}


class Router(Generic[Target]):
    """`:name` takes one segment that is not empty; a final `*` or `*name` takes all that is left, at least a slash: `/static/*` answers
    `/static/` and everything below. Segments are compared percent-decoded. Literals go before `:name`, which goes before `*`, segment by
    segment from the left: the order of registration does not matter. `HEAD` falls back to `GET`. A path that no pattern matches gets 404,
    one that only lacks the method 405 with `Allow`.
    """

    def __init__(self) -> None:
        self._root: _Node[Target] = _Node()
        #: Routes without parameters, by method and path, concatenated.
        self._static: Dict[str, Route[Target]] = {}
        #: Routes whose only parameter is their last segment, by the method and path in front of it.
        self._last_param: Dict[str, Route[Target]] = {}

    def add(self, method: str, pattern: str, target: Target) -> None:
        """Adds a route. Raises `ValueError` for a pattern that cannot match or already exists."""
        names: List[str] = []
        place = self._root
        routes: Optional[Dict[str, Route[Target]]] = None
        for segment in _parse_pattern(pattern):
            if segment.kind == "static":
                place = place.statics.setdefault(segment.text, _Node())
                continue
            if segment.text in names:
                raise ValueError(f"in the pattern {pattern}, parameter {segment.text} appears twice")
            names.append(segment.text)
            if segment.kind == "param":
                place.param = place.param or _Node()
                place = place.param
            else:
                place.rest = routes = {} if place.rest is None else place.rest
        if routes is None:
            routes = place.routes
        other = routes.get(method)
        if other is not None:
            what = "all" if method == ANY else method
            known_as = "" if other.pattern == pattern else f" as {other.pattern}"
            raise ValueError(f"{what} {pattern} is there already{known_as}")
        routes[method] = Route(pattern, tuple(names), target)
        before = pattern[: pattern.rindex("/") + 1]
        if not names:
            _enter(routes, pattern, self._static)
        elif len(names) == 1 and pattern == f"{before}:{names[0]}":
            _enter(routes, before, self._last_param)

    def find(self, head: str, method_length: int) -> Tuple[Target, Optional[Dict[str, str]]]:
        """The target of a request, and the pattern's parameters. `head` is method and path in one piece, read as Latin-1. Raises
        `HttpError` with 404, 405, or with 400 for a path that cannot be decoded."""
        route = self._static.get(head)
        if route is not None:
            return route.target, None
        slash = head.rindex("/") + 1
        route = self._last_param.get(head[:slash])
        if route is not None and _PLAIN(head, slash):
            return route.target, {route.names[0]: head[slash:]}
        path = head[method_length:].encode("latin-1").decode("utf-8", "replace")
        return self._find(head[:method_length], path)

    def _find(self, method: str, path: str) -> Tuple[Target, Optional[Dict[str, str]]]:
        # A path that cannot be decoded is rejected wherever the invalid part is.
        segments = [_decoded(segment) for segment in path[1:].split("/")]
        values: List[str] = []
        route = _search(self._root, segments, 0, method, values, None)
        if route is not None:
            return route.target, dict(zip(route.names, values)) if route.names else None
        allowed: Set[str] = set()
        _search(self._root, segments, 0, method, [], allowed)
        if not allowed:
            raise HttpError(404, f"nothing answers {path}")
        allow = ", ".join(sorted(allowed))
        raise HttpError(405, f"{path} answers {allow}, not {method}", headers={"allow": allow})


class _Segment(NamedTuple):
    #: static, param or rest
    kind: str
    #: The literal text, or the parameter's name.
    text: str


def _parse_pattern(pattern: str) -> Iterable[_Segment]:
    """Reads a pattern, by the same rules as the server reads the `path` of a route."""

    def refusal(why: str) -> ValueError:
        return ValueError(f"the pattern {json.dumps(pattern, ensure_ascii=False)} cannot match: {why}")

    if not pattern.startswith("/"):
        raise refusal("it must start with /")
    if _NOT_IN_PATTERNS(pattern):
        raise refusal("write it decoded, without %, query or control characters")
    texts = pattern[1:].split("/")
    for index, text in enumerate(texts):
        last = index == len(texts) - 1
        if text == "*" and last:
            yield _Segment("rest", "*")
        elif text.startswith(":") or (text.startswith("*") and last):
            if not _WORD(text[1:]):
                raise refusal(f"{text} needs a name of letters, digits and _ that does not start with a digit")
            yield _Segment("param" if text.startswith(":") else "rest", text[1:])
        elif "*" in text:
            raise refusal("* may stand only at the start of the last segment")
        elif text == "" and not last:
            raise refusal("it has an empty segment")
        elif text in (".", ".."):
            raise refusal(f"paths with the segment {text} are refused by the server")
        else:
            yield _Segment("static", text)


def _enter(routes: Dict[str, Route[Target]], path: str, table: Dict[str, Route[Target]]) -> None:
    """Adds the routes of a path to a flat lookup table, keyed by method and path, concatenated."""
    # Keys are Latin-1: paths with other characters are compared decoded, in the tree.
    if not _VISIBLE_ASCII(path):
        return
    for method in {*_COMMON_METHODS, *routes} - {ANY}:
        route = _of_method(routes, method)
        if route is not None:
            table[method + path] = route


def _of_method(routes: Dict[str, Route[Target]], method: str) -> Optional[Route[Target]]:
    route = routes.get(method)
    if route is None and method == "HEAD":
        route = routes.get("GET")
    return routes.get(ANY) if route is None else route


def _search(
    place: _Node[Target], segments: List[str], at: int, method: str, values: List[str], allowed: Optional[Set[str]]
) -> Optional[Route[Target]]:
    """The most specific route for the segments from `at` on. Adds the values of its parameters to `values`; if `allowed` is not None, adds the
    methods of patterns that match the path but not the method."""
    if at == len(segments):
        return _pick(place.routes, method, allowed)
    segment = segments[at]
    literal = place.statics.get(segment)
    if literal is not None:
        route = _search(literal, segments, at + 1, method, values, allowed)
        if route is not None:
            return route
    if place.param is not None and segment != "":
        values.append(segment)
        route = _search(place.param, segments, at + 1, method, values, allowed)
        if route is not None:
            return route
        values.pop()
    if place.rest is None:
        return None
    route = _pick(place.rest, method, allowed)
    if route is not None:
        values.append("/".join(segments[at:]))
    return route


def _pick(routes: Dict[str, Route[Target]], method: str, allowed: Optional[Set[str]]) -> Optional[Route[Target]]:
    route = _of_method(routes, method)
    if route is None and allowed is not None:
        allowed.update(routes)
        if "GET" in routes:
            allowed.add("HEAD")
    return route


def _decoded(segment: str) -> str:
    if "%" not in segment:
        return segment
    try:
        if not _BROKEN_ESCAPE(segment):
            return unquote(segment, errors="strict")
    except UnicodeDecodeError:
        pass
    quoted = json.dumps(segment, ensure_ascii=False)
    raise HttpError(400, f"the path has a broken percent-encoding in {quoted}")
