"""What megalith.py promises, on one rank; with `ranks` on two; with `layout` a program in C.

Started by tests/cli/test_python.sh.
"""

import ctypes
import gc
import os
import signal
import sys
import threading

import megalith
import numpy as np

OPTIONS = "--micro-batch-size 4 --global-batch-size 16 --lr 1e-2 --num-threads 2"
POINTS = np.linspace(-1, 1, 128, dtype=np.float32).reshape(64, 2)
DATA = {"point": POINTS, "height": (np.sin(3 * POINTS[:, 0]) * POINTS[:, 1]).reshape(64, 1)}


def hidden(b, flow):
    x = b.linear("fc", b.input("point", megalith.F32, 1, 2), 8, weight=dict(init_std=0.1))
    flow.x = b.activation(x, megalith.ACT_TANH)


def readout(b, flow):
    at = b.at("out")
    flow.x = at.linear("fc", flow.x, 1)
    b.output("prediction", flow.x)
    b.loss_add("loss", b.squared_error(flow.x, b.input("height", megalith.F32, 1, 1)), 1.0)


LAYERS = [hidden, ("readout", readout)]


def engine(data=DATA, layers=LAYERS, options=OPTIONS, **more):
    return megalith.Engine(layers, data, options, **more)


def raises(kind, part, function, *arguments, **named):
    """The exception of this call: of this kind, with part in its text or in that of its cause."""
    try:
        function(*arguments, **named)
    except BaseException as error:
        text = f"{error} / {error.__cause__}"
        assert (
            type(error) is kind and part in text
        ), f"{type(error)}: {text}; expected {kind}: {part}"
        return error
    raise AssertionError(f"no {kind}: {part}")


def test_arrays():
    with engine() as e:
        shapes = {"hidden.fc.weight": (8, 2), "hidden.fc.bias": (8,)}
        shapes.update({"readout.out.fc.weight": (1, 8), "readout.out.fc.bias": (1,)})
        assert e.params() == shapes, e.params()
        ones = np.arange(16, dtype=np.float64).reshape(8, 2)
        e.set_param("hidden.fc.weight", ones)
        assert (e.get_param("hidden.fc.weight") == ones).all()
        raises(ValueError, "(8, 2)", e.set_param, "hidden.fc.weight", ones.T)
        raises(megalith.Error, "hidden.fc.weight", e.get_param, "hidden.fc.weigh", shape=(8, 2))
        loss = e.forward()
        e.backward()
        predicted, batch = e.output("prediction"), 4
        assert predicted.shape == (batch, 1) and loss > 0
        for _ in range(3):
            assert e.step() is None
            e.forward()
            e.backward()
        assert np.abs(e.get_param("readout.out.fc.bias", "grad")) > 0
        result = e.step()
        assert result.metrics["loss"] == result.loss and e.global_steps() == 1
        assert e.get_param("readout.out.fc.bias", "exp_avg") != 0
        assert not (e.get_param("hidden.fc.weight") == ones).all()


def test_own_loss():
    """The gradient of a loss computed in NumPy is that of the library's squared error."""
    grads = []
    for is_own in (False, True):

        def last(b, flow):
            flow.x = b.linear("fc", flow.x, 1)
            b.output("prediction", flow.x)
            if not is_own:
                height = b.input("height", megalith.F32, 1, 1)
                b.loss_add("loss", b.squared_error(flow.x, height), 1.0)

        with engine(
            None, [hidden, last], "--micro-batch-size 4 --global-batch-size 4 --lr 1e-2"
        ) as e:
            for i, sample in enumerate(e.micro_batch()):
                sample["point"] = POINTS[i].tolist()
                if not is_own:
                    sample["height"] = DATA["height"][i]
            e.forward()
            if is_own:
                e.backward_from("prediction", 2 * (e.output("prediction") - DATA["height"][:4]), 4)
            else:
                e.backward()
            grads.append(e.get_param("hidden.fc.weight", "grad"))
    assert np.allclose(*grads, rtol=1e-5, atol=1e-7), grads


