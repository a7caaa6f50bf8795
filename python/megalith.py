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
    name = "libmegalith.so.0.1"
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

# ---- dtype.h ----

mega_dtype = c_int
MEGA_F32 = 0
MEGA_BF16 = 1
MEGA_F64 = 2
MEGA_F16 = 3
MEGA_I32 = 4
MEGA_I64 = 5
MEGA_U8 = 6
MEGA_U16 = 7
MEGA_I8 = 8
MEGA_I16 = 9
MEGA_DTYPE_COUNT = 10
mega_reduce = c_int
MEGA_REDUCE_SUM = 0
MEGA_REDUCE_MAX = 1
MEGA_REDUCE_MIN = 2
mega_dtype_size = _function("mega_dtype_size", c_size_t, mega_dtype)
mega_dtype_name = _function("mega_dtype_name", _text, mega_dtype)
mega_f16_to_f32 = _function("mega_f16_to_f32", c_float, c_uint16)
mega_f32_to_f16 = _function("mega_f32_to_f16", c_uint16, c_float)
mega_half_widen = _function(
    "mega_half_widen", None, POINTER(c_float), POINTER(c_uint16), c_int64, mega_dtype)
mega_half_narrow = _function(
    "mega_half_narrow", None, POINTER(c_uint16), POINTER(c_float), c_int64, mega_dtype)

# ---- message.h ----


class mega_message(_Struct):
    _fields_ = [
        ("peer", c_int),
        ("is_received", c_bool),
        ("data", c_void_p),
        ("bytes", c_int64),
    ]


# ---- status.h ----

MEGA_ERROR_BYTES = 4096

# ---- status.h ----

mega_status = c_int
MEGA_OK = 0
MEGA_ERR_USAGE = 1
MEGA_ERR_NOT_FOUND = 2
MEGA_ERR_IO = 3
MEGA_ERR_FORMAT = 4
MEGA_ERR_MEMORY = 5
MEGA_ERR_NUMERIC = 6
MEGA_ERR_UNSUPPORTED = 7
MEGA_ERR_INTERRUPTED = 8
MEGA_ERR_BUSY = 9
MEGA_ERR_COMM = 10
mega_status_name = _function("mega_status_name", _text, mega_status)
mega_error_set = _function("mega_error_set", mega_status, mega_status, _text, c_int, _text)
mega_error_prepend = _function("mega_error_prepend", None, _text)
mega_error_message = _function("mega_error_message", _text)
mega_error_where = _function("mega_error_where", _text)
mega_error_clear = _function("mega_error_clear", None)


class mega_error_record(_Struct):
    _fields_ = [
        ("code", mega_status),
        ("text", c_char * 4096),
        ("where", c_char * 96),
    ]


mega_error_get = _function("mega_error_get", None, POINTER(mega_error_record))
mega_error_get_of = _function("mega_error_get_of", None, mega_status, POINTER(mega_error_record))
mega_error_restore = _function("mega_error_restore", mega_status, POINTER(mega_error_record))

# ---- comm.h ----


class mega_comm(Structure):
    pass


class mega_world(Structure):
    pass


class mega_world_options(_Struct):
    _fields_ = [
        ("message_bytes", c_size_t),
        ("scratch_bytes", c_size_t),
        ("communicator", POINTER(c_int)),
    ]


mega_world_create = _function(
    "mega_world_create", _checked, POINTER(mega_world_options), POINTER(POINTER(mega_world)))
mega_world_destroy = _function("mega_world_destroy", None, POINTER(mega_world))
mega_world_abort = _function("mega_world_abort", None, POINTER(mega_world), c_int)
mega_world_rank = _function("mega_world_rank", c_int, POINTER(mega_world))
mega_world_size = _function("mega_world_size", c_int, POINTER(mega_world))
mega_world_local_size = _function("mega_world_local_size", c_int, POINTER(mega_world))
mega_world_local_rank = _function("mega_world_local_rank", c_int, POINTER(mega_world))
mega_world_host_first = _function("mega_world_host_first", c_int, POINTER(mega_world))
mega_world_set_timeout = _function("mega_world_set_timeout", None, POINTER(mega_world), c_double)
mega_stall_report = _callback(None, c_void_p, c_bool, c_char_p)
mega_world_set_stall_report = _function(
    "mega_world_set_stall_report", None, POINTER(mega_world), mega_stall_report, c_void_p)
mega_world_host_timeout = _function("mega_world_host_timeout", c_double)
mega_world_lost_host = _function("mega_world_lost_host", c_bool, POINTER(mega_world))
mega_world_comm = _function("mega_world_comm", POINTER(mega_comm), POINTER(mega_world))
mega_world_set_shared = _function("mega_world_set_shared", None, POINTER(mega_world), c_bool)
mega_world_can_share = _function("mega_world_can_share", c_bool, POINTER(mega_world))
mega_world_failed = _function("mega_world_failed", c_bool, POINTER(mega_world))
mega_world_forget_failure = _function("mega_world_forget_failure", None, POINTER(mega_world))
mega_world_process_bytes = _function("mega_world_process_bytes", c_size_t, c_int64, c_double)
mega_world_code_scale = _function("mega_world_code_scale", c_double)
mega_world_transport = _function("mega_world_transport", _text, POINTER(c_char), c_size_t)
mega_comm_name = _function("mega_comm_name", _text, POINTER(mega_comm))
mega_comm_rank = _function("mega_comm_rank", c_int, POINTER(mega_comm))
mega_comm_size = _function("mega_comm_size", c_int, POINTER(mega_comm))
mega_comm_sequence = _function("mega_comm_sequence", c_uint64, POINTER(mega_comm))
mega_comm_buffer_bytes = _function("mega_comm_buffer_bytes", c_size_t, POINTER(mega_comm), c_size_t)
mega_comm_all_reduce = _function(
    "mega_comm_all_reduce", _checked, POINTER(mega_comm), _text, c_void_p, c_int64, mega_dtype,
    mega_reduce)
mega_comm_reduce_scatter = _function(
    "mega_comm_reduce_scatter", _checked, POINTER(mega_comm), _text, c_void_p, c_void_p, c_int64,
    mega_dtype)
mega_comm_all_gather = _function(
    "mega_comm_all_gather", _checked, POINTER(mega_comm), _text, c_void_p, c_void_p, c_int64,
    mega_dtype)
mega_comm_all_to_all = _function(
    "mega_comm_all_to_all", _checked, POINTER(mega_comm), _text, c_void_p, c_void_p, c_int64,
    mega_dtype)
mega_comm_broadcast = _function(
    "mega_comm_broadcast", _checked, POINTER(mega_comm), _text, c_void_p, c_int64, c_int)
mega_comm_barrier = _function("mega_comm_barrier", _checked, POINTER(mega_comm), _text)
mega_comm_agree = _function("mega_comm_agree", _checked, POINTER(mega_comm), mega_status)
mega_comm_forget_device = _function("mega_comm_forget_device", None, POINTER(mega_world), c_void_p)
MEGA_COMM_REQUESTS = 2048


class mega_request(_Struct):
    _fields_ = [
        ("world", POINTER(mega_world)),
        ("place", c_int),
        ("use", c_uint32),
    ]


mega_comm_send_start = _function(
    "mega_comm_send_start", _checked, POINTER(mega_comm), _text, c_int, c_void_p, c_int64,
    POINTER(mega_request))
mega_comm_receive_start = _function(
    "mega_comm_receive_start", _checked, POINTER(mega_comm), _text, c_int, c_void_p, c_int64,
    POINTER(mega_request))
mega_comm_all_reduce_start = _function(
    "mega_comm_all_reduce_start", _checked, POINTER(mega_comm), _text, c_void_p, c_int64,
    mega_dtype, mega_reduce, POINTER(mega_request))
mega_comm_reduce_scatter_start = _function(
    "mega_comm_reduce_scatter_start", _checked, POINTER(mega_comm), _text, c_void_p, c_void_p,
    c_int64, mega_dtype, POINTER(mega_request))
mega_comm_all_gather_start = _function(
    "mega_comm_all_gather_start", _checked, POINTER(mega_comm), _text, c_void_p, c_void_p, c_int64,
    mega_dtype, POINTER(mega_request))
mega_comm_all_to_all_start = _function(
    "mega_comm_all_to_all_start", _checked, POINTER(mega_comm), _text, c_void_p, c_void_p, c_int64,
    mega_dtype, POINTER(mega_request))
mega_comm_messages_start = _function(
    "mega_comm_messages_start", _checked, POINTER(mega_comm), _text, POINTER(mega_message), c_int,
    POINTER(mega_request))
mega_comm_wait = _function("mega_comm_wait", _checked, POINTER(mega_request))
mega_comm_poll = _function("mega_comm_poll", _checked, POINTER(mega_world))


class mega_members(_Struct):
    _fields_ = [
        ("comm", POINTER(mega_comm)),
        ("rank", POINTER(c_int)),
        ("count", c_int),
        ("own", c_int),
        ("devices", c_void_p),
    ]


mega_comm_members_lists = _function("mega_comm_members_lists", c_size_t, POINTER(mega_members))
mega_comm_members_scratch = _function(
    "mega_comm_members_scratch", c_size_t, POINTER(mega_members), c_int64, mega_dtype)
mega_comm_members_sum = _function(
    "mega_comm_members_sum", _checked, POINTER(mega_members), _text, c_void_p, c_int64, mega_dtype,
    c_void_p, c_void_p)


class mega_axis(_Struct):
    _fields_ = [
        ("rank", c_int),
        ("size", c_int),
        ("comm", POINTER(mega_comm)),
    ]


class mega_layout(_Struct):
    _fields_ = [
        ("world", mega_axis),
        ("tp", mega_axis),
        ("pp", mega_axis),
        ("dp", mega_axis),
        ("cp", mega_axis),
        ("ep", mega_axis),
        ("edp", mega_axis),
        ("pp_back", mega_axis),
    ]


class mega_layout_sizes(_Struct):
    _fields_ = [
        ("tp", c_int),
        ("pp", c_int),
        ("cp", c_int),
        ("ep", c_int),
        ("planned_ranks", c_int),
        ("planned_rank", c_int),
    ]


mega_layout_create = _function(
    "mega_layout_create", _checked, POINTER(mega_world), POINTER(mega_layout_sizes),
    POINTER(POINTER(mega_layout)))
mega_layout_level = _function("mega_layout_level", c_int, POINTER(mega_layout), POINTER(mega_comm))
mega_layout_destroy = _function("mega_layout_destroy", None, POINTER(mega_layout))
mega_layout_links = _function("mega_layout_links", c_int, POINTER(mega_layout))
MEGA_COMM_SAID = 512
mega_layout_connect = _function(
    "mega_layout_connect", _checked, POINTER(mega_layout), c_void_p,
    POINTER(POINTER(mega_members)), c_int, c_bool, POINTER(c_char))

# ---- param_init.h ----

MEGA_PARAM_NAME = 96
mega_init = c_int
MEGA_INIT_FAN_IN = 0
MEGA_INIT_ZERO = 1
MEGA_INIT_ONE = 2
MEGA_INIT_NORMAL = 3
MEGA_INIT_XAVIER_UNIFORM = 4
MEGA_INIT_KAIMING_NORMAL = 5


class mega_param_part(_Struct):
    _fields_ = [
        ("file", c_char_p),
        ("rows", c_int64),
        ("first", c_int64),
        ("block", c_int64),
        ("stride", c_int64),
        ("of_rows", c_int64),
    ]


MEGA_PARAM_PARTS = 4

# ---- tensor.h ----


class mega_graph(Structure):
    pass


class mega_tensor(_Tensor):
    _fields_ = [
        ("id", c_int32),
    ]


class mega_loss(_Struct):
    _fields_ = [
        ("sum", mega_tensor),
        ("weight", mega_tensor),
    ]


class mega_head_result(_Struct):
    _fields_ = [
        ("token_loss", mega_tensor),
        ("loss", mega_loss),
    ]


MEGA_METRICS = 8
MEGA_LOSS_NAME = 128
mega_activation_kind = c_int
MEGA_ACT_GELU_TANH = 0
MEGA_ACT_GELU = 1
MEGA_ACT_RELU = 2
MEGA_ACT_RELU_SQUARED = 3
MEGA_ACT_SILU = 4
MEGA_ACT_TANH = 5
MEGA_ACT_SIGMOID = 6
MEGA_ACT_IDENTITY = 7
mega_route_score = c_int
MEGA_ROUTE_SOFTMAX = 0
MEGA_ROUTE_SIGMOID = 1
MEGA_ROUTE_SOFTMAX_OF_CHOSEN = 2
MEGA_ROUTE_SOFTMAX_OF_NEAR = 3
MEGA_ROUTE_SCORE_COUNT = 4
MEGA_ROUTE_EXPERTS = 2048


class mega_route_options(_Struct):
    _fields_ = [
        ("score", mega_route_score),
        ("choices", c_int64),
        ("normalized", c_bool),
        ("epsilon", c_double),
        ("scale", c_double),
        ("margin", c_double),
        ("groups", c_int64),
        ("chosen_groups", c_int64),
        ("group_best", c_int64),
    ]


# ---- builder.h ----

mega_mode = c_int
MEGA_TRAIN = 0
MEGA_EVAL = 1
MEGA_GENERATE = 2
MEGA_PATH = 96


