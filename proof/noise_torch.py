"""Symbolic random numbers in torch: a tensor of Numbers, which NumPy's arrays of objects compute.

A Noise is a torch.Tensor of NaN with `cells` beside it, an array of Numbers of the same shape. What
only moves elements is done by torch itself, the rest by NumPy, to the cells. Tensors that share
memory share cells, so what is changed in place is changed in all of them.
"""

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided

from proof import enumerate as enumeration
from proof.noise import Number, Source, branch, draw, fill, pick, whole

MOVES = set(
    "view reshape unsqueeze squeeze getitem expand expand_as view_as flatten transpose permute t "
    "narrow select index_select gather repeat repeat_interleave unbind split chunk flip contiguous "
    "clone swapaxes movedim T mT".split()
)
KEEPS = set("to float double half bfloat16 cpu detach type type_as requires_grad".split())
PLAIN = set(
    "dim size numel stride len is_contiguous ndimension is_floating_point hash element_size "
    "is_complex nelement get_device".split()
)
PROPERTIES = set("shape dtype device ndim layout requires_grad is_cuda is_sparse".split())
RAW: dict[str, Callable] = {"item": lambda x: x.item(), "tolist": lambda x: x.tolist()}
RAW |= dict.fromkeys(("numpy", "array"), lambda x: x)


def clamp(x, min=None, max=None):  # noqa: A002
    x = x if min is None else np.maximum(x, min)
    return x if max is None else np.minimum(x, max)


def argmax(x, dim=None, keepdim=False):
    return np.argmax(x, axis=dim, keepdims=keepdim)


def argmin(x, dim=None, keepdim=False):
    return np.argmin(x, axis=dim, keepdims=keepdim)


OF_TWO = {name: getattr(operator, name) for name in "lt le gt ge eq ne add sub mul pow".split()}
OF_TWO |= {"less": operator.lt, "less_equal": operator.le, "greater": operator.gt}
OF_TWO |= {"greater_equal": operator.ge, "subtract": operator.sub, "multiply": operator.mul}
OF_TWO |= dict.fromkeys(("div", "truediv", "true_divide", "divide"), operator.truediv)
CELLS: dict[str, Callable] = {  # {name in torch: the same for arrays of Numbers}
    **OF_TWO,
    **{f"r{name}": lambda a, b, f=f: f(b, a) for name, f in OF_TWO.items()},  # rsub, rdiv
    **{name: getattr(np, name) for name in "log exp log1p sqrt negative maximum minimum".split()},
    "neg": np.negative,
    "reciprocal": lambda x: 1.0 / x,
    "clamp": clamp,
    "clip": clamp,
    "clamp_min": np.maximum,
    "clamp_max": np.minimum,
    "argmax": argmax,
    "argmin": argmin,
}


class Noise(torch.Tensor):
    """A tensor of symbolic numbers. store: those of its memory, which views of it have, too"""

    store: np.ndarray  # [n_numbers]

    @property
    def cells(self) -> np.ndarray:
        with torch._C.DisableTorchFunctionSubclass():
            shape, stride, begin = self.shape, self.stride(), self.storage_offset()
        return as_strided(self.store[begin:], shape, [n * self.store.itemsize for n in stride])

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return follow(function, args, kwargs or {})


Number.__torch_function__ = classmethod(lambda cls, f, types, a=(), k=None: follow(f, a, k or {}))


def noise_of(cells: Any, like: torch.Tensor) -> Any:
    """A tensor of an array of numbers: a Noise if there are Numbers in it. Its layout is that of
    `like`, a new tensor that it takes the place of: what is a view of it depends on that.
    """
    cells = np.asarray(cells)
    if cells.dtype != object:
        return torch.from_numpy(np.ascontiguousarray(cells).reshape(cells.shape))
    with torch._C.DisableTorchFunctionSubclass():
        noise: Any = like.as_subclass(Noise)
        noise.store = np.empty(like.untyped_storage().nbytes() // like.element_size(), object)
    noise.cells[...] = cells
    return noise


def put(tensor: torch.Tensor, cells: np.ndarray) -> torch.Tensor:
    """Write cells into a tensor that exists: it becomes a Noise, and so does the one of which it is
    a view; undecidable if others share its memory, which would not learn of it.
    """
    if not isinstance(tensor, Noise):
        known = [tensor] if tensor._base is None else [tensor, tensor._base]
        memory = tensor.untyped_storage()
        if torch._C._storage_Use_Count(memory._cdata) > len(known) + 1:  # one is `memory`
            branch().stop("random numbers are written into a tensor that shares its memory")
        store = np.array(torch.empty(0, dtype=tensor.dtype).set_(memory).tolist(), object)
        tensor.fill_(torch.nan)
        for one in known:
            one.__class__, one.store = Noise, store
    tensor.cells[...] = cells
    return tensor


def cells_of(x: Any) -> Any:
    if isinstance(x, Noise):
        return x.cells
    if isinstance(x, torch.Tensor):
        return x.detach().double().numpy() if x.is_floating_point() else x.numpy()
    return x


def follow(function: Callable, args: tuple, kwargs: dict) -> Any:
    """Do what a function of torch does, where random numbers are among its arguments."""
    name = function.__name__
    base = name.strip("_")
    if base in PLAIN or name == "__get__" and function.__self__.__name__ in PROPERTIES:
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **kwargs)
    noise = next((x for x in args if isinstance(x, (Noise, Number))), None)
    dtype = noise.dtype if isinstance(noise, Noise) else torch.get_default_dtype()
    if base in CELLS and noise is not None and "out" not in kwargs:
        named = {key: cells_of(x) for key, x in kwargs.items()}
        try:
            cells = CELLS[base](*map(cells_of, args), **named)
        except TypeError:
            branch().stop(f"torch.{base} with these arguments is not followed")
        if name.endswith("_") and not name.endswith("__") or name.startswith("__i"):
            return put(args[0], cells)
        if any(isinstance(x, Number) for x in args):
            return noise_of(cells, torch.empty(np.shape(cells), dtype=dtype))
        with torch._C.DisableTorchFunctionSubclass():
            return noise_of(cells, function(*args, **kwargs))
    if isinstance(noise, Noise) and args[0] is noise:
        if base in MOVES or base in KEEPS:
            return moved(noise, function, args[1:], kwargs, base in KEEPS)
        if base in RAW:
            return RAW[base](noise.cells)
        if base == "iter":
            return iter(noise.unbind())
    branch().stop(f"torch.{base} of random numbers is not followed")


