"""Event streams whose events have names: those of /v1/responses and /v1/messages."""

import json


def typed_events(server, path, headers=None, **fields):
    """[(name, data), ...] of a whole stream; each name must be the type in its data."""
    reply = server.post(path, {"stream": True, **fields}, headers)
    assert reply.status == 200 and reply.headers["Content-Type"].startswith("text/event-stream"), reply.body
    events = []
    for text in reply.body.decode().split("\n\n")[:-1]:
        if text.startswith(":"):
            continue
        name, data = text.split("\n")
        events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
        assert events[-1][1]["type"] == events[-1][0], text
    return events
