"""The stream scheduler: which stream runs its next quantum, and when.

Building a graph
    `graph = StreamGraph()`; `a = graph.add_stream(stream)` returns an id; `graph.connect(a, b,
    Handoff(max_batches=…, max_bytes=…, soft=…))` appends the handoff to `a`'s `outputs` and `b`'s
    `inputs`, in the order of the calls; `out = graph.add_output("name", b)` puts an output sentinel
    behind a stream. A feedback edge takes `Handoff(soft=True)`: it may grow past its bound, and its
    consumer is preferred. The graph may be extended, and pruned with `remove_stream(id)`, while the
    scheduler is idle; new streams are opened, and removed ones closed, at the next run.

Streams
    `execute(quantum)` takes from `self.inputs[i].take()` and puts with
    `self.outputs[j].put(time, batch)`, until an input is empty (return UNDERFLOW), an output is
    `full` (OVERFLOW), `quantum.batches` batches have passed (QUANTUM_EXPIRED), it waits for what is
    outside (YIELD: a `wake` must follow), or it will never produce again (EOS: its
    outputs are finished, what is left in its inputs is dropped). A handoff with `eos` true is
    drained and will stay empty.
    A stream is run again when: an input holds something, an output that was full has room, its
    notifications became deliverable, it was woken, or its quantum had expired. A source (no inputs)
    is run once when demand first reaches it. Streams must tolerate being run for nothing.

Running
    `SerialScheduler(graph, owner)`; `open()`; then
    `wake(stream_id)`: external input has arrived; from any thread, runs nothing by itself;
    `run_until_idle()`: run all that can run; `read_stream(out)`: the next `(time, batch)` of an
    output, or None when there is no more (`graph.output(out).eos` tells whether for good);
    `abort(exc)` from any thread: `interrupt()`s running streams, the caller gets `exc`;
    `reset()`: after an error, empties handoffs and makes the scheduler usable again; `close()`.
    The first exception of a stream is raised by `run_until_idle` and `read_stream`, then and later.

Demand
    Nothing runs before demand has reached it: from `read_stream` at an output, or from the start
    for whatever lies before a stream added with `eager=True` (the sink of a maintained view).
    A wake that comes earlier is remembered.

Progress
    After every quantum with updates the manager calls `owner.apply(stream_id, updates)`, which
    returns the ids of the streams that now have deliverable notifications; these are woken.
    The stream itself finds its notifications where the owner put them: under the parallel scheduler
    it may be running at that moment (it is run again afterwards), so put them into a `deque`, and
    take no more of them in a quantum than were there when it began, if runs are to be replayed.

Degree of parallelism
    `make_scheduler(graph, owner, degree=n)`: 1 is serial and has no thread; n > 1 has a manager and
    up to n workers from `shared_pool()`. Both have the same methods. Under the parallel one change
    the graph, and touch the owner from outside, only inside `with scheduler.paused():`.
    A `DoubleBuffer` in place of a `Handoff` lets both its ends run at once; a graph built with them
    differs from one without, so the degree belongs into the key of whatever caches graphs.
    A connection keeps the pool's threads from one statement to the next with
    `hold = shared_pool().hold()` and `hold.leave()` when it closes.
    Streams with equal `exclusive` never run together: give all kernels on one DuckDB connection
    that connection as their key. `blocking = True`: quanta that wait for I/O.

Ending a run
    `abort` calls `interrupt` of each running stream again and again until its quantum has ended; a
    kernel's is `connection.interrupt()`. Ctrl-C comes this way, too (`sql/sigint.py`).

Looking inside
    `scheduler.stats()`: quanta, busy seconds, batches and (with `profile=True`) rows in and out,
    per stream: what EXPLAIN ANALYZE prints. `Journal()` given as `journal=` keeps the last events:
    `story(*ids)`, `overlaps()`, `write_trace(path)` for Perfetto. `record=[]` takes the decisions,
    which `Replay` repeats; `RandomScheduler(graph, seed=n)` explores other ones.
"""

from typing import Any

from tidewheel.engine.scheduler.double_buffer import DoubleBuffer
from tidewheel.engine.scheduler.driver import Aborted, ProgressOwner, Scheduler, StreamStats
from tidewheel.engine.scheduler.exec_stream import ExecResult, ExecStream, Quantum
from tidewheel.engine.scheduler.graph import Output, StreamGraph
from tidewheel.engine.scheduler.handoff import Handoff, HandoffState
from tidewheel.engine.scheduler.journal import Journal
from tidewheel.engine.scheduler.node import SchedulerError, StreamState
from tidewheel.engine.scheduler.parallel import ParallelScheduler
from tidewheel.engine.scheduler.pool import shared_pool
from tidewheel.engine.scheduler.recording import Step
from tidewheel.engine.scheduler.replay import RandomScheduler, Replay
from tidewheel.engine.scheduler.serial import SerialScheduler
from tidewheel.engine.scheduler.spill import SpillingHandoff
from tidewheel.engine.scheduler.transitions import Transitions


def make_scheduler(
    graph: StreamGraph, owner: ProgressOwner | None = None, *, degree: int = 1, **options: Any
) -> Scheduler:
    """The scheduler for a degree of parallelism: serial, without any thread, for 1."""
    if degree < 1:
        raise ValueError(f"the degree of parallelism is {degree}; it must be at least 1")
    if degree == 1:
        return SerialScheduler(graph, owner, **options)
    # threads are loaded by those who use them
    from tidewheel.engine.scheduler.parallel import ParallelScheduler

    return ParallelScheduler(graph, owner, degree=degree, **options)


__all__ = [
    "Aborted",
    "DoubleBuffer",
    "ExecResult",
    "ExecStream",
    "Handoff",
    "HandoffState",
    "Journal",
    "Output",
    "ParallelScheduler",
    "ProgressOwner",
    "Quantum",
    "RandomScheduler",
    "Replay",
    "Scheduler",
    "SchedulerError",
    "SerialScheduler",
    "SpillingHandoff",
    "Step",
    "StreamGraph",
    "StreamState",
    "StreamStats",
    "Transitions",
    "make_scheduler",
    "shared_pool",
]
