//===- Fusions.cpp - programs by the shapes of tensors ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Programs.h"
#include "Recent.h"

#include <list>
#include <nanobind/stl/shared_ptr.h>

using namespace tandem::python;

namespace {

/// A program that was prepared for a rank. Destroyed, the rank forgets it; others may keep it.
class Known {
public:
  Known(nb::object program, std::shared_ptr<Prepared> prepared)
      : prepared(std::move(prepared)), program(std::move(program)) {}
  Known(Known &&other) noexcept = default;
  Known &operator=(Known &&) = delete;
  ~Known() {
    if (prepared)
      nb::cast<Program &>(program).forget(prepared);
  }

  std::shared_ptr<Prepared> prepared;

private:
  nb::object program;
};

/// The base of tandem.Fusion: finds the program for a call's shapes and context.
class Fusion {
public:
  Fusion() = default;
  Fusion(const Fusion &) = delete;
  Fusion &operator=(const Fusion &) = delete;

  nb::object call(nb::handle self, const nb::args &given, const nb::kwargs &keywords);

  size_t mostPrograms = kMostPrograms;

private:
  Recent<Known> &programsOf(const std::shared_ptr<RuntimeContext> &context);

  std::vector<int64_t> key;
  struct Rank {
    std::shared_ptr<RuntimeContext> context;
    Recent<Known> programs;
  };
  std::list<Rank> ranks;
};

} // namespace

Recent<Known> &Fusion::programsOf(const std::shared_ptr<RuntimeContext> &context) {
  for (Rank &rank : ranks)
    if (rank.context == context)
      return rank.programs;
  // Those of closed contexts go. Taken out first: their ends give up the lock.
  std::list<Rank> closed;
  for (auto next = ranks.begin(); next != ranks.end();) {
    auto one = next++;
    if (one->context->isClosed())
      closed.splice(closed.begin(), ranks, one);
  }
  Rank &made = ranks.emplace_back();
  made.context = context;
  return made.programs;
}

nb::object Fusion::call(nb::handle self, const nb::args &given, const nb::kwargs &keywords) {
  CallOptions options(keywords);
  Inputs inputs(given, options, [](size_t i) { return "argument " + std::to_string(i); });
  // Reused, so that a call allocates nothing for it; the lock is held.
  key.clear();
  for (const Tensor &tensor : inputs.tensors) {
    key.push_back(tensor.isRead ? static_cast<int64_t>(tensor.rank) : -1);
    key.insert(key.end(), tensor.shape, tensor.shape + tensor.rank);
  }
  Known *known = programsOf(options.context).find(key);
  std::shared_ptr<Prepared> prepared = known ? known->prepared : nullptr;
  if (!prepared || !prepared->instance) {
    std::vector<int64_t> mine = key; // others may call meanwhile
    nb::list shapes;
    for (const Tensor &tensor : inputs.tensors) {
      nb::list shape;
      for (uint32_t d = 0; d < tensor.rank; ++d)
        shape.append(tensor.shape[d]);
      shapes.append(tensor.isRead ? nb::object(nb::tuple(shape)) : nb::none());
    }
    nb::object program = self.attr("_specialize")(nb::tuple(shapes), options.context);
    prepared = nb::cast<Program &>(program).prepare(options.context);
    programsOf(options.context)
        .add(std::move(mine), Known(std::move(program), prepared), mostPrograms);
  }
  return prepared->run(inputs, options.out);
}

void tandem::python::bindFusions(nb::module_ &module) {
  nb::class_<Fusion>(module, "Fusion")
      .def(nb::init<>())
      .def_rw("most_programs", &Fusion::mostPrograms)
      .def("__call__", [](nb::handle self, const nb::args &given, const nb::kwargs &keywords) {
        return nb::cast<Fusion &>(self).call(self, given, keywords);
      });
}
