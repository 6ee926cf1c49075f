//===- Shapes.cpp - inferred shapes of traced operations --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Fusion/IR/Shapes.h"

#include "Bindings.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

using namespace tandem::python;
namespace shapes = tandem::fusion::shapes;

/// A function of shapes that returns a shape and what is wrong with its arguments.
template <typename... Args>
static void define(nb::module_ &module, const char *name, shapes::Inferred (*function)(Args...)) {
  module.def(name, [function](Args... args) {
    shapes::Inferred inferred = function(args...);
    return std::pair(inferred.shape, inferred.error);
  });
}

static shapes::Inferred inferAttention(const shapes::Shape &q, const shapes::Shape &k,
                                       const shapes::Shape &v, bool isCausal,
                                       std::optional<double> scale, std::optional<int64_t> zigzag) {
  return shapes::attention(q, k, v, {isCausal, scale, zigzag, std::nullopt});
}

void tandem::python::bindShapes(nb::module_ &module) {
  nb::module_ made = module.def_submodule("shapes");
  define(made, "broadcast", shapes::broadcast);
  define(made, "broadcast_to", shapes::broadcastTo);
  define(made, "matmul", shapes::matmul);
  define(made, "grouped_matmul", shapes::groupedMatmul);
  define(made, "attention", inferAttention);
  define(made, "reduce", shapes::reduce);
  define(made, "permute", shapes::permute);
  define(made, "reshape", shapes::reshape);
  define(made, "concat", shapes::concat);
  made.def("product_type", shapes::productType);
  made.def("product_error", shapes::productError);
}