class mega_builder(_Builder):
    _fields_ = [
        ("graph", POINTER(mega_graph)),
        ("layout", POINTER(mega_layout)),
        ("mode", mega_mode),
        ("samples", c_int64),
        ("positions", c_int64),
        ("cache", c_int64),
        ("length", c_int64),
        ("index", c_int),
        ("path", c_char * 96),
    ]

    def fail(self, st):
        """builder.h: void mega_builder_fail(const mega_builder *b, mega_status st)"""
        return mega_builder_fail(_usable(self), st)

    def tensor_rows(self, x):
        """builder.h: int64_t mega_tensor_rows(const mega_builder *b, mega_tensor x)"""
        return mega_tensor_rows(_usable(self), x)

    def tensor_channels(self, x):
        """builder.h: int64_t mega_tensor_channels(const mega_builder *b, mega_tensor x)"""
        return mega_tensor_channels(_usable(self), x)

    def input(self, name: str, dtype, positions: int, channels: int):
        """builder.h: mega_tensor mega_input(const mega_builder *b, const char *name, mega_dtype
        dtype, int64_t positions, int64_t channels)"""
        return mega_input(_usable(self), name, dtype, positions, channels)

    def param(self, name: str, rows: int, columns: int, **options):
        """builder.h: mega_tensor mega_builder_param(const mega_builder *b, const char *name,
        int64_t rows, int64_t columns, const mega_param_options *options)"""
        return mega_builder_param(
            _usable(self), name, rows, columns, _options(mega_param_options, options))

    def params(self, name: str, count: int, rows: int, columns: int, **options):
        """builder.h: mega_tensor mega_builder_params(const mega_builder *b, const char *name,
        int64_t count, int64_t rows, int64_t columns, const mega_param_options *options)"""
        return mega_builder_params(
            _usable(self), name, count, rows, columns, _options(mega_param_options, options))

    def recompute_begin(self):
        """builder.h: void mega_recompute_begin(const mega_builder *b)"""
        return mega_recompute_begin(_usable(self))

    def recompute_end(self):
        """builder.h: void mega_recompute_end(const mega_builder *b)"""
        return mega_recompute_end(_usable(self))

    def loss_add(self, name: str, loss, coefficient: float):
        """builder.h: void mega_loss_add(const mega_builder *b, const char *name, mega_loss loss,
        double coefficient)"""
        return mega_loss_add(_usable(self), name, loss, coefficient)

    def layer_loss_add(self, name: str, loss, coefficient: float):
        """builder.h: void mega_layer_loss_add(const mega_builder *b, const char *name, mega_loss
        loss, double coefficient)"""
        return mega_layer_loss_add(_usable(self), name, loss, coefficient)

    def output(self, name: str, x):
        """builder.h: void mega_output(const mega_builder *b, const char *name, mega_tensor x)"""
        return mega_output(_usable(self), name, x)

    def dropout_site(self, name: str):
        """builder.h: uint32_t mega_builder_dropout_site(const mega_builder *b, const char
        *name)"""
        return mega_builder_dropout_site(_usable(self), name)

    def linear(self, name: str, x, out_channels: int, **options):
        """layers.h: mega_tensor mega_linear(const mega_builder *b, const char *name, mega_tensor
        x, int64_t out_channels, const mega_linear_options *options)"""
        return mega_linear(
            _usable(self), name, x, out_channels, _options(mega_linear_options, options))

    def column_linear(self, name: str, x, out_channels: int, **options):
        """layers.h: mega_tensor mega_column_linear(const mega_builder *b, const char *name,
        mega_tensor x, int64_t out_channels, const mega_linear_options *options)"""
        return mega_column_linear(
            _usable(self), name, x, out_channels, _options(mega_linear_options, options))

    def row_linear(self, name: str, x, out_channels: int, **options):
        """layers.h: mega_tensor mega_row_linear(const mega_builder *b, const char *name,
        mega_tensor x, int64_t out_channels, const mega_linear_options *options)"""
        return mega_row_linear(
            _usable(self), name, x, out_channels, _options(mega_linear_options, options))

    def embedding(self, name: str, ids, rows: int, width: int, **options):
        """layers.h: mega_tensor mega_embedding(const mega_builder *b, const char *name,
        mega_tensor ids, int64_t rows, int64_t width, const mega_param_options *options)"""
        return mega_embedding(
            _usable(self), name, ids, rows, width, _options(mega_param_options, options))

    def vocab_embedding(self, name: str, ids, vocab_size: int, width: int, **options):
        """layers.h: mega_tensor mega_vocab_embedding(const mega_builder *b, const char *name,
        mega_tensor ids, int64_t vocab_size, int64_t width, const mega_param_options *options)"""
        return mega_vocab_embedding(
            _usable(self), name, ids, vocab_size, width, _options(mega_param_options, options))

    def position_embedding(self, name: str, x, max_positions: int, **options):
        """layers.h: mega_tensor mega_position_embedding(const mega_builder *b, const char *name,
        mega_tensor x, int64_t max_positions, const mega_param_options *options)"""
        return mega_position_embedding(
            _usable(self), name, x, max_positions, _options(mega_param_options, options))

    def position_embedding_after(self, name: str, x, max_positions: int, skipped: int, **options):
        """layers.h: mega_tensor mega_position_embedding_after(const mega_builder *b, const char
        *name, mega_tensor x, int64_t max_positions, int64_t skipped, const mega_param_options
        *options)"""
        return mega_position_embedding_after(
            _usable(self), name, x, max_positions, skipped, _options(mega_param_options, options))

    def embedding_add(self, name: str, ids: str, x, rows: int, **options):
        """layers.h: mega_tensor mega_embedding_add(const mega_builder *b, const char *name, const
        char *ids, mega_tensor x, int64_t rows, const mega_param_options *options)"""
        return mega_embedding_add(
            _usable(self), name, ids, x, rows, _options(mega_param_options, options))

    def norm(self, name: str, x, kind, epsilon: float):
        """layers.h: mega_tensor mega_norm(const mega_builder *b, const char *name, mega_tensor x,
        mega_norm_kind kind, double epsilon)"""
        return mega_norm(_usable(self), name, x, kind, epsilon)

    def norm_with(self, name: str, x, **options):
        """layers.h: mega_tensor mega_norm_with(const mega_builder *b, const char *name,
        mega_tensor x, const mega_norm_options *options)"""
        return mega_norm_with(_usable(self), name, x, _options(mega_norm_options, options))

    def activation(self, x, kind):
        """layers.h: mega_tensor mega_activation(const mega_builder *b, mega_tensor x,
        mega_activation_kind kind)"""
        return mega_activation(_usable(self), x, kind)

    def glu(self, x, kind, gate_second: bool):
        """layers.h: mega_tensor mega_glu(const mega_builder *b, mega_tensor x,
        mega_activation_kind kind, bool gate_second)"""
        return mega_glu(_usable(self), x, kind, gate_second)

    def add(self, x, y):
        """layers.h: mega_tensor mega_add(const mega_builder *b, mega_tensor x, mega_tensor y)"""
        return mega_add(_usable(self), x, y)

    def mul(self, x, y):
        """layers.h: mega_tensor mega_mul(const mega_builder *b, mega_tensor x, mega_tensor y)"""
        return mega_mul(_usable(self), x, y)

    def scale(self, x, factor: float):
        """layers.h: mega_tensor mega_scale(const mega_builder *b, mega_tensor x, double factor)"""
        return mega_scale(_usable(self), x, factor)

    def bias_add(self, x, bias):
        """layers.h: mega_tensor mega_bias_add(const mega_builder *b, mega_tensor x, mega_tensor
        bias)"""
        return mega_bias_add(_usable(self), x, bias)

    def reshape(self, x, channels: int):
        """layers.h: mega_tensor mega_reshape(const mega_builder *b, mega_tensor x, int64_t
        channels)"""
        return mega_reshape(_usable(self), x, channels)

    def first_position(self, x):
        """layers.h: mega_tensor mega_first_position(const mega_builder *b, mega_tensor x)"""
        return mega_first_position(_usable(self), x)

    def mean_positions(self, x):
        """layers.h: mega_tensor mega_mean_positions(const mega_builder *b, mega_tensor x)"""
        return mega_mean_positions(_usable(self), x)

    def dropout(self, name: str, x, p: float):
        """layers.h: mega_tensor mega_dropout(const mega_builder *b, const char *name, mega_tensor
        x, double p)"""
        return mega_dropout(_usable(self), name, x, p)

    def dropout_add(self, name: str, x, residual, p: float):
        """layers.h: mega_tensor mega_dropout_add(const mega_builder *b, const char *name,
        mega_tensor x, mega_tensor residual, double p)"""
        return mega_dropout_add(_usable(self), name, x, residual, p)

    def attention_bias(self, name: str, buckets: int, num_heads: int, **options):
        """layers.h: mega_tensor mega_attention_bias(const mega_builder *b, const char *name,
        int64_t buckets, int64_t num_heads, const mega_param_options *options)"""
        return mega_attention_bias(
            _usable(self), name, buckets, num_heads, _options(mega_param_options, options))

    def self_attention(self, name: str, x, **options):
        """layers.h: mega_tensor mega_self_attention(const mega_builder *b, const char *name,
        mega_tensor x, const mega_attention_options *options)"""
        return mega_self_attention(
            _usable(self), name, x, _options(mega_attention_options, options))

    def cross_attention(self, name: str, x, source, positions: int, **options):
        """layers.h: mega_tensor mega_cross_attention(const mega_builder *b, const char *name,
        mega_tensor x, mega_tensor source, int64_t positions, const mega_attention_options
        *options)"""
        return mega_cross_attention(
            _usable(self), name, x, source, positions, _options(mega_attention_options, options))

    def conv2d(self, name: str, x, out_channels: int, inout_size, **options):
        """layers.h: mega_tensor mega_conv2d(const mega_builder *b, const char *name, mega_tensor
        x, int64_t out_channels, const mega_conv_options *options, mega_image_size *inout_size)"""
        return mega_conv2d(
            _usable(self), name, x, out_channels, _options(mega_conv_options, options), inout_size)

    def max_pool2d(self, x, inout_size, **options):
        """layers.h: mega_tensor mega_max_pool2d(const mega_builder *b, mega_tensor x, const
        mega_pool_options *options, mega_image_size *inout_size)"""
        return mega_max_pool2d(_usable(self), x, _options(mega_pool_options, options), inout_size)

    def mean_pool2d(self, x, inout_size, **options):
        """layers.h: mega_tensor mega_mean_pool2d(const mega_builder *b, mega_tensor x, const
        mega_pool_options *options, mega_image_size *inout_size)"""
        return mega_mean_pool2d(_usable(self), x, _options(mega_pool_options, options), inout_size)

    def batch_norm(self, name: str, x, group_samples: int, momentum: float, epsilon: float):
        """layers.h: mega_tensor mega_batch_norm(const mega_builder *b, const char *name,
        mega_tensor x, int group_samples, double momentum, double epsilon)"""
        return mega_batch_norm(_usable(self), name, x, group_samples, momentum, epsilon)

    def ignore_label(self, labels, label: int):
        """layers.h: void mega_ignore_label(const mega_builder *b, mega_tensor labels, int32_t
        label)"""
        return mega_ignore_label(_usable(self), labels, label)

    def cross_entropy(self, logits, labels, weights=None):
        """layers.h: mega_loss mega_cross_entropy(const mega_builder *b, mega_tensor logits,
        mega_tensor labels, mega_tensor weights)"""
        return mega_cross_entropy(_usable(self), logits, labels, weights)

    def row_cross_entropy(self, logits, labels):
        """layers.h: mega_tensor mega_row_cross_entropy(const mega_builder *b, mega_tensor logits,
        mega_tensor labels)"""
        return mega_row_cross_entropy(_usable(self), logits, labels)

    def sum(self, x, weights=None):
        """layers.h: mega_loss mega_sum(const mega_builder *b, mega_tensor x, mega_tensor
        weights)"""
        return mega_sum(_usable(self), x, weights)

    def squared_error(self, x, target, weights=None):
        """layers.h: mega_loss mega_squared_error(const mega_builder *b, mega_tensor x, mega_tensor
        target, mega_tensor weights)"""
        return mega_squared_error(_usable(self), x, target, weights)

    def accuracy(self, logits, labels):
        """layers.h: mega_loss mega_accuracy(const mega_builder *b, mega_tensor logits, mega_tensor
        labels)"""
        return mega_accuracy(_usable(self), logits, labels)

    def pooler(self, name: str, x, out_channels: int, **options):
        """layers.h: mega_tensor mega_pooler(const mega_builder *b, const char *name, mega_tensor
        x, int64_t out_channels, const mega_linear_options *options)"""
        return mega_pooler(
            _usable(self), name, x, out_channels, _options(mega_linear_options, options))

    def class_loss(self, name: str, x, labels, classes: int, out_logits, **options):
        """layers.h: mega_loss mega_class_loss(const mega_builder *b, const char *name, mega_tensor
        x, mega_tensor labels, int64_t classes, const mega_linear_options *options, mega_tensor
        *out_logits)"""
        return mega_class_loss(
            _usable(self), name, x, labels, classes, _options(mega_linear_options, options),
            out_logits)

    def choice_loss(self, name: str, x, labels, choices: int, out_logits, **options):
        """layers.h: mega_loss mega_choice_loss(const mega_builder *b, const char *name,
        mega_tensor x, mega_tensor labels, int64_t choices, const mega_linear_options *options,
        mega_tensor *out_logits)"""
        return mega_choice_loss(
            _usable(self), name, x, labels, choices, _options(mega_linear_options, options),
            out_logits)

    def vocab_loss(self, name: str, x, labels, weights=None, **options):
        """layers.h: mega_head_result mega_vocab_loss(const mega_builder *b, const char *name,
        mega_tensor x, mega_tensor labels, mega_tensor weights, const mega_vocab_loss_options
        *options)"""
        return mega_vocab_loss(
            _usable(self), name, x, labels, weights, _options(mega_vocab_loss_options, options))

    def vocab_logits(self, name: str, x, vocab_size: int, **options):
        """layers.h: mega_tensor mega_vocab_logits(const mega_builder *b, const char *name,
        mega_tensor x, int64_t vocab_size, const mega_param_options *options)"""
        return mega_vocab_logits(
            _usable(self), name, x, vocab_size, _options(mega_param_options, options))

    def vocab_logits_with(self, name: str, x, **options):
        """layers.h: mega_tensor mega_vocab_logits_with(const mega_builder *b, const char *name,
        mega_tensor x, const mega_vocab_loss_options *options)"""
        return mega_vocab_logits_with(
            _usable(self), name, x, _options(mega_vocab_loss_options, options))

    def router(self, name: str, x, experts: int, **options):
        """router.h: mega_router_result mega_router(const mega_builder *b, const char *name,
        mega_tensor x, int64_t experts, const mega_router_options *options)"""
        return mega_router(_usable(self), name, x, experts, _options(mega_router_options, options))

    def router_jitter(self, name: str, x, jitter: float):
        """router.h: mega_tensor mega_router_jitter(const mega_builder *b, const char *name,
        mega_tensor x, double jitter)"""
        return mega_router_jitter(_usable(self), name, x, jitter)

    def router_balance(self, router, group_samples: int, counted: int):
        """router.h: mega_router_balance_result mega_router_balance(const mega_builder *b, const
        mega_router_result *router, int64_t group_samples, int64_t counted)"""
        return mega_router_balance(_usable(self), router, group_samples, counted)

    def router_z_loss(self, router, weights=None):
        """router.h: mega_loss mega_router_z_loss(const mega_builder *b, const mega_router_result
        *router, mega_tensor weights)"""
        return mega_router_z_loss(_usable(self), router, weights)

    def experts_column_linear(self, experts, name: str, x, out_channels: int, **options):
        """experts.h: mega_tensor mega_experts_column_linear(const mega_builder *b, const
        mega_experts *experts, const char *name, mega_tensor x, int64_t out_channels, const
        mega_linear_options *options)"""
        return mega_experts_column_linear(
            _usable(self), experts, name, x, out_channels, _options(mega_linear_options, options))

    def experts_row_linear(self, experts, name: str, x, out_channels: int, **options):
        """experts.h: mega_tensor mega_experts_row_linear(const mega_builder *b, const mega_experts
        *experts, const char *name, mega_tensor x, int64_t out_channels, const mega_linear_options
        *options)"""
        return mega_experts_row_linear(
            _usable(self), experts, name, x, out_channels, _options(mega_linear_options, options))

    def blend(self, name: str, x, first, second, **options):
        """experts.h: mega_tensor mega_blend(const mega_builder *b, const char *name, mega_tensor
        x, mega_tensor first, mega_tensor second, const mega_linear_options *options)"""
        return mega_blend(
            _usable(self), name, x, first, second, _options(mega_linear_options, options))

    def t5_encoder_block(self, x, **options):
        """t5_blocks.h: mega_tensor mega_t5_encoder_block(const mega_builder *b, mega_tensor x,
        const mega_t5_options *options)"""
        return mega_t5_encoder_block(_usable(self), x, _options(mega_t5_options, options))

    def t5_decoder_block(self, x, source, positions: int, **options):
        """t5_blocks.h: mega_tensor mega_t5_decoder_block(const mega_builder *b, mega_tensor x,
        mega_tensor source, int64_t positions, const mega_t5_options *options)"""
        return mega_t5_decoder_block(
            _usable(self), x, source, positions, _options(mega_t5_options, options))


