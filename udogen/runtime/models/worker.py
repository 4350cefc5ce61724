"""The worker of `udogen run context` for a model: what it does with contexts, and steps of a model."""

from __future__ import annotations

from dataclasses import replace

from udogen.runtime.contexts.worker import ContextWorker, serve_contexts
from udogen.runtime.models.commands import RunSteps, StepsRan
from udogen.runtime.models.runs import run_model
from udogen.runtime.worker.serving import Commands


class ModelWorker(ContextWorker):
    """One runtime, and a model in it."""

    def commands(self) -> Commands:
        """What it can be asked."""
        return {**super().commands(), RunSteps: self.run_steps}

    def run_steps(self, command: RunSteps) -> StepsRan:
        """The steps of a model."""
        before = [each.counts() for each in self.counted]
        return replace(run_model(command, self.runtime, self.phase), proof=self.rises(before))


def main() -> None:
    """Execute models."""
    serve_contexts(ModelWorker)


if __name__ == "__main__":
    main()
