//===- Layouts.h - shapes and strides, numbered -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_STREAMPROGRAM_LAYOUTS_H
#define TANDEM_LIB_TARGET_STREAMPROGRAM_LAYOUTS_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/Support/LLVM.h"
#include "tandem/Program/stream_program_generated.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/DenseMap.h"

namespace tandem::target {

namespace sp = ::tandem::sp;

/// The runtime's limit on dimensions.
inline constexpr unsigned kMaxRank = 16;

/// The schema's number of an element type, if any.
std::optional<sp::DType> dtypeOf(Type elementType);
/// Bytes of one element.
unsigned sizeOf(sp::DType type);

/// Element type, extents and strides (in elements) of a view.
struct Layout {
  sp::DType dtype;
  SmallVector<int64_t, 4> shape, strides;

  /// Row-major. None if the element type has no number, an extent is dynamic, or there are too many
  /// dimensions or bytes.
  static std::optional<Layout> dense(MemRefType type);
  bool operator==(const Layout &o) const {
    return dtype == o.dtype && shape == o.shape && strides == o.strides;
  }
  unsigned rank() const { return shape.size(); }
  int64_t numElements() const;
  /// Bytes of the elements.
  int64_t bytes() const { return numElements() * sizeOf(dtype); }
  /// Bytes from the first element to the end of the last; none on overflow or negative strides.
  std::optional<int64_t> span() const;
  /// "f32[4,8]", with strides unless row-major.
  std::string str() const;
};

/// Numbers distinct layouts.
class LayoutTable {
public:
  uint32_t intern(const Layout &layout);
  const Layout &operator[](uint32_t id) const { return layouts[id]; }
  /// Bytes from a view's first element to the end of its last; -1 if none.
  int64_t span(uint32_t id) const { return spans[id]; }
  uint32_t size() const { return layouts.size(); }

private:
  std::vector<Layout> layouts;
  std::vector<int64_t> spans;
  llvm::DenseMap<uint64_t, SmallVector<uint32_t, 1>> byHash;
};

} // namespace tandem::target

#endif // TANDEM_LIB_TARGET_STREAMPROGRAM_LAYOUTS_H