mega_builder_at = _function("mega_builder_at", mega_builder, POINTER(mega_builder), _text)
mega_builder_fail = _function("mega_builder_fail", None, POINTER(mega_builder), mega_status)
mega_tensor_rows = _function("mega_tensor_rows", c_int64, POINTER(mega_builder), mega_tensor)
mega_tensor_channels = _function(
    "mega_tensor_channels", c_int64, POINTER(mega_builder), mega_tensor)
mega_input = _function(
    "mega_input", mega_tensor, POINTER(mega_builder), _text, mega_dtype, c_int64, c_int64)
MEGA_FLOW_MORE = 3


class mega_flow(_Struct):
    _fields_ = [
        ("x", mega_tensor),
        ("more", mega_tensor * 3),
    ]


mega_decay = c_int
MEGA_DECAY_DEFAULT = 0
MEGA_DECAY_YES = 1
MEGA_DECAY_NO = 2


class mega_param_options(_Struct):
    _fields_ = [
        ("init", mega_init),
        ("init_std", c_double),
        ("decay", mega_decay),
        ("lr_scale", c_double),
        ("shard_rows", c_bool),
        ("shard_columns", c_bool),
        ("shard_count", c_bool),
        ("blocks", c_int),
        ("part", mega_param_part * 4),
        ("num_parts", c_int),
        ("transposed_in_file", c_bool),
        ("padding_rows", c_int64),
        ("file_dims", c_int),
        ("file_dim", c_int64 * 4),
        ("is_stacked", c_bool),
        ("partial_gradients", c_bool),
        ("whole_gradients", c_bool),
        ("is_frozen", c_bool),
        ("is_buffer", c_bool),
        ("buffer_momentum", c_double),
        ("buffer_samples", c_int64),
        ("buffer_rate", c_double),
        ("buffer_choices", c_int64),
        ("in_acc", c_bool),
    ]


mega_builder_param = _function(
    "mega_builder_param", mega_tensor, POINTER(mega_builder), _text, c_int64, c_int64,
    POINTER(mega_param_options))
mega_builder_params = _function(
    "mega_builder_params", mega_tensor, POINTER(mega_builder), _text, c_int64, c_int64, c_int64,
    POINTER(mega_param_options))
MEGA_MOST_JOINED = 4096
mega_recompute_begin = _function("mega_recompute_begin", None, POINTER(mega_builder))
mega_recompute_end = _function("mega_recompute_end", None, POINTER(mega_builder))
mega_loss_add = _function("mega_loss_add", None, POINTER(mega_builder), _text, mega_loss, c_double)
mega_layer_loss_add = _function(
    "mega_layer_loss_add", None, POINTER(mega_builder), _text, mega_loss, c_double)
mega_output = _function("mega_output", None, POINTER(mega_builder), _text, mega_tensor)


class mega_custom_call(_Struct):
    _fields_ = [
        ("num_in", c_int),
        ("num_out", c_int),
        ("in", POINTER(c_void_p)),
        ("out", POINTER(c_void_p)),
        ("d_out", POINTER(c_void_p)),
        ("d_in", POINTER(c_void_p)),
        ("rows", POINTER(c_int64)),
        ("channels", POINTER(c_int64)),
        ("dtype", mega_dtype),
        ("thread", c_int),
        ("num_threads", c_int),
    ]


mega_custom_op_shape_function = _callback(
    None, c_void_p, POINTER(c_int64), POINTER(c_int64), POINTER(c_int64), POINTER(c_int64))
mega_custom_op_forward_function = _callback(mega_status, c_void_p, POINTER(mega_custom_call))
mega_custom_op_backward_function = _callback(mega_status, c_void_p, POINTER(mega_custom_call))


class mega_custom_op(_Struct):
    _fields_ = [
        ("name", c_char_p),
        ("num_in", c_int),
        ("num_out", c_int),
        ("shape", mega_custom_op_shape_function),
        ("forward", mega_custom_op_forward_function),
        ("backward", mega_custom_op_backward_function),
        ("is_row_wise", c_bool),
        ("flops_per_row", c_double),
    ]


mega_custom = _function(
    "mega_custom", None, POINTER(mega_builder), POINTER(mega_custom_op), c_void_p,
    POINTER(mega_tensor), POINTER(mega_tensor))
mega_builder_dropout_site = _function(
    "mega_builder_dropout_site", c_uint32, POINTER(mega_builder), _text)

# ---- dataset.h ----


class mega_sample(Structure):
    pass


class mega_batch(Structure):
    pass


mega_sample_set_f32 = _function(
    "mega_sample_set_f32", _checked, POINTER(mega_sample), _text, POINTER(c_float), c_int64)
mega_sample_set_i32 = _function(
    "mega_sample_set_i32", _checked, POINTER(mega_sample), _text, POINTER(c_int32), c_int64)
mega_sample_index = _function("mega_sample_index", c_int64, POINTER(mega_sample))
mega_sample_seed = _function("mega_sample_seed", c_uint32, POINTER(mega_sample))
mega_batch_num_samples = _function("mega_batch_num_samples", c_int64, POINTER(mega_batch))
mega_batch_sample = _function(
    "mega_batch_sample", POINTER(mega_sample), POINTER(mega_batch), c_int64)
mega_dataset_read_function = _callback(mega_status, c_void_p, c_int64, POINTER(mega_sample))
mega_dataset_collate_function = _callback(mega_status, c_void_p, POINTER(mega_batch))
mega_dataset_hash_function = _callback(c_uint64, c_void_p)
mega_dataset_use_function = _callback(None, c_void_p, c_int)


class mega_dataset(_Struct):
    _fields_ = [
        ("first", c_int64),
        ("count", c_int64),
        ("read", mega_dataset_read_function),
        ("collate", mega_dataset_collate_function),
        ("hash", mega_dataset_hash_function),
        ("user", c_void_p),
        ("in_order", c_bool),
        ("is_thread_safe", c_bool),
        ("epoch", c_int64),
        ("use", mega_dataset_use_function),
    ]


mega_dataset_index = _function(
    "mega_dataset_index", c_int64, POINTER(mega_dataset), c_uint32, c_int64)
mega_dataset_fill = _function(
    "mega_dataset_fill", _checked, POINTER(mega_dataset), c_uint32, POINTER(mega_batch))
MEGA_IDX_DIMS = 4


class mega_idx(_Struct):
    _fields_ = [
        ("bytes", POINTER(c_uint8)),
        ("num_dims", c_int),
        ("dim", c_int64 * 4),
    ]


mega_idx_open = _function("mega_idx_open", _checked, _text, POINTER(mega_idx))
mega_idx_close = _function("mega_idx_close", None, POINTER(mega_idx))

# ---- client_array.h ----


class mega_client_array(_Struct):
    _fields_ = [
        ("name", c_char_p),
        ("dtype", mega_dtype),
        ("rows", c_int64),
        ("columns", c_int64),
        ("data", c_void_p),
    ]


# ---- custom_optimizer.h ----


class mega_optimizer_call(_Struct):
    _fields_ = [
        ("option", POINTER(c_double)),
        ("lr", c_double),
        ("weight_decay", c_double),
        ("grad_factor", c_double),
        ("update", c_int64),
        ("count", c_int64),
        ("param", c_void_p),
        ("state", POINTER(c_void_p)),
        ("grad", c_void_p),
    ]


MEGA_OPTIMIZER_STATES = 4
mega_optimizer_row_update_function = _callback(None, POINTER(mega_optimizer_call), c_int64, c_int64)


class mega_optimizer_row(_Struct):
    _fields_ = [
        ("name", c_char_p),
        ("state", POINTER(c_char_p)),
        ("option", POINTER(c_char_p)),
        ("option_default", POINTER(c_double)),
        ("update", mega_optimizer_row_update_function),
    ]


# ---- memory.h ----

MEGA_REGION_ALIGN = 4096

# ---- memory.h ----

mega_malloc = _function("mega_malloc", c_void_p, c_size_t)
mega_calloc = _function("mega_calloc", c_void_p, c_size_t, c_size_t)
mega_realloc = _function("mega_realloc", c_void_p, c_void_p, c_size_t)
mega_free = _function("mega_free", None, c_void_p)
mega_free_all = _function("mega_free_all", None, POINTER(c_void_p), c_size_t)
mega_memory_trim = _function("mega_memory_trim", None)
mega_strdup = _function("mega_strdup", POINTER(c_char), _text)
mega_strndup = _function("mega_strndup", POINTER(c_char), _text, c_size_t)
mega_format = _function("mega_format", POINTER(c_char), _text)
mega_alloc_count = _function("mega_alloc_count", c_uint64)
mega_alloc_fail_at = _function("mega_alloc_fail_at", None, c_uint64)
mega_array_grow = _function(
    "mega_array_grow", c_bool, c_void_p, POINTER(c_int64), c_int64, c_size_t)
mega_array_add = _function("mega_array_add", c_bool, c_void_p, c_int64, c_size_t)
mega_size_mul = _function("mega_size_mul", c_bool, c_size_t, c_size_t, POINTER(c_size_t))
mega_pages_alloc = _function("mega_pages_alloc", _checked, POINTER(c_void_p), c_size_t, _text)
mega_pages_free = _function("mega_pages_free", None, c_void_p, c_size_t)


class mega_region(_Struct):
    _fields_ = [
        ("base", POINTER(c_char)),
        ("bytes", c_size_t),
        ("used", c_size_t),
    ]


mega_region_round = _function("mega_region_round", c_size_t, c_size_t)
mega_region_take = _function(
    "mega_region_take", _checked, POINTER(mega_region), POINTER(c_void_p), c_size_t, _text)


class mega_arena(_Struct):
    _fields_ = [
        ("last", c_void_p),
    ]


mega_arena_alloc = _function("mega_arena_alloc", c_void_p, POINTER(mega_arena), c_size_t)
mega_arena_strdup = _function("mega_arena_strdup", POINTER(c_char), POINTER(mega_arena), _text)
mega_arena_format = _function("mega_arena_format", POINTER(c_char), POINTER(mega_arena), _text)
mega_arena_bytes = _function("mega_arena_bytes", c_size_t, POINTER(mega_arena))
mega_arena_fini = _function("mega_arena_fini", None, POINTER(mega_arena))


class mega_buffer(_Struct):
    _fields_ = [
        ("data", POINTER(c_char)),
        ("size", c_size_t),
        ("capacity", c_size_t),
        ("failed", c_bool),
    ]


mega_buffer_reserve = _function("mega_buffer_reserve", c_bool, POINTER(mega_buffer), c_size_t)
mega_buffer_append = _function(
    "mega_buffer_append", c_bool, POINTER(mega_buffer), c_void_p, c_size_t)
mega_buffer_puts = _function("mega_buffer_puts", c_bool, POINTER(mega_buffer), _text)
mega_buffer_printf = _function("mega_buffer_printf", c_bool, POINTER(mega_buffer), _text)
mega_buffer_json_string = _function("mega_buffer_json_string", c_bool, POINTER(mega_buffer), _text)
mega_buffer_json_double = _function(
    "mega_buffer_json_double", c_bool, POINTER(mega_buffer), c_double)
mega_buffer_json_float = _function("mega_buffer_json_float", c_bool, POINTER(mega_buffer), c_float)
mega_buffer_check = _function("mega_buffer_check", _checked, POINTER(mega_buffer), _text)
mega_buffer_fini = _function("mega_buffer_fini", None, POINTER(mega_buffer))
mega_memory_resident = _function("mega_memory_resident", c_size_t)
mega_memory_mapped = _function("mega_memory_mapped", c_size_t)
mega_memory_peak = _function("mega_memory_peak", c_size_t)
mega_memory_available = _function("mega_memory_available", c_size_t, POINTER(c_char_p))


class mega_memory_limits(_Struct):
    _fields_ = [
        ("machine", c_uint64),
        ("available", c_uint64),
        ("cgroup_left", c_uint64),
        ("rlimit_left", c_uint64),
        ("address_space_left", c_uint64),
        ("data_left", c_uint64),
    ]


