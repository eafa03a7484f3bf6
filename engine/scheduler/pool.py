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
_Mailbox = SimpleQueue[tuple[Task | None, bool]]


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
        self._idle: list[_Mailbox] = []  # mailboxes, the last to rest on top
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
            mailbox.put((None, False))
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
                self._hand_out(task, True)
            else:
                if not client.queue:
                    self._turns.append(client)
                client.queue.append(task)

    def _submit_waiting(self, task: Task) -> None:
        with self._lock:
            self._hand_out(task, False)

    def _hand_out(self, task: Task, working: bool) -> None:
        """Give a task to an idle thread, or to a new one. Under the lock."""
        if self._idle:
            self._idle.pop().put((task, working))
            return
        self._number += 1
        thread = threading.Thread(
            target=self._thread,
            args=(task, working, self._generation),
            name=f"{self.name}-{self._number}",
            daemon=True,
        )
        self._threads.add(thread)
        thread.start()

    def _queued(self) -> Task | None:
        """The next task that waits, each client in turn; None if there is none. Under the lock."""
        if not self._turns or self._working > self._limit:
            return None
        client = self._turns.popleft()
        task = client.queue.popleft()
        if client.queue:
            self._turns.append(client)
        return task

    def _thread(self, task: Task | None, working: bool, generation: int) -> None:
        """`task`, then whatever waits if it counts as `working`, then what the mailbox brings."""
        mailbox: _Mailbox = SimpleQueue()
        try:
            while task is not None:
                task()
                with self._lock:
                    # at once: in between a task would find nobody idle and start a thread
                    task = self._queued() if working else None
                    if task is not None:
                        continue
                    self._working -= working
                    if generation != self._generation:
                        return
                    self._idle.append(mailbox)
                task, working = mailbox.get()
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
