"""A product of two matrices that is not multiplied out."""
from __future__ import annotations

from typing import Any

import torch


class FactoredMatrix:
    """A @ B of A [..., l, m] and B [..., m, r]; leading axes broadcast."""

    def __init__(self, A: torch.Tensor, B: torch.Tensor) -> None:
        if A.shape[-1] != B.shape[-2]:
            raise ValueError(f"FactoredMatrix: expected [..., l, m] and [..., m, r], got {list(A.shape)} and {list(B.shape)}")
        leading = torch.broadcast_shapes(A.shape[:-2], B.shape[:-2])
        self.A = A.expand(*leading, *A.shape[-2:])
        self.B = B.expand(*leading, *B.shape[-2:])
        self.ldim, self.mdim, self.rdim = A.shape[-2], A.shape[-1], B.shape[-1]
        self.shape = torch.Size([*leading, self.ldim, self.rdim])
        self.ndim = len(self.shape)

    @property
    def AB(self) -> torch.Tensor:
        """The matrix."""
        return self.A @ self.B

    @property
    def BA(self) -> torch.Tensor:
        """The small product of a square matrix, with the same eigenvalues but zeros."""
        return self.B @ self.A

    @property
    def T(self) -> FactoredMatrix:
        """The transposed one."""
        return FactoredMatrix(self.B.mT, self.A.mT)

    @property
    def pair(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The factors."""
        return self.A, self.B

    def svd(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """U [..., l, m], S [..., m] and V [..., r, m], by the QR factors of A and B."""
        (left, a), (right, b) = torch.linalg.qr(self.A), torch.linalg.qr(self.B.mT)
        u, s, vh = torch.linalg.svd(a @ b.mT, full_matrices=False)
        return left @ u, s, right @ vh.mT

    @property
    def U(self) -> torch.Tensor:
        """The left singular vectors, in columns."""
        return self.svd()[0]

    @property
    def S(self) -> torch.Tensor:
        """The singular values, largest first."""
        return self.svd()[1]

    @property
    def V(self) -> torch.Tensor:
        """The right singular vectors, in columns."""
        return self.svd()[2]

    Vh = V  # TransformerLens' other name of it

    @property
    def eigenvalues(self) -> torch.Tensor:
        """Those that are not zero for the shape alone, complex [..., m]."""
        return torch.linalg.eigvals(self.BA)

    def norm(self) -> torch.Tensor:
        """The Frobenius norm."""
        return torch.linalg.vector_norm(self.S, dim=-1)

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, FactoredMatrix):
            return self @ other.A @ other.B
        if other.ndim == 1:
            return self.A @ (self.B @ other)
        return FactoredMatrix(self.A, self.B @ other) if self.rdim > self.mdim else FactoredMatrix(self.AB, other)

    def __rmatmul__(self, other: Any) -> Any:
        if other.ndim == 1:
            return other @ self.A @ self.B
        return (self.T @ other.mT).T

    def __mul__(self, factor: Any) -> FactoredMatrix:
        return FactoredMatrix(self.A * factor, self.B)

    __rmul__ = __mul__

    def __getitem__(self, index: Any) -> FactoredMatrix:
        """Of the leading axes; rows and columns are those of AB."""
        return FactoredMatrix(self.A[index], self.B[index])

    def __repr__(self) -> str:
        return f"FactoredMatrix({list(self.shape)}, inner {self.mdim})"