mega_memory_get_limits = _function("mega_memory_get_limits", None, POINTER(mega_memory_limits))
mega_memory_least = _function(
    "mega_memory_least", c_uint64, POINTER(mega_memory_limits), POINTER(c_char_p))

# ---- model.h ----

mega_layer_describe = _callback(None, POINTER(mega_builder), c_void_p, POINTER(mega_flow))


class mega_layer(_Struct):
    _fields_ = [
        ("path", c_char_p),
        ("describe", mega_layer_describe),
        ("self", c_void_p),
        ("repeat", c_int),
        ("type", c_char_p),
    ]


mega_partition = c_int
MEGA_PARTITION_PARAMETERS = 0
MEGA_PARTITION_UNIFORM = 1
MEGA_PARTITION_TYPE = 2
MEGA_PARTITION_FLOPS = 3


class mega_model(_Struct):
    _fields_ = [
        ("name", c_char_p),
        ("layer", POINTER(mega_layer)),
        ("num_layers", c_int),
        ("positions", c_int64),
        ("partition", mega_partition),
        ("partition_type", c_char_p),
        ("first_layer", POINTER(c_int)),
        ("recompute_interval", c_int),
        ("recompute_type", c_char_p),
        ("recompute_regions", c_int),
        ("sequence_parallel", c_bool),
        ("distribute_saved", c_bool),
    ]


mega_partition_balance = _function(
    "mega_partition_balance", _checked, POINTER(c_double), c_int, c_int, POINTER(c_int))

# ---- threads.h ----


class mega_team(Structure):
    pass


mega_team_create = _function("mega_team_create", _checked, c_int, POINTER(POINTER(mega_team)))
mega_team_destroy = _function("mega_team_destroy", None, POINTER(mega_team))
mega_team_size = _function("mega_team_size", c_int, POINTER(mega_team))
mega_team_work = _callback(None, c_void_p, c_int, c_int)
mega_team_run = _function("mega_team_run", None, POINTER(mega_team), mega_team_work, c_void_p)
mega_team_part = _callback(None, c_void_p, c_int, c_int64, c_int64)
mega_team_for = _function(
    "mega_team_for", None, POINTER(mega_team), c_int64, c_int64, mega_team_part, c_void_p)
mega_team_zero = _function("mega_team_zero", None, POINTER(mega_team), c_void_p, c_size_t)
mega_team_waited = _function("mega_team_waited", c_double, POINTER(mega_team))
mega_team_stop_on = _function("mega_team_stop_on", None, POINTER(mega_team), POINTER(c_int))
mega_team_is_stopped = _function("mega_team_is_stopped", c_bool, POINTER(mega_team))
mega_cpu_count = _function("mega_cpu_count", c_int)
mega_cpu_affinity = _function("mega_cpu_affinity", c_int)
mega_cpu_quota = _function("mega_cpu_quota", c_double)
mega_threads_from_environment = _function("mega_threads_from_environment", c_int)
mega_default_threads = _function("mega_default_threads", c_int)
mega_isa = c_int
MEGA_ISA_PORTABLE = 0
MEGA_ISA_AVX2 = 1
MEGA_ISA_AVX512 = 2
MEGA_ISA_AVX512_BF16 = 3
MEGA_ISA_AMX = 4
mega_cpu_isa = _function("mega_cpu_isa", mega_isa)
mega_cpu_isa_lower = _function("mega_cpu_isa_lower", None, mega_isa)
mega_cpu_isa_plan = _function("mega_cpu_isa_plan", mega_isa, mega_isa)
mega_isa_name = _function("mega_isa_name", _text, mega_isa)
mega_cpu_model = _function("mega_cpu_model", _text, POINTER(c_char), c_int)
MEGA_BUILD_ID_TEXT = 65
mega_build_id = _function("mega_build_id", None, POINTER(c_char))


class mega_thread(Structure):
    pass


mega_thread_start_run_function = _callback(None, c_void_p)
mega_thread_start = _function(
    "mega_thread_start", _checked, mega_thread_start_run_function, c_void_p,
    POINTER(POINTER(mega_thread)))
mega_thread_join = _function("mega_thread_join", None, POINTER(mega_thread))
mega_thread_is_this = _function("mega_thread_is_this", c_bool, POINTER(mega_thread))
mega_thread_id = _function("mega_thread_id", c_uint64)
mega_time_now = _function("mega_time_now", c_double)

# ---- engine.h ----


class mega_engine(Structure):
    pass


class mega_engine_options(Structure):
    pass


mega_lr_scheduler_lr_function = _callback(c_double, c_void_p, c_int64, c_int64)


class mega_lr_scheduler(_Struct):
    _fields_ = [
        ("name", c_char_p),
        ("lr", mega_lr_scheduler_lr_function),
        ("user", c_void_p),
    ]


class mega_setting(_Struct):
    _fields_ = [
        ("name", c_char_p),
        ("value", c_char_p),
    ]


class mega_setup(_Struct):
    _fields_ = [
        ("model", POINTER(mega_model)),
        ("training_data", POINTER(mega_dataset)),
        ("config", c_char_p),
        ("argc", c_int),
        ("argv", POINTER(c_char_p)),
        ("defaults", POINTER(mega_setting)),
        ("mode", mega_mode),
        ("layout", mega_layout_sizes),
        ("optimizer", POINTER(mega_optimizer_row)),
        ("lr_scheduler", POINTER(mega_lr_scheduler)),
        ("world", POINTER(mega_world)),
        ("team", POINTER(mega_team)),
        ("options", POINTER(mega_engine_options)),
    ]


mega_initialize = _function(
    "mega_initialize", _checked, POINTER(mega_setup), POINTER(POINTER(mega_engine)))
mega_engine_create = _function(
    "mega_engine_create", _checked, POINTER(mega_setup), POINTER(POINTER(mega_engine)))
mega_engine_allocate = _function("mega_engine_allocate", _checked, POINTER(mega_engine))
mega_engine_destroy = _function("mega_engine_destroy", None, POINTER(mega_engine))
mega_engine_options_help = _function("mega_engine_options_help", _checked, POINTER(mega_buffer))
mega_show_help = _function("mega_show_help", c_bool, c_int, POINTER(POINTER(c_char)), _text)


class mega_engine_memory(_Struct):
    _fields_ = [
        ("weights", c_size_t),
        ("masters", c_size_t),
        ("gradients", c_size_t),
        ("moments", c_size_t),
        ("saved", c_size_t),
        ("scratch", c_size_t),
        ("inputs", c_size_t),
        ("packed", c_size_t),
        ("data", c_size_t),
        ("records", c_size_t),
        ("total", c_size_t),
        ("libraries", c_size_t),
        ("live", c_size_t),
        ("gathered", c_size_t),
        ("buckets", c_size_t),
        ("zero_stage", c_int),
        ("shards", c_int),
        ("head", c_size_t),
        ("device", c_size_t),
    ]


mega_engine_memory_get = _function(
    "mega_engine_memory_get", None, POINTER(mega_engine), POINTER(mega_engine_memory))


class mega_engine_cost(_Struct):
    _fields_ = [
        ("flops", c_double),
        ("masked_flops", c_double),
    ]


mega_engine_cost_get = _function(
    "mega_engine_cost_get", None, POINTER(mega_engine), POINTER(mega_engine_cost))
mega_engine_initialize = _function(
    "mega_engine_initialize", _checked, POINTER(mega_engine), c_uint32)
mega_engine_micro_batch = _function(
    "mega_engine_micro_batch", POINTER(mega_batch), POINTER(mega_engine))
mega_engine_batch = _function("mega_engine_batch", POINTER(mega_batch), POINTER(mega_engine))
mega_engine_sample = _function("mega_engine_sample", c_int64, POINTER(mega_engine), c_int64)


class mega_step_result(_Struct):
    _fields_ = [
        ("iteration", c_int64),
        ("loss", c_double),
        ("grad_norm", c_double),
        ("metric", c_double * 8),
        ("clip_factor", c_double),
        ("loss_scale", c_double),
        ("skipped", c_bool),
        ("grad_zeros", c_int64),
        ("lr", c_double),
        ("weight_decay", c_double),
        ("samples", c_int64),
        ("tokens", c_int64),
        ("micro_batches", c_int64),
        ("forward_s", c_double),
        ("backward_s", c_double),
        ("optimizer_s", c_double),
        ("waiting_s", c_double),
        ("reduce_s", c_double),
    ]


mega_engine_train_batch = _function(
    "mega_engine_train_batch", _checked, POINTER(mega_engine), POINTER(mega_step_result))
mega_engine_await_step = _function(
    "mega_engine_await_step", _checked, POINTER(mega_engine), POINTER(mega_step_result))
mega_engine_forward = _function(
    "mega_engine_forward", _checked, POINTER(mega_engine), POINTER(c_double))
mega_engine_backward = _function("mega_engine_backward", _checked, POINTER(mega_engine))
mega_engine_backward_from = _function(
    "mega_engine_backward_from", _checked, POINTER(mega_engine), _text, POINTER(c_float), c_int64,
    c_double)
mega_engine_step = _function(
    "mega_engine_step", _checked, POINTER(mega_engine), POINTER(mega_step_result))
mega_engine_is_accumulation_boundary = _function(
    "mega_engine_is_accumulation_boundary", c_bool, POINTER(mega_engine))
mega_engine_was_step_applied = _function(
    "mega_engine_was_step_applied", c_bool, POINTER(mega_engine))
mega_engine_set_accumulation_boundary = _function(
    "mega_engine_set_accumulation_boundary", _checked, POINTER(mega_engine), c_bool)
mega_engine_global_steps = _function("mega_engine_global_steps", c_int64, POINTER(mega_engine))
mega_engine_skipped_steps = _function("mega_engine_skipped_steps", c_int64, POINTER(mega_engine))
mega_engine_micro_steps = _function("mega_engine_micro_steps", c_int64, POINTER(mega_engine))
mega_engine_global_samples = _function("mega_engine_global_samples", c_int64, POINTER(mega_engine))
mega_engine_lr = _function("mega_engine_lr", c_double, POINTER(mega_engine))
mega_engine_loss_scale = _function("mega_engine_loss_scale", c_double, POINTER(mega_engine))
mega_engine_global_grad_norm = _function(
    "mega_engine_global_grad_norm", c_double, POINTER(mega_engine))
mega_engine_train_batch_size = _function(
    "mega_engine_train_batch_size", c_int64, POINTER(mega_engine))
mega_engine_train_micro_batch_size = _function(
    "mega_engine_train_micro_batch_size", c_int64, POINTER(mega_engine))
mega_engine_gradient_accumulation_steps = _function(
    "mega_engine_gradient_accumulation_steps", c_int64, POINTER(mega_engine))
mega_engine_dtype = _function("mega_engine_dtype", mega_dtype, POINTER(mega_engine))
mega_engine_zero_stage = _function("mega_engine_zero_stage", c_int, POINTER(mega_engine))
mega_engine_layout = _function("mega_engine_layout", POINTER(mega_layout), POINTER(mega_engine))
mega_engine_world = _function("mega_engine_world", POINTER(mega_world), POINTER(mega_engine))
mega_engine_is_main_process = _function("mega_engine_is_main_process", c_bool, POINTER(mega_engine))
mega_engine_is_first_stage = _function("mega_engine_is_first_stage", c_bool, POINTER(mega_engine))
mega_engine_is_last_stage = _function("mega_engine_is_last_stage", c_bool, POINTER(mega_engine))
mega_engine_positions = _function("mega_engine_positions", c_int64, POINTER(mega_engine))
mega_engine_is_busy = _function("mega_engine_is_busy", c_bool, POINTER(mega_engine))
mega_engine_param_info = _function(
    "mega_engine_param_info", _checked, POINTER(mega_engine), c_int, POINTER(c_char_p),
    POINTER(c_int64), POINTER(c_int64))
mega_engine_get_param = _function(
    "mega_engine_get_param", _checked, POINTER(mega_engine), _text, _text, c_int64,
    POINTER(c_float))
mega_engine_set_param = _function(
    "mega_engine_set_param", _checked, POINTER(mega_engine), _text, _text, c_int64,
    POINTER(c_float))
mega_engine_num_metrics = _function("mega_engine_num_metrics", c_int, POINTER(mega_engine))
mega_engine_metric_name = _function("mega_engine_metric_name", _text, POINTER(mega_engine), c_int)
mega_engine_output_count = _function(
    "mega_engine_output_count", c_int64, POINTER(mega_engine), _text)
mega_engine_read_output = _function(
    "mega_engine_read_output", _checked, POINTER(mega_engine), _text, c_int64, POINTER(c_float))
mega_engine_evaluate = _function(
    "mega_engine_evaluate", _checked, POINTER(mega_engine), POINTER(mega_dataset), c_int64,
    POINTER(mega_step_result))
mega_engine_write_event = _function(
    "mega_engine_write_event", _checked, POINTER(mega_engine), _text, c_double)
mega_engine_log_exchanges = _function(
    "mega_engine_log_exchanges", _checked, POINTER(mega_engine), c_bool)
mega_run = c_int
MEGA_RUN_EVALUATE = 0
MEGA_RUN_PREFILL = 1
MEGA_RUN_DECODE = 2
mega_engine_run_rows = _function("mega_engine_run_rows", c_int64, POINTER(mega_engine), mega_run)
mega_engine_run_batch = _function(
    "mega_engine_run_batch", POINTER(mega_batch), POINTER(mega_engine), mega_run)
mega_engine_run = _function(
    "mega_engine_run", _checked, POINTER(mega_engine), mega_run, POINTER(c_int32))
mega_engine_wait = _function("mega_engine_wait", _checked, POINTER(mega_engine))


class mega_run_value(_Struct):
    _fields_ = [
        ("data", c_void_p),
        ("dtype", mega_dtype),
        ("count", c_int64),
    ]


mega_engine_run_output = _function(
    "mega_engine_run_output", c_bool, POINTER(mega_engine), mega_run, _text,
    POINTER(mega_run_value))
mega_run_value_read = _function(
    "mega_run_value_read", _checked, POINTER(mega_run_value), c_int64, c_int64, c_void_p)


class mega_client_state(_Struct):
    _fields_ = [
        ("json", c_char_p),
        ("array", POINTER(mega_client_array)),
        ("num_arrays", c_int),
    ]


