"""CuPy's side of the backend: the same forward pass on a GPU.

A pass over a few rows takes as long as it takes to launch its kernels, some 10 to 20 microseconds
each, whatever they compute. So what takes NumPy several calls is one kernel here: layer norm, the
softmax of attention with its scale and its mask, GELU with the bias before it, and a product's bias
with the sum that it goes into. Numbers are float32, but for the weights that `Weight` keeps in
float16. Nothing inside a pass waits for the GPU; only copying the logits to the host does.
"""

import math
from functools import partial
from typing import Any

import cupy
import numpy as np

WARP = 32  # threads that compute one row, called its lanes: neighbours read neighbouring numbers

SOURCE = r"""
#define WARP 32

// over all lanes, and each of them gets it
__device__ float sum_of_lanes(float value) {
    for (int mask = WARP / 2; mask > 0; mask /= 2) value += __shfl_xor_sync(~0u, value, mask);
    return value;
}

__device__ float largest_of_lanes(float value) {
    for (int mask = WARP / 2; mask > 0; mask /= 2)
        value = fmaxf(value, __shfl_xor_sync(~0u, value, mask));
    return value;
}

// x, y: [n_rows, n]; weight, bias: [n]
extern "C" __global__ void layer_norm(
    const float* x, const float* weight, const float* bias, float* y, int n, float epsilon
) {
    x += (size_t)blockIdx.x * n;
    y += (size_t)blockIdx.x * n;
    float sum = 0, squares = 0;
    for (int i = threadIdx.x; i < n; i += WARP) sum += x[i];
    float mean = sum_of_lanes(sum) / n;
    for (int i = threadIdx.x; i < n; i += WARP) squares += (x[i] - mean) * (x[i] - mean);
    float deviation = sqrtf(sum_of_lanes(squares) / n + epsilon);
    for (int i = threadIdx.x; i < n; i += WARP)
        y[i] = (x[i] - mean) / deviation * weight[i] + bias[i];
}

// scores: [n_head, n_new, n_total], in place; the new positions are the last, and each sees the
// positions up to its own
extern "C" __global__ void causal_softmax(float* scores, int n_new, int n_total, float scale) {
    scores += (size_t)blockIdx.x * n_total;
    int n_seen = n_total - n_new + 1 + blockIdx.x % n_new;
    float largest = scores[0], sum = 0;
    for (int i = threadIdx.x; i < n_seen; i += WARP) largest = fmaxf(largest, scores[i]);
    largest = largest_of_lanes(largest);
    for (int i = threadIdx.x; i < n_seen; i += WARP)
        sum += scores[i] = expf(scale * (scores[i] - largest));
    sum = sum_of_lanes(sum);
    for (int i = threadIdx.x; i < n_total; i += WARP)
        scores[i] = i < n_seen ? scores[i] / sum : 0;
}
"""
LAYER_NORM = cupy.RawKernel(SOURCE, "layer_norm")
CAUSAL_SOFTMAX = cupy.RawKernel(SOURCE, "causal_softmax")

# T: float32, or float16 of a product by weights in float16
ADD = cupy.ElementwiseKernel(
    "float32 x, T y, float32 bias", "float32 sum", "sum = x + ((float)y + bias)", "add"
)
GELU = cupy.ElementwiseKernel(
    "T x, float32 bias",
    "T y",
    "float z = (float)x + bias;"
    "y = z * (0.5f + 0.5f * tanhf(z * (0.7978845608f + 0.0356774081f * (z * z))))",
    "gelu",
)
EXACT_GELU = cupy.ElementwiseKernel(
    "T x, float32 bias", "T y", "float z = (float)x + bias; y = z * normcdff(z)", "exact_gelu"
)


def layer_norm(x, weight, bias, epsilon, xp):  # [n, n_embd], 2 x [1, n_embd] -> [n, n_embd]
    """Bring each row to mean 0 and variance 1, times weight, plus bias, in a new array: what
    gpt2.layer_norm does, as one kernel. epsilon is added to the variance before its root; xp, the
    array module, is not used: it is CuPy.
    """
    x = cupy.ascontiguousarray(x)
    y = cupy.empty_like(x)
    n_rows, n_embd = x.shape
    if n_rows:  # a kernel of no threads is an error
        arguments = x, weight, bias, y, np.int32(n_embd), np.float32(epsilon)
        LAYER_NORM((n_rows,), (WARP,), arguments)  # a block of WARP threads for each row writes y
    return y


