# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions of the caller that tandem calls: what they raise is raised by the call, and they cannot use their own context."""

import gc
import threading

import numpy as np
import pytest

import tandem

tp = tandem.Mesh("tp", x=1)


def fusion():
    @tandem.fuse(x=tandem.TensorType("f32", (4, 4), tp[None, None]), results=tp[None, None])
    def called(x):
        return tandem.call("kernel", x, dims="a_ -> a_", results=("f32", (4, 4)))

    return called


@tandem.fuse(x=tandem.TensorType("f32", (4, 4), tp[None, None]), results=tp[None, None])
def double(x):
    return x + x


x = np.ones((4, 4), np.float32)


def run(context, kernel):
    """Runs the kernel in the context, in time."""
    errors = []

    def body():
        try:
            with context:
                tandem.register_kernel("kernel", kernel)
                fusion()(x)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive(), "hangs"
    return errors[0] if errors else None


def uses(context):
    program = double.compile()
    return {
        "run": lambda call: program(x, context=context),
        "fusion": lambda call: double(x, context=context),
        "wait": lambda call: program.wait(context),
        "close": lambda call: context.close(),
        "register": lambda call: tandem.register_kernel("other", print, context=context),
    }


@pytest.mark.parametrize("what", ["run", "fusion", "wait", "close", "register"])
def test_use_of_its_own_context(what):
    context = tandem.Context()
    with context:
        double(x)
    error = run(context, uses(context)[what])
    assert isinstance(error, tandem.ArgumentError) and "callback of the same context" in str(error), error


def test_a_program_that_ends_in_a_callback():
    context = tandem.Context()
    kept = [fusion()]
    with context:
        tandem.register_kernel("kernel", lambda call: None)
        kept[0](x)

    def kernel(call):
        kept.clear()
        gc.collect()

    assert run(context, kernel) is None
    context.close()


class Stop(BaseException):
    pass


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit, Stop])
def test_a_kernel_raises(kind):
    def kernel(call):
        raise kind("no more tea")

    error = run(tandem.Context(), kernel)
    assert type(error) is kind and str(error) == "no more tea"


class Bootstrap:
    rank, world_size = 0, 2

    def all_gather(self, mine):
        raise Stop("gone")

    def barrier(self):
        pass


def test_a_bootstrap_raises():
    program = double.compile()
    with pytest.raises(tandem.ArgumentError, match="rank: expected that of the bootstrap, 0, without a world, found 1"):
        tandem.Context(bootstrap=Bootstrap(), rank=1)
    context = tandem.Context(bootstrap=Bootstrap(), channels="ucx")
    two = tandem.Mesh("tp", x=2)
    program = tandem.fuse(x=tandem.TensorType("f32", (4, 4), two["x", None]), results=two[None, None])(lambda x: x).compile()
    with pytest.raises(Stop, match="gone"):
        program.prepare(context)


@pytest.mark.parametrize("given, message", [
    ({"rank": "a"}, "bootstrap: rank: expected a number of at least 0, found 'a'"),
    ({"world_size": -1}, "bootstrap: world_size: expected a number of at least 0, found -1"),
    ({"local_size": 1.5}, "bootstrap: local_size: expected a number of at least 0, found 1.5"),
    ({"node": 3}, "bootstrap: node: expected a str, found 3"),
])
def test_a_wrong_bootstrap(given, message):
    bootstrap = Bootstrap()
    for name, value in given.items():
        setattr(bootstrap, name, value)
    with pytest.raises(tandem.ArgumentError, match=message):
        tandem.Context(bootstrap=bootstrap)