mega_engine_save_checkpoint = _function(
    "mega_engine_save_checkpoint", _checked, POINTER(mega_engine), _text, _text,
    POINTER(mega_client_state))


class mega_load_options(_Struct):
    _fields_ = [
        ("module_only", c_bool),
        ("no_optimizer_states", c_bool),
        ("no_lr_scheduler_states", c_bool),
        ("other_training_data", c_bool),
    ]


mega_engine_load_checkpoint = _function(
    "mega_engine_load_checkpoint", _checked, POINTER(mega_engine), _text, _text,
    POINTER(mega_load_options), POINTER(c_bool), POINTER(POINTER(mega_client_state)))

# ---- rope_scaling.h ----

mega_rope_scaling = c_int
MEGA_ROPE_NONE = 0
MEGA_ROPE_LINEAR = 1
MEGA_ROPE_DYNAMIC = 2
MEGA_ROPE_YARN = 3
MEGA_ROPE_LLAMA3 = 4
MEGA_ROPE_LONGROPE = 5

# ---- layers.h ----


class mega_linear_options(_Struct):
    _fields_ = [
        ("no_bias", c_bool),
        ("weight", mega_param_options),
    ]


mega_linear = _function(
    "mega_linear", mega_tensor, POINTER(mega_builder), _text, mega_tensor, c_int64,
    POINTER(mega_linear_options))
mega_column_linear = _function(
    "mega_column_linear", mega_tensor, POINTER(mega_builder), _text, mega_tensor, c_int64,
    POINTER(mega_linear_options))
mega_row_linear = _function(
    "mega_row_linear", mega_tensor, POINTER(mega_builder), _text, mega_tensor, c_int64,
    POINTER(mega_linear_options))
mega_embedding = _function(
    "mega_embedding", mega_tensor, POINTER(mega_builder), _text, mega_tensor, c_int64, c_int64,
    POINTER(mega_param_options))
mega_vocab_embedding = _function(
    "mega_vocab_embedding", mega_tensor, POINTER(mega_builder), _text, mega_tensor, c_int64,
    c_int64, POINTER(mega_param_options))
mega_position_embedding = _function(
    "mega_position_embedding", mega_tensor, POINTER(mega_builder), _text, mega_tensor, c_int64,
    POINTER(mega_param_options))
mega_position_embedding_after = _function(
    "mega_position_embedding_after", mega_tensor, POINTER(mega_builder), _text, mega_tensor,
    c_int64, c_int64, POINTER(mega_param_options))
mega_embedding_add = _function(
    "mega_embedding_add", mega_tensor, POINTER(mega_builder), _text, _text, mega_tensor, c_int64,
    POINTER(mega_param_options))
mega_norm_kind = c_int
MEGA_LAYER_NORM = 0
MEGA_RMS_NORM = 1
mega_norm = _function(
    "mega_norm", mega_tensor, POINTER(mega_builder), _text, mega_tensor, mega_norm_kind, c_double)


class mega_norm_options(_Struct):
    _fields_ = [
        ("kind", mega_norm_kind),
        ("epsilon", c_double),
        ("no_bias", c_bool),
        ("no_weight", c_bool),
        ("weight_plus_one", c_bool),
    ]


mega_norm_with = _function(
    "mega_norm_with", mega_tensor, POINTER(mega_builder), _text, mega_tensor,
    POINTER(mega_norm_options))
mega_activation = _function(
    "mega_activation", mega_tensor, POINTER(mega_builder), mega_tensor, mega_activation_kind)
mega_glu = _function(
    "mega_glu", mega_tensor, POINTER(mega_builder), mega_tensor, mega_activation_kind, c_bool)
mega_add = _function("mega_add", mega_tensor, POINTER(mega_builder), mega_tensor, mega_tensor)
mega_mul = _function("mega_mul", mega_tensor, POINTER(mega_builder), mega_tensor, mega_tensor)
mega_scale = _function("mega_scale", mega_tensor, POINTER(mega_builder), mega_tensor, c_double)
mega_bias_add = _function(
    "mega_bias_add", mega_tensor, POINTER(mega_builder), mega_tensor, mega_tensor)
mega_reshape = _function("mega_reshape", mega_tensor, POINTER(mega_builder), mega_tensor, c_int64)
mega_first_position = _function(
    "mega_first_position", mega_tensor, POINTER(mega_builder), mega_tensor)
mega_mean_positions = _function(
    "mega_mean_positions", mega_tensor, POINTER(mega_builder), mega_tensor)
mega_dropout = _function(
    "mega_dropout", mega_tensor, POINTER(mega_builder), _text, mega_tensor, c_double)
mega_dropout_add = _function(
    "mega_dropout_add", mega_tensor, POINTER(mega_builder), _text, mega_tensor, mega_tensor,
    c_double)


class mega_rope(_Struct):
    _fields_ = [
        ("theta", c_double),
        ("fraction", c_double),
        ("interleaved", c_bool),
        ("scaling", mega_rope_scaling),
        ("factor", c_double),
        ("beta_fast", c_double),
        ("beta_slow", c_double),
        ("attention_factor", c_double),
        ("mscale", c_double),
        ("mscale_all_dim", c_double),
        ("low_freq_factor", c_double),
        ("high_freq_factor", c_double),
        ("no_truncate", c_bool),
        ("original_positions", c_int64),
        ("max_positions", c_int64),
        ("long_factor", POINTER(c_double)),
        ("short_factor", POINTER(c_double)),
    ]


mega_rope_frequencies = _function(
    "mega_rope_frequencies", _checked, POINTER(mega_rope), c_int64, c_int64, POINTER(c_float),
    POINTER(c_double))
mega_qk_norm = c_int
MEGA_QK_NORM_NONE = 0
MEGA_QK_NORM_HEAD = 1
MEGA_QK_NORM_ALL = 2


class mega_latent_options(_Struct):
    _fields_ = [
        ("q_rank", c_int64),
        ("kv_rank", c_int64),
        ("own_dim", c_int64),
        ("rope_dim", c_int64),
        ("value_dim", c_int64),
        ("norm_epsilon", c_double),
        ("q_down", c_char_p),
        ("q_norm", c_char_p),
        ("q_up", c_char_p),
        ("kv_down", c_char_p),
        ("kv_norm", c_char_p),
        ("kv_up", c_char_p),
    ]


class mega_attention_options(_Struct):
    _fields_ = [
        ("num_heads", c_int64),
        ("num_kv_heads", c_int64),
        ("head_dim", c_int64),
        ("scale", c_double),
        ("softcap", c_double),
        ("is_causal", c_bool),
        ("key_begin", c_char_p),
        ("key_end", c_char_p),
        ("has_window", c_bool),
        ("window_left", c_int64),
        ("window_right", c_int64),
        ("alibi", c_bool),
        ("bias", mega_tensor),
        ("bias_distance", c_int64),
        ("sinks_name", c_char_p),
        ("sinks_std", c_double),
        ("rope", POINTER(mega_rope)),
        ("qk_norm", mega_qk_norm),
        ("qk_norm_options", mega_norm_options),
        ("q_norm_name", c_char_p),
        ("k_norm_name", c_char_p),
        ("dropout", c_double),
        ("recompute_core", c_bool),
        ("qkv", POINTER(mega_linear_options)),
        ("out", POINTER(mega_linear_options)),
        ("qkv_name", c_char_p),
        ("out_name", c_char_p),
        ("latent", POINTER(mega_latent_options)),
    ]


mega_attention_bias = _function(
    "mega_attention_bias", mega_tensor, POINTER(mega_builder), _text, c_int64, c_int64,
    POINTER(mega_param_options))
mega_self_attention = _function(
    "mega_self_attention", mega_tensor, POINTER(mega_builder), _text, mega_tensor,
    POINTER(mega_attention_options))
mega_cross_attention = _function(
    "mega_cross_attention", mega_tensor, POINTER(mega_builder), _text, mega_tensor, mega_tensor,
    c_int64, POINTER(mega_attention_options))
mega_vocab_pad = _function("mega_vocab_pad", c_int64, c_int64, c_int64, c_int)


class mega_image_size(_Struct):
    _fields_ = [
        ("height", c_int64),
        ("width", c_int64),
    ]


class mega_conv_options(_Struct):
    _fields_ = [
        ("kernel_size", c_int),
        ("stride", c_int),
        ("padding", c_int),
        ("no_bias", c_bool),
        ("init", mega_init),
    ]


mega_conv2d = _function(
    "mega_conv2d", mega_tensor, POINTER(mega_builder), _text, mega_tensor, c_int64,
    POINTER(mega_conv_options), POINTER(mega_image_size))


class mega_pool_options(_Struct):
    _fields_ = [
        ("window", c_int),
        ("stride", c_int),
        ("padding", c_int),
    ]


mega_max_pool2d = _function(
    "mega_max_pool2d", mega_tensor, POINTER(mega_builder), mega_tensor, POINTER(mega_pool_options),
    POINTER(mega_image_size))
mega_mean_pool2d = _function(
    "mega_mean_pool2d", mega_tensor, POINTER(mega_builder), mega_tensor,
    POINTER(mega_pool_options), POINTER(mega_image_size))
mega_batch_norm = _function(
    "mega_batch_norm", mega_tensor, POINTER(mega_builder), _text, mega_tensor, c_int, c_double,
    c_double)
mega_ignore_label = _function(
    "mega_ignore_label", None, POINTER(mega_builder), mega_tensor, c_int32)
mega_cross_entropy = _function(
    "mega_cross_entropy", mega_loss, POINTER(mega_builder), mega_tensor, mega_tensor, mega_tensor)
mega_row_cross_entropy = _function(
    "mega_row_cross_entropy", mega_tensor, POINTER(mega_builder), mega_tensor, mega_tensor)
mega_sum = _function("mega_sum", mega_loss, POINTER(mega_builder), mega_tensor, mega_tensor)
mega_squared_error = _function(
    "mega_squared_error", mega_loss, POINTER(mega_builder), mega_tensor, mega_tensor, mega_tensor)
mega_accuracy = _function(
    "mega_accuracy", mega_loss, POINTER(mega_builder), mega_tensor, mega_tensor)
mega_pooler = _function(
    "mega_pooler", mega_tensor, POINTER(mega_builder), _text, mega_tensor, c_int64,
    POINTER(mega_linear_options))
mega_class_loss = _function(
    "mega_class_loss", mega_loss, POINTER(mega_builder), _text, mega_tensor, mega_tensor, c_int64,
    POINTER(mega_linear_options), POINTER(mega_tensor))
mega_choice_loss = _function(
    "mega_choice_loss", mega_loss, POINTER(mega_builder), _text, mega_tensor, mega_tensor, c_int64,
    POINTER(mega_linear_options), POINTER(mega_tensor))


class mega_vocab_loss_options(_Struct):
    _fields_ = [
        ("vocab_size", c_int64),
        ("table", mega_param_options),
        ("has_bias", c_bool),
        ("softcap", c_double),
        ("bias_name", c_char_p),
    ]


mega_vocab_loss = _function(
    "mega_vocab_loss", mega_head_result, POINTER(mega_builder), _text, mega_tensor, mega_tensor,
    mega_tensor, POINTER(mega_vocab_loss_options))
mega_vocab_logits = _function(
    "mega_vocab_logits", mega_tensor, POINTER(mega_builder), _text, mega_tensor, c_int64,
    POINTER(mega_param_options))
mega_vocab_logits_with = _function(
    "mega_vocab_logits_with", mega_tensor, POINTER(mega_builder), _text, mega_tensor,
    POINTER(mega_vocab_loss_options))

# ---- router.h ----


class mega_router_options(_Struct):
    _fields_ = [
        ("route", mega_route_options),
        ("jitter", c_double),
        ("has_bias", c_bool),
        ("choice_bias", mega_tensor),
        ("sinkhorn", c_bool),
        ("sinkhorn_group", c_int64),
        ("weight", mega_param_options),
    ]


class mega_router_result(_Struct):
    _fields_ = [
        ("logits", mega_tensor),
        ("choice", mega_tensor),
        ("weight", mega_tensor),
        ("share", mega_tensor),
        ("dropped", mega_tensor),
        ("later", mega_tensor),
        ("is_gathered", c_bool),
    ]


mega_router = _function(
    "mega_router", mega_router_result, POINTER(mega_builder), _text, mega_tensor, c_int64,
    POINTER(mega_router_options))
mega_router_jitter = _function(
    "mega_router_jitter", mega_tensor, POINTER(mega_builder), _text, mega_tensor, c_double)


class mega_router_balance_result(_Struct):
    _fields_ = [
        ("loss", mega_loss),
        ("fullest", mega_loss),
        ("emptiest", mega_loss),
        ("entropy", mega_loss),
    ]


mega_router_balance = _function(
    "mega_router_balance", mega_router_balance_result, POINTER(mega_builder),
    POINTER(mega_router_result), c_int64, c_int64)
mega_router_z_loss = _function(
    "mega_router_z_loss", mega_loss, POINTER(mega_builder), POINTER(mega_router_result),
    mega_tensor)

# ---- experts.h ----


class mega_expert_capacity(_Struct):
    _fields_ = [
        ("factor", c_double),
        ("least", c_int64),
        ("group", c_int64),
        ("by_position", c_bool),
    ]


class mega_moe_options(_Struct):
    _fields_ = [
        ("num_experts", c_int64),
        ("router", mega_router_options),
        ("router_name", c_char_p),
        ("buffer_factor", c_double),
        ("capacity", mega_expert_capacity),
    ]


class mega_experts(Structure):
    pass


mega_expert_function = _callback(
    mega_tensor, POINTER(mega_builder), POINTER(mega_experts), mega_tensor, c_void_p)
mega_experts_column_linear = _function(
    "mega_experts_column_linear", mega_tensor, POINTER(mega_builder), POINTER(mega_experts), _text,
    mega_tensor, c_int64, POINTER(mega_linear_options))
mega_experts_row_linear = _function(
    "mega_experts_row_linear", mega_tensor, POINTER(mega_builder), POINTER(mega_experts), _text,
    mega_tensor, c_int64, POINTER(mega_linear_options))
mega_moe = _function(
    "mega_moe", mega_tensor, POINTER(mega_builder), _text, mega_tensor, POINTER(mega_moe_options),
    mega_expert_function, c_void_p, POINTER(mega_router_result))