def moved(noise: Noise, function: Callable, args: tuple, kwargs: dict, keeps: bool) -> Any:
    """What a function that moves elements returns: tensors that share the memory of `noise`, or
    copies. keeps: whether all elements stay where they are, of another type perhaps
    """
    cells = noise.cells
    indices = torch.arange(cells.size).reshape(cells.shape)

    def followed(result: torch.Tensor, place: torch.Tensor | None) -> Any:
        if result.untyped_storage().data_ptr() != noise.untyped_storage().data_ptr():
            copied = cells if place is None else cells.ravel()[place.numpy()]
            return noise_of(np.asarray(copied, object), result)
        shared: Any = result.as_subclass(Noise)
        shared.store = noise.store
        return shared

    with torch._C.DisableTorchFunctionSubclass():
        results = function(noise, *args, **kwargs)
        places = results if keeps else function(indices, *args, **kwargs)
        if isinstance(results, torch.Tensor):
            return followed(results, None if keeps else places)
        return results if keeps else tuple(map(followed, results, places))  # the name of its type


# ---------------------------------------------------------------- sources


def uniform_cells(tensor: torch.Tensor) -> Any:
    return np.asarray(fill(draw, tuple(tensor.shape)), object)


def rand(*size, dtype=None, generator=None, out=None, **kwargs):
    if out is not None:
        branch().stop("random numbers are written into `out`")
    like = torch.empty(*size, dtype=dtype, **{k: v for k, v in kwargs.items() if k == "size"})
    return noise_of(uniform_cells(like), like)


def rand_like(tensor, dtype=None, **kwargs):
    with torch._C.DisableTorchFunctionSubclass():
        like = torch.empty_like(tensor, dtype=dtype)
    return noise_of(uniform_cells(like), like)


def uniform_(self, a=0.0, b=1.0, generator=None, **kwargs):
    a, b = kwargs.get("from", a), kwargs.get("to", b)
    return put(self, uniform_cells(self) * (b - a) + a)


def exponential_(self, lambd=1.0, generator=None):
    return put(self, -np.log(uniform_cells(self)) / lambd)


def multinomial(p, num_samples, replacement=False, generator=None, out=None):
    if out is not None:
        branch().stop("random numbers are written into `out`")
    REAL_MULTINOMIAL(p, num_samples, replacement, generator=CHECKS)  # raises what torch raises
    drawn = []
    for row in p.detach().double().reshape(-1, p.shape[-1]).numpy().copy():
        for _ in range(num_samples):
            drawn.append(pick(row))
            if not replacement:
                row[drawn[-1]] = 0
    return torch.tensor(drawn).reshape(*p.shape[:-1], num_samples)


def bernoulli(p, *args, generator=None, **kwargs):
    if args or kwargs:
        branch().stop("bernoulli with a probability of its own is not followed")
    REAL_BERNOULLI(p, generator=CHECKS)  # raises what torch raises
    cells = uniform_cells(p) < cells_of(p)
    return torch.as_tensor(np.asarray(cells, bool)).to(p.dtype)


def randint(*args, low=0, high=None, size=None, **kwargs):
    given = [*args]
    size = given.pop() if size is None else size
    high = given.pop() if high is None else high
    low = given.pop() if given else low
    drawn = fill(lambda: low + whole(high - low), tuple(size))
    return torch.as_tensor(drawn.astype(int))


CHECKS, REAL_MULTINOMIAL, REAL_BERNOULLI = torch.Generator(), torch.multinomial, torch.bernoulli
FOLLOWED = {f.__name__: f for f in (rand, rand_like, multinomial, bernoulli, randint)}
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
            branch().stop("it seeds torch while it runs")
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
