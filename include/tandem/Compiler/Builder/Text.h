//===- Text.h - the text of built fusions -----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Spelling of strings, numbers, types and axes, and the checks of axes.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COMPILER_BUILDER_TEXT_H
#define TANDEM_COMPILER_BUILDER_TEXT_H

#include "tandem/Compiler/Builder/Types.h"
#include "tandem/Dialect/Fusion/IR/Shapes.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tandem::builder {
inline namespace TANDEM_VERSION_NAMESPACE {
namespace detail {

/// "a", "b" joined by a separator.
template <typename Range, typename Print>
std::string join(const Range &range, const char *separator, Print print) {
  std::string text;
  bool isFirst = true;
  for (const auto &element : range) {
    text += (isFirst ? "" : separator) + print(element);
    isFirst = false;
  }
  return text;
}

inline std::string list(const std::vector<int64_t> &numbers) {
  return "[" + join(numbers, ", ", [](int64_t n) { return std::to_string(n); }) + "]";
}

using fusion::shapes::areCompatible;

inline std::string extentsError(const std::vector<int64_t> &shape) {
  for (int64_t n : shape)
    if (n < 0 && n != kUnknown)
      return "expected extents of 0 or more, found " + std::to_string(n);
  return "";
}

/// "8x4xf32", for diagnostics.
inline std::string shortText(const Type &type) {
  return fusion::shapes::text(type.shape) + (type.shape.empty() ? "" : "x") + name(type.dtype);
}

/// A string literal.
inline std::string quote(const std::string &from) {
  std::string text = "\"";
  for (char c : from) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\' || byte < 0x20 || byte >= 0x7f) {
      char hex[4];
      std::snprintf(hex, sizeof hex, "\\%02X", byte);
      text += hex;
    } else {
      text += c;
    }
  }
  return text + "\"";
}

/// The text of a constant: an integer, a decimal with a point, or the bits of inf and nan.
inline std::string number(double value, DType dtype) {
  if (dtype == DType::I1)
    return value != 0 ? "true" : "false";
  if (!isFloat(dtype))
    return std::to_string(static_cast<int64_t>(value));
  if (!std::isfinite(value)) {
    struct Bits {
      const char *positive, *negative, *nan;
    };
    Bits patterns[] = {
        {"0x7F800000", "0xFF800000", "0x7FC00000"},
        {"0x7C00", "0xFC00", "0x7E00"},
        {"0x7F80", "0xFF80", "0x7FC0"},
        {"0x7FF0000000000000", "0xFFF0000000000000", "0x7FF8000000000000"},
        {"0x7F", "0xFF", "0x7F"}, // no infinities: NaN, as where numbers are too large
        {"0x7C", "0xFC", "0x7E"}};
    const Bits &pattern = patterns[static_cast<int>(dtype)];
    return std::isnan(value) ? pattern.nan : value > 0 ? pattern.positive : pattern.negative;
  }
  char digits[40];
  std::snprintf(digits, sizeof digits, "%.17g", value);
  std::string text = digits;
  std::replace(text.begin(), text.end(), ',', '.'); // the point of some locales
  if (text.find('.') == std::string::npos)
    text.insert(std::min(text.find('e'), text.size()), ".0");
  return text;
}

inline std::string dimText(const Dim &dim) {
  if (dim.digits.empty())
    return "-";
  return join(dim.digits, " * ", [](const Digit &digit) {
    static constexpr const char *kinds[] = {"didx", "stream", "serial"};
    std::string text = kinds[static_cast<int>(digit.kind)];
    if (!digit.axis.empty())
      text += "(" + quote(digit.axis) + ")";
    else if (digit.size)
      text += "(" + std::to_string(digit.size) + ")";
    return text;
  });
}

/// Whether a dimension has a device digit.
inline bool isSplit(const Axes &axes) {
  for (const Dim &dim : axes.dims)
    for (const Digit &digit : dim.digits)
      if (digit.kind == Digit::Kind::Device)
        return true;
  return false;
}

/// `mesh` is the alias of the mesh.
inline std::string axesText(const Axes &axes, const std::string &mesh) {
  std::string text = "#fusion.axes<" + mesh + ", [" + join(axes.dims, ", ", dimText) + "]";
  if (!axes.partial.empty())
    text += std::string(", partial = ") + name(axes.kind) + " [" + join(axes.partial, ", ", quote) +
            "]";
  return text + ">";
}

