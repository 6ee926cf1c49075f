//===- Shapes.h - inferred types of fusion ops ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The shapes and element types of results of fusion ops, and what is wrong with those of operands:
// for the ops, for the C++ builder and for Python. Needs neither LLVM nor MLIR, since the C++
// builder is in headers of its user. An extent below 0 is unknown (`?`). Element types are names,
// "f32".
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_FUSION_IR_SHAPES_H
#define TANDEM_DIALECT_FUSION_IR_SHAPES_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace tandem::fusion::shapes {
inline namespace v0_1 {

using Shape = std::vector<int64_t>;

/// The shape of a result. `error` says what is wrong with the operands; "" if nothing.
struct Inferred {
  Shape shape;
  std::string error;
};

inline Inferred wrong(std::string error) { return {{}, std::move(error)}; }

inline std::string join(std::initializer_list<std::string_view> parts) {
  std::string all;
  for (std::string_view part : parts)
    all.append(part);
  return all;
}

/// Equal, or one is unknown.
inline bool areCompatible(int64_t a, int64_t b) { return a == b || a < 0 || b < 0; }
/// The known one of two compatible extents. Example: 4 for ? and 4.
inline int64_t known(int64_t a, int64_t b) { return a < 0 ? b : a; }

inline std::string text(int64_t n) { return n < 0 ? "?" : std::to_string(n); }
/// "8x?", for diagnostics.
inline std::string text(const Shape &shape) {
  std::string result;
  for (int64_t n : shape)
    result += (result.empty() ? "" : "x") + text(n);
  return result;
}
inline std::string found(int64_t a, int64_t b) { return ", found " + text(a) + " and " + text(b); }

/// Broadcasts shapes as NumPy does: dimensions are aligned at the last, an extent of 1 is repeated.
/// `?` with 1 is `?`; with another extent it is that extent or 1.
inline Inferred broadcast(const Shape &a, const Shape &b, const char *what = "extents") {
  if (a.size() < b.size())
    return broadcast(b, a, what);
  Shape shape = a;
  for (size_t i = 0, skipped = a.size() - b.size(); i < b.size(); ++i) {
    int64_t &mine = shape[skipped + i];
    if (mine != 1 && b[i] != 1 && !areCompatible(mine, b[i]))
      return wrong(std::string("expected ") + what + " that are equal or 1 in dimension " +
                   std::to_string(skipped + i) + found(mine, b[i]));
    mine = mine == 1 ? b[i] : b[i] == 1 ? mine : known(mine, b[i]);
  }
  return {std::move(shape), ""};
}

inline bool isFp8(const std::string &type) { return type.rfind("f8", 0) == 0; }

/// The element type of a product, also a grouped one, if none is wanted.
inline std::string productType(const std::string &factor) { return isFp8(factor) ? "f32" : factor; }

/// What is wrong with the element types of a product; "" if nothing. As areFactors() and
/// isProductType() of tandem/Program/Types.h say.
inline std::string productError(const std::string &lhs, const std::string &rhs,
                                const std::string &result) {
  bool areFp8 = isFp8(lhs) && isFp8(rhs), isFloat = lhs.front() == 'f' || lhs == "bf16";
  if (!areFp8 && (!isFloat || lhs != rhs))
    return "expected factors of one floating point type, or of 8 bits, found " + lhs + " and " +
           rhs;
  bool isWide = result == "f32" || result == "f16" || result == "bf16";
  if (areFp8 ? isWide : result == lhs || (result == "f32" && lhs != "f64"))
    return "";
  return "expected a result of " +
         (areFp8                          ? "f32, f16 or bf16 of factors of 8 bits"
          : lhs == "f16" || lhs == "bf16" ? lhs + " or f32"
                                          : lhs) +
         ", found " + result;
}

inline Inferred matmul(const Shape &lhs, const Shape &rhs, bool transposeA, bool transposeB,
                       const std::optional<Shape> &bias = std::nullopt) {
  for (const auto &[what, shape, isTransposed] :
       {std::tuple("lhs", &lhs, transposeA), std::tuple("rhs", &rhs, transposeB)}) {
    if (shape->empty())
      return wrong(std::string("expected ") + what + " of rank 1 or more, found rank 0");
    if (isTransposed && shape->size() == 1)
      return wrong(std::string("expected ") + what +
                   " of rank 2 or more to transpose, found a vector");
  }
  size_t a = lhs.size(), b = rhs.size();
  int64_t k = lhs[a == 1 || !transposeA ? a - 1 : a - 2];
  int64_t other = rhs[b == 1 || transposeB ? b - 1 : b - 2];
  if (!areCompatible(k, other))
    return wrong("expected equal contracted extents" + found(k, other));
  auto batch = [](const Shape &shape) {
    return Shape(shape.begin(),
                 shape.end() - static_cast<int64_t>(std::min<size_t>(2, shape.size())));
  };
  Inferred result = broadcast(batch(lhs), batch(rhs), "batch extents");
  if (!result.error.empty())
    return result;
  if (a > 1)
    result.shape.push_back(lhs[transposeA ? a - 1 : a - 2]);
  if (b > 1)
    result.shape.push_back(rhs[transposeB ? b - 2 : b - 1]);
  if (bias && b == 1)
    return wrong("expected no bias where rhs is a vector: the result has no N");
  if (bias && (bias->size() != 1 || !areCompatible(bias->front(), result.shape.back())))
    return wrong("expected a bias of rank 1 and extent " + text(result.shape.back()) + ", found [" +
                 text(*bias) + "]");
  return result;
}

/// x[..., M, K], w[G, K, N] ([G, N, K] if transposed), ends[..., G].
inline Inferred groupedMatmul(const Shape &x, const Shape &w, const Shape &ends, bool transposeB) {
  size_t rank = x.size();
  bool fits = rank >= 2 && w.size() == 3 && ends.size() + 1 == rank &&
              areCompatible(ends.back(), w.front());
  for (size_t dim = 0; fits && dim + 2 < rank; ++dim)
    fits = areCompatible(x[dim], ends[dim]);
  if (!fits || !areCompatible(x.back(), w[transposeB ? 2 : 1]))
    return wrong(std::string("expected [..., M, K], ") + (transposeB ? "[G, N, K]" : "[G, K, N]") +
                 " and [..., G], found [" + text(x) + "], [" + text(w) + "] and [" + text(ends) +
                 "]");
  Inferred result{x, ""};
  for (size_t dim = 0; dim + 2 < rank; ++dim)
    result.shape[dim] = known(x[dim], ends[dim]);
  result.shape.back() = w[transposeB ? 1 : 2];
  return result;
}

struct AttentionForm {
  bool isCausal = false;
  std::optional<double> scale;
  std::optional<int64_t> zigzag, keyCount;
};

inline Inferred attention(const Shape &q, const Shape &k, const Shape &v,
                          const AttentionForm &form) {
  size_t rank = q.size();
  if (rank < 2 || k.size() != rank || v.size() != rank)
    return wrong("expected a query, keys and values of one rank, 2 or more, found ranks " +
                 std::to_string(rank) + ", " + std::to_string(k.size()) + " and " +
                 std::to_string(v.size()));
  Inferred result{q, ""};
  for (size_t i = 0; i + 2 < rank; ++i)
    for (int64_t other : {k[i], v[i]}) {
      if (!areCompatible(result.shape[i], other))
        return wrong("expected equal batch extents" + found(result.shape[i], other) +
                     " in dimension " + std::to_string(i));
      result.shape[i] = known(result.shape[i], other);
    }
  int64_t rows = q[rank - 2], keys = k[rank - 2];
  if (!areCompatible(q.back(), k.back()) || q.back() == 0)
    return wrong("expected query and keys of equal depth, 1 or more" + found(q.back(), k.back()));
  if (!areCompatible(keys, v[rank - 2]))
    return wrong("expected as many keys as values" + found(keys, v[rank - 2]));
  if (form.scale && !(*form.scale > 0 && std::isfinite(static_cast<float>(*form.scale))))
    return wrong("expected a finite scale greater than 0, as f32");
  if (form.isCausal && !areCompatible(rows, keys))
    return wrong("expected as many keys as rows with causal" + found(keys, rows));
  if (std::optional<int64_t> count = form.keyCount;
      count && (*count < 1 || form.isCausal || (keys >= 0 && *count > keys)))
    return wrong("expected a key_count from 1 to the number of keys, " + text(keys) +
                 ", and without causal, found " + std::to_string(*count));
  if (form.zigzag && (*form.zigzag < 1 || !form.isCausal))
    return wrong("expected zigzag greater than 0, and with causal");
  if (form.zigzag && rows >= 0 && (rows % 2 != 0 || rows / 2 % *form.zigzag != 0))
    return wrong("expected a number of tokens that 2 * zigzag divides, found " +
                 std::to_string(rows) + " and zigzag " + std::to_string(*form.zigzag));
  result.shape.back() = v.back();
  return result;
}

/// What is wrong with `dims` of a tensor of `rank`: they are distinct, ascending and in range.
inline std::string dimsError(const Shape &dims, size_t rank) {
  int64_t last = -1;
  for (int64_t dim : dims) {
    if (dim < 0 || dim >= static_cast<int64_t>(rank))
      return "expected 'dims' below rank " + std::to_string(rank) + ", found " +
             std::to_string(dim);
    if (dim <= last)
      return "expected 'dims' in ascending order, found " + std::to_string(dim) + " after " +
             std::to_string(last);
    last = dim;
  }
  return "";
}

inline Inferred reduce(const Shape &from, const Shape &dims, bool keepDims) {
  Inferred result{{}, dimsError(dims, from.size())};
  for (size_t i = 0; result.error.empty() && i < from.size(); ++i) {
    bool isReduced = std::binary_search(dims.begin(), dims.end(), static_cast<int64_t>(i));
    if (!isReduced || keepDims)
      result.shape.push_back(isReduced ? 1 : from[i]);
  }
  return result;
}

/// New and repeated dimensions have the extents of `to`; a `?` there means not repeated.
inline Inferred broadcastTo(const Shape &from, const Shape &to, const Shape &dims) {
  if (dims.size() != from.size())
    return wrong("expected one entry of 'dims' per operand dimension (" +
                 std::to_string(from.size()) + "), found " + std::to_string(dims.size()));
  Inferred result{to, dimsError(dims, to.size())};
  for (size_t i = 0; result.error.empty() && i < from.size(); ++i) {
    int64_t &extent = result.shape[static_cast<size_t>(dims[i])];
    if (from[i] != 1 && !areCompatible(from[i], extent))
      result.error = "expected extent " + text(extent) + " (of result dimension " +
                     std::to_string(dims[i]) + ") or 1 in operand dimension " + std::to_string(i) +
                     ", found " + text(from[i]);
    extent = known(extent, from[i]);
  }
  return result;
}

inline Inferred permute(const Shape &from, const Shape &permutation) {
  Shape sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  bool isRight = sorted.size() == from.size();
  for (size_t i = 0; isRight && i < sorted.size(); ++i)
    isRight = sorted[i] == static_cast<int64_t>(i);
  Inferred result;
  if (isRight) {
    for (int64_t dim : permutation)
      result.shape.push_back(from[static_cast<size_t>(dim)]);
    return result;
  }
  result.error = "expected a permutation of 0 ... " +
                 std::to_string(static_cast<int64_t>(from.size()) - 1) + ", found [";
  for (size_t i = 0; i < permutation.size(); ++i)
    result.error += (i ? ", " : "") + std::to_string(permutation[i]);
  result.error += "]";
  return result;
}

/// The one unknown extent of `to`, as in NumPy. Unchanged while extents of `from` are unknown.
inline Inferred reshape(const Shape &from, const Shape &to) {
  Inferred result{to, ""};
  int64_t have = 1, want = 1;
  bool fits = true; // in 63 bits, and extents of `from` are known
  for (int64_t n : from)
    fits &= n >= 0 && !__builtin_mul_overflow(have, n, &have);
  for (int64_t n : to)
    fits &= n < 0 || !__builtin_mul_overflow(want, n, &want);
  if (!fits)
    return result;
  auto isUnknown = [](int64_t n) { return n < 0; };
  auto unknown = std::find_if(result.shape.begin(), result.shape.end(), isUnknown);
  if (std::count_if(to.begin(), to.end(), isUnknown) > 1)
    result.error = "expected at most one extent to infer, found [" + text(to) + "]";
  else if (unknown == result.shape.end() ? have != want : want == 0 || have % want != 0)
    result.error = "expected a result of " + std::to_string(have) + " elements, found " +
                   (unknown == result.shape.end() ? std::to_string(want) : "[" + text(to) + "]");
  else if (unknown != result.shape.end())
    *unknown = have / want;
  return result;
}

/// A dimension that is taken as a whole (offset 0, step 1, extent `?`) has the operand's extent.
inline Inferred slice(const Shape &from, const Shape &extents, const Shape &offsets,
                      const Shape &steps) {
  size_t rank = from.size();
  if (extents.size() != rank)
    return wrong("expected a result of rank " + std::to_string(rank) + ", found rank " +
                 std::to_string(extents.size()));
  for (const auto &[what, list] : {std::pair("offsets", &offsets), std::pair("steps", &steps)})
    if (list->size() != rank)
      return wrong("expected " + std::to_string(rank) + " entries of '" + what + "', found " +
                   std::to_string(list->size()));
  Inferred result{extents, ""};
  for (size_t i = 0; i < rank; ++i) {
    std::string dim = " dimension " + std::to_string(i);
    if (offsets[i] < 0)
      return wrong("expected an offset that is not negative in" + dim + ", found " +
                   std::to_string(offsets[i]));
    if (steps[i] < 1)
      return wrong("expected a positive step in" + dim + ", found " + std::to_string(steps[i]));
    if (from[i] >= 0 && extents[i] > 0 &&
        (offsets[i] >= from[i] || extents[i] - 1 > (from[i] - 1 - offsets[i]) / steps[i]))
      return wrong("expected elements inside the extent " + text(from[i]) + " of" + dim +
                   ", found " + std::to_string(extents[i]) + " from " + std::to_string(offsets[i]) +
                   " in steps of " + std::to_string(steps[i]));
    if (offsets[i] == 0 && steps[i] == 1 && extents[i] < 0)
      result.shape[i] = from[i];
  }
  return result;
}

inline Inferred concat(const std::vector<Shape> &shapes, int64_t dim) {
  if (shapes.empty())
    return wrong("expected at least one operand, found none");
  Inferred result{shapes[0], ""};
  size_t rank = result.shape.size();
  if (dim < 0 || dim >= static_cast<int64_t>(rank))
    return wrong("expected 'dim' below rank " + std::to_string(rank) + ", found " +
                 std::to_string(dim));
  for (size_t i = 1; i < shapes.size(); ++i) {
    std::string operand = " of operand " + std::to_string(i);
    if (shapes[i].size() != rank)
      return wrong("expected rank " + std::to_string(rank) + operand + ", found " +
                   std::to_string(shapes[i].size()));
    for (size_t d = 0; d < rank; ++d) {
      int64_t &mine = result.shape[d], other = shapes[i][d];
      if (static_cast<int64_t>(d) != dim) {
        if (!areCompatible(mine, other))
          return wrong("expected extent " + text(mine) + " in dimension " + std::to_string(d) +
                       operand + ", found " + text(other));
        mine = known(mine, other);
      } else if (mine < 0 || other < 0) {
        mine = std::min(mine, other);
      } else if (__builtin_add_overflow(mine, other, &mine)) {
        return wrong("expected extents whose sum fits 63 bits along dimension " +
                     std::to_string(dim));
      }
    }
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// The dimensions of a call's results, then of its operands, one character each, from "s_, _ ->
/// s_".
struct CallDims {
  std::vector<std::string> parts;
  std::string error;

  /// The parallel dimensions, in the order that all results have.
  std::string letters() const { return lettersOf(parts.front()); }
  /// Those of one tensor.
  static std::string lettersOf(const std::string &part) {
    std::string letters;
    std::copy_if(part.begin(), part.end(), std::back_inserter(letters),
                 [](char c) { return c != '_'; });
    return letters;
  }
};

/// Appends the dimensions of `count` tensors: "s_" and "_" for "s_, _". One tensor without
/// dimensions, and no tensor, are written as nothing. False if there are others than `count`.
inline bool splitDims(const std::string &dims, size_t count, std::vector<std::string> &parts) {
  std::vector<std::string> mine(1);
  for (char c : dims)
    if (c == ',')
      mine.emplace_back();
    else if (c != ' ')
      mine.back() += c;
  if (count == 0 && mine.size() == 1 && mine[0].empty())
    mine.clear();
  parts.insert(parts.end(), mine.begin(), mine.end());
  return mine.size() == count;
}

/// `shapes` are those of `numResults` results, then of the operands.
inline CallDims callDims(const std::vector<Shape> &shapes, size_t numResults,
                         const std::string &dims) {
  CallDims result;
  auto wrong = [&](std::string error) {
    result.error = std::move(error);
    return result;
  };
  if (numResults == 0)
    return wrong("expected at least one result, found none");
  size_t arrow = dims.find("->"), numOperands = shapes.size() - numResults;
  if (arrow == std::string::npos || !splitDims(dims.substr(arrow + 2), numResults, result.parts) ||
      !splitDims(dims.substr(0, arrow), numOperands, result.parts))
    return wrong("expected dims of " + std::to_string(numOperands) + " operands and " +
                 (numResults == 1 ? "a result" : std::to_string(numResults) + " results") +
                 ", as in \"s_, _ -> s_\", found \"" + dims + '"');
  const std::string letters = result.letters();
  Shape extents(letters.size(), -1);
  for (size_t i = 0; i < shapes.size(); ++i) {
    const std::string &part = result.parts[i];
    std::string tensor = i >= numResults   ? "operand " + std::to_string(i - numResults)
                         : numResults == 1 ? "the result"
                                           : "result " + std::to_string(i);
    if (part.size() != shapes[i].size())
      return wrong(join({"expected ", std::to_string(shapes[i].size()), " dims of ", tensor,
                         ", found \"", part, "\""}));
    if (i < numResults && CallDims::lettersOf(part) != letters)
      return wrong(join({"expected the parallel dimensions '", letters,
                         "' in all results, in this order, found '", CallDims::lettersOf(part),
                         "' in ", tensor}));
    for (size_t dim = 0; dim < part.size(); ++dim) {
      const char c = part[dim];
      if (c == '_')
        continue;
      if (c < 'a' || c > 'z')
        return wrong(join(
            {"expected lower-case letters and '_' as dims of ", tensor, ", found \"", part, "\""}));
      const std::string letter = std::string("'") + c + "'";
      if (part.find(c) != dim)
        return wrong(
            join({"expected the dims of ", tensor, " to be distinct, found ", letter, " twice"}));
      size_t number = letters.find(c);
      if (number == std::string::npos)
        return wrong(join({"expected every parallel dimension in the result, found ", letter,
                           " of ", tensor, " only"}));
      if (!areCompatible(extents[number], shapes[i][dim]))
        return wrong("expected equal extents of the dimensions " + letter +
                     found(extents[number], shapes[i][dim]));
      extents[number] = known(extents[number], shapes[i][dim]);
    }
  }
  return result;
}

} // namespace v0_1
} // namespace tandem::fusion::shapes

#endif // TANDEM_DIALECT_FUSION_IR_SHAPES_H
