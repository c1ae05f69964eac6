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
    """A tensor of what NumPy computed: a Noise of this dtype if there are Numbers in it, else an
    ordinary one of NumPy's dtype.
    """
    cells = np.asarray(cells)
    return Noise(cells, dtype) if cells.dtype == object else torch.from_numpy(np.array(cells))


def put(tensor: torch.Tensor, cells: np.ndarray) -> torch.Tensor:
    """Write numbers into all of a tensor, in place: an ordinary one becomes a Noise, and if it is a
    view, nothing can be done with its base any more. Stops the branch if others share its memory,
    which would not learn of it.
    """
    cells = np.array(np.broadcast_to(cells, tensor.shape), object)
    if isinstance(tensor, Noise):
        if tensor.shared:
            branch().stop(SHARED)
        tensor.cells = cells
        return tensor
    if shares_memory(tensor):
        branch().stop(SHARED)
    base = tensor._base
    torch.utils.swap_tensors(tensor, Noise(cells, tensor.dtype))
    if base is not None:
        torch.utils.swap_tensors(base, Noise(np.full(base.shape, None), base.dtype))
    return tensor


def shares_memory(tensor: torch.Tensor) -> bool:
    """Whether others have a tensor's memory, besides itself and the one that it is a view of."""
    memory = tensor.untyped_storage()  # one more user
    return torch._C._storage_Use_Count(memory._cdata) > (2 if tensor._base is None else 3)


# ---------------------------------------------------------------- what is followed

# names of functions of torch that only move elements
MOVES = set(
    "view reshape unsqueeze squeeze __getitem__ expand expand_as flatten transpose permute t flip "
    "select index_select gather repeat unbind split contiguous clone detach".split()
)
# that change the type, or the device: elements stay where they are
CONVERSIONS = set("to float double half bfloat16 cpu type type_as".split())
# that tell what a tensor is, not what is in it; properties, too
FACTS = set(
    "dim size numel stride __len__ is_contiguous ndimension is_floating_point __hash__ nelement "
    "element_size is_complex get_device shape dtype device ndim layout requires_grad is_cuda "
    "is_sparse".split()
)


def clamp(x, min=None, max=None):  # noqa: A002
    x = x if min is None else np.maximum(x, min)
    return x if max is None else np.minimum(x, max)


def by_axis(function: Callable) -> Callable:
    return lambda x, dim=None, keepdim=False: function(x, axis=dim, keepdims=keepdim)


OPERATORS = "lt le gt ge eq ne add sub mul truediv pow".split()
# {a function of torch: the same for arrays of Numbers}; a name with _ at its end, in place, is the
# same function, as in torch.div(p, noise) and p.div_(noise)
CELLS: dict[str, Callable] = {
    **{name: getattr(operator, name) for name in OPERATORS},
    **{f"__{name}__": getattr(operator, name) for name in OPERATORS},
    "div": operator.truediv, "__rdiv__": lambda a, b: b / a, "__rtruediv__": lambda a, b: b / a,
    "rsub": lambda a, b: b - a, "__rsub__": lambda a, b: b - a,
    "neg": np.negative, "__neg__": np.negative, "log": np.log, "reciprocal": lambda x: 1.0 / x,
    "clamp": clamp, "argmax": by_axis(np.argmax), "argmin": by_axis(np.argmin),
}  # fmt: skip


def follow(function: Callable, args: tuple, kwargs: dict) -> Any:
    """Do what a function of torch does, where random numbers are among its arguments. Stops the
    branch for one that is in no table above.
    """
    name = function.__name__
    if name == "__get__":  # of a property
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
    in_place = name.endswith("_") and not name.endswith("__")
    plain = name.removesuffix("_") if in_place else name
    if plain not in CELLS or "out" in kwargs:
        branch().stop(f"torch.{name.strip('_')} of random numbers is not followed")
    try:
        cells = CELLS[plain](*map(cells_of, args), **{k: cells_of(x) for k, x in kwargs.items()})
    except TypeError:
        branch().stop(f"torch.{name.strip('_')} with these arguments is not followed")
    return put(args[0], cells) if in_place else tensor_of(cells, dtype_of(args))


def moved(noise: Noise, function: Callable, args: tuple, kwargs: dict) -> Any:
    """What a function that moves elements returns: a Noise, or a tuple of them. It is applied to
    the places of the elements, an ordinary tensor.
    """
    places = torch.arange(noise.cells.size).reshape(noise.cells.shape)
    with torch._C.DisableTorchFunctionSubclass():
        found = function(places, *args, **kwargs)

    def noise_at(new: torch.Tensor) -> Noise:
        shared = new.untyped_storage()._cdata == places.untyped_storage()._cdata
        noise.shared |= shared
        return Noise(np.asarray(noise.cells.ravel()[new.numpy()]), noise.dtype, shared)

    return noise_at(found) if isinstance(found, torch.Tensor) else tuple(map(noise_at, found))


