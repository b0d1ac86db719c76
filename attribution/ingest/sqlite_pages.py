"""The pages of a SQLite table: where it is cut, and its integers read hundreds of pages at once.

SQLite hands out one cell a call, which costs more than all else that staging does; a table of
integers is decoded here for whole pages at once with NumPy. Only what is plain is read: a rowid
table whose records are complete, fit their page and hold integers or NULL where columns are asked
for. Anything else raises `Unplain`, and SQLite itself is asked for those rows. Every record's
length is checked against the lengths of its cells, so a page that is read amiss is not plain.

Source: "Database File Format", https://www.sqlite.org/fileformat2.html, sections 1.3 (header), 1.6
(b-tree pages) and 2.1 (records). The format is fixed: SQLite promises to read it forever.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lanescope.attribution.ingest.ids import Ints

#: Bytes decoded at once: what a core's cache holds.
_BLOCK = 2 << 20
#: Bytes past a block that may be looked at: the widest record header.
_PAD = 256
_MAGIC = b"SQLite format 3\x00"
_INTERIOR, _LEAF = 5, 13
#: The b-tree of a table of 2^64 rows is not deeper.
_DEEPEST = 40
#: Columns whose record header has a length of one byte.
WIDEST = 126
#: A record longer than a page less this goes on elsewhere.
_SPILLS = 35
_NO_TYPE = 255
#: The length of no record.
_NEVER = 1 << 40
#: Payload bytes of a cell by its serial type (one byte); types 10 and 11 are nobody's.
_LENGTHS = np.array(
    [0, 1, 2, 3, 4, 6, 8, 8, 0, 0, _NEVER, _NEVER]
    + [(t - 12) // 2 for t in range(12, 128)]
    + [_NEVER] * 128,  # a longer text or blob, whose type takes more bytes
    dtype=np.int64,
)
_NULL, _REAL, _ZERO, _ONE = 0, 7, 8, 9
#: How far eight bytes that begin with an integer are shifted to leave it.
_SHIFTS = np.array([63, 56, 48, 40, 32, 16, 0] + [63] * 249, dtype=np.int64)

_Bytes = NDArray[np.uint8]


class Unplain(Exception):
    """What these pages hold is for SQLite itself to read."""


class PageFile:
    """A SQLite file by pages; raises `Unplain` where its header and its size disagree."""

    _file: int | None = None

    def __init__(self, path: Path) -> None:
        try:
            self._file = os.open(path, os.O_RDONLY)
            head = os.pread(self._file, 100, 0)
            size = os.fstat(self._file).st_size
        except OSError as exc:
            self.close()
            raise Unplain from exc
        self.page_size = int.from_bytes(head[16:18], "big")
        if self.page_size == 1:
            self.page_size = 1 << 16
        self.count = int.from_bytes(head[28:32], "big")
        whole = head[24:28] == head[92:96] and size == self.count * self.page_size
        if head[:16] != _MAGIC or not whole:
            self.close()
            raise Unplain
        self.usable = self.page_size - head[20]

    def close(self) -> None:
        """Let go of the file."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def read(self, pages: Ints) -> _Bytes:
        """Pages by number (the first is 1), one after another, and some bytes of padding.

        Raises `Unplain` where there is no such page or it cannot be read.
        """
        if self._file is None or not 1 < pages.min() <= pages.max() <= self.count:
            raise Unplain  # the first page is the schema's
        out = np.empty(len(pages) * self.page_size + _PAD, dtype=np.uint8)
        out[-_PAD:] = 0
        begins = np.flatnonzero(np.diff(pages, prepend=-1) != 1)
        view = out.data
        for begin, end in zip(begins, [*begins[1:], len(pages)], strict=True):
            part = view[begin * self.page_size : end * self.page_size]
            try:
                got = os.preadv(self._file, [part], (int(pages[begin]) - 1) * self.page_size)
            except OSError as exc:
                raise Unplain from exc
            if got < len(part):
                raise Unplain
        return out


