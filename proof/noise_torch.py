"""Symbolic random numbers in torch: a tensor of Numbers, which NumPy's arrays of objects compute.

A Noise is a torch.Tensor without memory: whatever would read it, such as compiled code, raises an
error. Its numbers are in `store`, and `places`, an ordinary tensor of its shape, says where. What
only moves elements is done by torch itself, to `places`; the rest by NumPy, to the numbers. Views
have the same store, so what is changed in place is changed in all of them.
"""

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided

from . import enumerate as enumeration
from .noise import Number, Source, branch, draw, fill, pick, whole


class Noise(torch.Tensor):
    """A tensor of symbolic numbers, and of other numbers among them.

    store: [n], all numbers of what it is a view of
    places: as a view of torch.arange(n) it has the shape and layout of this tensor
    """

    store: np.ndarray
    places: torch.Tensor

    @staticmethod
    def __new__(cls, store: np.ndarray, places: torch.Tensor, dtype: torch.dtype) -> "Noise":
        noise = torch.Tensor._make_wrapper_subclass(
            cls, places.shape, strides=places.stride(), dtype=dtype
        )
        noise.store, noise.places = store, places
        return noise

    @property
    def cells(self) -> np.ndarray:
        """Its numbers, an array that shares their memory."""
        places = self.places
        steps = [n * self.store.itemsize for n in places.stride()]
        return as_strided(self.store[places.storage_offset() :], places.shape, steps)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return follow(function, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        branch().stop(f"{function} reads random numbers, which is not followed")


Number.__torch_function__ = classmethod(lambda cls, f, types, a=(), k=None: follow(f, a, k or {}))


def noise_of(cells: Any, dtype: torch.dtype, like: torch.Tensor | None = None) -> Any:
    """A tensor of an array of numbers: a Noise if there are Numbers in it.

    like: a tensor of the same shape and of the wanted layout
    """
    cells = np.asarray(cells)
    if cells.dtype != object:
        return REAL["from_numpy"](np.array(cells))
    places = torch.empty(cells.shape) if like is None else torch.empty_like(like)
    places = places.long().copy_(torch.arange(cells.size).reshape(cells.shape))
    return own_store(cells.ravel(), places, dtype)


def own_store(store: np.ndarray, places: torch.Tensor, dtype: torch.dtype) -> Noise:
    """A Noise of a copy of numbers. places: where each of its numbers is in `store`, in a memory of
    their own.
    """
    memory = torch.empty(0, dtype=places.dtype).set_(places.untyped_storage())
    used = np.zeros(len(memory), object)
    used[:] = store[memory.clamp(0, len(store) - 1).numpy()]
    memory.copy_(torch.arange(len(memory)))
    return Noise(used, places, dtype)


def put(tensor: torch.Tensor, key: Any, value: Any) -> torch.Tensor:
    """tensor[key] = value, random numbers, in place: an ordinary tensor becomes a Noise, and so
    does the one of which it is a view; undecidable if others share its memory, which would not
    learn of it.
    """
    if not isinstance(tensor, Noise):
        base = tensor if tensor._base is None else tensor._base
        memory = tensor.untyped_storage()
        known = 1 if base is tensor else 2
        if torch._C._storage_Use_Count(memory._cdata) > known + 1:  # one is `memory`
            branch().stop("random numbers are written into a tensor that shares its memory")
        numbers = torch.empty(0, dtype=tensor.dtype).set_(memory)
        store, places = np.array(numbers.tolist() + [None], object)[:-1], torch.arange(len(numbers))
        del memory, numbers
        for one in (tensor, base)[:known]:
            layout = one.size(), one.stride(), one.storage_offset()
            torch.utils.swap_tensors(one, Noise(store, places.as_strided(*layout), one.dtype))
    tensor.cells[key] = value
    return tensor


# ---------------------------------------------------------------- what is followed

# what torch does to `places`: it only moves elements
MOVES = set(
    "view reshape unsqueeze squeeze __getitem__ expand expand_as view_as flatten transpose permute "
    "t narrow select index_select gather repeat repeat_interleave unbind split chunk flip "
    "contiguous clone swapaxes movedim take_along_dim".split()
)
# of another type, or in another place: elements stay where they are
CONVERSIONS = set("to float double half bfloat16 cpu detach type type_as requires_grad_".split())
# what it is, not what is in it
FACTS = set(
    "dim size numel stride __len__ is_contiguous ndimension is_floating_point __hash__ nelement "
    "element_size is_complex get_device shape dtype device ndim layout requires_grad is_cuda "
    "is_sparse".split()
)


def clamp(x, min=None, max=None):  # noqa: A002
    x = x if min is None else np.maximum(x, min)
    return x if max is None else np.minimum(x, max)


def searchsorted(sorted_sequence, values, right=False, side="left", **_):
    side = "right" if right else side
    rows = np.asarray(sorted_sequence).reshape(-1, np.shape(sorted_sequence)[-1])
    cells = np.asarray(values, object).reshape(len(rows), -1)
    found = [
        [np.searchsorted(row.astype(object), x, side) for x in xs] for row, xs in zip(rows, cells)
    ]
    return np.array(found).reshape(np.shape(values))


def by_axis(function: Callable) -> Callable:
    return lambda x, dim=None, keepdim=False: function(x, axis=dim, keepdims=keepdim)


def joined(function: Callable) -> Callable:
    return lambda parts, dim=0: function([cells_of(x) for x in parts], axis=dim)


OPERATORS = "lt le gt ge eq ne add sub mul pow truediv".split()
# {a function of torch: the same for NumPy's arrays of Numbers}
CELLS: dict[str, Callable] = {
    **{f"__{name}__": getattr(operator, name) for name in OPERATORS},
    **{f"__r{n}__": lambda a, b, f=getattr(operator, n): f(b, a) for n in OPERATORS[6:]},
    "__rdiv__": lambda a, b: b / a,
    "__neg__": np.negative,
    **{name: getattr(operator, name) for name in OPERATORS[:-1]},
    "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge,
    "subtract": operator.sub, "multiply": operator.mul,
    **dict.fromkeys(("div", "true_divide", "divide"), operator.truediv),
    "rsub": lambda a, b: b - a,
    **{name: getattr(np, name) for name in "log exp log1p sqrt negative maximum minimum".split()},
    "neg": np.negative,
    "reciprocal": lambda x: 1.0 / x,
    **dict.fromkeys(("clamp", "clip"), clamp),
    "clamp_min": np.maximum,
    "clamp_max": np.minimum,
    "argmax": by_axis(np.argmax),
    "argmin": by_axis(np.argmin),
    "where": np.where,
    "searchsorted": searchsorted,
    **dict.fromkeys(("cat", "concat", "concatenate"), joined(np.concatenate)),
    "stack": joined(np.stack),
}  # fmt: skip
READS: dict[str, Callable] = {  # what leaves torch
    "item": lambda x: x.item(),
    "tolist": lambda x: x.tolist(),
    **{f"__{kind.__name__}__": lambda x, kind=kind: kind(x.item()) for kind in (int, float, bool)},
    **dict.fromkeys(("numpy", "__array__"), lambda x, *_: x),
}


def follow(function: Callable, args: tuple, kwargs: dict) -> Any:
    """Do what a function of torch does, where random numbers are among its arguments."""
    name = function.__name__
    if name in ("__get__", "__set__"):  # of a property
        name = function.__self__.__name__ if name == "__get__" else name
    if name in FACTS:
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **kwargs)
    first = args[0] if args else None
    if name == "__setitem__" or name == "copy_":
        key, value = args[1:] if name == "__setitem__" else (..., args[1])
        return put(first, index_of(key), cells_of(value))
    if isinstance(first, Noise) and name in MOVES:
        return moved(first, function, args[1:], kwargs)
    if isinstance(first, Noise) and name in CONVERSIONS:
        return converted(first, function, args[1:], kwargs)
    if isinstance(first, Noise) and name in READS:
        return READS[name](first.cells)
    if isinstance(first, Noise) and name == "__iter__":
        return iter(first.unbind())
    if name in ("T", "mT") and isinstance(first, Noise):
        return moved(first, lambda x: getattr(x, name), (), {})
    if "out" not in kwargs:
        in_place = name.startswith("__i") or name.endswith("_") and not name.endswith("__")
        plain = name.removeprefix("__i").removesuffix("_") if in_place else name
        plain = plain.rstrip("_") if in_place else plain
        if plain in CELLS:
            return computed(plain, args, kwargs, in_place)
    branch().stop(f"torch.{name.strip('_')} of random numbers is not followed")


