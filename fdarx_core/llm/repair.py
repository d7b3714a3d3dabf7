"""One repair for a reply that is not what was asked for."""

from __future__ import annotations

import jsonschema
import orjson

from fdarx_core.llm.exchange import Answer, Mode
from fdarx_core.llm.task import unfenced
from fdarx_core.records import Request

_QUOTED = 4000


def fault(answer: Answer, request: Request, mode: Mode) -> str:
    """What keeps a reply from being JSON of the request's schema; "" where nothing does.

    A server that holds replies to the schema is trusted with all but the top level, which costs a twentieth.
    """
    try:
        reply = orjson.loads(unfenced(answer.text.strip()).encode("utf-8", "replace"))
    except orjson.JSONDecodeError as error:
        return f"it is no JSON: {error}"
    if mode != "json_schema":
        misfit = next(jsonschema.Draft202012Validator(request.schema).iter_errors(reply), None)
        return f"{misfit.json_path}: {misfit.message[:200]}" if misfit else ""
    missing = set(request.schema.get("required", ())) - set(reply if isinstance(reply, dict) else ())
    return f"it lacks {sorted(missing)}" if missing else ""


def repair_turns(answer: Answer, request: Request, wrong: str) -> list[dict[str, str]]:
    """What is said after the request to have its reply put right."""
    schema = orjson.dumps(request.schema).decode()
    asked = (
        f"That reply can't be used: {wrong}. Give the same reply as one JSON object that fits this JSON schema, with "
        f"nothing before or after it:\n{schema}"
    )
    said = answer.text.strip()[:_QUOTED] or "(nothing)"
    return [{"role": "assistant", "content": said}, {"role": "user", "content": asked}]
