"""Ctrl-C while the main thread is inside a DuckDB kernel, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
import os, signal, threading, time
import duckdb
from tidewheel.engine.scheduler import *
signal.signal(signal.SIGINT, signal.default_int_handler)
connection = duckdb.connect()
started = threading.Event()

class Kernel(ExecStream):
    name = "kernel"
    def execute(self, quantum):
        started.set()
        try:
            connection.execute("SELECT sum(a.i * b.i) FROM range(1000000) a(i), range(99999) b(i)")
        except RuntimeError:  # DuckDB may notice the signal before our watcher does
            raise KeyboardInterrupt from None
        return ExecResult.EOS
    def interrupt(self):
        connection.interrupt()

def press():
    started.wait()
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)

graph = StreamGraph()
output = graph.add_output("out", graph.add_stream(Kernel()))
scheduler = make_scheduler(graph, degree={degree})
scheduler.open()
interrupt_watch.start()
threading.Thread(target=press).start()
try:
    with interrupt_watch.calling(lambda: scheduler.abort(KeyboardInterrupt())):
        scheduler.read_stream(output)
except KeyboardInterrupt:
    print("interrupted")
scheduler.close()
interrupt_watch.stop()
print(connection.execute("SELECT 42").fetchall(), threading.active_count())
"""


@pytest.mark.parametrize("degree", [1, 2])
def test_ctrl_c_ends_a_kernel(degree: int) -> None:
    program = textwrap.dedent(PROGRAM).replace("{degree}", str(degree))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["interrupted", "[(42,)] 1"]