def test_flow():
    """A tensor stays what it was when another takes its place."""

    def first(b, flow):
        hidden(b, flow)
        flow.more[1] = flow.x

    def same(b, flow):
        x = flow.x
        flow.x = b.add(x, b.linear("fc", x, 8))

    def assigned(b, flow):
        x, more = flow.x, flow.more[1]
        flow.more[1] = flow.x = b.linear("fc", x, 8)
        flow.x = b.add(more, flow.x)

    losses = []
    for layer in (same, assigned):
        with engine(layers=[first, ("block", layer), readout]) as e:
            losses.append([e.train_batch().loss for _ in range(3)])
    assert losses[0] == losses[1], losses


def test_mistakes():
    def broken(b, flow):
        flow.x = b.add(flow.x, b.input("point", megalith.F32, 1, 2))

    def fails(b, flow):
        if b.index == 1:
            raise KeyError("no such thing")

    raises(megalith.Error, '"broken"', engine, layers=[hidden, broken, readout])
    error = raises(megalith.Error, "--zero-stge", engine, options=OPTIONS + " --zero-stge 2")
    assert error.status == megalith.MEGA_ERR_USAGE
    raises(KeyError, 'layer "deep.1": KeyError', engine, layers=[hidden, ("deep.%d", fails, 2)])
    raises(
        TypeError,
        "no member colour",
        engine,
        layers=[lambda b, flow: b.linear("a", flow.x, 1, colour=1)],
    )
    raises(ctypes.ArgumentError, "a tensor", engine, layers=[lambda b, flow: b.linear("a", 3, 1)])
    raises(ValueError, "64, 'height': 3", megalith.Dataset, {"point": POINTS, "height": [1, 2, 3]})
    raises(ValueError, "no arrays", megalith.Dataset, {})
    raises(ValueError, "height is one number", megalith.Dataset, {"height": 3.0})
    for value in (2**31, -(2**31) - 1):
        raises(ValueError, f"label has the value {value}", megalith.Dataset, {"label": [1, value]})
    raises(ValueError, "number of its samples", megalith.Dataset, print)
    for layer in (3, ("path",), ("path", 3), (hidden, "path")):
        raises(TypeError, "expected a layer", megalith.Model, [hidden, layer])
    raises(AttributeError, "colour", engine, layers=[lambda b, flow: setattr(flow, "colour", 1)])
    raises(TypeError, "not 3", engine, layers=[lambda b, flow: setattr(flow, "x", 3)])
    raises(
        ValueError, "4 tensors; 3 fit", engine, layers=[lambda b, f: f.more.append(None), readout]
    )
    raises(AttributeError, "neither", lambda: megalith.nothing)
    kept = []
    with engine(layers=[lambda b, flow: (kept.append(b), hidden(b, flow)), readout]):
        raises(ValueError, "a call that has ended", kept[0].input, "point", megalith.F32, 1, 2)


def fill(index, sample):
    sample["point"], sample["height"] = POINTS[index], DATA["height"][index]


def test_reading():
    """Arrays, a function, a thread of the engine: the same losses. A failed read is no step."""
    losses, samples = set(), []
    for source in (DATA, fill):
        for is_thread_safe in (False, True):
            data = megalith.Dataset(source, count=64, is_thread_safe=is_thread_safe)
            with engine(data) as e:
                losses.add(tuple(e.train_batch().loss for _ in range(6)) + (e.evaluate(data).loss,))
    assert len(losses) == 1, losses

    def read(index, sample):
        samples.append(sample)
        if is_bad and len(samples) > 40:
            raise ZeroDivisionError("at forty")
        fill(index, sample)
        if is_bad and len(samples) == 20:
            sample["colour"] = [1]

    for is_thread_safe in (False, True):
        is_bad = True
        samples.clear()
        with engine(megalith.Dataset(read, count=64, is_thread_safe=is_thread_safe)) as e:
            e.train_batch()
            before = e.get_param("hidden.fc.weight")
            raises(megalith.Error, '"height" (1, f32)', e.train_batch)
            samples.extend(range(40))
            error = raises(ZeroDivisionError, "index", e.train_batch)
            assert error.__traceback__.tb_next is not None
            is_bad = False
            assert (e.get_param("hidden.fc.weight") == before).all()
            e.train_batch()
            assert e.global_steps() == 2
        raises(megalith.Error, "", samples[0].__setitem__, "point", [1, 2])


