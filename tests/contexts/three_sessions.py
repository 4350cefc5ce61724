"""Six shards on three devices of the HTP emulator; prints the result as JSON.  Run by test_sessions.py."""

from __future__ import annotations

import json

from tests.contexts.stepping import array, binary
from udogen.runtime.buffers.domains import MemoryDomain
from udogen.runtime.contexts.runtime import Runtime
from udogen.runtime.sessions.pipeline import Pipeline
from udogen.runtime.sessions.placement import Layer, place_layers
from udogen.runtime.sessions.session import Sessions, sessions_of


def main() -> None:
    stored = binary("htp", "emulator")
    with Runtime("htp", kind="emulator") as runtime:
        plan = place_layers([Layer(f"s{i}", 1000) for i in range(6)], sessions_of(runtime, limit=2500))
        binaries = {layer.name: stored for layer in plan.layers}
        with (
            Sessions(runtime, plan, binaries) as sessions,
            MemoryDomain(sessions) as domain,
            Pipeline(sessions.graphs("step"), domain, links={"state": "next"}) as pipeline,
        ):
            found = pipeline(state=array(1), x=array(2))["next"]
            report = {
                "devices": [[each.name, each.arch, each.cores] for each in runtime.devices()],
                "sessions": {
                    name: [each.device.number if each.device else None, list(plan_layers)]
                    for (name, each), plan_layers in zip(
                        sessions.sessions.items(), (share.layers for share in plan.shares), strict=True
                    )
                },
                "result": float(found.max()),
                "copied": pipeline.copied.total,
                "registered": sum(len(each.registered) for each in pipeline.buffers.values()),
            }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
