"""The shared page's claim words (PROTOCOL.md, section 6): they decide whether a job that has arrived is this worker's to run or has been
revoked by the server.

Python has no atomic exchange on shared memory. So a word is read and written under a lock on the page, which the server also takes
before it revokes a job. It is a kernel lock, released when its process ends.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from typing import Iterable, List, Optional, TypeVar

from .job import Job

PAGE_BYTES = 282_624
FORMAT = 0x46420001
#: The index of the first claim word.
CLAIMS_AT = 4_096 // 4
OFFERED, CLAIMED = 1, 2


J = TypeVar("J", bound=Job)


class Page:
    """The shared page, mapped."""

    __slots__ = ("descriptor", "_words")

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self.descriptor = descriptor
        self._words = memoryview(mmap.mmap(descriptor, PAGE_BYTES)).cast("I")
        if self._words[0] != FORMAT:
            raise RuntimeError(f"the shared page has the format {self._words[0]:#x}, this worker knows {FORMAT:#x}")

    def claim(self, number: int, slot: int) -> bool:
        """Claims a job; False if the server has revoked it."""
        fcntl.lockf(self.descriptor, fcntl.LOCK_EX)
        try:
            return self._claim(number, slot)
        finally:
            fcntl.lockf(self.descriptor, fcntl.LOCK_UN)

    def claim_all(self, jobs: "Iterable[J]") -> "List[J]":
        """Claims several jobs at once; returns those that the server has not revoked."""
        fcntl.lockf(self.descriptor, fcntl.LOCK_EX)
        try:
            return [job for job in jobs if self._claim(job.number, job.slot)]
        finally:
            fcntl.lockf(self.descriptor, fcntl.LOCK_UN)

    def _claim(self, number: int, slot: int) -> bool:
        word = CLAIMS_AT + slot
        offered = (number << 2 | OFFERED) & 0xFFFF_FFFF
        if self._words[word] != offered:
            return False
        self._words[word] = offered - OFFERED + CLAIMED
        return True


def open_page() -> Optional[Page]:
    """Maps the page that the server provides; None if it provides none."""
    descriptor = os.environ.get("FOREBAY_PAGE_FD")
    return None if descriptor is None else Page(int(descriptor))