def test_busy():
    """A callback asks for numbers; its other calls raise an error, and change nothing."""
    with engine(megalith.Dataset(fill, count=64)) as e:
        expected = [e.train_batch().loss for _ in range(4)]

    for is_thread_safe in (False, True):
        refused, others = [], []

        def read(index, sample):
            if e is not None and len(refused) < 4:
                assert e.global_steps() >= 0 and e.lr() == 1e-2 and e.is_busy()
                for call, *given in calls:
                    try:
                        call(*given)
                        others.append(call)
                    except megalith.Error as error:
                        refused.append(error)
                megalith.world_destroy(e.world())
                megalith.layout_destroy(megalith.engine_layout(e))
            fill(index, sample)

        e, data, lines = None, megalith.Dataset(read, count=64, is_thread_safe=is_thread_safe), []
        megalith.log_to(lambda line, level: lines.append(line))
        with engine(data) as opened:
            opened.save_checkpoint("busy")
            e, losses = opened, []
            calls = (
                (e.evaluate, data),
                (e.load_checkpoint, "busy"),
                (e.train_batch,),
                (e.close,),
            )
            losses += [e.train_batch().loss for _ in range(4)]
            assert not others and len(refused) == 4, (others, refused)
            assert all(error.status == megalith.ERR_USAGE for error in refused)
            assert losses == expected and not e.is_busy()
            e = None
        for name in ("mega_world_destroy", "mega_layout_destroy"):
            assert any(f"{name}: still used by" in line for line in lines), lines
        megalith.log_to(None)


def test_labels():
    """Digits numbered from 1: an error that names the sample; -100, or the label that is chosen, is left out."""

    def classifier(ignored):
        def layer(b, flow):
            label = b.input("label", megalith.I32, 1, 0)
            if ignored is not None:
                b.ignore_label(label, ignored)
            logits = b.linear("fc", b.input("point", megalith.F32, 1, 2), 4)
            b.loss_add("loss", b.cross_entropy(logits, label), 1.0)
            b.loss_add("accuracy", b.accuracy(logits, label), 0.0)

        return layer

    def trained(label, ignored=None):
        data = {"point": POINTS[:64], "label": np.asarray(label, np.int32)}
        with engine(data, [classifier(ignored)]) as e:
            return e.train_batch().loss

    digits = np.arange(64) % 4
    raises(megalith.Error, "one of 4 classes", trained, digits + 1)
    assert trained(np.where(digits == 1, -100, digits)) == trained(digits, ignored=1)
    assert trained(np.where(digits == 1, 255, digits), ignored=255) == trained(digits, ignored=1)


def test_lives():
    """Objects end in any order; a closed engine refuses."""
    data = megalith.Dataset(fill, count=64, is_thread_safe=True)
    model = megalith.Model(LAYERS, name="lives", partition=megalith.PARTITION_UNIFORM)
    e = megalith.Engine(model, data, OPTIONS.split())
    del data, model
    gc.collect()
    first = e.train_batch().loss
    f = engine(lr_scheduler=megalith.lr_scheduler(name="flat", lr=lambda user, step, samples: 0.01))
    assert f.train_batch().loss == first and f.lr() == 0.01
    e.close()
    e.close()
    gc.collect()
    for function in (e.train_batch, e.lr, e.rank, e.params):
        raises(ValueError, "closed", function)
    assert f.train_batch().loss > 0 and "step 2" in repr(f) and "closed" in repr(e)
    f.close()
    engine()  # and never closed


