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
#include "tandem/Program/Types.h"
#include "tandem/Program/stream_program_generated.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/DenseMap.h"

namespace tandem::target {

namespace sp = ::tandem::sp;

/// The schema's number of an element type, if any.
std::optional<DType> dtypeOf(Type elementType);
/// The row-major layout of a type; none if the element type has no number, an extent is dynamic, or
/// there are too many dimensions or bytes.
std::optional<Layout> denseLayout(MemRefType type);
/// As Layout::spanBytes(); none if that overflows, or an extent or a stride is negative.
std::optional<int64_t> spanOf(const Layout &layout);

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
