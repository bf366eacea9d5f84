"""Whether Python goes on while a call of the library computes."""

import threading
import time
from typing import Callable


def turns_while(call: Callable[[], object]) -> int:
    """How often this thread had its turn while another made the call: once or twice where that
    holds the interpreter's lock."""
    done = threading.Event()

    def make() -> None:
        call()
        done.set()

    thread, turns = threading.Thread(target=make), 0
    thread.start()
    while not done.is_set():
        turns += 1
        time.sleep(0)
    thread.join()
    return turns
