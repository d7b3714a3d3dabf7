"""What Serve says of a failed start, as one line."""

from __future__ import annotations

from serving.failures import first_logged_error, last_error

TRACEBACK = """The deployment failed to start 1 times in a row. Error:
RuntimeError: Traceback (most recent call last):
  File "replica.py", line 1867, in initialize
    await self._user_callable_wrapper.initialize_callable()
  File "plain_models.py", line 17, in __init__
    if not ok: raise Broken(text)
               ^^^^^^^^^^^^^^^^^^
models.Broken: these weights are for another model,
  as their shapes say"""


def test_a_traceback_is_told_by_its_error() -> None:
    assert last_error(TRACEBACK) == "models.Broken: these weights are for another model, as their shapes say"


def test_what_is_no_traceback_is_told_by_its_last_line() -> None:
    assert last_error("Deploying.\n\n  no room for 4 GPUs\n") == "no room for 4 GPUs"


def test_a_long_error_is_cut() -> None:
    assert len(last_error(TRACEBACK + " x" * 1000)) == 600


def test_an_engines_log_is_told_by_its_first_error() -> None:
    first = "(Worker pid=2) ERROR 11-22 09:26:31 [executor.py:953] safetensors.SafetensorError: not fully covered"
    log = f"(Worker pid=2) ERROR 11-22 09:26:31 [executor.py:953] Traceback:\n{first}\n" + first.replace("not", "is")
    assert first_logged_error(log) == "safetensors.SafetensorError: not fully covered"
    assert first_logged_error("INFO 11-22 09:26:31 [core.py:1] ready") == ""
