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