def converted(noise: Noise, function: Callable, args: tuple, kwargs: dict) -> Any:
    """What a function returns that changes the type: the same Noise, as torch does where there is
    nothing to change, or a copy.
    """
    with torch._C.DisableTorchFunctionSubclass():
        before = torch.empty(noise.shape, dtype=noise.dtype)
        after = function(before, *args, **kwargs)
    if after is before:
        return noise
    return Noise(noise.cells.copy(), after.dtype) if isinstance(after, torch.Tensor) else after


def cells_of(x: Any) -> Any:
    """The numbers of a tensor, as an array; what is no tensor as it is."""
    if isinstance(x, Noise):
        return x.cells
    if isinstance(x, torch.Tensor):
        return x.detach().double().numpy() if x.is_floating_point() else x.numpy()
    return x


def dtype_of(args: tuple) -> torch.dtype:
    """The type of a result: that of the last Noise, or else of the first tensor."""
    found = [x for x in args if isinstance(x, torch.Tensor)]
    found = [x for x in found if isinstance(x, Noise)][-1:] or found
    return found[0].dtype if found else torch.get_default_dtype()


# ---------------------------------------------------------------- sources
# rand to bernoulli stand for torch's functions and methods of their names: they take the same
# arguments and return a tensor of the same shape and dtype. A generator is not used, as every
# outcome is taken; what is not followed, such as out=, stops the branch.


def uniform_cells(shape: Any) -> Any:
    """An array of new uniform Numbers."""
    return np.asarray(fill(draw, tuple(shape)), object)


def without_out(out: Any) -> None:
    """Stop the branch if a tensor is given to be written into."""
    if out is not None:
        branch().stop("random numbers are written into `out`")


def rand(*shape, size=None, dtype=None, generator=None, out=None, **kwargs):
    """Uniform Numbers of a shape."""
    without_out(out)
    like = torch.empty(*(shape if size is None else [size]), dtype=dtype)
    return tensor_of(uniform_cells(like.shape), like.dtype)


def rand_like(tensor, dtype=None, **kwargs):
    """Uniform Numbers of a tensor's shape."""
    return tensor_of(uniform_cells(tensor.shape), dtype or tensor.dtype)


def uniform_(self, a=0.0, b=1.0, generator=None, **kwargs):
    """Write Numbers that are uniform from a to b into a tensor, and return it."""
    a, b = kwargs.get("from", a), kwargs.get("to", b)
    return put(self, uniform_cells(self.shape) * (b - a) + a)


def exponential_(self, lambd=1.0, generator=None):
    """Write exponential Numbers of the rate lambd into a tensor, and return it."""
    return put(self, exponential(1 / lambd, self.shape))


def multinomial(p, num_samples, replacement=False, generator=None, out=None):
    """Draw indices in proportion to a row of weights, or to each: [..., n] -> [..., num_samples],
    a choice of the branch for each. Raises what torch raises for the arguments.
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


def bernoulli(p, *args, generator=None, **kwargs):
    """Draw 1 with each probability in p, else 0: a choice of the branch for each. Raises what torch
    raises for p.
    """
    if args or kwargs:
        branch().stop("bernoulli with a probability of its own is not followed")
    REAL["bernoulli"](p, generator=CHECKS)  # for its errors alone
    cells = uniform_cells(p.shape) < cells_of(p)
    return torch.from_numpy(np.array(cells, bool)).to(p.dtype)


CHECKS = torch.Generator()  # of numbers that nobody uses
REAL = {name: getattr(torch, name) for name in ("multinomial", "bernoulli")}
# {function, or method of a tensor: what gives its symbolic numbers}, and the names that are refused
FOLLOWED: dict[str, Callable] = {f.__name__: f for f in (rand, rand_like, multinomial, bernoulli)}
METHODS = {f.__name__: f for f in (uniform_, exponential_, multinomial, bernoulli)}
SEEDING = "manual_seed seed set_rng_state".split()
REFUSED = "randn randn_like randint randint_like randperm normal poisson".split() + SEEDING
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
    """Yield (module or class, name, what replaces it), as sources.replacements does."""
    yield torch, "Generator", Seeded
    for owner, followed, refused in (
        (torch, FOLLOWED, REFUSED),
        (torch.random, {}, SEEDING),
        (torch.Tensor, METHODS, REFUSED_METHODS),
    ):
        source = Source(owner, followed)
        for name in [*followed, *refused]:
            yield owner, name, getattr(source, name)
