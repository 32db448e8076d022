"""Bodies of forms."""

from __future__ import annotations

import re
from typing import List, NamedTuple, Optional, Sequence, Tuple

from ._fields import Fields
from ._reply import HttpError


class UploadedFile(NamedTuple):
    """A file of a `multipart/form-data` body."""

    #: The name of the form field.
    field: str
    #: The name the client gave the file: never use it as a path.
    name: str
    #: The content type the client claims.
    type: str
    bytes: bytes


class Form(NamedTuple):
    """The body of a form: `form.fields.get("email")`, `form.files[0].bytes`."""

    #: The fields in order; repeated names are kept (`get_all`).
    fields: Fields
    #: The files in order; empty for an urlencoded form.
    files: Sequence[UploadedFile]


def read_form(content_type: str, body: bytes) -> Form:
    """Parses a form body by its content type."""
    kind = content_type.split(";", 1)[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        return Form(Fields.parsed(body.decode("utf-8", "replace")), ())
    if kind == "multipart/form-data":
        return _multipart(content_type, body)
    found = "of no content type" if kind == "" else kind
    raise HttpError(415, f"the body is {found}, a form is application/x-www-form-urlencoded or multipart/form-data")


def _multipart(content_type: str, body: bytes) -> Form:
    """`multipart/form-data` after RFC 7578 and RFC 2046, section 5.1."""
    boundary = _parameter(content_type, "boundary")
    if not boundary:
        raise HttpError(400, "the multipart content type names no boundary")
    mark = b"\r\n--" + boundary.encode("latin-1", "replace")
    fields: List[Tuple[str, str]] = []
    files: List[UploadedFile] = []
    # Without a preamble, no line end comes before the first boundary.
    at = len(mark) - 2 if body.startswith(mark[2:]) else _found(body.find(mark)) + len(mark)
    while body[at : at + 2] != b"--":
        head = _found(body.find(b"\r\n", at))
        blank = _found(body.find(b"\r\n\r\n", head))
        end = _found(body.find(mark, blank + 2))
        _part(body[min(head + 2, blank) : blank], body[min(blank + 4, end) : end], fields, files)
        at = end + len(mark)
    return Form(Fields(fields), files)


def _found(position: int) -> int:
    if position < 0:
        raise HttpError(400, "the multipart body is malformed or ends too early")
    return position


def _part(head: bytes, body: bytes, fields: List[Tuple[str, str]], files: List[UploadedFile]) -> None:
    lines = [line.partition(":") for line in head.decode("utf-8", "replace").split("\r\n")]
    headers = {name.strip().lower(): value.strip() for name, colon, value in lines if name and colon}
    disposition = headers.get("content-disposition", "")
    field = _parameter(disposition, "name")
    if field is None:
        raise HttpError(400, "a part of the multipart body has no name")
    name = _parameter(disposition, "filename")
    if name is None:
        fields.append((field, body.decode("utf-8", "replace")))
    else:
        files.append(UploadedFile(field, name, headers.get("content-type", "application/octet-stream"), body))


_PARAMETER = re.compile(r';\s*([^=\s;]+)\s*=\s*(?:"([^"]*)"|([^;]*))')


def _parameter(header: str, name: str) -> Optional[str]:
    """The value of `; name=value` or `; name="value"` in a header; browsers escape a quote in it as `%22`."""
    for key, quoted, bare in _PARAMETER.findall(header):
        if key.lower() == name:
            return str(quoted).replace("%22", '"') if quoted else str(bare).strip()
    return None
