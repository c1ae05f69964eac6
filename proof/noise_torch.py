"""Symbolic random numbers in torch: a tensor of Numbers, computed by NumPy as arrays of objects.

A Noise is a torch.Tensor without memory: whatever would read it, such as compiled code, raises an
error. What only moves elements is done by torch itself, to their places; the rest by NumPy. A
view is a copy here, so a Noise of which there are views cannot be changed in place any more.
"""

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from . import enumerate as enumeration
from .noise import Number, branch
from .sources import Source, draw, exponential, fill, pick

SHARED = "random numbers are written into a tensor that shares its memory"


class Noise(torch.Tensor):
    """A tensor of symbolic numbers, and of other numbers among them.

    cells: an array of its shape, of Numbers and floats
    shared: whether there are tensors that torch would keep in the same memory
    """

    cells: np.ndarray
    shared: bool

    @staticmethod
    def __new__(cls, cells: np.ndarray, dtype: torch.dtype, shared: bool = False) -> "Noise":
        if dtype not in (torch.float32, torch.float64):  # a coin of bfloat16 has 512 values
            branch().stop(f"random numbers as {dtype} are not followed")
        noise = torch.Tensor._make_wrapper_subclass(cls, cells.shape, dtype=dtype)
        noise.cells, noise.shared = cells, shared
        return noise

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return follow(function, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        branch().stop(f"{function} reads random numbers, which is not followed")


Number.__torch_function__ = classmethod(lambda cls, f, types, a=(), k=None: follow(f, a, k or {}))


def tensor_of(cells: Any, dtype: torch.dtype) -> torch.Tensor:
    """A tensor of what NumPy computed, an array or a single number: a Noise of this dtype if there
    are Numbers in it, else an ordinary one of NumPy's dtype.
    """
    cells = np.asarray(cells)
    return Noise(cells, dtype) if cells.dtype == object else torch.from_numpy(np.array(cells))


def put(tensor: torch.Tensor, cells: np.ndarray) -> torch.Tensor:
    """Write numbers into a tensor, which is changed and returned: an ordinary one becomes a Noise,
    and if it is a view, its base becomes one that cannot be used. Stops the branch if other tensors
    share its memory, which would not learn of it.

    cells: Numbers and floats, of the tensor's shape or broadcast to it
    """
    cells = np.array(np.broadcast_to(cells, tensor.shape), object)
    if tensor.shared if isinstance(tensor, Noise) else shares_memory(tensor):
        branch().stop(SHARED)
    if isinstance(tensor, Noise):
        tensor.cells = cells
        return tensor
    base = tensor._base
    # swap_tensors: whoever has the tensor has the Noise from now on
    torch.utils.swap_tensors(tensor, Noise(cells, tensor.dtype))
    if base is not None:  # nothing can be done with cells of None
        torch.utils.swap_tensors(base, Noise(np.full(base.shape, None), base.dtype))
    return tensor


def shares_memory(tensor: torch.Tensor) -> bool:
    """Whether others have a tensor's memory, besides itself and the one that it is a view of."""
    memory = tensor.untyped_storage()
    n_own = 2 if tensor._base is None else 3  # the tensor, its base, and `memory` use it
    return torch._C._storage_Use_Count(memory._cdata) > n_own


# ---------------------------------------------------------------- what is followed

# names of functions of torch that only move elements, such as noise.view(2, 3)
MOVES = set(
    "view reshape unsqueeze squeeze __getitem__ expand expand_as flatten transpose permute t flip "
    "select index_select gather repeat unbind split contiguous clone detach".split()
)
# names of those that change the type, or the device, such as noise.half(): elements stay in place
CONVERSIONS = set("to float double cpu type type_as".split())
# names of functions and properties that tell what a tensor is, not what is in it: noise.shape
FACTS = set(
    "dim size numel stride __len__ is_contiguous ndimension is_floating_point __hash__ nelement "
    "element_size is_complex get_device shape dtype device ndim layout requires_grad is_cuda "
    "is_sparse".split()
)


def clamp(x: Any, min: Any = None, max: Any = None) -> Any:  # noqa: A002
    """An array with what is less than min raised to it, and what is more than max lowered to it."""
    x = x if min is None else np.maximum(x, min)
    return x if max is None else np.minimum(x, max)


def by_axis(function: Callable) -> Callable:
    """A function of NumPy, such as np.argmax, with torch's parameters dim and keepdim."""
    return lambda x, dim=None, keepdim=False: function(x, axis=dim, keepdims=keepdim)


def searchsorted(rows: Any, values: Any, right: bool = False) -> Any:  # -> shape of values
    """How many numbers of an ascending row, [n] or of each [..., n], are less than a value, or with
    `right` not more than it: of values [...] or [..., m], as in torch.
    """
    values = np.asarray(values)[..., np.newaxis]
    rows = rows if rows.ndim == 1 else rows[..., np.newaxis, :]
    return (rows <= values if right else rows < values).sum(-1)


OPERATORS = "lt le gt ge eq ne add sub mul truediv pow".split()
# {name of a function of torch: the same function for arrays of Numbers}. A name with _ at its end
# is the same in place: "div" stands for torch.div(p, noise), and for p.div_(noise)
CELLS: dict[str, Callable] = {
    **{name: getattr(operator, name) for name in OPERATORS},
    **{f"__{name}__": getattr(operator, name) for name in OPERATORS},
    "div": operator.truediv, "__rdiv__": lambda a, b: b / a, "__rtruediv__": lambda a, b: b / a,
    "rsub": lambda a, b: b - a, "__rsub__": lambda a, b: b - a,
    "neg": np.negative, "__neg__": np.negative, "log": np.log, "reciprocal": lambda x: 1.0 / x,
    "clamp": clamp, "argmax": by_axis(np.argmax), "argmin": by_axis(np.argmin),
    "searchsorted": searchsorted,
}  # fmt: skip


def follow(function: Callable, args: tuple, kwargs: dict) -> Any:
    """What a function of torch returns for (*args, **kwargs), with random numbers (a Noise or a
    Number) among them: a tensor, a Noise if such numbers are left in it, or a tuple of tensors; for
    item, tolist and facts such as the shape what torch returns. A function in place, such as mul_,
    changes args[0] and returns it. Stops the branch for `out`, and for a function that is in none
    of the tables MOVES, CONVERSIONS, FACTS and CELLS.
    """
    name = function.__name__
    if name == "__get__":  # noise.shape calls shape.__get__: the name is that of the property
        name = function.__self__.__name__
    first = args[0] if args else None
    if name in FACTS:
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **kwargs)
    if isinstance(first, Noise):
        if name in MOVES:
            return moved(first, function, args[1:], kwargs)
        if name in CONVERSIONS:
            return converted(first, function, args[1:], kwargs)
        if name in ("item", "tolist"):
            return getattr(first.cells, name)()
    in_place = name.endswith("_") and not name.endswith("__")  # mul_, but not __mul__
    plain = name.removesuffix("_") if in_place else name
    if plain not in CELLS or "out" in kwargs:
        branch().stop(f"torch.{name.strip('_')} of random numbers is not followed")
    try:
        arrays, named = map(cells_of, args), {key: cells_of(x) for key, x in kwargs.items()}
        cells = CELLS[plain](*arrays, **named)
    except TypeError:
        branch().stop(f"torch.{name.strip('_')} with these arguments is not followed")
    return put(args[0], cells) if in_place else tensor_of(cells, dtype_of(args))