@dataclass(frozen=True)
class Layout:
    """Which cells of a record are wanted: how many it has, `WIDEST` at most, and where they are.

    wanted: name -> position
    """

    width: int
    wanted: dict[str, int]


@dataclass(frozen=True)
class Leaves:
    """The leaf pages of a table in order of row id, and the greatest row id each may hold."""

    file: PageFile
    pages: Ints
    last: Ints

    @classmethod
    def of(cls, file: PageFile, root: int) -> Leaves:
        """Walk down from the root page, a level at a time. Raises `Unplain`."""
        pages = np.array([root], dtype=np.int64)
        last = np.array([np.iinfo(np.int64).max], dtype=np.int64)
        for _ in range(_DEEPEST):
            kind = file.read(pages[:1])[0]
            if kind == _LEAF:
                return cls(file, pages, last)
            if kind != _INTERIOR:
                raise Unplain  # a table without row ids
            pages, last = _children(file, pages, last)
            if len(pages) > file.count or (np.diff(last) <= 0).any():
                raise Unplain
        raise Unplain

    def pieces(self, ids: range, rows: int) -> Iterator[range]:
        """Row ids cut where leaves end: about `rows` ids each, or one leaf."""
        first = ids.start
        while first < ids.stop:
            leaf = np.searchsorted(self.last, min(first + rows, ids.stop) - 1)
            end = min(int(self.last[leaf]) + 1, ids.stop)
            yield range(first, end)
            first = end

    def read(self, ids: range, layout: Layout) -> pa.Table:
        """The wanted cells, as int64, of the rows of one of `pieces`. Raises `Unplain`."""
        first, last = np.searchsorted(self.last, [ids.start, ids.stop - 1])
        step = max(1, _BLOCK // self.file.page_size)
        return pa.concat_tables(
            [
                self._block(self.pages[begin : min(begin + step, last + 1)], layout)
                for begin in range(first, last + 1, step)
            ]
        )

    def _block(self, pages: Ints, layout: Layout) -> pa.Table:
        """Every row of some leaf pages."""
        file, width = self.file, layout.width
        flat = file.read(pages)
        cells, count = _cells(flat, file, len(pages), _LEAF)
        record, end = _records(flat, cells)
        limit = np.repeat(np.arange(len(pages)) * file.page_size + file.usable, count)
        if (end - record > file.usable - _SPILLS).any() or (end > limit).any():
            raise Unplain  # goes on elsewhere
        if (flat[record] != 1 + width).any():
            raise Unplain  # written before a column was added
        record += 1
        types = _window(flat, width)[record].view(np.uint8).reshape(len(record), width)
        types = np.ascontiguousarray(types.T)
        least = types.min(axis=1, initial=_NO_TYPE).tolist()
        most = types.max(axis=1, initial=0).tolist()
        at, fixed = record, width  # where a cell begins: at + fixed
        places: dict[int, Ints] = {}
        wanted = set(layout.wanted.values())
        for column in range(width):
            if column in wanted:
                places[column] = at + fixed
            if least[column] == most[column]:
                fixed += int(_LENGTHS[most[column]])
            else:
                at = at + _LENGTHS[types[column]]
        if (at + fixed != end).any():
            raise Unplain
        return pa.table(
            {
                name: _integers(flat, places[c], types[c], least[c], most[c])
                for name, c in layout.wanted.items()
            }
        )


def _children(file: PageFile, pages: Ints, last: Ints) -> tuple[Ints, Ints]:
    """The children of interior pages, and the greatest row id of each."""
    flat = file.read(pages)
    cells, count = _cells(flat, file, len(pages), _INTERIOR)
    ends = np.cumsum(count + 1)  # each page's right-most child comes after its cells
    right = np.zeros(int(ends[-1]), dtype=bool)
    right[ends - 1] = True
    children = np.empty(len(right), dtype=np.int64)
    keys = np.empty(len(right), dtype=np.int64)
    children[~right] = _eight_bytes(flat, cells) >> 32
    children[right] = _eight_bytes(flat, np.arange(len(pages)) * file.page_size + 8) >> 32
    keys[~right] = _varints(flat, cells + 4)
    keys[right] = last
    return children, keys


def _cells(flat: _Bytes, file: PageFile, pages: int, kind: int) -> tuple[Ints, Ints]:
    """Where the cells of b-tree pages of a kind begin, in their order, and how many a page has."""
    size = file.page_size
    table = flat[: pages * size].reshape(pages, size)
    header = 12 if kind == _INTERIOR else 8
    if (table[:, 0] != kind).any():
        raise Unplain
    count = table[:, 3].astype(np.int64) << 8 | table[:, 4]
    most = int(count.max())
    if not count.all() or header + 2 * most > file.usable:
        raise Unplain  # only a table without rows has an empty page
    offsets = table[:, header : header + 2 * most].view(">u2").astype(np.int64)
    held = np.arange(most) < count[:, None]
    sound = (offsets >= header + 2 * count[:, None]) & (offsets < file.usable)
    if not sound[held].all():
        raise Unplain
    offsets += (np.arange(pages) * size)[:, None]
    return (offsets.ravel() if held.all() else offsets[held]), count


def _window(flat: _Bytes, width: int) -> NDArray[np.void]:
    """The `width` bytes that begin at each byte."""
    return np.ndarray((len(flat) - width,), f"V{width}", buffer=flat.data, strides=(1,))


def _eight_bytes(flat: _Bytes, at: Ints) -> Ints:
    """The eight bytes at each place as a big-endian integer: shifted right, the first of them."""
    return _window(flat, 8)[at].view(np.int64).byteswap(inplace=True)


def _varints(flat: _Bytes, at: Ints) -> Ints:
    """Integers of variable length."""
    value = np.zeros(len(at), dtype=np.int64)
    at = at.copy()
    going = np.ones(len(at), dtype=bool)
    for byte in range(9):
        cell = flat[at].astype(np.int64)
        longer = value << 8 | cell if byte == 8 else value << 7 | cell & 0x7F
        value = np.where(going, longer, value)
        at += going
        going &= cell >= 0x80
        if not going.any():
            break
    return value


def _past_varints(flat: _Bytes, at: Ints) -> Ints:
    """Where each integer of variable length ends."""
    at = at.copy()
    for _ in range(8):  # the ninth byte is the last, whatever it holds
        more = flat[at] >= 0x80
        if not more.any():
            break
        at += more
    return at + 1


def _records(flat: _Bytes, cells: Ints) -> tuple[Ints, Ints]:
    """Where the record of each cell begins and ends."""
    length = flat[cells].astype(np.int64)
    long = length >= 0x80
    at = cells + 1
    if long.any():
        second = flat[at]
        if (long & (second >= 0x80)).any():
            raise Unplain  # 16 KiB in one row
        length = np.where(long, (length & 0x7F) << 7 | second, length)
        at += long
    begin = _past_varints(flat, at)
    return begin, begin + length


def _integers(flat: _Bytes, at: Ints, types: _Bytes, least: int, most: int) -> pa.Array:
    """One column's cells; `least` and `most` are the bounds of `types`."""
    if most > _ONE or (most >= _REAL and (types == _REAL).any()):
        raise Unplain
    if most == _NULL:
        return pa.nulls(len(at), pa.int64())
    if least == most and most >= _ZERO:
        return _array(np.full(len(at), most - _ZERO, dtype=np.int64))
    value = _eight_bytes(flat, at)
    if least == most:
        return _array(value >> _SHIFTS[most])
    value >>= _SHIFTS[types]
    if most >= _ZERO:
        value = np.where(types >= _ZERO, types.astype(np.int64) - _ZERO, value)
    return _array(value, types != _NULL if least == _NULL else None)


def _array(value: Ints, valid: NDArray[np.bool_] | None = None) -> pa.Array:
    """As Arrow, as it lies. (`pa.array` looks at what it is given with pandas.)"""
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.int64(), len(value), [bits, pa.py_buffer(value)])
