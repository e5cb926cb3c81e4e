"""Data-parallel ranks: each passes its own rows of a batch through the network and gets the outputs of all rows.

Every rank makes the same batch with the same seeded views. The network processes the rank's rows and gathers all
outputs: own rows keep their gradient, the others' carry none. So a method sees the whole batch and needs no ranks.
With L the loss of the batch and f_i the output of row i,

    dL/dtheta = sum_ranks sum_{i in own rows} dL/df_i df_i/dtheta,

where df_i/dtheta passes through the batch norm of all rows, forward and backward. Parameters inside the network have
their own rows' share on each rank, and are summed; those that a method applies to gathered outputs are whole on each.

With one process every function here returns its input. On GPUs the ranks communicate by NCCL, as PyTorch documents
it, untested for lack of two GPUs; on CPUs they use gloo. Batch norm is the same on both:
`torch.nn.SyncBatchNorm` makes the host wait for the GPU in every layer (it drops empty ranks) and supports no CPU.
"""

import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from lps.errors import UserError

_PATIENCE = timedelta(days=7)  # the first rank pretrains while the others wait; dead ranks are noticed otherwise


def join(rank: int, count: int, processes: int, device: torch.device) -> None:
    """Connect to the other ranks of the run; raises `UserError` if their number or that of the GPUs does not fit.

    rank, count: this process among the started ones (`ranks.own_rank`). processes, device: from the config.
    A rank on a GPU uses the one with its own number.
    """
    if count != processes:
        raise UserError("processes", f"{processes} differs from the number of started processes, {count}")
    if count == 1:
        return
    backend = "gloo"
    if device.type == "cuda":
        backend, local, gpus = "cpu:gloo,cuda:nccl", int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if local >= gpus:
            raise UserError("processes", f"{processes} is more than the {gpus} GPUs here; every process needs one")
        torch.cuda.set_device(local)
    dist.init_process_group(backend, rank=rank, world_size=count, timeout=_PATIENCE)


def leave() -> None:
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def num_ranks() -> int:
    """Return the number of ranks."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def own_rows(rows):
    """Return this rank's part of `rows` (a tensor or an array): contiguous, in counts that differ by one at most."""
    return rows if num_ranks() == 1 else rows[_bounds(len(rows))[dist.get_rank()]]


def gather(own_rows: Tensor, count: int) -> Tensor:
    """Gather (count, ...) rows of all ranks in order, from `own_rows`. Only own rows keep their gradient."""
    if num_ranks() == 1:
        return own_rows
    bounds = _bounds(count)
    longest = max(part.stop - part.start for part in bounds)
    padded = own_rows.new_zeros((longest, *own_rows.shape[1:]))
    padded[: len(own_rows)] = own_rows.detach()
    parts = [torch.empty_like(padded) for _ in bounds]
    dist.all_gather(parts, padded)
    parts = [part[: bounds_of_rank.stop - bounds_of_rank.start] for part, bounds_of_rank in zip(parts, bounds)]
    parts[dist.get_rank()] = own_rows
    return torch.cat(parts)


def any_of(flag: bool) -> bool:
    """Return whether the flag is set on any rank; through host memory, so that no rank waits for a GPU."""
    return bool(_reduced(int(flag), dist.ReduceOp.MAX)) if num_ranks() > 1 else flag


def broadcast_number(number: int) -> int:
    """Return the first rank's number."""
    return _reduced(number if dist.get_rank() == 0 else 0, dist.ReduceOp.SUM) if num_ranks() > 1 else number


@torch.no_grad()
def broadcast_module(module: nn.Module) -> None:
    """Copy the first rank's parameters and buffers to every rank, in case that arithmetic differed."""
    if num_ranks() == 1:
        return
    for tensor in (*module.parameters(), *module.buffers()):
        contiguous = tensor.contiguous()
        dist.broadcast(contiguous, src=0)
        if contiguous is not tensor:
            tensor.copy_(contiguous)


@torch.no_grad()
def add_up_gradients(module: nn.Module, network: nn.Module) -> None:
    """Compute the gradient of the whole batch on every rank: summed inside `network`, averaged in the rest of `module`.

    One exchange of one flat tensor after the backward pass. A parameter without a gradient has none on any rank.
    """
    if num_ranks() == 1:
        return
    partial = set(network.parameters())
    learning = [parameter for parameter in module.parameters() if parameter.grad is not None]
    for parameter in learning:
        if parameter not in partial:
            parameter.grad /= num_ranks()
    flat = torch.cat([parameter.grad.reshape(-1) for parameter in learning])
    dist.all_reduce(flat)
    for parameter, part in zip(learning, flat.split([parameter.numel() for parameter in learning])):
        parameter.grad.copy_(part.view_as(parameter))


def synchronise_batchnorm(module: nn.Module) -> None:
    """Make every batch norm in `module` use the rows of all ranks. Names and weights stay.

    The class of the modules is changed in place, since a network also lists the frozen ones among them.
    """
    if num_ranks() == 1:
        return
    for part in module.modules():
        if isinstance(part, _BatchNorm):
            part.__class__ = _GlobalBatchNorm


class _GlobalBatchNorm(_BatchNorm):
    """Batch norm over the rows of all ranks, its statistics in float32."""

    def _check_input_dim(self, images: Tensor) -> None:
        """Accept the same inputs as the replaced layer."""

    def forward(self, images: Tensor) -> Tensor:
        """Normalize images (own rows, channels, ...); in evaluation mode as usual."""
        if not self.training:
            return super().forward(images)
        values = images.to(torch.promote_types(images.dtype, torch.float32))
        axes, shape = (0, *range(2, images.dim())), (1, -1) + (1,) * (images.dim() - 2)
        rows = values.new_full((1,), values.numel() // values.shape[1])
        totals = _Sum.apply(torch.cat([values.sum(dim=axes), rows]))
        count = totals[-1].detach()
        mean = totals[:-1] / count
        centred = values - mean.view(shape)
        variance = _Sum.apply(centred.square().sum(dim=axes)) / count
        self._remember(mean.detach(), variance.detach() * count / (count - 1))
        out = centred * (variance + self.eps).rsqrt().view(shape)
        if self.weight is not None:
            out = out * self.weight.view(shape)
        if self.bias is not None:
            out = out + self.bias.view(shape)
        return out.to(images.dtype)

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        """Update the running statistics with those of this batch (channels,), the variance unbiased."""
        if not self.track_running_stats:
            return
        self.num_batches_tracked += 1
        share = 1 / self.num_batches_tracked if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, share)
        self.running_var.lerp_(variance, share)


class _Sum(torch.autograd.Function):
    """Sum over ranks. Its gradient is summed too, as each rank used the sum for its own rows alone."""

    @staticmethod
    def forward(context, own_rows: Tensor) -> Tensor:
        total = own_rows.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(context, gradient: Tensor) -> Tensor:
        total = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total


def _reduced(number: int, operation) -> int:
    as_tensor = torch.tensor(number)
    dist.all_reduce(as_tensor, op=operation)
    return int(as_tensor)


def _bounds(count: int) -> list[slice]:
    """Return the row limits of all ranks."""
    shares = num_ranks()
    edges = [count * number // shares for number in range(shares + 1)]
    return [slice(start, stop) for start, stop in zip(edges, edges[1:])]