def moved(noise: Noise, function: Callable, args: tuple, kwargs: dict) -> Any:
    """What function(noise, *args, **kwargs) returns, if it only moves elements: a Noise, or a tuple
    of them. Where torch would return a view, it and `noise` are marked as `shared`.

    To find where each element goes, the function is applied to a tensor of their places, 0, 1, 2...
    """
    places = torch.arange(noise.cells.size).reshape(noise.cells.shape)
    with torch._C.DisableTorchFunctionSubclass():
        found = function(places, *args, **kwargs)

    def noise_at(new: torch.Tensor) -> Noise:
        """The elements of `noise` from these places, in the new shape."""
        is_view = new.untyped_storage()._cdata == places.untyped_storage()._cdata
        noise.shared |= is_view
        return Noise(np.asarray(noise.cells.ravel()[new.numpy()]), noise.dtype, is_view)

    return noise_at(found) if isinstance(found, torch.Tensor) else tuple(map(noise_at, found))


def converted(noise: Noise, function: Callable, args: tuple, kwargs: dict) -> Any:
    """What function(noise, *args, **kwargs) returns, if it only changes the type: the same Noise,
    as torch does where there is nothing to change, or a copy of the new dtype; of `type` without
    arguments its text. An empty tensor of the same dtype shows which.
    """
    with torch._C.DisableTorchFunctionSubclass():
        before = torch.empty(noise.shape, dtype=noise.dtype)
        after = function(before, *args, **kwargs)
    if after is before:
        return noise
    return Noise(noise.cells.copy(), after.dtype) if isinstance(after, torch.Tensor) else after


