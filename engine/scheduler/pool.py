"""The threads of a process: one pool, shared fairly by all statements that run in parallel.

Each scheduler is a client of the pool with its own queue of quanta; idle threads take from the
clients in turn. The pool has as many workers as the highest degree of parallelism among its
clients, and further threads for tasks that spend their time waiting: managers, and quanta that
block on I/O. The last client to leave takes the threads with it.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

Task = Callable[[], Any]


class Client:
    """One user of the pool."""

    __slots__ = ("degree", "pool", "queue")

    def __init__(self, pool: WorkerPool, degree: int) -> None:
        self.pool = pool
        self.degree = degree
        self.queue: deque[Task] = deque()

    def submit(self, task: Task) -> None:
        """Run `task` on a worker, after this client's earlier ones. It must not raise."""
        self.pool._submit(self, task)

    def submit_waiting(self, task: Task) -> None:
        """Run `task` at once on a thread beyond the workers: it will mostly wait."""
        self.pool._submit_waiting(task)

    def leave(self) -> None:
        """Give the pool up. The client's tasks must have ended."""
        self.pool._leave(self)


class WorkerPool:
    """Threads that are started when needed and joined when the last client has left."""

    def __init__(self, name: str = "tidewheel") -> None:
        self.name = name
        self._lock = threading.Lock()
        self._clients: list[Client] = []
        self._turns: deque[Client] = deque()  # clients with queued tasks
        self._threads: set[threading.Thread] = set()
        self._idle: list[SimpleQueue[Task | None]] = []  # mailboxes, the last to rest on top
        self._working = 0  # threads inside a worker's task; at most `_limit`
        self._limit = 0
        self._number = 0
        self._generation = 0  # of threads; the last client to leave ends one

    # -- clients

    def join(self, degree: int) -> Client:
        """A new client that wants to run up to `degree` tasks at once."""
        client = Client(self, degree)
        with self._lock:
            self._clients.append(client)
            self._limit = max(c.degree for c in self._clients)
        return client

    def hold(self) -> Client:
        """Keep the threads alive between statements: a client that submits nothing."""
        return self.join(0)

    def _leave(self, client: Client) -> None:
        with self._lock:
            if client not in self._clients:
                return
            self._clients.remove(client)
            self._limit = max((c.degree for c in self._clients), default=0)
            if self._clients:
                return
            self._generation += 1
            idle, self._idle = self._idle, []
            threads = list(self._threads)
        for mailbox in idle:
            mailbox.put(None)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    @property
    def threads(self) -> int:
        """Threads alive, for tests and gauges."""
        return len(self._threads)

    # -- tasks

    def _submit(self, client: Client, task: Task) -> None:
        with self._lock:
            if self._working < self._limit:
                self._working += 1
                self._hand_out(self._worker(task))
            else:
                if not client.queue:
                    self._turns.append(client)
                client.queue.append(task)

    def _submit_waiting(self, task: Task) -> None:
        with self._lock:
            self._hand_out(task)

    def _hand_out(self, task: Task) -> None:
        """Give a task to an idle thread, or to a new one. Under the lock."""
        if self._idle:
            self._idle.pop().put(task)
            return
        self._number += 1
        thread = threading.Thread(
            target=self._thread,
            args=(task, self._generation),
            name=f"{self.name}-{self._number}",
            daemon=True,
        )
        self._threads.add(thread)
        thread.start()

    def _worker(self, task: Task) -> Task:
        """`task`, and then whatever waits, each client in turn."""

        def work() -> None:
            todo: Task | None = task
            while todo is not None:
                todo()
                todo = self._next_task()

        return work

    def _next_task(self) -> Task | None:
        """The next queued task; None, and one worker fewer, if there is none."""
        with self._lock:
            if not self._turns or self._working > self._limit:
                self._working -= 1
                return None
            client = self._turns.popleft()
            task = client.queue.popleft()
            if client.queue:
                self._turns.append(client)
            return task

    def _thread(self, task: Task | None, generation: int) -> None:
        mailbox: SimpleQueue[Task | None] = SimpleQueue()
        try:
            while task is not None:
                task()
                task = None
                with self._lock:
                    if generation != self._generation:
                        return
                    self._idle.append(mailbox)
                task = mailbox.get()
        finally:
            with self._lock:
                self._threads.discard(threading.current_thread())


_shared: WorkerPool | None = None
_shared_lock = threading.Lock()


def shared_pool() -> WorkerPool:
    """The pool of this process."""
    global _shared
    with _shared_lock:
        if _shared is None:
            _shared = WorkerPool()
        return _shared


def _forget_pool() -> None:
    """In a forked child no thread of the parent runs: start with an empty pool."""
    global _shared, _shared_lock
    _shared_lock = threading.Lock()
    _shared = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
