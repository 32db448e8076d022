"""The store; its public face is `forebay.store`. What a worker sets and asks is here, so that one without a store need not load the rest."""

from __future__ import annotations

from typing import Callable, Optional

#: The descriptor of the worker's page, in which commits are reported. Set before the first store is opened.
page: Optional[int] = None

#: The folder of the store in a process without a server: the test kit's. It is created when it is first used.
provided: Optional[str] = None

#: Rolls back transactions that a job has left open in the calling thread; whether there were any.
end_job: Callable[[], bool] = lambda: False