def computed(name: str, args: tuple, kwargs: dict, in_place: bool) -> Any:
    """What NumPy computes from the numbers of tensors."""
    try:
        cells = CELLS[name](*map(cells_of, args), **{k: cells_of(x) for k, x in kwargs.items()})
    except TypeError:
        branch().stop(f"torch.{name.strip('_')} with these arguments is not followed")
    cells = np.asarray(cells)
    if in_place:
        return put(args[0], ..., cells)
    tensors = [x for x in args if isinstance(x, torch.Tensor)]
    like = next((x for x in tensors if x.shape == cells.shape), None)
    dtype = tensors[0].dtype if tensors else torch.get_default_dtype()
    for x in tensors:
        if isinstance(x, Noise):
            dtype = x.dtype
    return noise_of(cells, dtype, like.places if isinstance(like, Noise) else like)


def moved(noise: Noise, function: Callable, args: tuple, kwargs: dict) -> Any:
    """What a function that moves elements returns: views of `noise`, or copies."""

    def result_of(places: torch.Tensor) -> Noise:
        if places.untyped_storage()._cdata == noise.places.untyped_storage()._cdata:
            return Noise(noise.store, places, noise.dtype)
        return own_store(noise.store, places, noise.dtype)

    args = tuple(x.places if isinstance(x, Noise) else x for x in args)
    with torch._C.DisableTorchFunctionSubclass():
        found = function(noise.places, *args, **kwargs)
    return result_of(found) if isinstance(found, torch.Tensor) else tuple(map(result_of, found))