def cells_of(x: Any) -> Any:
    """The elements of a tensor as an array, of objects if it is a Noise, else of numbers, floats in
    float64; what is no tensor as it is.
    """
    if isinstance(x, Noise):
        return x.cells
    if isinstance(x, torch.Tensor):
        return x.detach().double().numpy() if x.is_floating_point() else x.numpy()
    return x


def dtype_of(args: tuple) -> torch.dtype:
    """The dtype of a result: that of the last Noise among the arguments of a function; without one
    that of the first tensor; without any torch's default.
    """
    tensors = [x for x in args if isinstance(x, torch.Tensor)]
    noises = [x for x in tensors if isinstance(x, Noise)]
    like = noises[-1:] or tensors[:1]
    return like[0].dtype if like else torch.get_default_dtype()


# ---------------------------------------------------------------- sources
# rand to bernoulli stand for torch's functions and methods of their names: they take the same
# arguments and return a tensor of the same shape and dtype. A generator is not used, as every
# outcome is taken; what is not followed, such as out=, stops the branch.


def uniform_cells(shape: Any) -> Any:
    """An array of new uniform Numbers, of this shape."""
    return np.asarray(fill(draw, tuple(shape)), object)


def without_out(out: Any) -> None:
    """Stop the branch if a tensor is given to be written into."""
    if out is not None:
        branch().stop("random numbers are written into `out`")


def rand(*shape: Any, size: Any = None, dtype: Any = None, out: Any = None, **_) -> torch.Tensor:
    """torch.rand: a tensor of new uniform Numbers, rand(2, 3), rand([2, 3]) or rand(size=[2, 3]).
    A generator and other settings are not used. Stops the branch for `out`.
    """
    without_out(out)
    like = torch.empty(*(shape if size is None else [size]), dtype=dtype)
    return tensor_of(uniform_cells(like.shape), like.dtype)