mega_blend = _function(
    "mega_blend", mega_tensor, POINTER(mega_builder), _text, mega_tensor, mega_tensor, mega_tensor,
    POINTER(mega_linear_options))

# ---- file.h ----


class mega_map(_Struct):
    _fields_ = [
        ("data", POINTER(c_uint8)),
        ("size", c_size_t),
    ]


mega_map_open = _function("mega_map_open", _checked, _text, POINTER(mega_map))
mega_map_close = _function("mega_map_close", None, POINTER(mega_map))
mega_map_guard = _function("mega_map_guard", None)
mega_map_check = _function("mega_map_check", _checked)
mega_map_fetch = _function("mega_map_fetch", None, POINTER(mega_map), c_size_t, c_size_t)
mega_map_is_cached = _function("mega_map_is_cached", c_bool, POINTER(mega_map), c_size_t, c_size_t)
mega_file_read = _function(
    "mega_file_read", _checked, _text, POINTER(POINTER(c_char)), POINTER(c_size_t))
mega_path_check_access = _function("mega_path_check_access", _checked, _text)
mega_file_exists = _function("mega_file_exists", c_bool, _text)
mega_file_available = _function("mega_file_available", c_bool, _text, POINTER(c_ulonglong))
mega_file_is_regular = _function("mega_file_is_regular", c_bool, _text)
mega_folder_exists = _function("mega_folder_exists", c_bool, _text)
mega_file_same = _function("mega_file_same", c_bool, _text, _text)
mega_folder_same = _function("mega_folder_same", c_bool, _text, _text)
mega_file_size = _function("mega_file_size", _checked, _text, POINTER(c_int64))
mega_folder_create = _function("mega_folder_create", _checked, _text)
mega_folder_create_for = _function("mega_folder_create_for", _checked, _text)
mega_folder_try = _function("mega_folder_try", _checked, _text)
mega_folder_sync = _function("mega_folder_sync", _checked, _text)
mega_file_rename = _function("mega_file_rename", _checked, _text, _text)
mega_file_exchange = _function("mega_file_exchange", _checked, _text, _text)
mega_file_remove = _function("mega_file_remove", _checked, _text)
mega_file_discard = _function("mega_file_discard", None, _text)
mega_tree_remove = _function("mega_tree_remove", _checked, _text)


class mega_names(_Struct):
    _fields_ = [
        ("name", POINTER(c_char_p)),
        ("count", c_size_t),
    ]


mega_folder_list = _function("mega_folder_list", _checked, _text, POINTER(mega_names))
mega_names_fini = _function("mega_names_fini", None, POINTER(mega_names))


class mega_writer(Structure):
    pass


mega_writer_create = _function("mega_writer_create", _checked, _text, POINTER(POINTER(mega_writer)))
mega_writer_create_large = _function(
    "mega_writer_create_large", _checked, _text, POINTER(POINTER(mega_writer)))
mega_writer_large_memory = _function("mega_writer_large_memory", c_size_t, c_size_t)
mega_writer_expect = _function("mega_writer_expect", None, POINTER(mega_writer), c_int64)
mega_writer_append_to = _function(
    "mega_writer_append_to", _checked, _text, POINTER(POINTER(mega_writer)))
mega_writer_write = _function(
    "mega_writer_write", _checked, POINTER(mega_writer), c_void_p, c_size_t)
mega_writer_flush = _function("mega_writer_flush", _checked, POINTER(mega_writer))
mega_writer_position = _function("mega_writer_position", c_int64, POINTER(mega_writer))
mega_writer_crc32c = _function("mega_writer_crc32c", c_uint32, POINTER(mega_writer))
mega_writer_close = _function("mega_writer_close", _checked, POINTER(mega_writer), c_bool)
mega_writer_abandon = _function("mega_writer_abandon", None, POINTER(mega_writer))


class mega_patch(Structure):
    pass


mega_patch_open = _function(
    "mega_patch_open", _checked, _text, c_int64, c_bool, POINTER(POINTER(mega_patch)))
mega_patch_write = _function(
    "mega_patch_write", _checked, POINTER(mega_patch), c_int64, c_void_p, c_size_t)
mega_patch_close = _function("mega_patch_close", _checked, POINTER(mega_patch), c_bool)
mega_file_write_atomic = _function("mega_file_write_atomic", _checked, _text, c_void_p, c_size_t)
mega_file_link = _function("mega_file_link", _checked, _text, _text)
mega_temporary_path = _function("mega_temporary_path", POINTER(c_char), _text)
mega_owned_path = _function("mega_owned_path", POINTER(c_char), _text, _text)
mega_owner_is_known = _function("mega_owner_is_known", c_bool, _text)
mega_owner_is_dead = _function("mega_owner_is_dead", c_bool, _text, _text)
mega_temporaries_remove = _function("mega_temporaries_remove", None, _text, _text, _text, c_bool)
mega_file_observer = _callback(None, c_void_p, c_char_p, c_char_p, c_char_p, c_void_p, c_size_t)
mega_file_observe = _function("mega_file_observe", None, mega_file_observer, c_void_p)
mega_path_complete = _function(
    "mega_path_complete", _checked, POINTER(POINTER(c_char)), _text, _text)
mega_path_join = _function("mega_path_join", POINTER(c_char), _text, _text)
mega_path_follow = _function("mega_path_follow", POINTER(c_char), _text)
mega_path_ends_with = _function("mega_path_ends_with", c_bool, _text, _text)
mega_path_base = _function("mega_path_base", _text, _text)
mega_path_folder = _function("mega_path_folder", POINTER(c_char), _text)

# ---- fill_mask.h ----


class mega_filler(Structure):
    pass


class mega_filler_setup(_Struct):
    _fields_ = [
        ("folder", c_char_p),
        ("compute", mega_dtype),
        ("texts", c_int64),
        ("positions", c_int64),
        ("masks", c_int64),
        ("threads", c_int64),
        ("tp", c_int),
        ("pp", c_int),
        ("world", POINTER(mega_world)),
        ("team", POINTER(mega_team)),
    ]


mega_filler_open = _function(
    "mega_filler_open", _checked, POINTER(mega_filler_setup), POINTER(POINTER(mega_filler)))
mega_filler_destroy = _function("mega_filler_destroy", None, POINTER(mega_filler))
mega_filler_encode = _function(
    "mega_filler_encode", _checked, POINTER(mega_filler), _text, POINTER(c_int32), c_int64,
    POINTER(c_int64))
mega_filler_decode = _function(
    "mega_filler_decode", _checked, POINTER(mega_filler), POINTER(c_int32), c_int64,
    POINTER(mega_buffer))
mega_filler_mask = _function("mega_filler_mask", c_int32, POINTER(mega_filler))
mega_filler_positions = _function("mega_filler_positions", c_int64, POINTER(mega_filler))


class mega_filling(_Struct):
    _fields_ = [
        ("token", c_int32),
        ("score", c_float),
    ]


class mega_masked_texts(_Struct):
    _fields_ = [
        ("tokens", POINTER(c_int32)),
        ("begin", POINTER(c_int64)),
        ("count", c_int64),
        ("top", c_int64),
        ("targets", POINTER(c_int32)),
        ("num_targets", c_int64),
    ]


mega_filler_run = _function(
    "mega_filler_run", _checked, POINTER(mega_filler), POINTER(mega_masked_texts),
    POINTER(mega_filling), c_int64)

# ---- generator.h ----


class mega_sampling(_Struct):
    _fields_ = [
        ("greedy", c_bool),
        ("temperature", c_double),
        ("top_p", c_double),
        ("top_k", c_int64),
        ("seed", c_uint32),
        ("top_p_decay", c_double),
        ("top_p_bound", c_double),
        ("min_p", c_double),
        ("repetition_penalty", c_double),
        ("forbids", c_bool),
        ("forbidden", c_int32),
        ("forbidden_after", c_int32),
    ]


class mega_generator(Structure):
    pass


class mega_generator_setup(_Struct):
    _fields_ = [
        ("folder", c_char_p),
        ("compute", mega_dtype),
        ("texts", c_int64),
        ("positions", c_int64),
        ("has_beams", c_bool),
        ("no_cache", c_bool),
        ("threads", c_int64),
        ("tp", c_int),
        ("pp", c_int),
        ("ep", c_int),
        ("micro_batches", c_int),
        ("world", POINTER(mega_world)),
        ("team", POINTER(mega_team)),
    ]


mega_generator_open = _function(
    "mega_generator_open", _checked, POINTER(mega_generator_setup),
    POINTER(POINTER(mega_generator)))
mega_generator_encode = _function(
    "mega_generator_encode", _checked, POINTER(mega_generator), _text, POINTER(c_int32), c_int64,
    POINTER(c_int64))
mega_generator_decode = _function(
    "mega_generator_decode", _checked, POINTER(mega_generator), POINTER(c_int32), c_int64,
    POINTER(mega_buffer))
mega_generator_vocab = _function("mega_generator_vocab", c_int64, POINTER(mega_generator))
mega_generator_positions = _function("mega_generator_positions", c_int64, POINTER(mega_generator))
mega_generator_end = _function("mega_generator_end", c_int32, POINTER(mega_generator))


class mega_generation(_Struct):
    _fields_ = [
        ("prompt", POINTER(c_int32)),
        ("prompt_count", c_int64),
        ("max_new", c_int64),
        ("index", c_uint64),
        ("drawn", c_int64),
        ("tokens", POINTER(c_int32)),
        ("logprobs", POINTER(c_float)),
        ("count", c_int64),
        ("finished", c_bool),
    ]


class mega_id_sequence(_Struct):
    _fields_ = [
        ("id", POINTER(c_int32)),
        ("count", c_int),
    ]


mega_token_sink = _callback(c_bool, c_void_p, c_int, c_int32)
mega_logits_sink = _callback(None, c_void_p, c_int, POINTER(c_float), c_int64)


class mega_generation_rules(_Struct):
    _fields_ = [
        ("sampling", mega_sampling),
        ("end", POINTER(mega_id_sequence)),
        ("num_ends", c_int),
        ("stop", POINTER(c_char_p)),
        ("num_stops", c_int),
        ("token", mega_token_sink),
        ("logits", mega_logits_sink),
        ("user", c_void_p),
    ]


MEGA_LONGEST_STOP = 256
mega_generator_run = _function(
    "mega_generator_run", _checked, POINTER(mega_generator), POINTER(mega_generation), c_int,
    POINTER(mega_generation_rules))
mega_early_stopping = c_int
MEGA_EARLY_STOPPING_FALSE = 0
MEGA_EARLY_STOPPING_TRUE = 1
MEGA_EARLY_STOPPING_NEVER = 2
mega_beam_rules = c_int
MEGA_BEAMS_MEGATRON = 0
MEGA_BEAMS_TRANSFORMERS = 1
mega_beam_options_step_function = _callback(c_bool, c_void_p)


class mega_beam_options(_Struct):
    _fields_ = [
        ("width", c_int),
        ("length_penalty", c_double),
        ("stop", c_int32),
        ("more_stops", POINTER(c_int32)),
        ("num_more_stops", c_int),
        ("rules", mega_beam_rules),
        ("early_stopping", mega_early_stopping),
        ("forbids", c_bool),
        ("forbidden", c_int32),
        ("forbidden_after", c_int32),
        ("step", mega_beam_options_step_function),
        ("user", c_void_p),
    ]


class mega_beam_text(_Struct):
    _fields_ = [
        ("tokens", POINTER(c_int32)),
        ("count", c_int64),
        ("score", c_double),
        ("finished", c_bool),
    ]


mega_generator_beams = _function(
    "mega_generator_beams", _checked, POINTER(mega_generator), POINTER(c_int32), c_int64, c_int64,
    POINTER(mega_beam_options), POINTER(mega_beam_text), POINTER(c_int))
mega_generator_destroy = _function("mega_generator_destroy", None, POINTER(mega_generator))

# ---- gpt_data.h ----

MEGA_SPLIT_TRAIN = 0
MEGA_SPLIT_VALID = 1
MEGA_SPLIT_TEST = 2
MEGA_SPLIT_COUNT = 3


class mega_gpt_data(Structure):
    pass


class mega_gpt_share(Structure):
    pass


class mega_gpt_offer(_Struct):
    _fields_ = [
        ("pid", c_int64),
        ("fd", c_int64),
        ("nonce", c_int64),
        ("table", c_int64),
        ("blocks", c_int64),
        ("bytes", c_int64),
    ]


mega_gpt_share_create = _function(
    "mega_gpt_share_create", _checked, POINTER(POINTER(mega_gpt_share)))
mega_gpt_share_offer = _function(
    "mega_gpt_share_offer", None, POINTER(mega_gpt_share), POINTER(mega_gpt_offer))
mega_gpt_share_open = _function(
    "mega_gpt_share_open", _checked, POINTER(mega_gpt_offer), POINTER(POINTER(mega_gpt_share)))
mega_gpt_share_destroy = _function("mega_gpt_share_destroy", None, POINTER(mega_gpt_share))


class mega_ltor_options(_Struct):
    _fields_ = [
        ("eod", c_int32),
        ("reset_position_ids", c_bool),
        ("reset_attention_mask", c_bool),
        ("eod_mask_loss", c_bool),
    ]


class mega_gpt_data_options(_Struct):
    _fields_ = [
        ("data_path", POINTER(c_char_p)),
        ("num_data_path", c_int),
        ("data_path2", POINTER(c_char_p)),
        ("num_data_path2", c_int),
        ("split", c_char_p),
        ("separate", POINTER(c_char_p) * 3),
        ("num_separate", c_int * 3),
        ("cache_path", c_char_p),
        ("in_memory", c_bool),
        ("share", POINTER(mega_gpt_share)),
        ("check_only", c_bool),
        ("is_quiet", c_bool),
        ("seq_length", c_int64),
        ("seed", c_uint32),
        ("num_samples", c_int64 * 3),
        ("ltor", mega_ltor_options),
        ("sentences", c_void_p),
        ("vocab", c_int64),
        ("stop", POINTER(c_int)),
    ]


mega_blend_is_by_size = _function("mega_blend_is_by_size", c_bool, POINTER(c_char_p), c_int)
mega_gpt_data_build = _function(
    "mega_gpt_data_build", _checked, POINTER(mega_gpt_data_options),
    POINTER(POINTER(mega_gpt_data)))
