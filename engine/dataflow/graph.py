"""The logical graph: stages joined by streams, checked while it is built.

Sources: Naiad (SOSP 2013), sections 2.1, 3.1 and 4.3.

A graph may grow and shrink while a `Dataflow` runs it: new stages read the streams that exist, and
stages that nobody reads can be removed. What stays is never rewired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tidewheel.engine.dataflow.errors import GraphError
from tidewheel.engine.dataflow.loop_context import Feedback, FeedbackHook, LoopContext
from tidewheel.engine.dataflow.stage import (
    PHYSICAL,
    Kind,
    Partition,
    Stage,
    StageOptions,
    Stream,
    StreamLike,
)
from tidewheel.engine.dataflow.vertex import Vertex
from tidewheel.engine.progress.path_summary import PathSummary, egress, feedback, identity, ingress

__all__ = ["Graph", "Kind", "Partition", "Stage", "StageOptions", "Stream", "StreamLike"]


class Graph:
    """A timely dataflow graph under construction, or running.

    >>> graph = Graph()
    >>> numbers = graph.input("numbers")
    >>> loop = graph.loop("halve")
    >>> inside = loop.ingress(numbers)
    >>> graph.output("escaped", inside)
    Traceback (most recent call last):
        ...
    tidewheel.engine.dataflow.errors.GraphError: output 'escaped' reads 'halve.ingress' inside \
