# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Refuses what the operators do not support, where torch would otherwise drop a derivative without an error."""

import torch

import tandem


def check_once(op, *grads):
    """Raises in a backward pass that autograd records; or is given a batch of `grads`, which are not communicated so."""
    if torch.compiler.is_compiling():
        return
    if torch.is_grad_enabled():  # create_graph=True
        raise RuntimeError(f"{op}: its gradient has no gradient: expected create_graph=False")
    if any(one is not None and torch._C._functorch.is_legacy_batchedtensor(one) for one in grads):
        raise RuntimeError(f"{op}: expected one gradient, found a batch: is_grads_batched=True is not supported")


def check_transforms(op, tensors):
    """Raises under torch.func's transforms and for forward-mode AD: what they ask for would be dropped."""
    if torch.compiler.is_compiling():
        return
    if torch._C._are_functorch_transforms_active():
        raise RuntimeError(f"{op}: expected no transform of torch.func, found one: vmap, grad, jvp and others are not supported")
    if torch.autograd.forward_ad._current_level >= 0 and any(
            torch.autograd.forward_ad.unpack_dual(one).tangent is not None for one in tensors):
        raise RuntimeError(f"{op}: expected no tangent, found one: forward-mode AD is not supported")


def check_no_gradient(op, tensors):
    """Raises if autograd would record an operator that has no gradient."""
    check_transforms(op, tensors)
    if torch.is_grad_enabled() and any(one.requires_grad for one in tensors):
        raise tandem.ArgumentError(f"{op}: expected tensors that need no gradient, found one that does: detach it, or call under "
                                   "torch.no_grad()")