mega_gpt_data_destroy = _function("mega_gpt_data_destroy", None, POINTER(mega_gpt_data))
mega_gpt_data_join = _function(
    "mega_gpt_data_join", _checked, POINTER(POINTER(mega_gpt_data)), c_int,
    POINTER(POINTER(mega_gpt_data)))
mega_gpt_data_samples = _function("mega_gpt_data_samples", c_int64, POINTER(mega_gpt_data))
mega_gpt_data_bytes = _function("mega_gpt_data_bytes", c_size_t, POINTER(mega_gpt_data))
mega_gpt_data_seq_length = _function("mega_gpt_data_seq_length", c_int64, POINTER(mega_gpt_data))
mega_gpt_data_hash = _function("mega_gpt_data_hash", c_uint64, POINTER(mega_gpt_data))
mega_gpt_data_content_hash = _function(
    "mega_gpt_data_content_hash", _checked, POINTER(mega_gpt_data), POINTER(c_uint64))


class mega_gpt_data_probe(_Struct):
    _fields_ = [
        ("tokens", c_int64),
        ("ends", c_int64),
        ("stray_in", c_char_p),
        ("sequence", c_int64),
        ("id", c_int32),
    ]


mega_gpt_data_look = _function(
    "mega_gpt_data_look", None, POINTER(mega_gpt_data), c_int64, c_int64, c_int32,
    POINTER(mega_gpt_data_probe))
mega_gpt_data_sample = _function(
    "mega_gpt_data_sample", _checked, POINTER(mega_gpt_data), c_int64, POINTER(c_int32))
mega_dataset_gpt = _function("mega_dataset_gpt", mega_dataset, POINTER(mega_gpt_data))
mega_gpt_data_order_hash = _function(
    "mega_gpt_data_order_hash", c_uint64, POINTER(mega_gpt_data), c_int64)
mega_split_bounds = _function("mega_split_bounds", _checked, _text, c_int64, POINTER(c_int64))
mega_ltor_check = _function("mega_ltor_check", _checked, POINTER(mega_ltor_options), _text)
mega_ltor_check_ends = _function(
    "mega_ltor_check_ends", _checked, POINTER(mega_ltor_options), _text, c_int64, c_int64)
mega_ltor_row = _function(
    "mega_ltor_row", None, POINTER(c_int32), c_int64, POINTER(mega_ltor_options), POINTER(c_int32),
    POINTER(c_int32), POINTER(c_float), POINTER(c_int32), POINTER(c_int32))
mega_ltor_sample = _function(
    "mega_ltor_sample", None, POINTER(mega_sample), POINTER(c_int32), c_int64,
    POINTER(mega_ltor_options))


class mega_sampler(Structure):
    pass


mega_sampler_type = c_int
MEGA_SAMPLER_SINGLE = 0
MEGA_SAMPLER_CYCLIC = 1
mega_sampler_create = _function(
    "mega_sampler_create", _checked, mega_sampler_type, c_int64, c_int64, c_int64,
    POINTER(POINTER(mega_sampler)))
mega_sampler_create_drop_last = _function(
    "mega_sampler_create_drop_last", _checked, mega_sampler_type, c_int64, c_int64,
    POINTER(POINTER(mega_sampler)))
mega_sampler_bytes = _function("mega_sampler_bytes", c_size_t, mega_sampler_type, c_int64)
mega_sampler_destroy = _function("mega_sampler_destroy", None, POINTER(mega_sampler))
mega_sampler_index = _function(
    "mega_sampler_index", _checked, POINTER(mega_sampler), c_int64, POINTER(c_int64))


class mega_sampled(_Struct):
    _fields_ = [
        ("sampler", POINTER(mega_sampler)),
        ("dataset", mega_dataset),
    ]


mega_dataset_sampled = _function("mega_dataset_sampled", mega_dataset, POINTER(mega_sampled))

# ---- log.h ----

mega_log_level = c_int
MEGA_LOG_ERROR = 0
MEGA_LOG_WARN = 1
MEGA_LOG_INFO = 2
MEGA_LOG_DEBUG = 3
MEGA_LOG_TRACE = 4
mega_log_sink = _callback(None, c_void_p, mega_log_level, c_char_p)
mega_log_set_sink = _function("mega_log_set_sink", None, mega_log_sink, c_void_p)
mega_log = _function("mega_log", None, mega_log_level, _text)

# ---- t5_blocks.h ----


class mega_t5_options(_Struct):
    _fields_ = [
        ("num_heads", c_int64),
        ("head_dim", c_int64),
        ("ffn_channels", c_int64),
        ("activation", mega_activation_kind),
        ("is_gated", c_bool),
        ("epsilon", c_double),
        ("dropout", c_double),
        ("weights", mega_param_options),
        ("bias", mega_tensor),
        ("bias_distance", c_int64),
        ("key_begin", c_char_p),
        ("key_end", c_char_p),
        ("source_begin", c_char_p),
        ("source_end", c_char_p),
        ("recompute_core", c_bool),
    ]


mega_t5_encoder_block = _function(
    "mega_t5_encoder_block", mega_tensor, POINTER(mega_builder), mega_tensor,
    POINTER(mega_t5_options))
mega_t5_decoder_block = _function(
    "mega_t5_decoder_block", mega_tensor, POINTER(mega_builder), mega_tensor, mega_tensor, c_int64,
    POINTER(mega_t5_options))


class _EngineCalls:
    """Functions of an engine that take and return numbers and texts."""


    def allocate(self):
        """engine.h: mega_status mega_engine_allocate(mega_engine *e)"""
        return mega_engine_allocate(self._handle)

    def initialize(self, seed: int):
        """engine.h: mega_status mega_engine_initialize(mega_engine *e, uint32_t seed)"""
        return mega_engine_initialize(self._handle, seed)

    def sample(self, i: int):
        """engine.h: int64_t mega_engine_sample(const mega_engine *e, int64_t i)"""
        return mega_engine_sample(self._handle, i)

    def backward(self):
        """engine.h: mega_status mega_engine_backward(mega_engine *e)"""
        return mega_engine_backward(self._handle)

    def is_accumulation_boundary(self):
        """engine.h: bool mega_engine_is_accumulation_boundary(const mega_engine *e)"""
        return mega_engine_is_accumulation_boundary(self._handle)

    def was_step_applied(self):
        """engine.h: bool mega_engine_was_step_applied(const mega_engine *e)"""
        return mega_engine_was_step_applied(self._handle)

    def set_accumulation_boundary(self, is_boundary: bool):
        """engine.h: mega_status mega_engine_set_accumulation_boundary(mega_engine *e, bool
        is_boundary)"""
        return mega_engine_set_accumulation_boundary(self._handle, is_boundary)

    def global_steps(self):
        """engine.h: int64_t mega_engine_global_steps(const mega_engine *e)"""
        return mega_engine_global_steps(self._handle)

    def skipped_steps(self):
        """engine.h: int64_t mega_engine_skipped_steps(const mega_engine *e)"""
        return mega_engine_skipped_steps(self._handle)

    def micro_steps(self):
        """engine.h: int64_t mega_engine_micro_steps(const mega_engine *e)"""
        return mega_engine_micro_steps(self._handle)

    def global_samples(self):
        """engine.h: int64_t mega_engine_global_samples(const mega_engine *e)"""
        return mega_engine_global_samples(self._handle)

    def lr(self):
        """engine.h: double mega_engine_lr(const mega_engine *e)"""
        return mega_engine_lr(self._handle)

    def loss_scale(self):
        """engine.h: double mega_engine_loss_scale(const mega_engine *e)"""
        return mega_engine_loss_scale(self._handle)

    def global_grad_norm(self):
        """engine.h: double mega_engine_global_grad_norm(const mega_engine *e)"""
        return mega_engine_global_grad_norm(self._handle)

    def train_batch_size(self):
        """engine.h: int64_t mega_engine_train_batch_size(const mega_engine *e)"""
        return mega_engine_train_batch_size(self._handle)

    def train_micro_batch_size(self):
        """engine.h: int64_t mega_engine_train_micro_batch_size(const mega_engine *e)"""
        return mega_engine_train_micro_batch_size(self._handle)

    def gradient_accumulation_steps(self):
        """engine.h: int64_t mega_engine_gradient_accumulation_steps(const mega_engine *e)"""
        return mega_engine_gradient_accumulation_steps(self._handle)

    def dtype(self):
        """engine.h: mega_dtype mega_engine_dtype(const mega_engine *e)"""
        return mega_engine_dtype(self._handle)

    def zero_stage(self):
        """engine.h: int mega_engine_zero_stage(const mega_engine *e)"""
        return mega_engine_zero_stage(self._handle)

    def is_main_process(self):
        """engine.h: bool mega_engine_is_main_process(const mega_engine *e)"""
        return mega_engine_is_main_process(self._handle)

    def is_first_stage(self):
        """engine.h: bool mega_engine_is_first_stage(const mega_engine *e)"""
        return mega_engine_is_first_stage(self._handle)

    def is_last_stage(self):
        """engine.h: bool mega_engine_is_last_stage(const mega_engine *e)"""
        return mega_engine_is_last_stage(self._handle)

    def positions(self):
        """engine.h: int64_t mega_engine_positions(const mega_engine *e)"""
        return mega_engine_positions(self._handle)

    def is_busy(self):
        """engine.h: bool mega_engine_is_busy(const mega_engine *e)"""
        return mega_engine_is_busy(self._handle)

    def num_metrics(self):
        """engine.h: int mega_engine_num_metrics(const mega_engine *e)"""
        return mega_engine_num_metrics(self._handle)

    def metric_name(self, metric: int):
        """engine.h: const char *mega_engine_metric_name(const mega_engine *e, int metric)"""
        return mega_engine_metric_name(self._handle, metric)

    def output_count(self, output: str):
        """engine.h: int64_t mega_engine_output_count(const mega_engine *e, const char *output)"""
        return mega_engine_output_count(self._handle, output)

    def write_event(self, name: str, value: float):
        """engine.h: mega_status mega_engine_write_event(mega_engine *e, const char *name, double
        value)"""
        return mega_engine_write_event(self._handle, name, value)

    def log_exchanges(self, stragglers: bool):
        """engine.h: mega_status mega_engine_log_exchanges(mega_engine *e, bool stragglers)"""
        return mega_engine_log_exchanges(self._handle, stragglers)

    def run_rows(self, program):
        """engine.h: int64_t mega_engine_run_rows(const mega_engine *e, mega_run program)"""
        return mega_engine_run_rows(self._handle, program)

    def wait(self):
        """engine.h: mega_status mega_engine_wait(mega_engine *e)"""
        return mega_engine_wait(self._handle)
# ---- models, data sets, engines ----


class Flow:
    """What a layer hands on to the next: x, and more, a list of further tensors (mega_flow).

    A copy of the struct: tensors of the struct itself would change when others are assigned.
    """

    __slots__ = ("x", "more")

    def __init__(self, struct):
        self.x, *self.more = (
            mega_tensor.from_buffer_copy(tensor) for tensor in (struct.x, *struct.more)
        )

    def write_to(self, struct) -> None:
        if len(self.more) > len(struct.more):
            raise ValueError(f"flow.more has {len(self.more)} tensors; {len(struct.more)} fit")
        struct.x = mega_tensor.from_param(self.x)
        for i in range(len(struct.more)):
            tensor = self.more[i] if i < len(self.more) else None
            struct.more[i] = mega_tensor.from_param(tensor)


class Model:
    """A list of layers. Keywords are members of mega_model: positions, partition, …

    A layer is a function f(builder, flow), which reads flow.x and replaces it, or a tuple
    (path, f), (path, f, repeat) or (path, f, repeat, type), as in mega_layer. The path of a
    function alone is its name.
    """

    def __init__(self, layers, name: str = "model", **settings):
        table = [self._row(*self._named(layer)) for layer in layers]
        self.struct = mega_model(name=name, layer=table, num_layers=len(table), **settings)

    @staticmethod
    def _named(layer) -> tuple:
        row = layer if isinstance(layer, tuple) else (getattr(layer, "__name__", None), layer)
        if len(row) < 2 or not isinstance(row[0], str) or not callable(row[1]):
            raise TypeError(f"expected a layer, a function with a name or (path, function): {layer}")
        return row

    @staticmethod
    def _row(path: str, function, repeat: int = 0, type: str | None = None):
        def describe(builder, _, flow):
            own = mega_builder.from_buffer_copy(
                builder.contents
            )  # so that it cannot be used after the call
            try:
                given = Flow(flow.contents)
                function(own, given)
                given.write_to(flow.contents)
            finally:
                own.graph = None

        return mega_layer(path=path, describe=describe, repeat=repeat, type=type)


class Sample:
    """One sample of a batch, to be filled: sample["image"] = values."""

    def __init__(self, handle):
        self._handle = handle

    def __setitem__(self, name: str, values) -> None:
        values = numpy.asarray(values)
        if _is_whole(values):
            values = _as_int32(name, values)
            mega_sample_set_i32(
                self._handle, name, values.ctypes.data_as(POINTER(c_int32)), values.size
            )
        else:
            values = numpy.ascontiguousarray(values, numpy.float32)
            mega_sample_set_f32(
                self._handle, name, values.ctypes.data_as(POINTER(c_float)), values.size
            )

    @property
    def index(self) -> int:
        """Its number in the order of the run."""
        return mega_sample_index(self._handle)

    @property
    def seed(self) -> int:
        return mega_sample_seed(self._handle)


def _is_whole(array) -> bool:
    return array.dtype.kind in "iub"


def _as_int32(name: str, array):
    """Inputs of type I32 hold no larger numbers; NumPy would drop their upper bits."""
    if array.dtype.itemsize >= 4 and array.size:
        for value in (array.min(), array.max()):
            if not -(2**31) <= value < 2**31:
                raise ValueError(f"{name} has the value {value}; inputs of type I32 hold 32 bits")
    return numpy.ascontiguousarray(array, numpy.int32)


