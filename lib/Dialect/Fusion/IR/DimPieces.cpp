//===- DimPieces.cpp - axes over the pieces of dimensions -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Fusion/IR/AxesInference.h"

#include "AxesInferenceDetail.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

static std::string describe(const ResolvedDigit &digit) {
  if (digit.kind == DigitKind::Device)
    return "mesh axis \"" + digit.axis.str() + "\" of size " + std::to_string(digit.size);
  return (digit.kind == DigitKind::Stream ? "stream(" : "serial(") + std::to_string(digit.size) +
         ")";
}

/// Distributes the digits of one dimension to its pieces, which have extents `to`.
static LogicalResult distribute(MLIRContext *context, ArrayRef<ResolvedDigit> digits,
                                ArrayRef<int64_t> to, SmallVectorImpl<DimAxesAttr> &dims,
                                std::string &reason) {
  size_t next = 0;
  // The undistributed, innermost part of digits[next].
  int64_t left = digits.empty() ? 1 : digits.front().size;
  for (int64_t extent : to) {
    SmallVector<Digit> dim;
    int64_t open = extent;
    // Digits of size 1 are mesh axes of one device; they stay in place.
    while (next < digits.size() && (open > 1 || left == 1)) {
      const ResolvedDigit &digit = digits[next];
      int64_t part = open % left == 0 ? left : left % open == 0 ? open : 0;
      bool device = digit.kind == DigitKind::Device;
      if (part == 0 || (device && part != digit.size)) {
        reason = "expected digits that fit the extent " + std::to_string(extent) + ", found " +
                 describe(digit);
        return failure();
      }
      dim.push_back(device                            ? Digit::device(digit.axis)
                    : digit.kind == DigitKind::Stream ? Digit::stream(part)
                                                      : Digit::serial(part));
      open /= part;
      left /= part;
      if (left == 1)
        left = ++next < digits.size() ? digits[next].size : 1;
    }
    while (!dim.empty() && dim.back().isSerial())
      dim.pop_back();
    dims.push_back(DimAxesAttr::get(context, dim));
  }
  if (next == digits.size())
    return success();
  reason = "expected a dimension to hold " + describe(digits[next]) + ", found none";
  return failure();
}

/// Appends digits except those of size 1 (mesh axes stay). A shorter last slice would not end at a
/// piece, so a ragged digit becomes serial.
static void append(SmallVectorImpl<ResolvedDigit> &digits, ArrayRef<ResolvedDigit> more) {
  for (ResolvedDigit digit : more) {
    if (digit.ragged)
      digit = {DigitKind::Serial, {}, digit.ragged, 1};
    if (digit.kind == DigitKind::Serial && !digits.empty() &&
        digits.back().kind == DigitKind::Serial)
      digits.back().size *= digit.size;
    else if (digit.size != 1 || digit.kind == DigitKind::Device)
      digits.push_back(digit);
  }
}

static DimAxesAttr dropLastDevice(DimAxesAttr dim, MeshAttr mesh) {
  AxisSet last;
  for (const Digit &digit : dim.getDigits())
    if (digit.isDevice()) {
      last.clear();
      last.insert(digit.axis);
    }
  return dropDevices(dim, mesh, last);
}

/// Splits the digits of one dimension over its pieces.
static SmallVector<DimAxesAttr> splitDim(DimAxesAttr dim, ArrayRef<int64_t> extents, MeshAttr mesh,
                                         std::string *lost) {
  MLIRContext *context = mesh.getContext();
  int64_t extent = 1;
  for (int64_t piece : extents)
    extent *= piece;
  auto reject = [&](const std::string &reason) {
    if (lost && lost->empty())
      *lost = reason;
  };
  while (!dim.getDigits().empty()) {
    FailureOr<SmallVector<ResolvedDigit>> resolved = resolveDim(dim, extent, mesh);
    if (failed(resolved)) {
      reject("expected known extents and mesh sizes where a dimension with digits is reshaped, "
             "found '?'");
      break;
    }
    SmallVector<ResolvedDigit> digits;
    append(digits, *resolved);
    SmallVector<DimAxesAttr> parts;
    std::string reason;
    if (succeeded(distribute(context, digits, extents, parts, reason)))
      return parts;
    if (dim.hasStream()) {
      dim = getDimPlacement(dim);
      continue;
    }
    if (!dim.hasDevice())
      break;
    reject(reason);
    dim = dropLastDevice(dim, mesh);
  }
  return SmallVector<DimAxesAttr>(extents.size(), DimAxesAttr::get(context, {}));
}

