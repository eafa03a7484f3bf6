"""From the logical graph to the physical one: a vertex per stage and worker, handoffs between them.

Source: Naiad (SOSP 2013), section 3.1. An edge with a partitioning function becomes one handoff per
pair of workers, unless its source is partitioned that way already; any other stays in its worker.
"""

from __future__ import annotations

import sys

from tidewheel.engine.dataflow.ends import InputStream, OutputStream
from tidewheel.engine.dataflow.graph import Graph, Kind, Stage, Stream
from tidewheel.engine.dataflow.streams import Route, VertexStream
from tidewheel.engine.dataflow.tracking import Progress
from tidewheel.engine.progress.path_summary import identity
from tidewheel.engine.progress.timestamp import Timestamp
from tidewheel.engine.scheduler.double_buffer import DoubleBuffer
from tidewheel.engine.scheduler.graph import StreamGraph
from tidewheel.engine.scheduler.handoff import Handoff


class Expansion:
    """Keeps a physical graph and its progress topology in step with a logical graph."""

    def __init__(
        self,
        graph: Graph,
        workers: int,
        progress: Progress,
        prefetch: int | None,
        eager: bool = True,
        parallel: bool = False,
    ) -> None:
        self.graph = graph
        self.workers = workers
        self.physical = StreamGraph()
        self.progress = progress
        self.streams: dict[int, list[VertexStream]] = {}  # by stage; one per worker
        self.ids: dict[VertexStream, int] = {}
        self._eager = eager
        self._parallel = parallel
        self._prefetch = prefetch if prefetch is not None else sys.maxsize
        self._version = -1
        self._between: dict[tuple[VertexStream, VertexStream, int], Handoff] = {}

    @property
    def stale(self) -> bool:
        """Has the logical graph changed since the last `extend`?"""
        return self._version != self.graph.version

    def extend(self, epoch: int) -> list[VertexStream]:
        """Add what is new in the logical graph; new inputs and sources start at `epoch`.

        The new streams are returned; `Progress.begin` must be called for each.
        """
        graph = self.graph
        graph.check()
        new = [s for s in graph.stages.values() if s.summary is None and s.id not in self.streams]
        for stage in new:
            self.streams[stage.id] = [
                self._vertex(stage, worker, epoch)
                for worker in range(1 if stage.kind is Kind.OUTPUT else self.workers)
            ]
            self.progress.topology.add(stage.id, stage.depth)
            for edge in stage.edges:
                self.progress.topology.add(edge, stage.depth)
                self.progress.topology.connect(edge, stage.id, identity(stage.depth))
        added = [stream for stage in new for stream in self.streams[stage.id]]
        for stream in added:
            self.ids[stream] = self.physical.add_stream(stream, eager=self._eager)
        for stage in new:
            for port in range(len(stage.inputs)):
                for source, way in graph.sources(stage, port):
                    self._connect(source, way, stage, port)
        self._version = graph.version
        return added

    def remove(self, stages: list[Stage]) -> None:
        """Take stages out of all graphs."""
        self.graph.remove(stages)
        gone = {s.id for s in stages}
        vertices = [v for s in stages for v in self.streams.pop(s.id, ())]
        edges = {edge for s in stages for edge in s.edges}
        for streams in self.streams.values():
            for stream in streams:
                for routes in stream.routes:
                    if any(r.location in edges for r in routes):
                        routes[:] = [r for r in routes if r.location not in edges]
        dead = set(vertices)
        self._between = {k: h for k, h in self._between.items() if k[1] not in dead}
        ids = [self.ids.pop(v) for v in vertices]
        for stream_id in ids:
            self.physical.remove_stream(stream_id)
        locations = [loc for loc in (*gone, *edges) if loc in self.progress.topology]
        self.progress.remove(ids, locations)
        self._version = self.graph.version

    def _vertex(self, stage: Stage, worker: int, epoch: int) -> VertexStream:
        if stage.kind is Kind.INPUT:
            return InputStream(stage, worker, self.workers, epoch)
        if stage.kind is Kind.OUTPUT:
            return OutputStream(stage, epoch, self._prefetch)
        assert stage.factory is not None
        stream = VertexStream(stage, stage.factory(), worker, self.workers)
        if not stage.inputs:
            stream.start(Timestamp(epoch))
        return stream

    def _connect(self, source: Stream, way: tuple[Stage, ...], stage: Stage, port: int) -> None:
        summary = Route.summarize(way, source.stage.depth)
        location = stage.edges[port]
        self.progress.topology.connect(source.stage.id, location, summary)
        loops = way if any(s.kind is Kind.FEEDBACK and _looks(s) for s in way) else ()
        wanted = stage.partition[port] if stage.partition else None
        exchange = wanted is not None and self.workers > 1 and wanted != source.partitioned_by
        soft = any(s.kind is Kind.FEEDBACK for s in way)
        targets = self.streams[stage.id]
        for stream in self.streams[source.stage.id]:
            if exchange or len(targets) == 1:
                reached = targets
            else:
                reached = [targets[stream.worker]]
            route = Route(
                location,
                port,
                None if summary == identity(source.stage.depth) else summary,
                loops,
                [self._handoff(stream, target, stage, port, soft) for target in reached],
                wanted if exchange else None,
            )
            if reached == [stream] and stage.options.reentrancy:
                route.target = stream
            stream.routes[source.port].append(route)

    def _handoff(
        self, stream: VertexStream, target: VertexStream, stage: Stage, port: int, soft: bool
    ) -> Handoff:
        """The handoff between two vertices at a port; paths of one kind share it."""
        key = (stream, target, port)
        handoff = self._between.get(key)
        if handoff is None:
            soft = soft or stream is target
            # Both ends may run at once; within a loop each waits for the other anyway.
            double = self._parallel and not soft and stage.context is None
            make = DoubleBuffer if double else Handoff
            handoff = make(max_batches=stage.options.buffer, soft=soft)
            self.physical.connect(self.ids[stream], self.ids[target], handoff)
            target.edges.append((handoff, port, stage.edges[port]))
            self._between[key] = handoff
        handoff.soft = handoff.soft or soft
        return handoff


def _looks(stage: Stage) -> bool:
    return stage.options.on_feedback is not None or stage.options.max_iterations is not None
