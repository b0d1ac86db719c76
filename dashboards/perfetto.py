"""A trace for the Perfetto UI and its trace processor: protobuf, integer nanoseconds.

Kernels lie under their GPU, one track a stream, coloured by bucket (Perfetto gives slices of one
correlation id one colour); the bucket is the slice's category, its layer an argument. Steps and
phases lie above them, ranges and API calls under their process. Track names and slices come as
`attribution.timeline` lays them out: nothing overlaps on a track.

The message classes are those of the `perfetto` package. A slice's packet is made once for every
(track, name, layer) and repeated with its own time: protobuf fields may stand in any order, so the
time's few bytes are put in front.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

from lanescope.attribution.counters import Counter
from lanescope.attribution.timeline import Track
from lanescope.dashboards.names import shown

_SEQUENCE = 1
#: Tags of Trace.packet (field 1, bytes) and TracePacket.timestamp (field 8, varint).
_PACKET, _TIMESTAMP = b"\x0a", b"\x40"
_ORDER = ("steps", "phases", "kernels", "graphs", "copies", "ranges", "api")
_COUNTER_RANK = 100 * len(_ORDER)
_FLUSH = 1 << 20


def write(
    tracks: Iterable[Track],
    gpus: dict[int, str],
    out: IO[bytes],
    counters: Iterable[Counter] = (),
) -> int:
    """Write the trace; `gpus` names the devices. Returns how many slices were written."""
    writer = _Writer(out, gpus)
    slices = 0
    for track in tracks:
        writer.track(track)
        slices += len(track.start_ns)
    for counter in counters:
        writer.counter(counter)
    writer.flush()
    return slices


def _varint(value: int) -> bytes:
    """Unsigned base-128, as protobuf has it."""
    if value < 0:  # int64 fields carry negatives as their 64-bit two's complement
        value += 1 << 64
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class _Writer:
    """Writes packets; knows which tracks and names were announced."""

    def __init__(self, out: IO[bytes], gpus: dict[int, str]) -> None:
        self._out = out
        self._gpus = gpus
        self._buffer = bytearray()
        self._parents: dict[tuple[int, int], int] = {}
        self._uuid = 0
        self._iids: dict[tuple[str, str], int] = {}
        first = pb.TracePacket(
            trusted_packet_sequence_id=_SEQUENCE,
            sequence_flags=pb.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED,
        )
        self._packet(first.SerializeToString())

    def flush(self) -> None:
        """Hand the buffered bytes to the file."""
        self._out.write(self._buffer)
        self._buffer.clear()

    def _packet(self, body: bytes) -> None:
        self._buffer += _PACKET + _varint(len(body)) + body

    def _describe(
        self, name: str, parent: int, rank: int, unit: str | None = None
    ) -> pb.TrackDescriptor:
        """Announce a track; one with a unit ("" too) holds a counter."""
        self._uuid += 1
        packet = pb.TracePacket(trusted_packet_sequence_id=_SEQUENCE)
        descriptor = packet.track_descriptor
        descriptor.uuid = self._uuid
        descriptor.name = name
        descriptor.sibling_order_rank = rank
        if parent:
            descriptor.parent_uuid = parent
        descriptor.child_ordering = pb.TrackDescriptor.ChildTracksOrdering.EXPLICIT
        if unit is not None:
            descriptor.counter.unit_name = unit
        self._packet(packet.SerializeToString())
        return descriptor

    def _parent(self, device: int, process: int) -> int:
        """The group that a track lies in: a GPU, or a process of the host."""
        key = (device, -1 if device >= 0 else process)
        if key not in self._parents:
            if device >= 0:
                name = f"GPU {device} {shown(self._gpus.get(device, ''))}".strip()
            else:
                name = f"process {process}"
            rank = device if device >= 0 else 1_000 + len(self._parents)
            self._parents[key] = self._describe(name, 0, rank).uuid
        return self._parents[key]

    def _iid(self, kind: str, text: str) -> int:
        """The number of an interned name, announced when it is new."""
        key = (kind, text)
        if key not in self._iids:
            self._iids[key] = len(self._iids) + 1
            packet = pb.TracePacket(
                trusted_packet_sequence_id=_SEQUENCE,
                sequence_flags=pb.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE,
            )
            data = packet.interned_data
            if kind == "name":
                data.event_names.add(iid=self._iids[key], name=text)
            elif kind == "category":
                data.event_categories.add(iid=self._iids[key], name=text)
            elif kind == "colour":
                data.correlation_id_str.add(iid=self._iids[key], str=text.encode())
            else:
                data.debug_annotation_names.add(iid=self._iids[key], name=text)
            self._packet(packet.SerializeToString())
        return self._iids[key]

    def track(self, track: Track) -> None:
        """Write a track and all its slices."""
        several = track.device >= 0 and track.process >= 0
        label = f"{track.label} - process {track.process}" if several else track.label
        rank = 100 * _ORDER.index(track.kind)
        uuid = self._describe(label, self._parent(track.device, track.process), rank).uuid
        end = _event(uuid, pb.TrackEvent.TYPE_SLICE_END).SerializeToString()
        begins: dict[tuple[int, int, int], bytes] = {}
        names = [shown(n) for n in track.names]
        buffer = self._buffer
        keys = zip(track.name.tolist(), track.group.tolist(), track.layer.tolist(), strict=True)
        times = zip(track.start_ns.tolist(), track.end_ns.tolist(), strict=True)
        for key, (start_ns, end_ns) in zip(keys, times, strict=True):
            begin = begins.get(key)
            if begin is None:
                begin = begins[key] = self._begin(uuid, names[key[0]], track.groups[key[1]], key[2])
            for at, body in ((start_ns, begin), (end_ns, end)):
                time = _TIMESTAMP + _varint(at)
                buffer += _PACKET + _varint(len(time) + len(body)) + time + body
            if len(buffer) > _FLUSH:
                self.flush()

    def counter(self, counter: Counter) -> None:
        """Write a counter's track and all its values; whole numbers stay whole."""
        several = counter.process >= 0
        label = f"{counter.label} - process {counter.process}" if several else counter.label
        parent = self._parent(counter.device, counter.process)
        uuid = self._describe(shown(label), parent, _COUNTER_RANK, counter.unit).uuid
        whole = counter.value.dtype.kind == "i"
        values = zip(counter.time_ns.tolist(), counter.value.tolist(), strict=True)
        for at, value in values:
            packet = _event(uuid, pb.TrackEvent.TYPE_COUNTER)
            packet.timestamp = at
            if whole:
                packet.track_event.counter_value = value
            else:
                packet.track_event.double_counter_value = value
            self._packet(packet.SerializeToString())
            if len(self._buffer) > _FLUSH:
                self.flush()

    def _begin(self, uuid: int, name: str, group: str, layer: int) -> bytes:
        packet = _event(uuid, pb.TrackEvent.TYPE_SLICE_BEGIN)
        event = packet.track_event
        event.name_iid = self._iid("name", name)
        event.category_iids.append(self._iid("category", shown(group)))
        event.correlation_id_str_iid = self._iid("colour", shown(group))
        if layer >= 0:
            event.debug_annotations.add(name_iid=self._iid("argument", "layer"), int_value=layer)
        body: bytes = packet.SerializeToString()
        return body


def _event(uuid: int, kind: int) -> pb.TracePacket:
    packet = pb.TracePacket(
        trusted_packet_sequence_id=_SEQUENCE,
        sequence_flags=pb.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE,
    )
    packet.track_event.track_uuid = uuid
    packet.track_event.type = kind
    return packet
