"""The store: a tree of JSON values in a folder, read and written in this process.

    from forebay.store import store

    store.set("Person", 7, {"firstName": "Ada"})

`store` is the store of the server, in a handler of a pool whose `store` is `"rw"` or `"ro"`; `open_store` opens one in any Python program. Both are the same
as in the SDK for Node and Bun, and in the server's own routes: whatever one writes, the others read.
"""

from __future__ import annotations

import os
from typing import Optional

from . import _store
from ._store.error import StoreError
from ._store.native import Session, library
from ._store.node import StoreNode
from ._store.store import DURABILITIES, USUAL, IndexDefinition, Store, StoreStats

__all__ = ["IndexDefinition", "Store", "StoreError", "StoreNode", "StoreStats", "open_store", "store"]


def _open_servers() -> Session:
    if _store.provided is not None:
        return library().open(_store.provided, [1, 0, 1, 0, 0, 0, DURABILITIES["relaxed"], 0, 0])
    environment = os.environ
    folder, mode = environment.get("FOREBAY_STORE", ""), environment.get("FOREBAY_STORE_MODE", "rw")
    if not folder or mode == "none":
        raise StoreError("no_store", "this process was given no store: `open_store(path)` of forebay.store opens one without the server")
    options = (0, mode != "rw", 0, 0, 0, int(environment.get("FOREBAY_STORE_VALUE_BYTES_MAX", 0)))
    durability = DURABILITIES.get(environment.get("FOREBAY_STORE_DURABILITY", ""), USUAL)
    return library().open(folder, [*map(float, options), durability, 0, float(environment.get("FOREBAY_STORE_READER_AGE_MAX_MS", 0))])


#: The server's store, opened when it is first used.
store = Store(_open_servers)


def _real(path: "str | os.PathLike[str]") -> str:
    # The URL of a database stays as it is.
    return str(path) if str(path).startswith(("postgres://", "postgresql://")) else os.path.realpath(path)


def open_store(
    path: "str | os.PathLike[str]",
    *,
    create: Optional[bool] = None,
    read_only: bool = False,
    durability: Optional[str] = None,
    map_max: int = 0,
    readers_max: int = 0,
    value_bytes_max: int = 0,
    flush_interval: float = 0,
    reader_age_max: float = 0,
) -> Store:
    """Opens the store in a folder, or in the database whose URL the path is, and creates it if necessary. Where the server's store is gives `store`.

    `create` is true by default, except with `read_only`, which rejects all writes. `durability` is that of commits that do not say theirs: `sync`, `group` (the
    default) or `relaxed`. 0 stands for the default of the others: `map_max` 64 GiB of file, `readers_max` 1024 snapshots at a time over all
    processes, `value_bytes_max` 64 MiB of JSON in one value or document, `flush_interval` 0.02 s until a relaxed commit is on the disk,
    `reader_age_max` 60 s that a snapshot may be used.
    """
    folder = _real(path)
    servers = os.environ.get("FOREBAY_STORE", "")
    if servers and _real(servers) == folder:
        return store
    if durability is not None and durability not in DURABILITIES:
        raise StoreError("unsupported", f"the durability is sync, group or relaxed, not {durability!r}")
    options = (
        not read_only if create is None else create,
        read_only,
        not read_only,
        map_max,
        readers_max,
        value_bytes_max,
        USUAL if durability is None else DURABILITIES[durability],
        flush_interval * 1_000,
        reader_age_max * 1_000,
    )
    opened = Store(lambda: library().open(folder, [float(option) for option in options]))
    # Now, so that what is wrong is told here.
    opened.path
    return opened
