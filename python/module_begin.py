"""megalith from Python: train models on any number of ranks, with data in NumPy arrays.

    with megalith.Engine([body, head], {"image": images, "label": labels}, options) as engine:
        while engine.global_steps() < 1000:
            result = engine.train_batch()

Every function, struct and constant of megalith.h has its name of C here, and a short one without
the prefix mega_ or MEGA_: megalith.F32 is megalith.MEGA_F32. The comments of the headers describe
them; docs/python.md has examples. A status other than MEGA_OK becomes the exception megalith.Error.

This file is generated. Change the headers, module_begin.py or module_end.py in python/ instead, and
run python/make_module.py.
"""

from __future__ import annotations

import atexit
import glob
import itertools
import json
import os
import shlex
import signal
import sys
import threading
import traceback
from ctypes import (
    CDLL,
    CFUNCTYPE,
    POINTER,
    Array,
    Structure,
    _CFuncPtr,
    _Pointer,
    c_bool,
    c_char,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint16,
    c_uint32,
    c_uint64,
    c_uint8,
    c_ulonglong,
    c_void_p,
    pointer,
    string_at,
)

try:
    import numpy
except ImportError:

    class numpy:  # is needed for arrays only
        def __getattr__(self, name):
            raise ImportError(
                "arrays need NumPy: pip install numpy, or apt-get install python3-numpy"
            )

    numpy = numpy()


def _load() -> CDLL:
    """Loads the library of the prefix in which this file is installed, or that of the system."""
    name = "libmegalith.so.@VERSION@"
    here = os.path.dirname(os.path.realpath(__file__))
    prefix = os.path.dirname(os.path.dirname(here))
    for pattern in ("lib", "lib64", os.path.join("lib", "*")):
        for path in glob.glob(os.path.join(glob.escape(prefix), pattern, name)):
            try:
                return CDLL(path)
            except OSError as error:  # of a library that it needs
                raise ImportError(f"{path} cannot be loaded: {error}") from None
    try:
        return CDLL(name)
    except OSError as error:
        clone = os.path.dirname(here)
        if os.path.exists(os.path.join(clone, "tools", "build.sh")):
            raise ImportError(
                f"{name} is not where the system looks for libraries ({error}); in {clone}:"
                " tools/build.sh release megalith megalith_shared, and then"
                f" export LD_LIBRARY_PATH={clone}/build"
            ) from None
        raise ImportError(
            f"{name} is neither in {prefix}/lib nor where the system looks for libraries ({error});"
            " export PYTHONPATH=PREFIX/share/megalith, where PREFIX is that of make install,"
            " or export LD_LIBRARY_PATH=FOLDER, which has the library"
        ) from None


_library = _load()


class Error(RuntimeError):
    """A call of the library failed: its message, .status (MEGA_ERR_…), .where (file and line)."""

    def __init__(self, message: str, status: int, where: str = ""):
        super().__init__(message)
        self.status, self.where = status, where


class Interrupted(Error, KeyboardInterrupt):
    """A rank was interrupted, by Ctrl-C for instance. The other ranks raise this, and all leave."""


class _State:
    """Exceptions of callbacks, until the call of the library that ran the callback raises them."""

    failed: list = []  # (text, exception); the library has the text as its error
    unreported: list = []  # exceptions of callbacks that cannot return an error
    raised = None  # what the last call of the library that failed raised
    is_interrupted = False  # Ctrl-C was pressed during a call


def _one_line(error: BaseException) -> str:
    text = (
        str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}".rstrip(": ")
    )
    return " ".join(text.split())[:1000]


def _report(error: BaseException, first, result):
    """Records an exception of a callback as the library's error; returns the callback's result."""
    is_stop = isinstance(error, (KeyboardInterrupt, SystemExit))
    if is_stop:
        _State.is_interrupted = False
    status = getattr(error, "status", MEGA_ERR_INTERRUPTED if is_stop else MEGA_ERR_USAGE)
    frames = traceback.extract_tb(error.__traceback__)
    file, line = (
        (os.path.basename(frames[-1].filename), frames[-1].lineno) if frames else ("megalith.py", 0)
    )
    text = _one_line(error)
    is_builder = isinstance(first, POINTER(mega_builder))
    if result is not c_int and not is_builder:
        _State.unreported.append(error)
        return {c_double: float("nan"), None: None}.get(result, 0)
    _State.failed = [*_State.failed[-15:], (text, error)]
    at = f'layer "{first.contents.path.decode()}": ' if is_builder else ""
    status = mega_error_set(status, file, line, b"%s", (at + text).encode())
    if is_builder:
        mega_builder_fail(first, status)
    return None if result is None else status


