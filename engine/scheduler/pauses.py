"""Keeping micro-stragglers out of epochs: garbage collection and the switch interval.

Source: Naiad (SOSP 2013), section 3.5.

Both settings belong to the whole process, so they are counted: the first who needs one changes it,
the last puts it back.
"""

from __future__ import annotations

import gc
import sys
import threading

#: Seconds a thread may keep the interpreter while another wants it. With the default of 5 ms, a
#: kernel of 1.6 ms beside one busy Python thread took 11 ms; with this, 1.95 ms.
SWITCH_INTERVAL = 1e-4


#: How much rarer than Python itself the collector's middle generation is collected between epochs.
#: It costs some 0.6 ms each time at Python's rate, in about every fiftieth small epoch; Python does
#: it anyway as soon as the caller allocates enough.
MIDDLE_EVERY = 4


class FastSwitching:
    """Shortens the interpreter's switch interval while quanta run in several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = 0.0

    def begin(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._before = sys.getswitchinterval()
                if self._before > SWITCH_INTERVAL:
                    sys.setswitchinterval(SWITCH_INTERVAL)

    def end(self) -> None:
        with self._lock:
            self._users -= 1
            # Somebody else may have set it meanwhile: then it is theirs.
            ours = abs(sys.getswitchinterval() - SWITCH_INTERVAL) < 1e-6
            if self._users == 0 and ours:
                sys.setswitchinterval(self._before)


class QuietCollector:
    """Keeps the garbage collector out of epochs, and gives it its turn between them.

    Inside `begin` … `end` no automatic collection runs. `end` makes up for it with a collection of
    the youngest generation, when so much has been allocated that one is due, and of the middle one
    now and then. Full collections are left to the interpreter's own rule, outside of epochs.
    `gc.freeze` would make those cheaper too, but it is the application's to call: what is frozen is
    never collected, whoever made it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._enabled = False

    def begin(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._enabled = gc.isenabled()
                if self._enabled:
                    gc.disable()

    def end(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users or not self._enabled:
                return
            young, middle, _ = gc.get_count()
            limits = gc.get_threshold()
            if young > limits[0] > 0:
                gc.collect(1 if middle > MIDDLE_EVERY * limits[1] else 0)
            gc.enable()


fast_switching = FastSwitching()
quiet_collector = QuietCollector()
