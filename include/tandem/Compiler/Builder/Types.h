//===- Types.h - types and axes of built fusions ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The values that describe tensors to the builder (tandem/Compiler/Builder.h): element types,
// meshes, axes, schedules. docs/fusion.md explains axes.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COMPILER_BUILDER_TYPES_H
#define TANDEM_COMPILER_BUILDER_TYPES_H

#include "tandem-c/Version.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::builder {
// Named after the version: two versions of Tandem in one process do not share these functions.
inline namespace TANDEM_VERSION_NAMESPACE {

/// An extent or mesh size that is given when the fusion is compiled: `?`.
constexpr int64_t kUnknown = -1;

enum class DType { F32, F16, BF16, F64, F8E4M3FN, F8E5M2, I64, I32, I16, I8, I1 };

/// "f32".
inline const char *name(DType dtype) {
  static constexpr const char *names[] = {"f32", "f16", "bf16", "f64", "f8E4M3FN", "f8E5M2",
                                          "i64", "i32", "i16",  "i8",  "i1"};
  return names[static_cast<int>(dtype)];
}
inline bool isFloat(DType dtype) { return dtype <= DType::F8E5M2; }
inline bool isFloat8(DType dtype) { return dtype == DType::F8E4M3FN || dtype == DType::F8E5M2; }
/// The types that products of 8 bits have.
inline bool isProductOfFloat8(DType dtype) { return dtype <= DType::BF16; }
inline int bits(DType dtype) {
  static constexpr int widths[] = {32, 16, 16, 64, 8, 8, 64, 32, 16, 8, 1};
  return widths[static_cast<int>(dtype)];
}

/// A line of the program that builds: operations take the line of their call by default.
struct Location {
  const char *file = "";
  unsigned line = 0;
  static constexpr Location here(const char *file = __builtin_FILE(),
                                 unsigned line = __builtin_LINE()) {
    return {file, line};
  }
};

/// How partial results and reduced dimensions are combined.
enum class Reduction { Sum, Max, Min };

inline const char *name(Reduction kind) {
  static constexpr const char *names[] = {"sum", "max", "min"};
  return names[static_cast<int>(kind)];
}

/// A factor of a split dimension; see didx, stream and serial.
struct Digit {
  enum class Kind { Device, Stream, Serial };
  Kind kind = Kind::Serial;
  std::string axis; ///< its size is that of this mesh axis; empty: `size`
  int64_t size = 0; ///< 0: the rest of the extent (stream only)
  friend bool operator==(const Digit &a, const Digit &b) {
    return a.kind == b.kind && a.axis == b.axis && a.size == b.size;
  }
};

/// Digits of a dimension, outermost first; none: `-`. Write `didx("x") * stream(2)`.
struct Dim {
  std::vector<Digit> digits;
  Dim() = default;
  Dim(Digit digit) : digits{std::move(digit)} {}
  friend bool operator==(const Dim &a, const Dim &b) { return a.digits == b.digits; }
};

/// No digit.
inline Dim none() { return {}; }
/// Split over the devices of a mesh axis.
inline Dim didx(std::string axis) { return Digit{Digit::Kind::Device, std::move(axis), 0}; }
/// One loop iteration per index; per one of `n` parts; per one of as many parts as an axis has
/// devices.
inline Dim stream() { return Digit{Digit::Kind::Stream, "", 0}; }
inline Dim stream(int64_t n) { return Digit{Digit::Kind::Stream, "", n ? n : kUnknown}; }
inline Dim stream(std::string axis) { return Digit{Digit::Kind::Stream, std::move(axis), 0}; }
/// Neither split nor iterated over; for block-cyclic splits such as `serial(2) * didx("x")`.
inline Dim serial(int64_t n) { return Digit{Digit::Kind::Serial, "", n ? n : kUnknown}; }
inline Dim serial(std::string axis) { return Digit{Digit::Kind::Serial, std::move(axis), 0}; }
inline Dim operator*(Dim outer, const Dim &inner) {
  outer.digits.insert(outer.digits.end(), inner.digits.begin(), inner.digits.end());
  return outer;
}

class Axes;

/// A named grid of devices, like a `jax.sharding.Mesh`: axes outermost first, with a size or
/// kUnknown. Devices are the world's ranks 0 ... n-1 unless `devices` lists them.
class Mesh {
public:
  Mesh() = default;
  Mesh(std::string name, std::vector<std::pair<std::string, int64_t>> axes,
       std::vector<int64_t> devices = {})
      : label(std::move(name)), sizes(std::move(axes)), ranks(std::move(devices)) {}

  /// Axes of a tensor on this mesh, one Dim per dimension. Checked where they are used.
  Axes axes(std::vector<Dim> dims) const;
  /// The same; each device along the axes `partial` holds one partial result.
  Axes axes(std::vector<Dim> dims, std::vector<std::string> partial,
            Reduction kind = Reduction::Sum) const;
  /// Every device holds the whole tensor, of this rank.
  Axes replicated(size_t rank) const;

  const std::string &name() const { return label; }
  const std::vector<std::pair<std::string, int64_t>> &getAxes() const { return sizes; }
  const std::vector<int64_t> &devices() const { return ranks; }
  friend bool operator==(const Mesh &a, const Mesh &b) {
    return a.label == b.label && a.sizes == b.sizes && a.ranks == b.ranks;
  }

private:
  std::string label;
  std::vector<std::pair<std::string, int64_t>> sizes;
  std::vector<int64_t> ranks;
};

/// How a tensor's dimensions are parallelised over a mesh and over streams.
class Axes {
public:
  Mesh mesh;
  std::vector<Dim> dims;
  std::vector<std::string> partial;
  Reduction kind = Reduction::Sum;
  friend bool operator==(const Axes &a, const Axes &b) {
    return a.mesh == b.mesh && a.dims == b.dims && a.partial == b.partial &&
           (a.partial.empty() || a.kind == b.kind);
  }
};

inline Axes Mesh::axes(std::vector<Dim> dims) const { return {*this, std::move(dims), {}, {}}; }
inline Axes Mesh::axes(std::vector<Dim> dims, std::vector<std::string> partial,
                       Reduction kind) const {
  return {*this, std::move(dims), std::move(partial), kind};
}
inline Axes Mesh::replicated(size_t rank) const { return axes(std::vector<Dim>(rank)); }

/// A schedule by name, with options as text: `{name, {{"streams", "3"}}}`
/// (docs/schedules.md).
struct Schedule {
  std::string name;
  std::vector<std::pair<std::string, std::string>> options;
};

/// A tensor: its whole (logical) shape, not one device's.
struct Type {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::optional<Axes> axes; ///< none: undecided, the compiler chooses
};

/// What is wrong, as a value.
struct Diagnostic {
  enum class Severity { Error, Warning, Remark, Note };
  Severity severity = Severity::Error;
  std::string op;                    ///< "matmul"; empty for diagnostics of the compiler
  std::vector<std::string> operands; ///< "x: 8x4xf32"
  std::string message;               ///< lower case, no final period
  std::string file;                  ///< the caller's, or the text's; "" if unknown
  unsigned line = 0;

  /// "layer.cpp:12: error: matmul(x: 8x4xf32, w: 5x2xf32): expected ..."
  std::string str() const {
    static constexpr const char *severities[] = {"error", "warning", "remark", "note"};
    std::string text = file + (line ? ":" + std::to_string(line) : "");
    text += (text.empty() ? "" : ": ") + std::string(severities[static_cast<int>(severity)]) + ": ";
    if (!op.empty()) {
      text += op + "(";
      for (size_t i = 0; i < operands.size(); ++i)
        text += (i ? ", " : "") + operands[i];
      text += "): ";
    }
    return text + message;
  }
};

} // namespace TANDEM_VERSION_NAMESPACE
} // namespace tandem::builder

#endif // TANDEM_COMPILER_BUILDER_TYPES_H
