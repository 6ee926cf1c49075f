//===- Types.h - element types, layouts, tensor views -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_TYPES_H
#define TANDEM_PROGRAM_TYPES_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// Element types, numbered as in the stream program and the C API.
enum class DType : uint8_t {
  F32 = 0,
  F16 = 1,
  BF16 = 2,
  I32 = 3,
  F64 = 4,
  I64 = 5,
  I8 = 6,
  I1 = 7,
  I16 = 8,
  F8E4M3FN = 9, ///< 4 bits of exponent, 3 of mantissa; no infinities, at most 448
  F8E5M2 = 10   ///< the upper half of an f16
};
inline constexpr unsigned kNumDTypes = 11;

/// Bytes of one element; an i1 is a byte, 0 or 1.
constexpr unsigned sizeOf(DType type) {
  constexpr unsigned bytes[kNumDTypes] = {4, 2, 2, 4, 8, 8, 1, 1, 2, 1, 1};
  return bytes[static_cast<unsigned>(type)];
}
/// Factors of a matmul whose result has a wider type; otherwise only moved and converted.
constexpr bool isFp8(DType type) { return type == DType::F8E4M3FN || type == DType::F8E5M2; }
constexpr bool isFloat(DType type) {
  return type == DType::F32 || type == DType::F16 || type == DType::BF16 || type == DType::F64 ||
         isFp8(type);
}
/// Whether matmuls, also grouped ones, take factors of these types: of one float type, or both of 8
/// bits.
constexpr bool areFactors(DType a, DType b) { return isFp8(a) ? isFp8(b) : isFloat(a) && a == b; }
/// Whether a matmul of factors of type `factor` may have a result of type `out`: of the factors'
/// type or f32; f64 for f64; f32, f16 or bf16 for 8 bits.
constexpr bool isProductType(DType out, DType factor) {
  if (isFp8(factor))
    return out == DType::F32 || out == DType::F16 || out == DType::BF16;
  return isFloat(factor) && (out == factor || (out == DType::F32 && factor != DType::F64));
}
/// Whether values of the type can be combined by sum, max or min.
constexpr bool isReducible(DType type) { return type != DType::I16 && !isFp8(type); }
/// "f32", "f16", "bf16", "i32", "f64", "i64", "i8", "i1", "i16", "f8E4M3FN", "f8E5M2".
std::string_view toString(DType type);

/// Numbers as in the stream program.
enum class ReduceOp : uint8_t { Sum = 0, Max = 1, Min = 2 };
std::string_view toString(ReduceOp op);

/// The stream whose work a device prefers, if it supports priorities. A new stream that is not said
/// to be another is Normal.
enum class StreamPriority : uint8_t { Low, Normal, High };

/// Numbered as in the stream program; stream_program.fbs gives the shapes.
enum class CollectiveKind : uint8_t {
  AllGather = 0,
  AllReduce = 1,
  ReduceScatter = 2,
  AllToAll = 3,
  Broadcast = 4,
  Reduce = 5,
  Gather = 6,
  Scatter = 7
};
/// "all_gather", ...
std::string_view toString(CollectiveKind kind);

/// The most dimensions that a view may have.
inline constexpr unsigned kMaxRank = 16;

/// Element type, shape and strides (in elements, outermost first) of a view. Strides are never
/// negative. A stride of 0 repeats elements and is allowed in operands that are only read.
struct Layout {
  DType dtype = DType::F32;
  uint8_t rank = 0;
  std::array<int64_t, kMaxRank> shape{};
  std::array<int64_t, kMaxRank> strides{};

  /// Row-major, dense. At most kMaxRank dimensions.
  static Layout dense(DType dtype, const int64_t *shape, unsigned rank);
  static Layout dense(DType dtype, std::initializer_list<int64_t> shape) {
    return dense(dtype, shape.begin(), static_cast<unsigned>(shape.size()));
  }

  int64_t numElements() const;
  /// Bytes of the elements (not of the span that contains them).
  uint64_t numBytes() const { return static_cast<uint64_t>(numElements()) * sizeOf(dtype); }
  /// Bytes from the first byte of the first element to the end of the last; 0 without elements.
  uint64_t spanBytes() const;
  /// Row-major without gaps (any stride in dimensions of size 1; true without elements).
  bool isDense() const;
  bool sameShape(const Layout &other) const;
  /// The same elements in the same order, with row-major strides in dimensions of extent 1, where
  /// any stride will do. So it is equal for equal views of different buffers.
  Layout normalized() const;
  /// The dimensions d whose bit d in `mask` is `wanted`.
  Layout select(uint64_t mask, bool wanted) const;
  /// "f32[4,8]", with strides "f32[4,8]{1,4}" where they are not row-major.
  std::string str() const;
};

bool operator==(const Layout &a, const Layout &b);
inline bool operator!=(const Layout &a, const Layout &b) { return !(a == b); }

/// One loop over operands of one shape.
struct LoopDim {
  int64_t extent = 1;
  std::vector<int64_t> strides; ///< elements, per operand
};

/// The fewest loops over operands of one shape: largest stride of the first operand outermost,
/// without extents of 1, adjacent dimensions merged where every operand allows it. Example: dense
/// [4, 8] operands give one loop of 32. No loop: one element. `inOrder`: in the order of the
/// dimensions, whatever their strides.
std::vector<LoopDim> mergeLoops(const std::vector<Layout> &layouts, bool inOrder = false);

/// A resolved view: the first element's address and the layout. Owns nothing.
struct TensorView {
  void *data = nullptr;
  Layout layout;

  std::byte *bytes() const { return static_cast<std::byte *>(data); }
  int64_t numElements() const { return layout.numElements(); }
  /// Index `i` of the outermost dimension, as a view of rank one less. Requires rank > 0.
  TensorView slice(int64_t i) const;
};

} // namespace tandem

#endif // TANDEM_PROGRAM_TYPES_H