def dot_product_attention(q, k, v, xp):  # [n_head, n_new, d_head], [n_head, d_head, n_total],
    # [n_head, n_total, d_head] -> [n_head, n_new, d_head]
    """softmax(q @ k / sqrt(d_head)) @ v in a new array, for the queries q of the new positions and
    the keys k and values v of all. The new positions are the last, and each sees those up to
    itself. What gpt2.dot_product_attention does, with all that is between the products as one
    kernel. xp, the array module, is not used: it is CuPy.
    """
    scores = q @ k
    n_head, n_new, n_total = scores.shape
    scale = np.float32(1 / math.sqrt(q.shape[-1]))
    arguments = scores, np.int32(n_new), np.int32(n_total), scale
    CAUSAL_SOFTMAX((n_head * n_new,), (WARP,), arguments)  # in place, a block for each row
    return scores @ v


class Weight:
    """A weight [n_in, n_out] in float32 or float16, whose products add up in float32. `x @ weight`
    is a Product [n_rows, n_out] for x [n_rows, n_in] of any dtype.

    Everything between the products stays float32: the squares in layer norm would overflow float16.
    """

    __array_ufunc__ = None  # `x @ self` is for __rmatmul__

    def __init__(self, weight, dtype=cupy.float32):
        self.weight = cupy.asarray(weight, dtype=dtype)
        self.shape = weight.shape
        self.T = self.weight.T  # to look up rows of the embedding in the output head

    def __rmatmul__(self, x):  # [n_rows, n_in] -> [n_rows, n_out]
        """The Product of x, rounded to the weight's dtype, and the weight."""
        return Product(x.astype(self.weight.dtype, copy=False) @ self.weight)


class Product:
    """A product of which `+= bias`, once, only notes the bias: whatever takes the sum adds it in
    its own kernel. It supports what gpt2.py does to a product, no more.
    """

    __array_ufunc__ = None  # `x + self` is for __radd__

    def __init__(self, product):
        self.product, self.bias = product, 0

    def __iadd__(self, bias):
        """Only note the bias; a second one would replace it."""
        self.bias = bias
        return self

    def __radd__(self, x):
        """x + (product + bias) for a float32 array x of the product's shape, as one kernel; returns
        a float32 array.
        """
        return ADD(x, self.product, self.bias)

    def reshape(self, *shape):
        """product + bias as a float32 array of this shape."""
        total = 0 + self  # by __radd__
        return total.reshape(*shape)


def gelu(x, xp):  # a Product or an array [..., n] -> [..., n]
    """GELU of x, approximated by tanh as in gpt2.gelu; of a Product, with its bias added before, in
    the same kernel. Returns a new array of x's dtype, float32 or float16. xp is not used.
    """
    if isinstance(x, Product):
        return GELU(x.product, x.bias)
    return GELU(x, 0)


def exact_gelu(x, xp):  # a Product or an array [..., n] -> [..., n]
    """x times the probability that a standard normal number is below it: GELU without the
    approximation by tanh. Of a Product, with its bias added before, in the same kernel. Returns a
    new array of x's dtype, float32 or float16. xp is not used.
    """
    if isinstance(x, Product):
        return EXACT_GELU(x.product, x.bias)
    return EXACT_GELU(x, 0)


def asarray(array):
    """A NumPy array copied to the GPU, of the same shape. Floats of any size become float32, which
    the kernels expect; integers stay.
    """
    dtype = cupy.float32 if array.dtype.kind == "f" else array.dtype
    return cupy.asarray(array, dtype=dtype)


def to_host(product: Product) -> np.ndarray:
    """A product without bias, such as logits, in float32 as a NumPy array."""
    return cupy.asnumpy(product.product.astype(cupy.float32, copy=False))


def parts(dtype: Any) -> dict[str, Any]:
    """The fields of a Backend on a GPU but "name", {field: value}. dtype: np.float32 or np.float16,
    in which `lay_out` stores the matrices that are multiplied by; with float16, looks_up is False:
    rows of the token embedding are looked up in a float32 copy.
    """
    return {
        "xp": cupy,
        "asarray": asarray,
        "to_host": to_host,
        "lay_out": partial(Weight, dtype=dtype),
        "looks_up": dtype is np.float32,
        "layer_norm": layer_norm,
        "dot_product_attention": dot_product_attention,
        "gelu": gelu,
        "exact_gelu": exact_gelu,
    }
