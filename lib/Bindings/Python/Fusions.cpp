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
#include <optional>
#include <utility>

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

  std::vector<int64_t> lastKey;
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
  auto closed = takeOut(ranks, [](const Rank &one) { return one.context->isClosed(); });
  Rank &made = ranks.emplace_back();
  made.context = context;
  return made.programs;
}

nb::object Fusion::call(nb::handle self, const nb::args &given, const nb::kwargs &keywords) {
  CallScope scope;
  CallOptions options(keywords);
  Inputs inputs(given, options, [](size_t i) { return "argument " + std::to_string(i); });
  // Reused, so that a call allocates nothing for it. Taken out meanwhile: others may call.
  std::vector<int64_t> key = std::exchange(lastKey, {});
  key.clear();
  for (const Tensor &tensor : inputs.tensors) {
    key.push_back(tensor.isRead ? static_cast<int64_t>(tensor.rank) : -1);
    key.insert(key.end(), tensor.shape, tensor.shape + tensor.rank);
  }
  auto find = [&] {
    Known *known = programsOf(options.context).find(key);
    return known && known->prepared->instance ? known->prepared : nullptr;
  };
  // Taken by the run, too: held here so that no other thread's call forgets the program before it.
  std::optional<ContextLock> lock(std::in_place, *options.context);
  std::shared_ptr<Prepared> prepared = find();
  if (!prepared) {
    lock.reset(); // the compiler needs no context, and runs one thread's call of this fusion
    nb::list shapes;
    for (const Tensor &tensor : inputs.tensors) {
      nb::list shape;
      for (uint32_t d = 0; d < tensor.rank; ++d)
        shape.append(tensor.shape[d]);
      shapes.append(tensor.isRead ? nb::object(nb::tuple(shape)) : nb::none());
    }
    nb::object program = self.attr("_specialize")(nb::tuple(shapes), options.context);
    lock.emplace(*options.context);
    prepared = find(); // of another thread
    if (!prepared) {
      prepared = nb::cast<Program &>(program).prepare(options.context);
      programsOf(options.context).add(key, Known(std::move(program), prepared), mostPrograms);
    }
  }
  lastKey = std::move(key);
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
