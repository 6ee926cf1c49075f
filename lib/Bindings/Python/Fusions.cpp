//===- Fusions.cpp - programs by the shapes of tensors ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Programs.h"

#include <nanobind/stl/shared_ptr.h>
#include <unordered_map>

using namespace tandem::python;

namespace {

/// The base of tandem.Fusion: finds the program for a call's shapes and context.
class Fusion {
public:
  nb::object call(nb::handle self, const nb::args &given, const nb::kwargs &keywords);
  size_t size() const { return programs.size(); }

private:
  struct Hash {
    size_t operator()(const std::vector<int64_t> &key) const {
      size_t hash = key.size();
      for (int64_t number : key)
        hash = (hash ^ static_cast<size_t>(number)) * 0x9e3779b97f4a7c15ull;
      return hash;
    }
  };

  std::vector<int64_t> key;
  std::unordered_map<std::vector<int64_t>, nb::object, Hash> programs;
};

} // namespace

nb::object Fusion::call(nb::handle self, const nb::args &given, const nb::kwargs &keywords) {
  CallOptions options(keywords);
  Inputs inputs(given, options, [](size_t i) { return "argument " + std::to_string(i); });
  // Reused, so that a call allocates nothing for it; the lock is held.
  key.clear();
  key.push_back(options.context->kind);
  for (const Tensor &tensor : inputs.tensors) {
    key.push_back(tensor.isRead ? static_cast<int64_t>(tensor.rank) : -1);
    key.insert(key.end(), tensor.shape, tensor.shape + tensor.rank);
  }
  auto found = programs.find(key);
  nb::object program;
  if (found != programs.end()) {
    program = found->second;
  } else {
    std::vector<int64_t> mine = key; // others may call meanwhile
    nb::list shapes;
    for (const Tensor &tensor : inputs.tensors) {
      nb::list shape;
      for (uint32_t d = 0; d < tensor.rank; ++d)
        shape.append(tensor.shape[d]);
      shapes.append(tensor.isRead ? nb::object(nb::tuple(shape)) : nb::none());
    }
    program = self.attr("_specialize")(nb::tuple(shapes), options.context);
    program = programs.emplace(std::move(mine), std::move(program)).first->second;
  }
  return nb::cast<Program &>(program).prepare(options.context)->run(inputs, options.out);
}

void tandem::python::bindFusions(nb::module_ &module) {
  nb::class_<Fusion>(module, "Fusion")
      .def(nb::init<>())
      .def("__call__",
           [](nb::handle self, const nb::args &given, const nb::kwargs &keywords) {
             return nb::cast<Fusion &>(self).call(self, given, keywords);
           })
      .def_prop_ro("num_programs", &Fusion::size);
}