class Dataset:
    """Samples by index: a dict of arrays, a row for each sample, or a function read(index, sample).

    Integers fill inputs of type I32, other numbers inputs of type F32. An epoch consists of the
    `count` samples from `first` on, shuffled unless is_in_order. With is_thread_safe, a thread of
    the engine reads up to two batches ahead: choose it for a function that waits for files, and
    that uses nothing which the program changes.
    """

    def __init__(
        self,
        source,
        first: int = 0,
        count: int | None = None,
        is_in_order: bool = False,
        is_thread_safe: bool = False,
    ):
        self.struct = mega_dataset(first=first, in_order=is_in_order, is_thread_safe=is_thread_safe)
        if callable(source):
            if count is None:
                raise ValueError("a data set by a function needs the number of its samples, count")
            self.struct.read = lambda _, index, handle: self._read_by(source, index, handle)
        else:
            self._arrays = [self._column(name, values) for name, values in source.items()]
            if not self._arrays:
                raise ValueError("a data set of no arrays; name the model's inputs")
            sizes = {name: size for name, _, _, _, size in self._arrays}
            if len(set(sizes.values())) != 1:
                raise ValueError(f"the arrays hold different numbers of samples: {sizes}")
            size = next(iter(sizes.values()))
            count = size - first if count is None else count
            if not 0 <= first <= first + count <= size:
                raise ValueError(f"samples {first} to {first + count} of {size}; choose others")
            self.struct.read = self._read_arrays
        self.struct.count = count

    @staticmethod
    def _column(name: str, values):
        array = numpy.asarray(values)
        if array.ndim == 0:
            raise ValueError(f"{name} is one number; a data set has a row for each sample")
        if _is_whole(array):
            return name, _as_int32(name, array), c_int32, mega_sample_set_i32, len(array)
        array = numpy.ascontiguousarray(array, numpy.float32)
        return name, array, c_float, mega_sample_set_f32, len(array)

    def _read_arrays(self, _, index: int, handle) -> None:
        for name, array, ctype, fill, size in self._arrays:
            count = array.size // size
            at = ctype.from_address(array.ctypes.data + index * count * array.itemsize)
            fill(handle, name, at, count)

    @staticmethod
    def _read_by(source, index: int, handle) -> None:
        sample = Sample(handle)
        try:
            source(index, sample)
        finally:
            sample._handle = None  # valid during the call only


class _SignalsHeld:
    """Raises Ctrl-C after the call, not within a callback, where Python may drop the exception.

    Callbacks fail from then on. So with several ranks, where the other ranks would wait for this
    one, the next call with a callback fails on all of them instead.
    """

    def __init__(self, has_others: bool):
        self.has_others = has_others

    def __enter__(self):
        self.handler = None
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler) and threading.current_thread() is threading.main_thread():
            self.handler = handler
            signal.signal(signal.SIGINT, self._note)

    @staticmethod
    def _note(number, frame):
        _State.is_interrupted = True

    def __exit__(self, kind, error, trace):
        if self.handler is None:
            return
        signal.signal(signal.SIGINT, self.handler)
        if isinstance(error, KeyboardInterrupt):
            _State.is_interrupted = False
        elif _State.is_interrupted and (error is not None or not self.has_others):
            _State.is_interrupted = False
            self.handler(signal.SIGINT, sys._getframe())


def _exit_status(error: BaseException) -> int:
    """Of a program that ends by this exception."""
    if isinstance(error, SystemExit) and isinstance(error.code, int):
        return error.code & 255 or 1  # 0 would tell the launcher that all ranks have ended well
    return 130 if isinstance(error, KeyboardInterrupt) else 1


class Engine(_EngineCalls):
    """An engine of a model (mega_initialize). Use it with `with`, which ends it on all ranks.

    model     a Model, or its list of layers
    data      training data: a Dataset or a dict of arrays; None: the program fills batch()
    options   as on a command line: a list of words, or one text: "--lr 1e-3 --zero-stage 2"
    config    a DeepSpeed configuration: a dict, the path of a JSON file, or its text

    Further keywords are members of mega_setup, such as mode. Functions of C take an engine:
    mega_engine_run(engine, …).
    """

    def __init__(self, model, data=None, options=(), config=None, **setup):
        self.model = model if isinstance(model, Model) else Model(model)
        self.data = Dataset(data) if isinstance(data, dict) else data
        words = [
            "python",
            *(shlex.split(options) if isinstance(options, str) else map(str, options)),
        ]
        self._setup = mega_setup(
            model=self.model.struct,
            training_data=self.data and self.data.struct,
            argc=len(words),
            argv=words,
            config=json.dumps(config) if isinstance(config, dict) else config and os.fspath(config),
            **setup,
        )
        handle = POINTER(mega_engine)()
        self._num_ranks = 1
        self._call(mega_initialize, self._setup, handle)
        self._opened = self._as_parameter_ = handle
        self._num_ranks = max(1, mega_world_size(mega_engine_world(handle)))
        _engines.append(self)

    _opened = _shared_error = _as_parameter_ = None

    @property
    def _handle(self):
        if self._opened is None:
            raise ValueError("this engine is closed; make another one")
        return self._opened

    def _call(self, function, *arguments):
        """Makes a collective call: an error of the library is one of all ranks."""
        with _SignalsHeld(self._num_ranks > 1 and self.data is not None):
            try:
                return function(*arguments)
            except BaseException as error:
                self._shared_error = error if error is _State.raised else None
                raise

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if error is not None and self._opened is not None and self._num_ranks > 1:
            is_shared = error is self._shared_error and mega_world_failed(self.world())
            if not is_shared:  # the other ranks would wait for this one
                traceback.print_exception(kind, error, trace)
                sys.stdout.flush()
                sys.stderr.flush()
                mega_world_abort(self.world(), _exit_status(error))
        self.close()

    def close(self) -> None:
        """Ends the engine, on all ranks together, and frees its memory. Twice is fine."""
        if self._opened is None:
            return
        if self.is_busy():
            raise Error(
                "close: the engine is busy with the call that runs this callback; close it after that",
                MEGA_ERR_USAGE,
            )
        handle, self._opened, self._as_parameter_ = self._opened, None, None
        _engines.remove(self)
        mega_engine_destroy(handle)
        if _State.is_interrupted:
            _State.is_interrupted = False
            raise KeyboardInterrupt

    def __repr__(self) -> str:
        return (
            "<megalith.Engine, closed>"
            if self._opened is None
            else f"<megalith.Engine, step {self.global_steps()}>"
        )

    def world(self):
        return mega_engine_world(self._handle)

    def rank(self) -> int:
        return mega_world_rank(self.world())

    def num_ranks(self) -> int:
        return self._num_ranks

    # ---- training ----

    def _result(self, result):
        names = (self.metric_name(i) for i in range(self.num_metrics()))
        result.metrics = dict(zip(names, result.metric))
        return result

    def train_batch(self):
        """One step: a mega_step_result, with the losses and metrics by name in .metrics."""
        result = mega_step_result()
        self._call(mega_engine_train_batch, self._handle, result)
        return self._result(result)

    def evaluate(self, data, max_batches: int = 0):
        """The mean loss and metrics over a data set, or over its first batches."""
        data, result = Dataset(data) if isinstance(data, dict) else data, mega_step_result()
        self._call(mega_engine_evaluate, self._handle, data.struct, max_batches, result)
        return self._result(result)

    def write_event(self, name: str, value: float) -> None:
        """Gives a value to the monitors that the options enable, at the number of samples so far."""
        self._call(mega_engine_write_event, self._handle, name, value)

    def log_exchanges(self, stragglers: bool = False) -> None:
        """Logs the table of exchanges so far: DeepSpeed's log_summary(show_straggler)."""
        self._call(mega_engine_log_exchanges, self._handle, stragglers)

    def forward(self) -> float:
        """The forward pass of one micro-batch; returns its loss on this rank."""
        loss = c_double()
        self._call(mega_engine_forward, self._handle, loss)
        return loss.value

    def backward(self) -> None:
        self._call(mega_engine_backward, self._handle)

    def backward_from(self, output: str, gradient, weight: float) -> None:
        """The backward pass from the gradient of an output, for a loss of the program's own."""
        gradient = numpy.ascontiguousarray(gradient, numpy.float32)
        address = gradient.ctypes.data_as(POINTER(c_float))
        self._call(mega_engine_backward_from, self._handle, output, address, gradient.size, weight)

    def step(self):
        """Ends a micro-batch. Returns the result where the step updated the weights, else None."""
        result = mega_step_result()
        self._call(mega_engine_step, self._handle, result)
        return self._result(result) if self.was_step_applied() else None

    def batch(self) -> list[Sample]:
        """The samples of the coming train_batch, to be filled; of an engine without data."""
        return self._samples(mega_engine_batch(self._handle))

    def micro_batch(self) -> list[Sample]:
        """The samples of the coming forward, to be filled; of an engine without data."""
        return self._samples(mega_engine_micro_batch(self._handle))

    @staticmethod
    def _samples(batch) -> list[Sample]:
        if not batch:
            _raise(MEGA_ERR_USAGE)
        return [Sample(mega_batch_sample(batch, i)) for i in range(mega_batch_num_samples(batch))]

    # ---- parameters and outputs as arrays ----

    def params(self) -> dict[str, tuple]:
        """The shapes of all parameters of the model by name, in the order of declaration."""
        shapes, name, rows, columns = {}, c_char_p(), c_int64(), c_int64()
        for i in itertools.count():
            try:
                mega_engine_param_info(self._handle, i, name, rows, columns)
            except Error as error:
                if error.status != MEGA_ERR_NOT_FOUND:
                    raise
                return shapes
            shapes[name.value.decode()] = (
                (rows.value, columns.value) if columns.value else (rows.value,)
            )

    def get_param(self, name: str, what: str | None = None, shape: tuple | None = None):
        """A whole parameter, its "grad", or a state such as "exp_avg". All ranks call it.

        shape is needed for a tensor of the checkpoint that holds a part of a parameter.
        """
        shape = shape or self.params().get(name, ())
        array = numpy.empty(shape, numpy.float32)
        address = array.ctypes.data_as(POINTER(c_float))
        self._call(mega_engine_get_param, self._handle, name, what, array.size, address)
        return array

    def set_param(self, name: str, values, what: str | None = None) -> None:
        """Sets a whole parameter; all ranks give the same values."""
        array = numpy.ascontiguousarray(values, numpy.float32)
        shape = self.params().get(name, array.shape)
        if array.shape != shape:
            raise ValueError(f"{name} has the shape {shape}, and the values {array.shape}")
        address = array.ctypes.data_as(POINTER(c_float))
        self._call(mega_engine_set_param, self._handle, name, what, array.size, address)

    def output(self, name: str):
        """An output of the last micro-batch on this rank: a row for each sample."""
        array = numpy.empty(self.output_count(name), numpy.float32)
        mega_engine_read_output(
            self._handle, name, array.size, array.ctypes.data_as(POINTER(c_float))
        )
        return array.reshape(self.train_micro_batch_size(), -1)

    # ---- checkpoints ----

    def save_checkpoint(
        self, folder, state: dict | None = None, arrays: dict | None = None, tag: str | None = None
    ) -> None:
        """Writes FOLDER/TAG, or FOLDER/iter_N, with state and arrays of the program.

        All ranks call it with the same.
        """
        kept = [(name, numpy.ascontiguousarray(values)) for name, values in (arrays or {}).items()]
        client = mega_client_state(
            json=json.dumps(state or {}),
            array=[_client_array(*item) for item in kept],
            num_arrays=len(kept),
        )
        self._call(mega_engine_save_checkpoint, self._handle, os.fspath(folder), tag, client)

    def load_checkpoint(self, folder, tag: str | None = None, **options):
        """Loads the checkpoint saved last, or FOLDER/TAG; keywords as in mega_load_options.

        Returns the program's own (state, arrays), or None if the folder holds no checkpoint.
        """
        found, client = c_bool(), POINTER(mega_client_state)()
        given = mega_load_options(**options)
        self._call(
            mega_engine_load_checkpoint, self._handle, os.fspath(folder), tag, given, found, client
        )
        if not found.value:
            return None
        arrays = [client.contents.array[i] for i in range(client.contents.num_arrays)]
        return json.loads(client.contents.json or b"{}"), {
            a.name.decode(): _array_of(a) for a in arrays
        }


_DTYPES = {
    "f4": "F32",
    "f8": "F64",
    "f2": "F16",
    "i4": "I32",
    "i8": "I64",
    "i2": "I16",
    "i1": "I8",
    "u1": "U8",
    "u2": "U16",
}


def _client_array(name: str, array):
    kind = _DTYPES.get(array.dtype.str[1:])
    if kind is None or array.ndim not in (1, 2):
        raise ValueError(
            f'array "{name}" has {array.ndim} dimensions of {array.dtype}; checkpoints hold one or'
            f" two of {', '.join(_DTYPES)}"
        )
    rows, columns = array.shape if array.ndim == 2 else (array.size, 0)
    data = array.ctypes.data_as(c_void_p)
    return mega_client_array(
        name=name, dtype=globals()["MEGA_" + kind], rows=rows, columns=columns, data=data
    )


def _array_of(a: mega_client_array):
    kinds = {globals()["MEGA_" + name]: kind for kind, name in _DTYPES.items()}
    shape = (a.rows, a.columns) if a.columns else (a.rows,)
    count = a.rows * max(1, a.columns)
    data = string_at(a.data, count * mega_dtype_size(a.dtype)) if count else b""
    return numpy.frombuffer(data, kinds[a.dtype]).reshape(shape).copy()


def log_to(function) -> None:
    """Calls function(line, level) for each log line of the library on this rank; None: silence."""
    global _sink
    sink = mega_log_sink(
        function and (lambda _, level, line: function(line.decode(errors="replace"), level))
    )
    mega_log_set_sink(sink, None)
    _sink = sink  # lives as long as the library may call it


_sink = None
_engines: list[Engine] = []


@atexit.register
def _leave() -> None:
    """Before the interpreter ends: no callback may run afterwards."""
    mega_log_set_sink(mega_log_sink(), None)
    for engine in list(_engines):
        if engine.num_ranks() == 1:
            engine.close()


def __getattr__(name: str):
    for prefix in ("mega_", "MEGA_"):
        if prefix + name in globals():
            return globals()[prefix + name]
    raise AttributeError(f"megalith has neither {name} nor mega_{name} nor MEGA_{name}")


def __dir__() -> list[str]:
    names = [name for name in globals() if not name.startswith("_")]
    return sorted({*names, *(name[5:] for name in names if name[:5].lower() == "mega_")})