AxesAttr fusion::splitAxes(ArrayRef<DimPiece> pieces, AxesAttr axes, std::string *lost) {
  SmallVector<DimAxesAttr> dims;
  while (!pieces.empty()) {
    int64_t dim = pieces.front().dim;
    ArrayRef<DimPiece> mine =
        pieces.take_while([&](const DimPiece &piece) { return piece.dim == dim; });
    DimAxesAttr digits = axes.getDims()[dim];
    if (mine.size() == 1)
      dims.push_back(digits);
    else
      dims.append(splitDim(
          digits, llvm::map_to_vector(mine, [](const DimPiece &piece) { return piece.extent; }),
          axes.getMesh(), lost));
    pieces = pieces.drop_front(mine.size());
  }
  return axes.withDims(dims);
}

AxesAttr fusion::joinAxes(ArrayRef<DimPiece> pieces, AxesAttr axes, int64_t rank) {
  MLIRContext *context = axes.getContext();
  SmallVector<DimAxesAttr> dims(rank, DimAxesAttr::get(context, {}));
  ArrayRef<DimAxesAttr> parts = axes.getDims();
  while (!pieces.empty()) {
    int64_t dim = pieces.front().dim;
    ArrayRef<DimPiece> mine =
        pieces.take_while([&](const DimPiece &piece) { return piece.dim == dim; });
    SmallVector<ResolvedDigit> digits;
    for (auto [piece, part] : llvm::zip(mine, parts))
      if (auto resolved = resolveDim(part, piece.extent, axes.getMesh()); succeeded(resolved))
        append(digits, *resolved);
    SmallVector<Digit> joined;
    for (const ResolvedDigit &digit : digits)
      joined.push_back(digit.kind == DigitKind::Device   ? Digit::device(digit.axis)
                       : digit.kind == DigitKind::Stream ? Digit::stream(digit.size)
                                                         : Digit::serial(digit.size));
    while (!joined.empty() && joined.back().isSerial())
      joined.pop_back();
    dims[dim] = mine.size() == 1 ? parts.front() : DimAxesAttr::get(context, joined);
    parts = parts.drop_front(mine.size());
    pieces = pieces.drop_front(mine.size());
  }
  return axes.withDims(dims);
}

/// Whether the pieces keep only a part of a slice of `axes`.
static bool isNonContiguous(const AxesRule &rule, ArrayRef<DimPiece> pieces,
                            ArrayRef<int64_t> factors, AxesAttr axes, AxesAttr split) {
  SmallVector<bool> passes(axes.getDims().size());
  for (auto [piece, factor, digits] : llvm::zip_equal(pieces, factors, split.getDims())) {
    if (!digits.hasStream())
      continue;
    if (isOnOneDevice(rule.factors[factor]))
      return true;
    passes[piece.dim] = true;
  }
  return llvm::any_of(llvm::zip_equal(axes.getDims(), passes),
                      [](auto dim) { return std::get<0>(dim).hasStream() && !std::get<1>(dim); });
}

static SmallVector<AxesAttr> splitAll(const AxesRule &rule, ArrayRef<SmallVector<DimPiece>> pieces,
                                      ArrayRef<SmallVector<int64_t>> factors,
                                      ArrayRef<AxesAttr> all, std::string *lost) {
  SmallVector<AxesAttr> result(all);
  if (!rule.regroups())
    return result;
  for (auto [axes, mine, numbers] : llvm::zip_equal(result, pieces, factors)) {
    if (!axes)
      continue;
    AxesAttr split = splitAxes(mine, axes, lost);
    axes = isNonContiguous(rule, mine, numbers, axes, split) ? split.getPlacement() : split;
  }
  return result;
}

SmallVector<AxesAttr> fusion::splitOperandAxes(const AxesRule &rule, ArrayRef<AxesAttr> operands,
                                               std::string *lost) {
  return splitAll(rule, rule.operandPieces, rule.operands, operands, lost);
}

SmallVector<AxesAttr> fusion::splitResultAxes(const AxesRule &rule, ArrayRef<AxesAttr> results,
                                              std::string *lost) {
  return splitAll(rule, rule.resultPieces, rule.results, results, lost);
}
