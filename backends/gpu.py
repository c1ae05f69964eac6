"""CuPy's side of the backend: the same forward pass on a GPU, where cuBLAS needs no tiles.

Nothing inside a pass waits for the GPU; only copying the logits back to the host does.
"""

import cupy


class Half:
    """A weight [n_in, n_out] in float16. `x @ half` is the matrix product, multiplied in float16
    and added up in float32.  [n_rows, n_in] -> [n_rows, n_out]

    Everything between the products stays float32: the squares in layer norm would overflow float16.
    """

    __array_ufunc__ = None  # `x @ self` is for __rmatmul__

    def __init__(self, weight):
        self.weight, self.shape = cupy.asarray(weight, dtype=cupy.float16), weight.shape

    def __rmatmul__(self, x):
        return (x.astype(cupy.float16) @ self.weight).astype(x.dtype)
