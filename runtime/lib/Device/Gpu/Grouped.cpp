//===- Grouped.cpp - grouped matmuls of NVIDIA Hopper -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Grouped.h"

#include "Gated/GroupedLibrary.h"
#include "Gated/OpenLibrary.h"

#include <atomic>
#include <cstring>
#include <fmt/format.h>

namespace tandem::gpu {

namespace {

using gated::GroupedMatmul, gated::GroupedTable, gated::GroupedType;
using KernelOperand = tandem_kernel_operand;

Expected<const GroupedTable *> grouped() {
  static std::atomic<const GroupedTable *> known{nullptr};
  if (const GroupedTable *table = known)
    return table;
  TANDEM_ASSIGN_OR_RETURN(SharedLibrary library,
                          gated::openLibrary("tandem.grouped_matmul: libtandem_gated.so"));
  gated::GetGroupedTable get = nullptr;
  TANDEM_RETURN_IF_ERROR(library.find(get, gated::kGroupedEntryName));
  const GroupedTable *table = get(gated::kGroupedVersion);
  if (!table)
    return Status(Code::Unsupported,
                  "tandem.grouped_matmul: libtandem_gated.so is of another version of Tandem");
  known = table;
  return table;
}

Status unsupported(const std::string &why) {
  return Status(Code::Unsupported, "tandem.grouped_matmul: " + why);
}

/// The dimensions of an operand before its last `inner` ones, as one dimension.
struct Leading {
  int64_t extent = 1, stride = 0;
  bool isOne = true; ///< they are those of one array
};
Leading leading(const KernelOperand &operand, int64_t inner) {
  Leading all;
  for (int64_t dim = operand.rank - inner; dim-- > 0;) {
    if (operand.shape[dim] == 1)
      continue;
    if (all.extent == 1)
      all.stride = operand.strides[dim];
    else if (operand.strides[dim] != all.extent * all.stride)
      all.isOne = false;
    all.extent *= operand.shape[dim];
  }
  return all;
}

/// The distance of rows that are `length` long; any, if there is one row.
int64_t rowStride(const KernelOperand &operand, int64_t dim, int64_t length) {
  return operand.shape[dim] == 1 ? length : operand.strides[dim];
}

DType dtypeOf(const KernelOperand &operand) { return static_cast<DType>(operand.dtype); }

/// A matmul for a kernel of the library.
struct Chosen {
  GroupedMatmul matmul{};
  uint32_t kernel = 0;
  bool isEmpty = false; ///< there is nothing to compute
};

GroupedType typeOf(const KernelOperand &operand) {
  switch (dtypeOf(operand)) {
  case DType::F16:
    return GroupedType::F16;
  case DType::BF16:
    return GroupedType::BF16;
  case DType::F8E4M3FN:
    return GroupedType::F8E4M3FN;
  case DType::F8E5M2:
    return GroupedType::F8E5M2;
  default:
    return GroupedType::F32;
  }
}

Status checkTypes(bool transposeW, const KernelOperand *operands, size_t count) {
  if (count != 4)
    return unsupported(fmt::format("expected operands y, x, w and ends, found {}", count));
  const KernelOperand &y = operands[0], &x = operands[1], &w = operands[2], &ends = operands[3];
  const DType typeX = dtypeOf(x), typeW = dtypeOf(w), typeY = dtypeOf(y);
  // The types of any grouped matmul; the library has no kernels for f32 factors, or for w of
  // f8E5M2.
  if (!areFactors(typeX, typeW) || !isProductType(typeY, typeX) || sizeOf(typeX) > 2 ||
      typeW == DType::F8E5M2)
    return unsupported(
        fmt::format("expected x and w both f16 or both bf16 and y of the same type or f32, or x of "
                    "f8E4M3FN or f8E5M2, "
                    "w of f8E4M3FN and y of f32, f16 or bf16; found x {}, w {}, y {}",
                    toString(typeX), toString(typeW), toString(typeY)));
  if (isFp8(typeX) && !transposeW)
    return unsupported("expected w stored [G, N, K] (transpose_b) of factors of 8 bits, found "
                       "[G, K, N]");
  if (dtypeOf(ends) != DType::I32)
    return unsupported("expected ends of i32");
  if (y.rank < 2 || x.rank != y.rank || ends.rank != y.rank - 1 || w.rank != 3)
    return unsupported(fmt::format("expected w of rank 3, y and x of the same rank, at least 2, "
                                   "and ends of one less; found ranks {}, {}, {}, {} of y, x, w, "
                                   "ends",
                                   y.rank, x.rank, w.rank, ends.rank));
  return Status();
}

Expected<Chosen> choose(const char *config, const KernelOperand *operands, size_t count) {
  const bool transposeW = std::strstr(config, "transpose_b") != nullptr;
  TANDEM_RETURN_IF_ERROR(checkTypes(transposeW, operands, count));
  const KernelOperand &y = operands[0], &x = operands[1], &w = operands[2], &ends = operands[3];
  Chosen chosen;
  GroupedMatmul &matmul = chosen.matmul;
  const int64_t rows = y.rank - 2, row = y.rank - 1; // dimensions
  const Leading ofY = leading(y, 2), ofX = leading(x, 2), ofEnds = leading(ends, 1);
  matmul.batches = ofY.extent;
  matmul.m = y.shape[rows];
  matmul.n = y.shape[row];
  matmul.k = x.shape[row];
  matmul.groups = w.shape[0];
  if (ofX.extent != matmul.batches || ofEnds.extent != matmul.batches ||
      x.shape[rows] != matmul.m || ends.shape[ends.rank - 1] != matmul.groups ||
      w.shape[transposeW ? 1 : 2] != matmul.n || w.shape[transposeW ? 2 : 1] != matmul.k)
    return unsupported("the extents of y, x, w and ends do not match");
  TANDEM_ASSIGN_OR_RETURN(const GroupedTable *table, grouped());
  chosen.isEmpty = matmul.batches == 0 || matmul.m == 0 || matmul.n == 0;
  if (chosen.isEmpty)
    return chosen;
  if (!ofY.isOne || !ofX.isOne || !ofEnds.isOne)
    return unsupported("leading dimensions with gaps between them");
  if (y.strides[row] != 1 || x.strides[row] != 1 || w.strides[2] != 1 ||
      (matmul.groups > 1 && ends.strides[ends.rank - 1] != 1))
    return unsupported("expected contiguous rows");
  matmul.batchY = ofY.stride;
  matmul.batchX = ofX.stride;
  matmul.batchEnds = ofEnds.stride;
  matmul.strideY = rowStride(y, rows, matmul.n);
  matmul.strideX = rowStride(x, rows, matmul.k);
  matmul.strideW = rowStride(w, 1, w.shape[2]);
  matmul.groupW = w.strides[0];
  matmul.typeX = typeOf(x);
  matmul.typeW = typeOf(w);
  matmul.typeY = typeOf(y);
  matmul.transposeW = transposeW;
  chosen.kernel = table->choose(&matmul);
  if (chosen.kernel < table->count)
    return chosen;
  for (uint32_t i = 0; i < table->count; ++i) {
    const gated::GroupedInfo &info = *table->info(i);
    if (info.x == matmul.typeX && info.w == matmul.typeW && info.transposeW == transposeW)
      if (const char *why = table->whyNot(i, &matmul))
        return unsupported(why);
  }
  return unsupported("the library has no kernel for it");
}

} // namespace

std::string whyNotGroupedMatmul(const DeviceInfo &device, const char *config,
                                const tandem_kernel_operand *operands, size_t count) {
  if (device.architecture != 90)
    return fmt::format("tandem.grouped_matmul: expected a GPU of compute capability 9.0, found {}",
                       device.architecture ? fmt::format("{}.{}", device.architecture / 10,
                                                         device.architecture % 10)
                                           : device.target);
  Expected<Chosen> chosen = choose(config, operands, count);
  return chosen ? "" : std::string(chosen.status().message());
}

Status loadGroupedMatmul(const char *config, const tandem_kernel_operand *operands, size_t count) {
  TANDEM_ASSIGN_OR_RETURN(Chosen chosen, choose(config, operands, count));
  if (chosen.isEmpty)
    return Status();
  TANDEM_ASSIGN_OR_RETURN(const GroupedTable *table, grouped());
  const char *error = table->load(chosen.kernel);
  return error ? Status(Code::Io, fmt::format("tandem.grouped_matmul: {}", error)) : Status();
}

Status groupedMatmul(StreamHandle stream, const char *config, const tandem_kernel_operand *operands,
                     size_t count) {
  TANDEM_ASSIGN_OR_RETURN(Chosen chosen, choose(config, operands, count));
  if (chosen.isEmpty)
    return Status();
  for (size_t i = 0; i < count; ++i)
    if (reinterpret_cast<uintptr_t>(operands[i].data) % (i < 3 ? 16 : 4) != 0)
      return Status(Code::InvalidArgument,
                    fmt::format("tandem.grouped_matmul: expected operand {} at a multiple of {} "
                                "bytes, found {}",
                                i, i < 3 ? 16 : 4, operands[i].data));
  GroupedMatmul &matmul = chosen.matmul;
  matmul.y = operands[0].data;
  matmul.x = operands[1].data;
  matmul.w = operands[2].data;
  matmul.ends = static_cast<const int32_t *>(operands[3].data);
  TANDEM_ASSIGN_OR_RETURN(const GroupedTable *table, grouped());
  const char *error = table->run(chosen.kernel, &matmul, stream);
  return error ? Status(Code::Io, fmt::format("tandem.grouped_matmul: {}", error)) : Status();
}

} // namespace tandem::gpu
