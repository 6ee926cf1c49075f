//===- Torch.h - tensors of torch -------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// torch is not linked. Its tensors are read by its table of DLPack's functions for short loans
// (torch 2.10), which takes 0.05 us, and works for tensors that require a gradient. Without the
// table, and for subclasses of its tensors, their own methods are called: 0.4 us.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_BINDINGS_PYTHON_TORCH_H
#define TANDEM_LIB_BINDINGS_PYTHON_TORCH_H

#include "Bindings.h"

namespace tandem::python {

/// How the elements of a tensor lie in memory.
enum class Layout : int64_t {
  Dense,      ///< row-major
  Transposed, ///< 2-D, the transpose of a row-major tensor
  Other
};

/// A tensor of torch, as it was when it was read. Its memory is not kept alive.
struct TorchTensor {
  void *data = nullptr;
  tandem_dtype dtype = TANDEM_F32;
  Layout layout = Layout::Dense;
  int32_t device = -1; ///< the GPU's number; -1: the CPU
  uint32_t rank = 0;
  int64_t shape[kMaxDims] = {};
  /// Torch's negative bit: the values are the negatives of those in memory (`resolve_neg()`
  /// copies).
  bool isNegative = false;
};

bool isTorch(nb::handle object);
/// Does torch record operations on the tensor for a backward pass, now?
bool needsGradient(nb::handle object);
/// Has the tensor a derivative of forward-mode AD, now?
bool hasTangent(nb::handle object);
/// Reads a tensor of torch; `what()` names it in errors.
template <typename What> TorchTensor readTorch(nb::handle object, const What &what);
/// Memory of a new tensor, of which all else is known.
void *dataOfTorch(nb::handle object);
/// A new tensor on the device of `like`. `extents`: a tuple.
nb::object newTorch(nb::handle like, tandem_dtype dtype, nb::handle extents);
/// The current stream of torch on a GPU (cudaStream_t, as a number).
nb::object currentTorchStream(int32_t device);

namespace detail {
/// Nothing, or why it cannot be read.
std::optional<std::string> readTorch(nb::handle object, TorchTensor &to);
} // namespace detail

template <typename What> TorchTensor readTorch(nb::handle object, const What &what) {
  TorchTensor tensor;
  if (std::optional<std::string> error = detail::readTorch(object, tensor))
    raiseArgument(what() + ": " + *error);
  return tensor;
}

} // namespace tandem::python

#endif // TANDEM_LIB_BINDINGS_PYTHON_TORCH_H