def rand_like(tensor: torch.Tensor, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    """New uniform Numbers of a tensor's shape, and of its dtype if none is given."""
    return tensor_of(uniform_cells(tensor.shape), dtype or tensor.dtype)


def uniform_(self: torch.Tensor, a: float = 0.0, b: float = 1.0, **more: Any) -> torch.Tensor:
    """Write new Numbers into a tensor, uniform from a to b, and return it. a and b may come as
    `from`, which cannot be a parameter's name, and `to`, as torch calls them. A generator is not
    used.
    """
    a, b = more.get("from", a), more.get("to", b)
    return put(self, uniform_cells(self.shape) * (b - a) + a)


def exponential_(self: torch.Tensor, lambd: float = 1.0, generator: Any = None) -> torch.Tensor:
    """Write new exponential Numbers of the rate lambd into a tensor, and return it. The generator
    is not used.
    """
    return put(self, exponential(1 / lambd, self.shape))


def multinomial(
    p: torch.Tensor,
    num_samples: int,
    replacement: bool = False,
    generator: Any = None,
    out: Any = None,
) -> torch.Tensor:  # [..., n] -> [..., num_samples]
    """torch.multinomial: draw indices in proportion to a row of weights, or to each of several; a
    choice of the branch for each index. Without replacement no row gives one twice. The generator
    is not used. Raises what torch raises for the arguments. Stops the branch for `out`.
    """
    without_out(out)
    REAL["multinomial"](p, num_samples, replacement, generator=CHECKS)  # for its errors alone
    drawn = []
    for row in p.detach().double().reshape(-1, p.shape[-1]).numpy().copy():
        for _ in range(num_samples):
            drawn.append(pick(row))
            if not replacement:
                row[drawn[-1]] = 0
    return torch.from_numpy(np.array(drawn, int)).reshape(*p.shape[:-1], num_samples)


def bernoulli(p: torch.Tensor, *args: Any, generator: Any = None, **kwargs: Any) -> torch.Tensor:
    """torch.bernoulli(p): a tensor like p, with 1 with each probability in p, else 0; a choice of
    the branch for each. The generator is not used. Raises what torch raises for p. Stops the branch
    for other arguments, such as a single probability.
    """
    if args or kwargs:
        branch().stop("bernoulli with a probability of its own is not followed")
    REAL["bernoulli"](p, generator=CHECKS)  # for its errors alone
    cells = uniform_cells(p.shape) < cells_of(p)
    return torch.from_numpy(np.array(cells, bool)).to(p.dtype)


CHECKS = torch.Generator()  # of numbers that nobody uses
REAL = {name: getattr(torch, name) for name in ("multinomial", "bernoulli")}
# {name of a function of torch: what gives its symbolic numbers}, and of a method of a tensor
FOLLOWED: dict[str, Callable] = {f.__name__: f for f in (rand, rand_like, multinomial, bernoulli)}
METHODS = {f.__name__: f for f in (uniform_, exponential_, multinomial, bernoulli)}
# names of functions, and of methods, that draw or seed, and stop the branch
SEEDING = "manual_seed seed set_rng_state".split()
REFUSED = "randn randn_like randint randint_like randperm normal poisson".split() + SEEDING
REFUSED_METHODS = "normal_ random_ bernoulli_ geometric_ log_normal_ cauchy_".split()


class Seeded(torch.Generator):
    """A generator that says so if code seeds or rewinds it while it runs."""

    def manual_seed(self, seed: int) -> torch.Generator:
        refuse_seeding()
        return super().manual_seed(seed)

    def set_state(self, state: torch.Tensor) -> torch.Generator:
        refuse_seeding()
        return super().set_state(state)


def refuse_seeding() -> None:
    """Stop the branch if a run is enumerated."""
    if enumeration.current:
        problem = "it seeds torch while it runs"
        branch().stop(f"{problem}: with a constant, each call draws the same numbers")


def replacements() -> Iterator[tuple[Any, str, Any]]:
    """Yield (owner, name, value) for each function of torch, and method of a tensor, that draws or
    seeds: whoever sets owner.name to value has symbolic numbers from it, such as a Noise from
    torch.rand, while a run is enumerated, or, where that is not followed, the branch is stopped.
    When no run is enumerated, value does what torch does.
    """
    yield torch, "Generator", Seeded
    for owner, followed, refused in (
        (torch, FOLLOWED, REFUSED),
        (torch.random, {}, SEEDING),
        (torch.Tensor, METHODS, REFUSED_METHODS),
    ):
        source = Source(owner, followed)  # it refuses each name that is not in `followed`
        for name in [*followed, *refused]:
            yield owner, name, getattr(source, name)