def floats(address, count):
    return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_float)), (count,))


def test_callbacks_of_c():
    """An op and an optimizer in Python train as those of the library, and may raise."""

    def shape(_, rows_in, channels_in, out_rows, out_channels):
        out_rows[0], out_channels[0] = rows_in[0], channels_in[0]

    def forward(_, call):
        c = call.contents
        if fails == "forward":
            raise ZeroDivisionError("forward")
        if c.thread == 0:
            count = c.rows[0] * c.channels[0]
            floats(getattr(c, "out")[0], count)[:] = 2 * floats(getattr(c, "in")[0], count)

    def backward(_, call):
        c = call.contents
        if c.thread == 0:
            count = c.rows[0] * c.channels[0]
            floats(c.d_in[0], count)[:] = 2 * floats(c.d_out[0], count)

    def update(call, begin, end):
        c = call.contents
        if fails == "update":
            raise ZeroDivisionError("update")
        grad = floats(c.grad, c.count)[begin:end]
        floats(c.param, c.count)[begin:end] -= np.float32(c.lr) * np.float32(c.grad_factor) * grad

    def twice(b, flow):
        out = (megalith.mega_tensor * 1)()
        megalith.mega_custom(b, op, None, (megalith.mega_tensor * 1)(flow.x), out)
        flow.x = out[0]

    def scaled(b, flow):
        flow.x = b.scale(flow.x, 2)

    fails, losses = "", []
    op = megalith.custom_op("twice", 1, 1, shape=shape, forward=forward, backward=backward)
    row = megalith.optimizer_row("plain", update=update)
    options = OPTIONS + " --weight-decay 0 --clip-grad 0"
    for layer, more, own in ((scaled, "--optimizer sgd --sgd-momentum 0", None), (twice, "", row)):
        with engine(
            layers=[hidden, layer, readout], options=f"{options} {more}", optimizer=own
        ) as e:
            losses.append([e.train_batch().loss for _ in range(4)])
            for fails in ("forward", "update") if own else ():
                raises(ZeroDivisionError, fails, e.train_batch)
            fails = ""
    assert np.allclose(*losses, rtol=1e-5), losses


def test_checkpoints():
    config = {"train_batch_size": 16, "train_micro_batch_size_per_gpu": 4}
    config["optimizer"] = {"type": "AdamW", "params": {"lr": 1e-2}}
    arrays = {"seen": np.arange(6).reshape(2, 3), "mean": np.array([0.5], np.float32)}
    with engine(options=[], config=config) as e:
        assert e.load_checkpoint("saved") is None
        e.train_batch()
        e.save_checkpoint("saved", tag="first")
        e.save_checkpoint("saved", {"author": "né"}, arrays)
        second = e.train_batch().loss
    with engine(options=[], config=config) as e:
        state, loaded = e.load_checkpoint("saved")
        assert state == {"author": "né"} and loaded.keys() == arrays.keys(), (state, loaded)
        for name, array in loaded.items():
            assert (array == arrays[name]).all() and array.dtype == arrays[name].dtype
        assert e.train_batch().loss == second
        assert e.load_checkpoint("saved", "first") == ({}, {}) and e.train_batch().loss == second
        raises(megalith.Error, "worst", e.load_checkpoint, "saved", "worst")
        raises(ValueError, "3 dimensions", e.save_checkpoint, "x", None, {"a": np.ones((1, 1, 1))})


