//===- RandomAxes.h - random types, and a reader of digits that knows nothing of the library -*- C++
//-*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_DIALECT_FUSION_RANDOMAXES_H
#define TANDEM_TEST_UNIT_DIALECT_FUSION_RANDOMAXES_H

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/MLIRContext.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Support/LLVM.h"
#include "gtest/gtest.h"
#include <numeric>
#include <random>

namespace tandem::fusion::testing {

/// A context with the dialect, and types from text: `tensor<8xf32, axes([didx("x")])>` with the
/// meshes #m, #n, ...
class FusionTest : public ::testing::Test {
protected:
  FusionTest() { context.loadDialect<FusionDialect>(); }

  /// A tensor type of f32 from its shape ("8x4x") and what stands in `#fusion.axes<...>` after the
  /// mesh.
  RankedTensorType type(const std::string &mesh, const std::string &shape,
                        const std::string &axes) {
    std::string text = "tensor<" + shape + "f32, #fusion.axes<" + mesh + ", " + axes + ">>";
    auto parsed = dyn_cast_if_present<RankedTensorType>(parseType(text, &context));
    EXPECT_TRUE(parsed) << text;
    return parsed;
  }

  MLIRContext context;
};

/// Random meshes, shapes and digits of few elements.
class RandomAxes {
public:
  RandomAxes(MLIRContext *context, unsigned seed) : context(context), random(seed) {}

  int64_t upTo(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n)(random); }

  MeshAttr mesh() {
    SmallVector<MeshAxis> axes;
    int64_t devices = 1, count = 1 + upTo(2);
    for (int64_t i = 0; i < count; ++i) {
      int64_t size = 1 + upTo(3);
      axes.push_back({StringAttr::get(context, std::string(1, "xyz"[i])), size});
      devices *= size;
    }
    SmallVector<int64_t> ranks;
    if (upTo(1)) {
      ranks.resize(devices + 3);
      std::iota(ranks.begin(), ranks.end(), 0);
      std::shuffle(ranks.begin(), ranks.end(), random);
      ranks.resize(devices);
    }
    return MeshAttr::get(context, StringAttr::get(context, "m"), axes, ranks);
  }

  /// Digits for `rank` dimensions; each mesh axis goes to a dimension, to partial, or nowhere.
  /// `extents` grow so that all fits; pass them on to get another type of the same shape.
  RankedTensorType type(MeshAttr mesh, SmallVectorImpl<int64_t> &extents, int64_t rank,
                        bool mayBePartial) {
    SmallVector<SmallVector<Digit>> dims(rank);
    SmallVector<StringAttr> partial;
    for (const MeshAxis &axis : mesh.getAxes()) {
      int64_t where = upTo(rank + 1);
      if (where < rank)
        dims[where].push_back(Digit::device(axis.name));
      else if (where == rank && mayBePartial)
        partial.push_back(axis.name);
    }
    SmallVector<DimAxesAttr> attrs;
    bool given = !extents.empty();
    for (int64_t d = 0; d < rank; ++d) {
      for (int64_t i = upTo(2); i > 0; --i)
        dims[d].push_back(upTo(1) ? Digit::stream(1 + upTo(2)) : Digit::serial(1 + upTo(2)));
      std::shuffle(dims[d].begin(), dims[d].end(), random);
      int64_t product = 1;
      auto sizeOf = [&](const Digit &digit) {
        return digit.isDevice() ? mesh.axisSize(digit.axis.getValue()) : digit.size;
      };
      // A given extent takes as many of the digits as divide it.
      SmallVector<Digit> kept;
      for (const Digit &digit : dims[d])
        if (!given || extents[d] % (product * sizeOf(digit)) == 0) {
          product *= sizeOf(digit);
          kept.push_back(digit);
        }
      if (upTo(3) == 0)
        kept.push_back(Digit::stream());
      attrs.push_back(DimAxesAttr::get(context, kept));
      if (!given)
        extents.push_back(product * (1 + upTo(2)));
    }
    auto axes = AxesAttr::get(context, mesh, attrs, partial, ReduceKind::Sum);
    return RankedTensorType::get(extents, Float32Type::get(context), axes);
  }

private:
  MLIRContext *context;
  std::mt19937 random;
};

/// One logical element as the digits say it, index by index.
struct Element {
  int64_t logical;                  // row-major index in the logical tensor
  std::vector<int64_t> coordinates; // per mesh axis; -1: any
  int64_t local;                    // row-major index in the local buffer
  int64_t iteration;                // of the stream loop
  std::vector<int64_t> index;
};

/// All elements of a type, by reading each index digit by digit from the innermost one.
inline std::vector<Element> enumerate(RankedTensorType type) {
  AxesAttr axes = getAxes(type);
  MeshAttr mesh = axes.getMesh();
  std::vector<Element> elements;
  for (int64_t flat = 0; flat < type.getNumElements(); ++flat) {
    Element element{flat, std::vector<int64_t>(mesh.getAxes().size(), -1), 0, 0, {}};
    element.index.resize(type.getRank());
    int64_t left = flat;
    for (int64_t d = type.getRank() - 1; d >= 0; --d) {
      element.index[d] = left % type.getDimSize(d);
      left /= type.getDimSize(d);
    }
    for (int64_t d = 0; d < type.getRank(); ++d) {
      int64_t product = 1;
      for (const Digit &digit : axes.getDims()[d].getDigits())
        if (!digit.isRest())
          product *= digit.isDevice() ? mesh.axisSize(digit.axis.getValue()) : digit.size;
      int64_t rest = type.getDimSize(d) / product;
      struct Read {
        int64_t size;
        const Digit *digit; // null: serial
        int64_t value;
      };
      std::vector<Read> reads;
      for (const Digit &digit : axes.getDims()[d].getDigits())
        reads.push_back({digit.isRest()     ? rest
                         : digit.isDevice() ? mesh.axisSize(digit.axis.getValue())
                                            : digit.size,
                         &digit, 0});
      if (reads.empty() || !reads.back().digit->isRest())
        reads.push_back({rest, nullptr, 0});
      int64_t index = element.index[d];
      for (auto it = reads.rbegin(); it != reads.rend(); ++it) {
        it->value = index % it->size;
        index /= it->size;
      }
      EXPECT_EQ(index, 0);
      for (const Read &read : reads) {
        if (read.digit && read.digit->isDevice()) {
          element.coordinates[mesh.axisIndex(read.digit->axis.getValue())] = read.value;
          continue;
        }
        element.local = element.local * read.size + read.value;
        if (read.digit && read.digit->isStream())
          element.iteration = element.iteration * read.size + read.value;
      }
    }
    elements.push_back(std::move(element));
  }
  return elements;
}

/// The device at a position holds the element.
inline bool holds(MeshAttr mesh, int64_t position, const Element &element) {
  SmallVector<int64_t> mine = mesh.coordinates(position);
  for (size_t axis = 0; axis < mine.size(); ++axis)
    if (element.coordinates[axis] >= 0 && element.coordinates[axis] != mine[axis])
      return false;
  return true;
}

} // namespace tandem::fusion::testing

#endif // TANDEM_TEST_UNIT_DIALECT_FUSION_RANDOMAXES_H
