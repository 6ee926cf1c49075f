//===- Packing.h - strided operands as contiguous bytes ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHANNEL_UCX_PACKING_H
#define TANDEM_CHANNEL_UCX_PACKING_H

#include "tandem/Program/Types.h"

#include <vector>

namespace tandem::ucx {

/// A layout as contiguous runs of `runBytes` bytes, one per index of a few outer dimensions.
class Runs {
public:
  Runs() = default;
  explicit Runs(const Layout &layout);

  uint64_t bytes() const { return total; }
  /// True if there is at most one run.
  bool contiguous() const { return dims.empty(); }
  uint64_t runBytes() const { return run; }

  /// Calls f(offset in the strided memory, offset in the packed memory) for each run, in order.
  template <typename F> void forEach(F &&f) const {
    if (total == 0)
      return;
    std::vector<int64_t> index(dims.size(), 0);
    uint64_t strided = 0;
    for (uint64_t packed = 0; packed < total; packed += run) {
      f(strided, packed);
      for (size_t d = dims.size(); d-- > 0;) {
        strided += dims[d].stride;
        if (++index[d] < dims[d].count)
          break;
        strided -= dims[d].stride * static_cast<uint64_t>(dims[d].count);
        index[d] = 0;
      }
    }
  }

  void pack(std::byte *packed, const void *strided) const;
  void unpack(void *strided, const std::byte *packed) const;

private:
  struct Dim {
    int64_t count;
    uint64_t stride; ///< bytes
  };
  std::vector<Dim> dims; ///< outermost first
  uint64_t run = 0, total = 0;
};

} // namespace tandem::ucx

#endif // TANDEM_CHANNEL_UCX_PACKING_H
