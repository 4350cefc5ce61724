"""What a person is asked, one line at a time; each answer is checked before the next question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from udogen import backends
from udogen.init import described
from udogen.init.described import Fault
from udogen.init.draft import USUAL_BACKENDS
from udogen.opdef import names

# (question, what Enter means) -> the answer.
Ask = Callable[[str, str], str]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Answers:
    """The texts that flags would have been."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    params: tuple[str, ...]
    chosen: tuple[str, ...]


def interview(name: str, *, ask: Ask, say: Say) -> Answers:
    """Ask for everything that a config must say."""
    while not name or names.fault_of_symbol(name):
        if name:
            say(f"  `{name}` {names.fault_of_symbol(name)}; `{names.suggestion(name)}` would do")
        name = ask("What is the op called?", "").strip()
    say(f"Tensors: {described.TENSOR_HINT}")
    inputs = _several("Input", True, lambda text: described.tensor(text, "input"), ask, say, "x:FLOAT_32")
    outputs = _several("Output", True, lambda text: described.tensor(text, "output"), ask, say, "y:FLOAT_32")
    say(f"Parameters: {described.PARAM_HINT}")
    params = _several("Parameter", False, described.parameter, ask, say, "")
    return Answers(name, inputs, outputs, params, _backends(ask, say))


def _several(what: str, must: bool, read: Callable[[str], object], ask: Ask, say: Say, usual: str) -> tuple[str, ...]:
    """Answers until an empty one; the first of what must be there has a usual answer."""
    found: list[str] = []
    while True:
        first = must and not found
        text = ask(f"{what} {len(found) + 1}{'' if first else ' (Enter: no more)'}", usual if first else "").strip()
        if not text:
            return tuple(found)
        made = read(text)
        if isinstance(made, Fault):
            say(f"  {made.message}")
        else:
            found.append(text)


def _backends(ask: Ask, say: Say) -> tuple[str, ...]:
    while True:
        text = ask("Backends, of " + ", ".join(backends.ALL), " ".join(USUAL_BACKENDS))
        chosen = tuple(dict.fromkeys(text.replace(",", " ").lower().split()))
        strangers = [each for each in chosen if each not in backends.ALL]
        if chosen and not strangers:
            return chosen
        say(f"  `{' '.join(strangers)}` is none of them" if strangers else "  name at least one")
