"""`Model`: one class to ask a server or the built-in rules from Python, in plain calls and in coroutines."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.llm import BudgetReached, EndpointStopped, Model, ModelsError, Task, Unparsable, find_task, load_models
from tests.llm.loopback_server import Fault, LoopbackServer, text_of

KEY = "sk-planted/0123456789abcdef"
ROWS = [{"word": f"word{number}", "times": 1} for number in range(8)]
PROMPTS = sorted(file.stem for file in (Path(__file__).parents[2] / "prompts").glob("*.yaml"))
pytestmark = pytest.mark.usefixtures("quick_retries")


def echo(server: LoopbackServer) -> None:
    """Answer with the word that the request holds."""
    server.answer = lambda body: f'{{"text": "{text_of(body["messages"][-1]).split()[1]}"}}'


def word(text: str) -> dict[str, Any]:
    return {"word": text, "times": 1}


def test_ask_returns_the_parsed_reply(task: Task[Any], server: LoopbackServer) -> None:
    with Model("org/tiny", base_url=server.openai_url, sampling={"temperature": 0}) as model:
        assert model.ask(task, word("abc")).text == "cba"
        assert (model.name, model.usage.done) == ("org-tiny", 1)
    body = server.calls[0].body
    assert (body["model"], body["temperature"]) == ("org/tiny", 0)


def test_many_rows_are_asked_at_once_within_the_limits(task: Task[Any], server: LoopbackServer) -> None:
    echo(server)
    server.latency = 0.1
    with Model("tiny", base_url=server.openai_url, max_in_flight=4) as model:
        replies = model.ask_many(task, ROWS)
    assert [reply.text for reply in replies] == [row["word"] for row in ROWS]
    assert server.most_in_flight == 4


def test_coroutines_and_threads_share_the_limits(task: Task[Any], server: LoopbackServer) -> None:
    echo(server)
    server.latency = 0.05
    with Model("tiny", base_url=server.openai_url, max_in_flight=3) as model:

        async def main(start: int) -> list[str]:
            rows = ROWS[start : start + 4]
            one, more = await asyncio.gather(model.ask_async(task, rows[0]), model.ask_many_async(task, rows[1:]))
            return [one.text, *(reply.text for reply in more)]

        replies: dict[int, list[str]] = {}
        threads = [
            threading.Thread(target=lambda start=start: replies.update({start: asyncio.run(main(start))}))
            for start in (0, 4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert replies[0] + replies[4] == [row["word"] for row in ROWS]
    assert server.most_in_flight == 3


def test_ask_works_where_an_event_loop_runs_as_in_a_notebook(task: Task[Any], server: LoopbackServer) -> None:
    async def cell() -> str:
        with Model("tiny", base_url=server.openai_url) as model:
            return str(model.ask(task, word("abc")).text)

    assert asyncio.run(cell()) == "cba"


def test_transient_failures_are_retried(task: Task[Any], server: LoopbackServer) -> None:
    server.faults = lambda call: Fault(status=500) if call.attempt == 1 else None
    with Model("tiny", base_url=server.openai_url) as model:
        assert model.ask(task, word("abc")).text == "cba"
        assert model.usage.retries == 1


def test_a_row_without_a_reply_has_its_error(task: Task[Any], server: LoopbackServer) -> None:
    server.faults = lambda call: Fault(text="no", finish_reason="length") if "Word: bad" in str(call.body) else None
    with Model("tiny", base_url=server.openai_url) as model:
        good, bad = model.ask_many(task, [word("good"), word("bad")], return_exceptions=True)
        assert good.text == "cba"
        assert isinstance(bad, Unparsable) and bad.reason == "truncated_reply"
        with pytest.raises(Unparsable):
            model.ask_many(task, [word("good"), word("bad")])
        with pytest.raises(ValueError, match="missing slots"):
            model.ask(task, {"word": "abc"})


def test_stored_responses_are_read_back(task: Task[Any], server: LoopbackServer, tmp_path: Path) -> None:
    for _ in range(2):
        with Model("tiny", base_url=server.openai_url, store=tmp_path / "responses") as model:
            assert model.ask(task, word("abc")).text == "cba"
    assert server.number == 1


def test_a_server_that_is_back_is_asked_again(task: Task[Any], server: LoopbackServer) -> None:
    server.faults = lambda call: Fault(status=404) if call.number == 1 else None
    with Model("tiny", base_url=server.openai_url) as model:
        with pytest.raises(EndpointStopped, match="model tiny"):
            model.ask(task, word("abc"))
        assert model.ask(task, word("abc")).text == "cba"


def test_the_budget_holds_for_the_whole_life_of_a_model(task: Task[Any], server: LoopbackServer) -> None:
    model = Model("tiny", base_url=server.openai_url, max_requests=2)
    model.ask(task, word("a"))
    model.close()
    model.ask(task, word("b"))
    for _ in range(2):
        with pytest.raises(BudgetReached):
            model.ask(task, word("c"))
        model.close()
    assert (server.number, model.usage.done) == (2, 2)


def test_the_key_goes_to_its_own_server_and_nowhere_else(
    task: Task[Any], server: LoopbackServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [name for name in os.environ if name.startswith("FDARX_KEY_")]:
        monkeypatch.delenv(name)
    models = [
        Model("tiny", base_url=server.openai_url, api_key=key, store=tmp_path / key[-1]) for key in (KEY, "other-key-2")
    ]
    for model in models:
        model.ask(task, word("abc"))
        model.close()
        assert model.config is not None
        assert "sk-planted" not in repr(model) + repr(model.config) + model.config.model_dump_json()
        monkeypatch.delenv(str(model.config.key_env))
    assert [call.headers["Authorization"] for call in server.calls] == [f"Bearer {KEY}", "Bearer other-key-2"]
    assert KEY.encode() not in b"".join(file.read_bytes() for file in tmp_path.rglob("*.parquet"))


def test_the_baseline_answers_by_rules_and_judges_nothing(task: Task[Any]) -> None:
    model = Model("baseline")
    assert model.ask(task, word("abc")).text == "cba"
    assert [reply.text for reply in asyncio.run(model.ask_many_async(task, ROWS[:2]))] == ["0drow", "1drow"]
    answers = [{"name": "label", "text": "In patients with anuria or with gout."}]
    slots = {"question": "Who must not take Zorbutrin?", "gold": "In patients with anuria", "answers": answers}
    with pytest.raises(Unparsable, match="only a language model can answer this task"):
        model.ask("compare_answers", slots)
    with pytest.raises(Unparsable, match="no word to turn round"):
        model.ask(task, word(""))


def test_a_model_of_a_file(task: Task[Any], server: LoopbackServer, tmp_path: Path) -> None:
    file = tmp_path / "models.yaml"
    file.write_text(f"- {{name: small, model: tiny, base_url: '{server.openai_url}'}}")
    with Model(load_models(file)["small"]) as model:
        assert model.ask(task, word("abc")).text == "cba"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give base_url"),
        ({"base_url": "localhost:8000"}, "base_url: .*write it as http"),
        ({"base_url": "http://localhost", "max_inflight": 3}, "no field max_inflight; did you mean max_in_flight"),
        ({"base_url": "http://localhost", "key_env": "NO_SUCH_KEY"}, "NO_SUCH_KEY is not set"),
        ({"base_url": "http://localhost", "key_env": "HOME", "api_key": "k"}, "not both"),
        ({"base_url": "http://localhost", "max_cost": 1}, "needs the model's prices"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelsError, match=message):
        Model("tiny", **options)


def test_the_baseline_takes_no_options() -> None:
    with pytest.raises(ModelsError, match="baseline takes no options"):
        Model("baseline", base_url="http://localhost")


@pytest.mark.parametrize("name", [name for name in PROMPTS if name != "criteria"])
def test_each_prompt_names_the_module_of_its_task(name: str) -> None:
    assert find_task(name).name == name


def test_importing_the_room_loads_nothing_heavy() -> None:
    code = (
        "import sys, fdarx_core.llm as llm; heavy = {'ray', 'torch', 'aiohttp'} & set(sys.modules); "
        "llm.Model; late = {'ray', 'torch', 'aiohttp'} & set(sys.modules); "
        "assert not heavy and not late, (heavy, late); assert llm.HttpEndpoint and llm.BatchRecord"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