def _callback(result, *arguments):
    """The type of a callback. An instance runs a Python function and reports what it raises."""
    plain = CFUNCTYPE(result, *arguments)

    class callback(_CFuncPtr):
        _flags_, _restype_, _argtypes_ = plain._flags_, plain._restype_, plain._argtypes_

        def __new__(cls, function=None):
            if function is None or isinstance(function, cls):
                return function or super().__new__(cls)

            def run(*given):
                try:
                    if _State.is_interrupted:
                        raise KeyboardInterrupt
                    value = function(*given)
                    return 0 if value is None and result is not None else value
                except BaseException as error:
                    return _report(error, given[0] if given else None, result)

            return super().__new__(cls, run)

        @classmethod
        def from_param(cls, value):
            return cls(value)

    return callback


class _text(c_char_p):
    """const char * of a parameter or a result: str, as UTF-8."""

    @classmethod
    def from_param(cls, value):
        return c_char_p(value.encode() if isinstance(value, str) else value)


def _raise(status: int):
    """Raises the error that the library recorded, or the exception of a callback that caused it."""
    message, where = mega_error_message(), mega_error_where()
    kind = Interrupted if status == MEGA_ERR_INTERRUPTED else Error
    _State.raised = failed = kind(message, status, where)
    for text, error in _State.failed:
        if text in message:
            _State.failed = []
            if isinstance(error, Error):  # of a call within the callback: the new message says more
                raise failed from error
            _State.raised = error
            raise error from failed
    raise failed


def _check_result(result, function, arguments):
    if _State.unreported:
        error = _State.unreported[0]
        _State.unreported = []
        raise error
    return result


def _check_status(status, function, arguments):
    if status != 0:
        _raise(status)
    return _check_result(None, function, arguments)


def _check_text(text, function, arguments):
    return _check_result(
        text.decode(errors="replace") if text is not None else None, function, arguments
    )


class _checked:
    """The result of a function that returns a status which the caller has to look at."""


def _function(name: str, result, *arguments):
    function = getattr(_library, name)
    function.argtypes = arguments
    function.restype = {_checked: c_int, _text: c_char_p}.get(result, result)
    function.errcheck = {_checked: _check_status, _text: _check_text}.get(result, _check_result)
    return function


def _convert(kind, value):
    """The value for a member: a str is encoded, a dict becomes a struct, a list an array."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and issubclass(kind, Structure):
        return kind(**value)
    if issubclass(kind, Array) and isinstance(value, (list, tuple)):
        return kind(*(_convert(kind._type_, v) for v in value))
    if issubclass(kind, _Pointer) and isinstance(value, (list, tuple)):
        more = (None,) if kind._type_ is c_char_p else ()  # lists of texts end with NULL
        return _convert(kind._type_ * (len(value) + len(more)), (*value, *more))
    if issubclass(kind, _Pointer) and isinstance(value, (dict, Structure)):
        return pointer(_convert(kind._type_, value))
    if issubclass(kind, _CFuncPtr) and callable(value):
        return kind(value)
    return kind() if value is None and issubclass(kind, Structure) else value


class _Struct(Structure):
    """A struct of C. Members take str, a dict for a struct, a list for an array, and functions."""

    def __init__(self, *values, **named):
        names = [name for name, _ in self._fields_]
        if len(values) > len(names):
            raise TypeError(
                f"{type(self).__name__} has {len(names)} members, {len(values)} values were given"
            )
        super().__init__()
        for name, value in itertools.chain(zip(names, values), named.items()):
            if name not in names:
                raise TypeError(
                    f"{type(self).__name__} has no member {name}; it has {', '.join(names)}"
                )
            setattr(self, name, value)

    def __setattr__(self, name, value):
        kind = dict(self._fields_).get(name)
        super().__setattr__(name, value if kind is None else _convert(kind, value))


def _options(kind, given: dict):
    """The options of a layer from its keywords; None where there are none."""
    return kind(**given) if given else None


def _usable(builder):
    if not builder.graph:
        raise ValueError(
            "this builder is that of a call that has ended; a layer uses the one that it is given"
        )
    return builder


def mega_none():
    """No tensor. None does as well, wherever a function takes a tensor."""
    return mega_tensor()


class _Tensor(_Struct):
    @classmethod
    def from_param(cls, value):
        if value is not None and not isinstance(value, cls):
            raise TypeError(
                f"expected a tensor that a function of the builder returned, not {value!r}"
            )
        return cls() if value is None else value


class _Builder(_Struct):
    """The context in which a layer is described. Functions of C that take one are its methods."""

    def at(self, path):
        """A builder whose path continues with this, for a layer made of several."""
        return mega_builder_at(_usable(self), b"%s", str(path).encode())
