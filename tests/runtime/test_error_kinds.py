"""udogen reacts to the class and the fields of an error, never to the wording of its message."""

from __future__ import annotations

import pytest
from probe import call, result, tensor

from udogen.errors import of_json
from udogen.runtime import OpCall, OpFailed, OpRefused, OpSession
from udogen.runtime.failures import OutOfBounds
from udogen.verify import runner


def test_what_an_op_must_not_do_is_no_refusal() -> None:
    assert runner.is_refusal(OpFailed("the op wrote a letter and returned 3"))
    assert runner.is_refusal(OpRefused("x"))
    assert not runner.is_refusal(OutOfBounds("in whichever words"))


def test_it_keeps_its_class_on_the_way_from_the_child(session: OpSession) -> None:
    overrun: OpCall = call("Overrun", (tensor(),), (result(),))
    with pytest.raises(OutOfBounds, match="past the end of its output `y`") as caught:
        session.run(overrun)
    assert type(of_json({**caught.value.as_json(), "exit_code": 5})) is OutOfBounds
