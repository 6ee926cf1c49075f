//===- GroupedMatmul.cpp - matrix products of groups of rows ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One matmul per group with rows. Its size is known at run time only, so the matmuls are prepared
// then, and kept by their number of rows.
//
//===----------------------------------------------------------------------===//

#include "CpuDevice.h"

#include "tandem/Program/BuiltinKernels.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace tandem::cpu {

namespace {

using program::GroupedMatmul;

class GroupedMatmulOperation final : public HostOperation {
public:
  GroupedMatmulOperation(const CallDesc &desc, const GroupedMatmul &matmul,
                         std::vector<Layout> layouts, unsigned threads)
      : matmul(matmul), layouts(std::move(layouts)), ordered(desc.ordered), threads(threads) {
    std::copy(desc.slots.begin(), desc.slots.end(), slots);
  }

  Status execute(const Frame &frame) override {
    for (int64_t batch = 0; batch < matmul.batches; ++batch) {
      std::byte *base[kOperands];
      for (unsigned k = 0; k < kOperands; ++k)
        base[k] = at(frame, k) + (k == kW ? 0 : offsetOf(k, batch));
      TANDEM_RETURN_IF_ERROR(multiply(frame, base));
    }
    return Status();
  }

private:
  enum : unsigned { kY, kX, kW, kEnds, kOperands };

  /// One index of the batch dimensions. Ends that descend or lie outside of the rows are clamped.
  Status multiply(const Frame &frame, std::byte *const *base) {
    const Layout &ends = layouts[kEnds];
    int64_t begin = 0;
    for (int64_t group = 0; group < matmul.groups; ++group) {
      int32_t given = 0;
      std::memcpy(&given, base[kEnds] + group * ends.strides[ends.rank - 1u] * 4, sizeof given);
      int64_t end = std::clamp(int64_t{given}, begin, matmul.rows);
      if (end == begin)
        continue;
      void *pointers[] = {base[kY] + begin * rowBytes(kY), base[kX] + begin * rowBytes(kX),
                          base[kW] + group * layouts[kW].strides[0] * sizeOf(layouts[kW].dtype)};
      TANDEM_ASSIGN_OR_RETURN(HostOperation * product, productOf(end - begin));
      Frame mine = frame;
      mine.pointers = pointers;
      TANDEM_RETURN_IF_ERROR(product->execute(mine));
      begin = end;
    }
    clear(base[kY] + begin * rowBytes(kY), matmul.rows - begin);
    return Status();
  }

  /// The product of that many rows, with the operands y, x and w of one group.
  Expected<HostOperation *> productOf(int64_t rows) {
    constexpr size_t kMostKept = 256;
    if (auto known = products.find(rows); known != products.end())
      return static_cast<HostOperation *>(known->second.get());
    if (products.size() == kMostKept)
      products.clear();
    MatmulDesc desc;
    Operand *operands[] = {&desc.out, &desc.a, &desc.b};
    for (uint32_t k = 0; k < 3; ++k) {
      const Layout &from = layouts[k];
      operands[k]->slot = k;
      operands[k]->layout = from.select(uint64_t(3) << (from.rank - 2u), true);
      if (k != kW)
        operands[k]->layout.shape[0] = rows;
    }
    desc.transposeB = matmul.transposeB;
    desc.ordered = ordered;
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Operation> made, prepareMatmul(desc, threads));
    auto *host = static_cast<HostOperation *>(made.get());
    products.emplace(rows, std::move(made));
    return host;
  }

  /// Rows of no group.
  void clear(std::byte *y, int64_t rows) const {
    const Layout &layout = layouts[kY];
    const int64_t size = sizeOf(layout.dtype), step = layout.strides[layout.rank - 1u] * size;
    for (int64_t row = 0; row < rows; ++row, y += rowBytes(kY))
      for (int64_t column = 0; column < matmul.columns; ++column)
        std::memset(y + column * step, 0, static_cast<size_t>(size));
  }

  std::byte *at(const Frame &frame, unsigned k) const {
    return static_cast<std::byte *>(frame.pointers[slots[k]]);
  }
  int64_t rowBytes(unsigned k) const {
    return layouts[k].strides[layouts[k].rank - 2u] * sizeOf(layouts[k].dtype);
  }
  /// Bytes to an index of the batch dimensions, counted row-major.
  int64_t offsetOf(unsigned k, int64_t batch) const {
    const Layout &layout = layouts[k];
    int64_t offset = 0;
    for (unsigned d = layouts[kY].rank - 2u; d-- > 0; batch /= layout.shape[d])
      offset += batch % layout.shape[d] * layout.strides[d];
    return offset * sizeOf(layout.dtype);
  }

  GroupedMatmul matmul;
  std::vector<Layout> layouts;
  bool ordered;
  unsigned threads;
  uint32_t slots[kOperands] = {};
  std::map<int64_t, std::unique_ptr<Operation>> products; ///< by rows
};

} // namespace

Expected<std::unique_ptr<Operation>> prepareBuiltin(const CallDesc &desc, unsigned threads) {
  if (desc.kernel->name != program::kGroupedMatmul)
    return Status(Code::Unsupported, "the cpu device has no such kernel");
  std::vector<Layout> layouts = desc.layouts();
  TANDEM_ASSIGN_OR_RETURN(GroupedMatmul matmul,
                          program::describeGroupedMatmul(desc.config, desc.outputs, layouts));
  return std::make_unique<GroupedMatmulOperation>(desc, matmul, std::move(layouts), threads);
}

} // namespace tandem::cpu
