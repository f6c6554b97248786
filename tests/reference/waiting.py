"""Wait for what another process or thread does: a fixed sleep is too long on one machine and too short on the next."""

import time


def wait_until(condition, seconds=300.0):
    """Look every few milliseconds until ``condition()`` is true, and return what it returned; fail after a while."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"still waiting after {seconds:g} s")
        time.sleep(0.005)
    return found
