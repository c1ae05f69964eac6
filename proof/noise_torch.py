"""Symbolic random numbers in torch: a tensor of Numbers, computed by NumPy as arrays of objects.

A Noise is a torch.Tensor without memory: whatever would read it, such as compiled code, raises an
error. What only moves elements is done by torch itself, to their places; the rest by NumPy. A Noise
cannot be changed in place, so a view of it may be a copy.
"""

import operator
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import numpy as np
import torch

from . import enumerate as enumeration
from .noise import Number, branch, choose
from .sources import Source, draw, exponential, fill, uniform


class Noise(torch.Tensor):
    """A tensor of symbolic numbers, and of other numbers among them.

    cells: an array of its shape, of Numbers and floats
    """

    cells: np.ndarray

    @staticmethod
    def __new__(cls, cells: np.ndarray, dtype: torch.dtype) -> "Noise":
        """A Noise of these cells, and of their shape. torch takes it for a tensor of this dtype;
        the cells are not converted. Raises Undecidable unless that is float32 or float64.
        """
        # in 16 bits, a uniform number has few values: its probabilities are others
        if dtype not in (torch.float32, torch.float64):
            raise branch().stop(f"random numbers as {dtype} are not followed")
        noise = torch.Tensor._make_wrapper_subclass(cls, cells.shape, dtype=dtype)
        noise.cells = cells
        return noise

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return follow(function, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise branch().stop(f"{function} reads random numbers, which is not followed")


Number.__torch_function__ = Noise.__torch_function__


def tensor_of(cells: Any, dtype: torch.dtype) -> torch.Tensor:
    """A tensor of what NumPy computed, an array or a single number: a Noise of this dtype if there
    are Numbers in it, else an ordinary one of NumPy's dtype.
    """
    cells = np.array(cells)
    return Noise(cells, dtype) if cells.dtype == object else torch.from_numpy(cells)


def overwrite(tensor: torch.Tensor, cells: Any) -> torch.Tensor:
    """Turn an ordinary tensor into a Noise: the same object, whoever has it, with other contents.
    Returns it. If it is a view of another tensor, that one becomes a Noise that cannot be used.
    Raises Undecidable if it is a Noise already, and if further tensors share its memory, since they
    would keep the old contents.

    cells: Numbers and floats, of the tensor's shape or broadcast to it
    """
    if isinstance(tensor, Noise):
        raise branch().stop("random numbers are changed in place, which is not followed")
    memory = tensor.untyped_storage()
    base = tensor._base  # None if it is no view
    n_known = 2 if base is None else 3  # the tensor, its base, and `memory` use it
    if torch._C._storage_Use_Count(memory._cdata) > n_known:
        raise branch().stop("random numbers are written into a tensor that shares its memory")
    its_cells = np.array(np.broadcast_to(cells, tensor.shape), object)
    torch.utils.swap_tensors(tensor, Noise(its_cells, tensor.dtype))
    if base is not None:
        unusable = np.full(base.shape, None)  # nothing can be done with None
        torch.utils.swap_tensors(base, Noise(unusable, base.dtype))
    return tensor


# ---------------------------------------------------------------- what is followed

# names of functions and properties of torch that move elements, such as noise.view(2, 3), change
# their type, such as noise.double(), or tell what a tensor is, such as noise.shape; none of them
# looks at the elements
MOVES = set(
    "view reshape unsqueeze squeeze __getitem__ expand expand_as flatten transpose permute t flip "
    "select index_select gather repeat unbind split contiguous clone detach "
    "to float double cpu type type_as "
    "dim size numel stride __len__ is_contiguous ndimension is_floating_point nelement is_complex "
    "element_size get_device shape dtype device ndim layout requires_grad is_cuda is_sparse".split()
)


def by_axis(function: Callable) -> Callable:
    """A function of NumPy, such as np.argmax, with torch's parameters dim and keepdim."""
    return lambda x, dim=None, keepdim=False: function(x, axis=dim, keepdims=keepdim)


def searchsorted(rows: Any, values: Any, right: bool = False) -> Any:  # -> shape of values
    """torch.searchsorted for arrays: of each value, how many numbers of an ascending row are less
    than it, or with `right` not more than it.

    rows: one row [n] for all values, [...]; or rows [..., n], with values [..., m] for each
    """
    values = np.asarray(values)[..., np.newaxis]  # each value beside the n numbers of its row
    if rows.ndim > 1:
        rows = rows[..., np.newaxis, :]
    counts = rows <= values if right else rows < values
    return counts.sum(axis=-1)


OPERATORS = "lt le gt ge eq ne add sub mul truediv neg".split()
# {name of a function of torch, without _ at its ends: the same function for arrays of Numbers}:
# "div" stands for torch.div(p, noise), p / noise and p.div_(noise)
CELLS: dict[str, Callable] = {
    **{name: getattr(operator, name) for name in OPERATORS},
    "div": operator.truediv, "rdiv": lambda a, b: b / a, "rtruediv": lambda a, b: b / a,
    "rsub": lambda a, b: b - a, "reciprocal": lambda x: 1.0 / x, "log": np.log,
    "clamp": lambda x, min=None, max=None: np.clip(x, min, max),  # noqa: A006
    "argmax": by_axis(np.argmax), "argmin": by_axis(np.argmin),
    "searchsorted": searchsorted,
}  # fmt: skip


def follow(function: Callable, args: tuple, kwargs: dict) -> Any:
    """What a function of torch returns for (*args, **kwargs), with random numbers (a Noise or a
    Number) among them: a tensor, a Noise if such numbers are left in it, or a tuple of tensors; for
    item, tolist and facts such as the shape what torch returns. A function in place, such as mul_,
    changes args[0] and returns it. Raises Undecidable for a function that is not in the tables
    MOVES and CELLS, and for arguments that these do not take, such as `out`.
    """
    name = function.__name__
    if name == "__get__":  # noise.shape calls __get__ of the property `shape`: its name counts
        name = function.__self__.__name__
    if args and isinstance(args[0], Noise):
        if name in MOVES:
            return moved(args[0], function, args[1:], kwargs)  # or a fact, such as the shape
        if name in ("item", "tolist"):
            return getattr(args[0].cells, name)()
    return computed(name, args, kwargs)


def moved(noise: Noise, function: Callable, args: tuple, kwargs: dict) -> Any:
    """What function(noise, *args, **kwargs) returns, for a function of torch that moves elements,
    changes their type or tells a fact, such as the shape: a Noise, a tuple of them, or the fact.

    To find where each element goes, the function is applied to a tensor of their places, 0, 1, 2...
    """
    with torch._C.DisableTorchFunctionSubclass():  # a Noise among args is not to call `follow`
        # in floats, as function may tell or change the dtype; noise_at reads them as whole numbers
        places = torch.arange(noise.cells.size, dtype=noise.dtype).reshape(noise.shape)
        found = function(places, *args, **kwargs)
    if type(found) is tuple:  # not torch.Size, a fact
        return tuple(noise_at(noise, new) for new in found)
    return noise_at(noise, found) if isinstance(found, torch.Tensor) else found


def noise_at(noise: Noise, places: torch.Tensor) -> Noise:
    """The elements of a Noise at these places, where its elements are numbered 0, 1, 2... in the
    order of memory: a Noise of the shape and dtype of `places`.
    """
    cells = noise.cells.ravel()[places.long().numpy()]
    return Noise(np.asarray(cells), places.dtype)


def computed(name: str, args: tuple, kwargs: dict) -> Any:
    """What a function of the table CELLS, such as "log", or "log_" in place, returns for (*args,
    **kwargs): a tensor, a Noise if there are Numbers in it; in place it is args[0], changed. Raises
    Undecidable for another name, and for arguments that the function in the table does not take.
    """
    key = name.strip("_")  # "add" of "add", "add_" and "__add__"
    if key not in CELLS:
        raise branch().stop(f"torch.{key} of random numbers is not followed")
    arrays = [cells_of(x) for x in args]
    try:
        cells = CELLS[key](*arrays, **kwargs)
    except TypeError:
        raise branch().stop(f"torch.{key} with these arguments is not followed")
    if name == f"{key}_":
        return overwrite(args[0], cells)
    # the widest type of the tensors; if there is none, a TypeError, as torch raises
    dtypes = [x.dtype for x in args if isinstance(x, torch.Tensor)]
    return tensor_of(cells, reduce(torch.promote_types, dtypes))


def cells_of(x: Any) -> Any:
    """The elements of a tensor as an array: of Numbers and floats if it is a Noise, else of its
    numbers, floats in float64. What is no tensor is returned as it is.
    """
    if isinstance(x, Noise):
        return x.cells
    if not isinstance(x, torch.Tensor):
        return x
    return x.detach().double().numpy() if x.is_floating_point() else x.numpy()


# ---------------------------------------------------------------- sources
# rand to multinomial stand for torch's functions and methods of their names: they take the same
# arguments and return a tensor of the same shape and dtype. A generator is not used, as every
# outcome is taken.


def rand(*shape: Any, dtype: Any = None, generator: Any = None, device: Any = None) -> torch.Tensor:
    """torch.rand: a tensor of new uniform Numbers, rand(2, 3) or rand([2, 3]). Generator and device
    are not used. Raises what torch raises for such a shape or dtype.
    """
    return rand_like(torch.empty(*shape, dtype=dtype))


def rand_like(tensor: torch.Tensor, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    """torch.rand_like: a Noise of new uniform Numbers, of a tensor's shape, and of its dtype if
    none is given. Other arguments are not used.
    """
    return tensor_of(fill(draw, tensor.shape), dtype or tensor.dtype)


def uniform_(
    self: torch.Tensor, low: float = 0.0, to: float = 1.0, generator: Any = None
) -> torch.Tensor:
    """Write new Numbers into a tensor, uniform from low to `to`, and return it. `self` becomes a
    Noise; the generator is not used. Raises Undecidable if others share its memory.
    """
    return overwrite(self, uniform(low, to, self.shape))


def exponential_(self: torch.Tensor, lambd: float = 1.0, generator: Any = None) -> torch.Tensor:
    """Write new exponential Numbers of the rate lambd into a tensor, and return it. `self` becomes
    a Noise; the generator is not used. Raises Undecidable if others share its memory.
    """
    return overwrite(self, exponential(1 / lambd, self.shape))


def multinomial(
    p: torch.Tensor, num_samples: int, replacement: bool = False, generator: Any = None
) -> torch.Tensor:  # [..., n] -> [..., 1]
    """torch.multinomial: draw an index in proportion to a row of weights, or to each of several
    rows; of each all outcomes are taken, each in a run of its own. Replacement and generator are
    not used. Raises what torch raises for the arguments, and Undecidable for num_samples > 1.
    """
    if num_samples > 1:
        raise branch().stop("multinomial of several is not followed")
    # torch's own raises for wrong arguments; a spare generator, so that no global state changes
    REAL_MULTINOMIAL(p, num_samples, generator=SPARE)
    rows = p.detach().double().reshape(-1, p.shape[-1]).tolist()
    drawn = [choose(row, "sampled") for row in rows]
    return torch.tensor(drawn, dtype=torch.long).reshape(*p.shape[:-1], 1)


SPARE = torch.Generator()  # of numbers that nobody uses
REAL_MULTINOMIAL = torch.multinomial
# {name of a function of torch: what gives its symbolic numbers}, and of a method of a tensor
FOLLOWED: dict[str, Callable] = {f.__name__: f for f in (rand, rand_like, multinomial)}
METHODS = {f.__name__: f for f in (uniform_, exponential_, multinomial)}
# names of functions, and of methods, that draw or seed, and raise Undecidable
SEEDING = "manual_seed seed set_rng_state".split()
REFUSED = "randn randn_like randint randint_like randperm normal poisson bernoulli".split()
REFUSED_METHODS = "normal_ random_ bernoulli bernoulli_ geometric_ log_normal_ cauchy_".split()


class Seeded(torch.Generator):
    """A generator that is not seeded or rewound in a run that is enumerated."""

    def __getattribute__(self, name: str) -> Any:
        """Its attribute or method, as of any generator. Raises Undecidable, in a run that is
        enumerated, for a method that seeds or rewinds it.
        """
        if enumeration.current and name in ("manual_seed", "seed", "set_state"):
            problem = f"it calls {name} of a torch.Generator while it runs"
            raise branch().stop(f"{problem}: with a constant, each call draws the same numbers")
        return super().__getattribute__(name)


def replacements() -> Iterator[tuple[Any, str, Any]]:
    """Yield (owner, name, value) for torch.Generator, and each function of torch and method of a
    tensor that draws or seeds: value can stand in for owner.name. While a run is enumerated it
    gives a Noise, a tensor of what stands for random numbers, or raises Undecidable if it has none
    for that, or seeds; at other times it does what torch does. Nothing is replaced here.
    """
    yield torch, "Generator", Seeded
    for owner, followed, refused in (
        (torch, FOLLOWED, REFUSED + SEEDING),
        (torch.random, {}, SEEDING),
        (torch.Tensor, METHODS, REFUSED_METHODS),
    ):
        source = Source(owner, followed)  # a method that is not in `followed` raises Undecidable
        for name in [*followed, *refused]:
            yield owner, name, getattr(source, name)
