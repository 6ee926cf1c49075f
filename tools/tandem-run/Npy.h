//===- Npy.h - tensors as NumPy files ---------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_NPY_H
#define TANDEM_RUN_NPY_H

#include "Tensor.h"

namespace tandem::run {

/// Writes <name>.npy files of one folder (made if need be) and, at the end, index.json: a list of
/// {name, role: "input"|"output", dtype, shape, file}. NumPy has no bf16: such a tensor is written
/// as uint16, the upper half of the f32 with the same value
/// (`(a.astype(np.uint32) << 16).view(np.float32)`, or `a.view(ml_dtypes.bfloat16)`).
class NpyFolder {
public:
  static Expected<NpyFolder> create(const std::string &path);
  Status add(const std::string &name, bool isResult, const Tensor &tensor);
  Status finish();

private:
  explicit NpyFolder(std::string path) : path(std::move(path)) {}
  std::string path, index;
};

} // namespace tandem::run

#endif // TANDEM_RUN_NPY_H
