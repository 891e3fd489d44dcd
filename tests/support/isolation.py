"""What a test's child process runs; a module of its own, because a fresh process must be able to import it."""

import os
import traceback


def answer_call(connection, function, arguments):
    """Send back what the function returns, or its traceback, and leave without the CARLA client's own exit."""
    try:
        connection.send((True, function(*arguments)))
    except BaseException:
        connection.send((False, traceback.format_exc()))
    connection.close()
    os._exit(0)