loop 'halve': a stream leaves a loop only through its egress()
    """

    def __init__(self) -> None:
        self.stages: dict[int, Stage] = {}
        self.version = 0
        self._next = 0
        self._names: dict[tuple[Kind, str], Stage] = {}
        self._unchecked: list[Stage] = []
        self._late = False  # an input was connected after its stage was made

    # -- building

    def input(
        self, name: str, schema: Any = None, partitioned_by: Partition | None = None
    ) -> Stream:
        """A stream that is fed from outside, one epoch after the other."""
        stage = self._add(name, Kind.INPUT, None, (), unique=True)
        return self._outputs(stage, None, [schema], [partitioned_by])[0]

    def output(
        self, name: str, stream: StreamLike, *, ordered: bool = True, buffer: int | None = 2
    ) -> Stage:
        """A stream that is read from outside.

        `ordered`: batches come in the order of their epochs (a batch is held back until no earlier
        epoch can bring another); otherwise as they are made. `buffer`: see `StageOptions`.
        """
        source = _stream(stream)
        if source.context is not None:
            raise GraphError(
                f"output {name!r} reads {source.stage.name!r} inside loop {source.context.name!r}: "
                "a stream leaves a loop only through its egress()"
            )
        stage = self._add(name, Kind.OUTPUT, None, (None,), unique=True)
        stage.options = StageOptions(buffer=buffer, ordered=ordered)
        self._join(source, stage, 0)
        return stage

    def stage(
        self,
        name: str,
        factory: Callable[[], Vertex],
        inputs: Sequence[StreamLike | None] = (),
        outputs: int = 1,
        partition: Sequence[Partition | None] | None = None,
        *,
        expects: Sequence[Any] | None = None,
        schemas: Sequence[Any] | None = None,
        partitioned_by: Sequence[Partition | None] | None = None,
        notify_first: bool = False,
        reentrancy: int = 0,
        buffer: int | None = 16,
    ) -> Stage:
        """Add a stage; `factory()` makes its vertex on each worker.

        `inputs`: a stream per input port; None leaves a port for `connect`. `partition`: what each
        input needs to be partitioned by, `partitioned_by`: what each output is known to be
        partitioned by. `expects` and `schemas`: the schemas of inputs and outputs, compared with ==
        where both ends of an edge name one. The others are described at `StageOptions`.

        A stage without inputs is a source: its vertex is notified once, at the epoch in which it
        starts, and may ask for later ones itself.
        """
        sources = [None if s is None else _stream(s) for s in inputs]
        contexts = {s.context for s in sources if s is not None}
        if len(contexts) > 1:
            places = ", ".join(
                f"{s.stage.name!r} ({_place(s.context)})" for s in sources if s is not None
            )
            raise GraphError(
                f"stage {name!r} reads {places}: streams enter a loop through ingress() and leave "
                "it through egress(), one loop at a time"
            )
        context = next(iter(contexts), None)
        for label, given, wanted in (
            ("partition", partition, len(sources)),
            ("expects", expects, len(sources)),
            ("schemas", schemas, outputs),
            ("partitioned_by", partitioned_by, outputs),
        ):
            if given is not None and len(given) != wanted:
                raise GraphError(f"stage {name!r}: {label} has {len(given)} entries, not {wanted}")
        stage = self._add(name, Kind.VERTEX, context, [None] * len(sources))
        stage.factory = factory
        stage.partition = tuple(partition or ())
        stage.expects = tuple(expects or ())
        if notify_first or reentrancy or buffer != 16:
            stage.options = StageOptions(
                notify_first=notify_first, reentrancy=reentrancy, buffer=buffer
            )
        self._outputs(stage, context, schemas or [None] * outputs, partitioned_by)
        try:
            for port, source in enumerate(sources):
                if source is not None:
                    self._join(source, stage, port)
        except GraphError:
            self.remove([stage])
            raise
        return stage

    def concat(self, name: str, streams: Sequence[StreamLike]) -> Stream:
        """The union of streams of one place; costs nothing when it runs."""
        sources = [_stream(s) for s in streams]
        if not sources:
            raise GraphError(f"concat {name!r} has no streams")
        context = sources[0].context
        if any(s.context is not context for s in sources):
            raise GraphError(f"concat {name!r} joins streams of different loops")
        fits = sources[0].partitioned_by
        if any(s.partitioned_by != fits for s in sources):
            fits = None
        schema = next((s.schema for s in sources if s.schema is not None), None)
        stage = self._add(name, Kind.CONCAT, context, [None] * len(sources))
        stage.summary = identity(stage.depth)
        stage.expects = (schema,) * len(sources)
        out = self._outputs(stage, context, [schema], [fits])[0]
        try:
            for port, source in enumerate(sources):
                self._join(source, stage, port)
        except GraphError:
            self.remove([stage])
            raise
        return out

    def loop(self, name: str) -> LoopContext:
        """A loop at the outermost level; `LoopContext.loop` makes nested ones."""
        return LoopContext(self, name, None)

    def connect(self, stream: StreamLike, stage: Stage, port: int) -> None:
        """Connect an input port that was left open."""
        if stage.id not in self.stages:
            raise GraphError(f"stage {stage.name!r} is not part of this graph")
        source = _stream(stream)
        if stage.kind is not Kind.FEEDBACK:
            self._late = True
        if source.context is not stage.context:
            raise GraphError(
                f"{stage.kind.value} {stage.name!r} ({_place(stage.context)}) reads "
                f"{source.stage.name!r} ({_place(source.context)}): streams enter a loop through "
                "ingress() and leave it through egress()"
            )
        self._join(source, stage, port)

    def remove(self, stages: Iterable[Stage]) -> None:
        """Take out stages that no other stage reads."""
        gone = {s.id: s for s in stages}
        for stage in gone.values():
            if stage.id not in self.stages:
                raise GraphError(f"stage {stage.name!r} is not part of this graph")
            kept = [r.name for r, _ in stage.readers if r.id not in gone]
            if kept:
                raise GraphError(f"cannot remove {stage.name!r}: {kept[0]!r} still reads it")
        for stage in gone.values():
            for source in stage.inputs:
                if source is not None and source.stage.id not in gone:
                    readers = source.stage.readers
                    readers[:] = [r for r in readers if r[0].id not in gone]
            del self.stages[stage.id]
            self._names.pop((stage.kind, stage.name), None)
        self._unchecked = [s for s in self._unchecked if s.id not in gone]
        self.version += 1

    def named(self, kind: Kind, name: str) -> Stage:
        """The input or output called `name`."""
        try:
            return self._names[kind, name]
        except KeyError:
            known = ", ".join(sorted(n for k, n in self._names if k is kind)) or "none"
            raise GraphError(f"no {kind.value} {name!r}; there are: {known}") from None

    def check(self) -> None:
        """Refuse what can only be seen when the graph is complete; looks at new stages alone."""
        for stage in self._unchecked:
            for port, source in enumerate(stage.inputs):
                if source is None:
                    what = (
                        f"feedback {stage.name!r} is never connected"
                        if stage.kind is Kind.FEEDBACK
                        else f"input {port} of stage {stage.name!r} is not connected"
                    )
                    raise GraphError(f"{what}; call connect() before the graph runs")
        if self._late:
            self._check_cycles()
            self._late = False
        for stage in self._unchecked:
            if stage.kind in PHYSICAL:
                for port in range(len(stage.inputs)):
                    self.sources(stage, port)
        self._unchecked = []

    def sources(self, stage: Stage, port: int) -> list[tuple[Stream, tuple[Stage, ...]]]:
        """Where an input's batches are really made: the stream, and the system stages after it."""
        found: list[tuple[Stream, tuple[Stage, ...]]] = []
        work: list[tuple[Stream | None, tuple[Stage, ...]]] = [(stage.inputs[port], ())]
        while work:
            stream, way = work.pop()
            assert stream is not None, "check() comes first"
            source = stream.stage
            if source.kind in PHYSICAL:
                found.append((stream, way))
            elif source in way:
                raise GraphError(
                    f"the loop through {source.name!r} has no stage that does anything"
                )
            else:
                work.extend((before, (source, *way)) for before in reversed(source.inputs))
        return found

    # -- inside

    def _add(
        self,
        name: str,
        kind: Kind,
        context: LoopContext | None,
        inputs: Sequence[None],
        unique: bool = False,
    ) -> Stage:
        if unique and (kind, name) in self._names:
            raise GraphError(f"there already is an {kind.value} {name!r}")
        if context is not None and context.graph is not self:
            raise GraphError(f"loop {context.name!r} belongs to another graph")
        first = self._next
        self._next += 1 + len(inputs)
        edges = list(range(first + 1, self._next))
        stage = Stage(first, name, kind, context, list(inputs), edges)
        if unique:
            self._names[kind, name] = stage
        self.stages[first] = stage
        self._unchecked.append(stage)
        self.version += 1
        return stage

    def _outputs(
        self,
        stage: Stage,
        context: LoopContext | None,
        schemas: Sequence[Any],
        partitioned_by: Sequence[Partition | None] | None = None,
    ) -> tuple[Stream, ...]:
        stage.streams = tuple(
            Stream(stage, port, context, schema, partitioned_by[port] if partitioned_by else None)
            for port, schema in enumerate(schemas)
        )
        return stage.streams

    def _join(self, source: Stream, stage: Stage, port: int) -> None:
        if self.stages.get(source.stage.id) is not source.stage:
            raise GraphError(f"{source!r}, read by {stage.name!r}, is not part of this graph")
        if not 0 <= port < len(stage.inputs):
            raise GraphError(f"stage {stage.name!r} has no input {port}")
        if stage.inputs[port] is not None:
            raise GraphError(
                f"input {port} of {stage.kind.value} {stage.name!r} is connected twice: it reads "
                f"{stage.inputs[port]!r}; use concat() to join streams"
            )
        wanted = stage.expects[port] if stage.expects else None
        if wanted is not None and source.schema is not None and wanted != source.schema:
            raise GraphError(
                f"input {port} of {stage.kind.value} {stage.name!r} expects the schema\n{wanted}\n"
                f"but {source.stage.name!r} sends\n{source.schema}"
            )
        stage.inputs[port] = source
        source.stage.readers.append((stage, port))
        self.version += 1

    def _system(
        self,
        kind: Kind,
        name: str,
        source: Stream | None,
        inside: LoopContext | None,
        outside: LoopContext | None,
        summary: PathSummary,
    ) -> Stage:
        """A stage that only changes time; it stands where its input does."""
        stage = self._add(name, kind, inside, (None,))
        stage.summary = summary
        if source is not None:
            self._outputs(stage, outside, [source.schema], [source.partitioned_by])
            self._join(source, stage, 0)
        return stage

    def _ingress(self, loop: LoopContext, stream: StreamLike, name: str) -> Stream:
        source = _stream(stream)
        if source.context is not loop.parent:
            raise GraphError(
                f"ingress of loop {loop.name!r} reads {source.stage.name!r} "
                f"({_place(source.context)}), but the loop lies {_place(loop.parent)}"
            )
        summary = ingress(source.depth)
        return self._system(Kind.INGRESS, name, source, source.context, loop, summary).stream

    def _egress(self, loop: LoopContext, stream: StreamLike, name: str) -> Stream:
        source = _stream(stream)
        if source.context is not loop:
            raise GraphError(
                f"egress of loop {loop.name!r} reads {source.stage.name!r} "
                f"({_place(source.context)}): an egress leads from its loop to the parent"
            )
        summary = egress(source.depth)
        return self._system(Kind.EGRESS, name, source, loop, loop.parent, summary).stream

    def _feedback(
        self,
        loop: LoopContext,
        name: str,
        schema: Any,
        max_iterations: int | None,
        on_feedback: FeedbackHook | None,
    ) -> Feedback:
        stage = self._system(Kind.FEEDBACK, name, None, loop, loop, feedback(loop.depth))
        stage.expects = (schema,)
        stage.options = StageOptions(max_iterations=max_iterations, on_feedback=on_feedback)
        self._outputs(stage, loop, [schema])
        return Feedback(self, stage)

    def _check_cycles(self) -> None:
        """No cycle may avoid every feedback: depth-first search over the other stages."""
        done: set[int] = set()
        for root in self.stages.values():
            path: list[Stage] = []
            on_path: set[int] = set()
            work = [(root, False)]
            while work:
                stage, leaving = work.pop()
                if leaving:
                    path.pop()
                    on_path.discard(stage.id)
                    done.add(stage.id)
                    continue
                if stage.id in on_path:
                    first = next(i for i, s in enumerate(path) if s is stage)
                    names = " → ".join(repr(s.name) for s in [*path[first:], stage])
                    raise GraphError(f"the cycle {names} has no feedback: time would stand still")
                if stage.id in done or stage.kind is Kind.FEEDBACK:
                    continue
                path.append(stage)
                on_path.add(stage.id)
                work.append((stage, True))
                work.extend((reader, False) for reader, _ in stage.readers)


def _stream(stream: StreamLike) -> Stream:
    return stream.stream if isinstance(stream, Stage) else stream


def _place(context: LoopContext | None) -> str:
    return "outside all loops" if context is None else f"inside loop {context.name!r}"