inline std::string scheduleText(const Schedule &schedule) {
  auto asIs = [](const std::string &word) { return word; };
  std::vector<std::string> words{schedule.name};
  for (const auto &[option, value] : schedule.options)
    words.push_back(join(std::vector<std::string>{option, value}, " = ", asIs));
  return "#fusion.schedule<" + join(words, ", ", asIs) + ">";
}

inline bool isWord(const std::string &text, const char *also = "") {
  auto accepted = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           std::string(also).find(c) != std::string::npos;
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), accepted);
}

/// What is wrong with a schedule's spelling; "" if nothing. Its meaning is checked by the compiler.
inline std::string scheduleError(const Schedule &schedule) {
  if (!isWord(schedule.name))
    return "expected the name of a schedule, found " + quote(schedule.name);
  for (const auto &[option, value] : schedule.options)
    if (!isWord(option) || !isWord(value, "[], -"))
      return "expected an option with a word, number or list, found " + quote(option) + " = " +
             quote(value);
  return "";
}

inline std::string meshError(const Mesh &mesh) {
  int64_t product = 1;
  for (size_t i = 0; i < mesh.getAxes().size(); ++i) {
    const auto &[axis, size] = mesh.getAxes()[i];
    if (axis.empty())
      return "expected a name of each axis of mesh " + quote(mesh.name()) + ", found none";
    for (size_t j = 0; j < i; ++j)
      if (mesh.getAxes()[j].first == axis)
        return "expected distinct axes of mesh " + quote(mesh.name()) + ", found two of name " +
               quote(axis);
    if (size < 1 && size != kUnknown)
      return "expected a positive size of mesh axis " + quote(axis) + ", found " +
             std::to_string(size);
    product = size == kUnknown || product == kUnknown ? kUnknown : product * size;
  }
  if (!mesh.devices().empty() && static_cast<int64_t>(mesh.devices().size()) != product)
    return "expected " + fusion::shapes::text(product) + " devices of mesh " + quote(mesh.name()) +
           ", found " + std::to_string(mesh.devices().size());
  return "";
}

/// What is wrong with the axes of a tensor of this rank; "" if nothing.
inline std::string axesError(const Axes &axes, size_t rank) {
  if (std::string error = meshError(axes.mesh); !error.empty())
    return error;
  if (axes.dims.size() != rank)
    return "expected axes of " + std::to_string(rank) + " dimensions, found " +
           std::to_string(axes.dims.size());
  std::vector<std::string> used;
  auto useError = [&](const std::string &axis, bool isDevice) -> std::string {
    const auto &known = axes.mesh.getAxes();
    if (std::none_of(known.begin(), known.end(), [&](auto &one) { return one.first == axis; }))
      return "expected an axis of mesh " + quote(axes.mesh.name()) + " (" +
             join(known, ", ", [](auto &one) { return quote(one.first); }) + "), found " +
             quote(axis);
    if (isDevice && std::find(used.begin(), used.end(), axis) != used.end())
      return "expected mesh axis " + quote(axis) + " once, found it twice";
    if (isDevice)
      used.push_back(axis);
    return "";
  };
  for (const Dim &dim : axes.dims)
    for (const Digit &digit : dim.digits) {
      if (!digit.axis.empty()) {
        if (std::string error = useError(digit.axis, digit.kind == Digit::Kind::Device);
            !error.empty())
          return error;
      } else if (digit.kind == Digit::Kind::Device || digit.size < 0) {
        return "expected a digit with a mesh axis or a positive size, found " + dimText(digit);
      } else if (!digit.size && &digit != &dim.digits.back()) {
        return "expected stream without a size as the last digit, found " + dimText(dim);
      }
    }
  for (const std::string &axis : axes.partial)
    if (std::string error = useError(axis, /*isDevice=*/true); !error.empty())
      return error;
  return "";
}

} // namespace detail
} // namespace TANDEM_VERSION_NAMESPACE
} // namespace tandem::builder

#endif // TANDEM_COMPILER_BUILDER_TEXT_H