def converted(noise: Noise, function: Callable, args: tuple, kwargs: dict) -> Any:
    """What a function returns that changes the type: the same numbers, or a copy of them."""
    with torch._C.DisableTorchFunctionSubclass():
        before = torch.empty_strided(noise.places.shape, noise.places.stride(), dtype=noise.dtype)
        after = function(before, *args, **kwargs)
    if not isinstance(after, torch.Tensor):  # the name of the type
        return after
    if after.data_ptr() == before.data_ptr():
        return Noise(noise.store, noise.places, after.dtype)
    return own_store(noise.store, noise.places.clone(), after.dtype)


def cells_of(x: Any) -> Any:
    """The numbers of a tensor, as an array; what is no tensor as it is."""
    if isinstance(x, Noise):
        return x.cells
    if isinstance(x, torch.Tensor):
        return x.detach().double().numpy() if x.is_floating_point() else x.numpy()
    return x


def index_of(key: Any) -> Any:
    """An index of a tensor, for an array."""
    return tuple(map(cells_of, key)) if isinstance(key, tuple) else cells_of(key)


# ---------------------------------------------------------------- sources


def uniform_cells(shape: Any) -> Any:
    return np.asarray(fill(draw, tuple(shape)), object)


def without_out(out: Any) -> None:
    if out is not None:
        branch().stop("random numbers are written into `out`")


def rand(*size, dtype=None, generator=None, out=None, **kwargs):
    without_out(out)
    like = torch.empty(*size, dtype=dtype, **{k: v for k, v in kwargs.items() if k == "size"})
    return noise_of(uniform_cells(like.shape), like.dtype)


def rand_like(tensor, dtype=None, **kwargs):
    layout = tensor.places if isinstance(tensor, Noise) else tensor
    return noise_of(uniform_cells(tensor.shape), dtype or tensor.dtype, layout)