def test_interrupts():
    """Ctrl-C in a callback, or while the library computes, is raised; the engine goes on."""

    def read(index, sample):
        if index == bad:
            signal.raise_signal(signal.SIGINT)
        fill(index, sample)

    bad = 7
    with engine(megalith.Dataset(read, count=64)) as e:
        raises(KeyboardInterrupt, "", lambda: [e.train_batch() for _ in range(4)])
        steps, bad = e.global_steps(), -1
        assert steps < 4 and e.train_batch().loss > 0 and e.global_steps() == steps + 1
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        raises(KeyboardInterrupt, "", lambda: [e.train_batch() for _ in range(10**6)])
        raises(KeyboardInterrupt, "", e._call, signal.raise_signal, signal.SIGINT)  # no callback
        timer.join()
        before = e.global_steps()
        e.train_batch()
        assert e.global_steps() == before + 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_log():
    lines = []
    megalith.log_to(lambda line, level: lines.append((level, line)))
    megalith.mega_log(megalith.LOG_WARN, b"%s", "a line".encode())
    megalith.log_to(None)
    megalith.mega_log(megalith.LOG_WARN, b"unheard")
    assert lines == [(megalith.LOG_WARN, "a line")], lines


def ranks(what):
    """On two ranks. What fails on rank 1 alone ends both, there with its own exception."""
    is_second = os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK")) == "1"

    def read(index, sample):
        if what == "read" and is_second and e.global_steps() == 2:
            raise ZeroDivisionError("on one rank")
        if what == "interrupt" and is_second and e.global_steps() == 2:
            signal.raise_signal(signal.SIGINT)
        fill(index, sample)

    def layer(b, flow):
        if what == "layer" and is_second:
            raise ZeroDivisionError("on one rank")
        hidden(b, flow)

    options = OPTIONS + " --num-threads 1 --zero-stage 2"
    kinds = {"interrupt": (KeyboardInterrupt, megalith.Interrupted)}
    own, others = kinds.get(what, (ZeroDivisionError, megalith.Error))
    try:
        with engine(megalith.Dataset(read, count=64), [layer, readout], options) as e:
            for step in range(4):
                e.train_batch()
                if what == "own" and is_second and step == 2:
                    raise ZeroDivisionError("on one rank")
                if what == "exit" and is_second and step == 2:
                    sys.exit(7)
    except BaseException as error:
        assert type(error) is (own if is_second else others), repr(error)
        assert (
            isinstance(error, own)
            or "KeyboardInterrupt" in str(error)
            or "on one rank" in str(error)
        )
        print(f"rank {int(is_second)} ended with {type(error).__name__}")
        return
    print(f"rank {int(is_second)} trained")


def layout():
    """Writes a program in C that prints structs and constants; prints those of Python."""
    lines = []
    text = [
        "#include <megalith/megalith.h>",
        "#include <stdio.h>",
        "#include <stddef.h>",
        "int main(void) {",
    ]
    for name, kind in vars(megalith).items():
        is_struct = (
            isinstance(kind, type)
            and issubclass(kind, ctypes.Structure)
            and name.startswith("mega_")
        )
        if is_struct and hasattr(kind, "_fields_"):
            lines.append(f"{name} {ctypes.sizeof(kind)}")
            text.append(f'printf("{name} %zu\\n", sizeof({name}));')
            for field, _ in kind._fields_:
                at = getattr(kind, field)
                lines.append(f"{name}.{field} {at.offset} {at.size}")
                of = f"offsetof({name}, {field}), sizeof((({name} *)0)->{field})"
                text.append(f'printf("{name}.{field} %zu %zu\\n", {of});')
        elif name.startswith("MEGA_"):
            lines.append(f"{name} {kind}")
            text.append(f'printf("{name} %lld\\n", (long long){name});')
    with open("layout.c", "w") as file:
        print(*text, "}", sep="\n", file=file)
    print(*lines, sep="\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["layout"]:
        layout()
    elif sys.argv[1:2] == ["ranks"]:
        ranks(sys.argv[2])
    else:
        for name, test in list(globals().items()):
            if name.startswith("test_"):
                print(name, flush=True)
                test()
