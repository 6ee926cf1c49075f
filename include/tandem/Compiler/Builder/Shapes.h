//===- Shapes.h - inferred shapes -------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The shapes of results. Functions that return text return what is wrong, "" if nothing.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COMPILER_BUILDER_SHAPES_H
#define TANDEM_COMPILER_BUILDER_SHAPES_H

#include "tandem/Compiler/Builder/Text.h"

namespace tandem::builder {
inline namespace v0_1 {
namespace detail {

using Shape = std::vector<int64_t>;

/// Equal, or one is unknown.
inline bool areCompatible(int64_t a, int64_t b) { return a == b || a == kUnknown || b == kUnknown; }
inline int64_t known(int64_t a, int64_t b) { return a == kUnknown ? b : a; }

inline std::string extentsError(const Shape &shape) {
  for (int64_t n : shape)
    if (n < 0 && n != kUnknown)
      return "expected extents of 0 or more, found " + std::to_string(n);
  return "";
}

/// Broadcasts `shape` with `other`, as NumPy does.
inline std::string broadcastShapes(Shape &shape, const Shape &other) {
  if (shape.size() < other.size())
    shape.insert(shape.begin(), other.size() - shape.size(), 1);
  size_t skipped = shape.size() - other.size();
  for (size_t i = 0; i < other.size(); ++i) {
    int64_t &mine = shape[skipped + i];
    if (mine == 1)
      mine = other[i];
    else if (other[i] != 1 && areCompatible(mine, other[i]))
      mine = known(mine, other[i]);
    else if (other[i] != 1)
      return "expected extents that are equal or 1 in dimension " + std::to_string(skipped + i) +
             ", found " + extent(mine) + " and " + extent(other[i]);
  }
  return "";
}

inline std::string matmulShape(const Shape &lhs, const Shape &rhs, bool transposeA, bool transposeB,
                               Shape &result) {
  if (lhs.empty() || rhs.empty())
    return "expected factors of rank 1 or more, found rank 0";
  if ((transposeA && lhs.size() == 1) || (transposeB && rhs.size() == 1))
    return "expected a matrix to transpose, found a vector";
  size_t a = lhs.size(), b = rhs.size();
  int64_t k = lhs[a == 1 || !transposeA ? a - 1 : a - 2];
  int64_t other = rhs[b == 1 || transposeB ? b - 1 : b - 2];
  if (!areCompatible(k, other))
    return "expected equal contracted extents, found " + extent(k) + " and " + extent(other);
  if (a > 2)
    result.assign(lhs.begin(), lhs.end() - 2);
  if (b > 2)
    if (std::string error = broadcastShapes(result, Shape(rhs.begin(), rhs.end() - 2));
        !error.empty())
      return "batch: " + error;
  if (a > 1)
    result.push_back(lhs[transposeA ? a - 1 : a - 2]);
  if (b > 1)
    result.push_back(rhs[transposeB ? b - 2 : b - 1]);
  return "";
}

inline std::string attentionShape(const Shape &q, const Shape &k, const Shape &v, Shape &result) {
  size_t rank = q.size();
  if (rank < 2 || k.size() != rank || v.size() != rank)
    return "expected a query, keys and values of one rank, 2 or more, found ranks " +
           std::to_string(rank) + ", " + std::to_string(k.size()) + " and " +
           std::to_string(v.size());
  for (size_t i = 0; i + 2 < rank; ++i)
    if (!areCompatible(q[i], k[i]) || !areCompatible(q[i], v[i]))
      return "expected equal batch extents, found " + extent(q[i]) + ", " + extent(k[i]) + " and " +
             extent(v[i]) + " in dimension " + std::to_string(i);
  if (!areCompatible(q[rank - 1], k[rank - 1]) || q[rank - 1] == 0)
    return "expected query and keys of equal depth, 1 or more, found " + extent(q[rank - 1]) +
           " and " + extent(k[rank - 1]);
  if (!areCompatible(k[rank - 2], v[rank - 2]))
    return "expected as many keys as values, found " + extent(k[rank - 2]) + " and " +
           extent(v[rank - 2]);
  result = q;
  for (size_t i = 0; i + 2 < rank; ++i)
    result[i] = known(known(q[i], k[i]), v[i]);
  result.back() = v.back();
  return "";
}

/// Distinct, ascending, 0 ... rank-1.
inline std::string dimsError(const char *what, const Shape &dims, size_t rank) {
  int64_t last = -1;
  for (int64_t dim : dims) {
    if (dim < 0 || dim >= static_cast<int64_t>(rank))
      return std::string("expected ") + what + " below rank " + std::to_string(rank) + ", found " +
             std::to_string(dim);
    if (dim <= last)
      return std::string("expected ") + what + " in ascending order, found " + std::to_string(dim) +
             " after " + std::to_string(last);
    last = dim;
  }
  return "";
}

inline std::string reduceShape(const Shape &from, const Shape &dims, bool keepDims, Shape &result) {
  if (std::string error = dimsError("dimensions", dims, from.size()); !error.empty())
    return error;
  for (size_t i = 0; i < from.size(); ++i) {
    bool isReduced = std::find(dims.begin(), dims.end(), static_cast<int64_t>(i)) != dims.end();
    if (!isReduced || keepDims)
      result.push_back(isReduced ? 1 : from[i]);
  }
  return "";
}

inline std::string broadcastError(const Shape &from, const Shape &shape, const Shape &dims) {
  if (std::string error = extentsError(shape); !error.empty())
    return error;
  if (dims.size() != from.size())
    return "expected a result dimension for each of " + std::to_string(from.size()) +
           " dimensions, found " + std::to_string(dims.size());
  if (std::string error = dimsError("result dimensions", dims, shape.size()); !error.empty())
    return error;
  for (size_t i = 0; i < from.size(); ++i) {
    int64_t to = shape[static_cast<size_t>(dims[i])];
    if (from[i] != 1 && !areCompatible(from[i], to))
      return "expected extent " + extent(to) + " or 1 in dimension " + std::to_string(i) +
             ", found " + extent(from[i]);
  }
  return "";
}

inline std::string permutedShape(const Shape &from, const Shape &permutation, Shape &result) {
  Shape sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  bool isRight = sorted.size() == from.size();
  for (size_t i = 0; isRight && i < sorted.size(); ++i)
    isRight = sorted[i] == static_cast<int64_t>(i);
  if (!isRight)
    return "expected a permutation of " + std::to_string(from.size()) + " dimensions, found " +
           list(permutation);
  for (int64_t dim : permutation)
    result.push_back(from[static_cast<size_t>(dim)]);
  return "";
}

/// Fills in the one unknown extent of `to`, if all others are known.
inline std::string inferReshape(const Shape &from, Shape &to) {
  if (std::string error = extentsError(to); !error.empty())
    return error;
  int64_t have = 1, want = 1;
  size_t unknown = 0;
  for (int64_t n : from) {
    if (n == kUnknown)
      return ""; // the compiler checks it when extents are known
    have *= n;
  }
  for (int64_t n : to) {
    unknown += n == kUnknown;
    want *= n == kUnknown ? 1 : n;
  }
  if (unknown > 1)
    return "expected at most one extent to infer, found " + shapeText(to);
  if (unknown ? want == 0 || have % want != 0 : have != want)
    return "expected a shape of " + std::to_string(have) + " elements, found " + shapeText(to);
  for (int64_t &n : to)
    if (n == kUnknown)
      n = have / want;
  return "";
}

inline std::string sliceError(const Shape &from, const Shape &offsets, const Shape &extents,
                              const Shape &steps) {
  if (offsets.size() != from.size() || extents.size() != from.size() || steps.size() != from.size())
    return "expected " + std::to_string(from.size()) + " offsets, extents and steps, found " +
           std::to_string(offsets.size()) + ", " + std::to_string(extents.size()) + " and " +
           std::to_string(steps.size());
  if (std::string error = extentsError(extents); !error.empty())
    return error;
  for (size_t i = 0; i < from.size(); ++i) {
    if (offsets[i] < 0 || steps[i] < 1)
      return "expected an offset of 0 or more and a positive step in dimension " +
             std::to_string(i) + ", found " + std::to_string(offsets[i]) + " and " +
             std::to_string(steps[i]);
    if (from[i] != kUnknown && extents[i] > 0 &&
        (offsets[i] >= from[i] || extents[i] - 1 > (from[i] - 1 - offsets[i]) / steps[i]))
      return "expected elements inside the extent " + extent(from[i]) + " of dimension " +
             std::to_string(i) + ", found " + std::to_string(extents[i]) + " from " +
             std::to_string(offsets[i]) + " in steps of " + std::to_string(steps[i]);
  }
  return "";
}

inline std::string concatShape(const std::vector<Shape> &shapes, int64_t dim, Shape &result) {
  result = shapes[0];
  if (dim < 0 || dim >= static_cast<int64_t>(result.size()))
    return "expected a dimension below rank " + std::to_string(result.size()) + ", found " +
           std::to_string(dim);
  for (size_t i = 1; i < shapes.size(); ++i) {
    if (shapes[i].size() != result.size())
      return "expected rank " + std::to_string(result.size()) + " of operand " + std::to_string(i) +
             ", found " + std::to_string(shapes[i].size());
    for (size_t d = 0; d < result.size(); ++d) {
      int64_t other = shapes[i][d];
      if (static_cast<int64_t>(d) == dim)
        result[d] = result[d] == kUnknown || other == kUnknown ? kUnknown : result[d] + other;
      else if (areCompatible(result[d], other))
        result[d] = known(result[d], other);
      else
        return "expected extent " + extent(result[d]) + " in dimension " + std::to_string(d) +
               " of operand " + std::to_string(i) + ", found " + extent(other);
    }
  }
  return "";
}

/// The dims of `count` tensors: "s_" and "_" for "s_, _". False if there are others than `count`.
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

/// The parallel dimensions among those of a tensor.
inline std::string lettersOf(const std::string &part) {
  std::string letters;
  std::copy_if(part.begin(), part.end(), std::back_inserter(letters),
               [](char c) { return c != '_'; });
  return letters;
}

/// Of the parallel dimensions of a call: `shapes` are those of `numResults` results, then of the
/// inputs.
inline std::string callError(const std::vector<Shape> &shapes, size_t numResults,
                             const std::string &dims) {
  size_t arrow = dims.find("->"), numInputs = shapes.size() - numResults;
  if (numResults == 0)
    return "expected at least one result, found none";
  std::vector<std::string> parts;
  if (arrow == std::string::npos || !splitDims(dims.substr(arrow + 2), numResults, parts) ||
      !splitDims(dims.substr(0, arrow), numInputs, parts))
    return "expected dims of " + std::to_string(numInputs) + " operands and, behind ->, of " +
           (numResults == 1 ? "the result" : std::to_string(numResults) + " results") + ", found " +
           quote(dims);
  const std::string letters = lettersOf(parts[0]);
  std::vector<int64_t> extents(letters.size(), kUnknown);
  for (size_t k = 0; k < parts.size(); ++k) {
    if (parts[k].size() != shapes[k].size())
      return "expected dims of as many dimensions as the tensor has, found " + quote(parts[k]) +
             " and " + shapeText(shapes[k]);
    if (k < numResults && lettersOf(parts[k]) != letters)
      return "expected the letters " + quote(letters) + " in all results, in this order, found " +
             quote(parts[k]);
    for (size_t d = 0; d < parts[k].size(); ++d) {
      char letter = parts[k][d];
      if (letter == '_')
        continue;
      if (letter < 'a' || letter > 'z')
        return "expected lower-case letters, _, commas and one -> in dims, found " + quote(dims);
      if (parts[k].find(letter, d + 1) != std::string::npos)
        return "expected a letter once in each tensor, found " + quote(parts[k]);
      size_t at = letters.find(letter);
      if (at == std::string::npos)
        return std::string("expected each letter in the result, found '") + letter + "' elsewhere";
      if (!areCompatible(extents[at], shapes[k][d]))
        return std::string("expected equal extents of '") + letter + "', found " +
               extent(extents[at]) + " and " + extent(shapes[k][d]);
      if (extents[at] == kUnknown)
        extents[at] = shapes[k][d];
    }
  }
  return "";
}

} // namespace detail
} // namespace v0_1
} // namespace tandem::builder

#endif // TANDEM_COMPILER_BUILDER_SHAPES_H