def uniform_(self, a=0.0, b=1.0, generator=None, **kwargs):
    a, b = kwargs.get("from", a), kwargs.get("to", b)
    return put(self, ..., uniform_cells(self.shape) * (b - a) + a)


def exponential_(self, lambd=1.0, generator=None):
    return put(self, ..., -np.log(uniform_cells(self.shape)) / lambd)


def multinomial(p, num_samples, replacement=False, generator=None, out=None):
    without_out(out)
    REAL["multinomial"](p, num_samples, replacement, generator=CHECKS)  # raises what torch raises
    drawn = []
    for row in p.detach().double().reshape(-1, p.shape[-1]).numpy().copy():
        for _ in range(num_samples):
            drawn.append(pick(row))
            if not replacement:
                row[drawn[-1]] = 0
    return REAL["from_numpy"](np.array(drawn, int)).reshape(*p.shape[:-1], num_samples)


def bernoulli(p, *args, generator=None, **kwargs):
    if args or kwargs:
        branch().stop("bernoulli with a probability of its own is not followed")
    REAL["bernoulli"](p, generator=CHECKS)  # raises what torch raises
    cells = uniform_cells(p.shape) < cells_of(p)
    return REAL["from_numpy"](np.array(cells, bool)).to(p.dtype)


def randint(*args, low=0, high=None, size=None, **kwargs):
    given = [*args]
    size = given.pop() if size is None else size
    high = given.pop() if high is None else high
    low = given.pop() if given else low
    drawn = fill(lambda: low + whole(high - low), tuple(size))
    return REAL["from_numpy"](np.array(drawn, int))


def maker(name: str) -> Callable:
    """torch.tensor, or a function like it, which may be given Numbers."""

    def make(data, *args, **kwargs):
        if isinstance(data, (Number, list, tuple)) or getattr(data, "dtype", None) is OBJECTS:
            cells = np.array(data, object)
            if any(isinstance(x, Number) for x in cells.flat):
                return noise_of(cells, kwargs.get("dtype") or torch.get_default_dtype())
        return REAL[name](data, *args, **kwargs)

    return make


OBJECTS = np.dtype(object)
CHECKS, MAKERS = torch.Generator(), ("tensor", "as_tensor", "from_numpy")
REAL = {name: getattr(torch, name) for name in ("multinomial", "bernoulli", *MAKERS)}
FOLLOWED: dict[str, Callable] = {name: maker(name) for name in MAKERS}
FOLLOWED |= {f.__name__: f for f in (rand, rand_like, multinomial, bernoulli, randint)}
METHODS = {f.__name__: f for f in (uniform_, exponential_, multinomial, bernoulli)}
SEEDING = "manual_seed seed set_rng_state".split()
REFUSED = ["randn", "randn_like", "randint_like", "randperm", "normal", "poisson", *SEEDING]
REFUSED_METHODS = "normal_ random_ bernoulli_ geometric_ log_normal_ cauchy_".split()


class Seeded(torch.Generator):
    """A generator that says so if code seeds or rewinds it while it runs."""

    def manual_seed(self, seed):
        return self.unless_followed(super().manual_seed, seed)

    def set_state(self, state):
        return self.unless_followed(super().set_state, state)

    def unless_followed(self, method, argument):
        if enumeration.current:
            branch().stop(
                "it seeds torch while it runs: with a constant, each call draws the same numbers"
            )
        return method(argument)


def replacements() -> Iterator[tuple[Any, str, Any]]:
    """Yield (module or class, name, what replaces it), as noise.replacements does."""
    yield torch, "Generator", Seeded
    for owner, followed, refused in (
        (torch, FOLLOWED, REFUSED),
        (torch.random, {}, SEEDING),
        (torch.Tensor, METHODS, REFUSED_METHODS),
    ):
        source = Source(owner, followed)
        for name in [*followed, *refused]:
            yield owner, name, getattr(source, name)
