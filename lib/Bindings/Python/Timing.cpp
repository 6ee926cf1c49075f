//===- Timing.cpp - timed runs and jobs, for tandem.bench -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Programs.h"

#include "tandem-c/Job.h"

#include <chrono>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <thread>
#include <utility>

using namespace tandem::python;

/// Of CLOCK_MONOTONIC, as Python's time.monotonic_ns().
static int64_t nanoseconds() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

/// `spins`: with a core of its own, which is faster than to be woken up.
static void waitUntil(int64_t start, bool spins) {
  if (!spins)
    std::this_thread::sleep_for(std::chrono::nanoseconds(start - nanoseconds()));
  while (nanoseconds() < start) {
  }
}

namespace {

/// A program in a context with its tensors, which it keeps.
class TimedProgram {
public:
  /// Collective, as the first call of a program. `given`: inputs, then results; None where the rank
  /// holds no part.
  TimedProgram(Program &program, const std::shared_ptr<RuntimeContext> &context, nb::object given)
      : tensors(std::move(given)), prepared(program.prepare(context)),
        memory(prepared->arguments.size()), data(memory.size()) {
    if (nb::len(tensors) != data.size())
      raiseArgument(prepared->name + ": expected " + std::to_string(data.size()) +
                    " tensors, found " + std::to_string(nb::len(tensors)));
    for (size_t i = 0; i < data.size(); ++i) {
      nb::object tensor = tensors[i];
      if (tensor.is_none())
        continue;
      memory[i].read(tensor, [&] { return prepared->nameOf(i); }, *context, nb::none());
      prepared->check(i, memory[i]);
      data[i] = memory[i].data;
    }
  }

  TimedProgram(const TimedProgram &) = delete;
  TimedProgram &operator=(const TimedProgram &) = delete;

  /// Enqueues `count` runs at `start` and waits for them: (begin, enqueued, end).
  nb::object run(int64_t start, uint32_t count, bool spins) {
    CallScope call;
    ContextLock lock(*prepared->context);
    prepared->checkOpen();
    tandem_run_options options = {};
    options.struct_size = sizeof options;
    options.data = data.data();
    tandem_code code = TANDEM_OK;
    int64_t begin = 0, enqueued = 0, end = 0;
    {
      nb::gil_scoped_release unlocked;
      waitUntil(start, spins);
      begin = nanoseconds();
      for (uint32_t i = 0; i < count && code == TANDEM_OK; ++i)
        code = tandem_enqueue(prepared->instance, &options);
      enqueued = nanoseconds();
      if (code == TANDEM_OK)
        code = tandem_wait(prepared->instance);
      end = nanoseconds();
    }
    prepared->context->check(code);
    return nb::make_tuple(begin, enqueued, end);
  }

private:
  const nb::object tensors;
  const std::shared_ptr<Prepared> prepared;
  std::vector<Tensor> memory;
  std::vector<void *> data;
};

/// The job of a launcher, as a bootstrap: `tandem.Context(bootstrap=job)`.
class Job {
public:
  Job() {
    CallScope call;
    tandem_code code = TANDEM_OK;
    {
      nb::gil_scoped_release unlocked;
      code = tandem_job_join(&handle);
    }
    if (code == TANDEM_OK)
      return;
    std::string message = handle ? tandem_job_error(handle) : "out of memory";
    tandem_job_destroy(std::exchange(handle, nullptr));
    raise(code, message);
  }
  ~Job() { tandem_job_destroy(handle); }
  Job(const Job &) = delete;
  Job &operator=(const Job &) = delete;

  const tandem_launch &launch() const { return *tandem_job_launch(handle); }

  nb::list allGather(const nb::bytes &mine) {
    CallScope call;
    std::string all(mine.size() * launch().world_size, '\0');
    int failed = 0;
    {
      nb::gil_scoped_release unlocked;
      failed = launch().all_gather(launch().user, mine.data(), mine.size(), all.data());
    }
    if (failed)
      raise(TANDEM_ABORTED, tandem_job_error(handle));
    nb::list parts;
    for (uint32_t rank = 0; rank < launch().world_size; ++rank)
      parts.append(nb::bytes(all.data() + rank * mine.size(), mine.size()));
    return parts;
  }

private:
  tandem_job *handle = nullptr;
};

/// Calls `function` `count` times at `start`, then `finish`, which waits: (begin, enqueued, end).
nb::object timeCalls(const nb::callable &function, const nb::callable &finish, int64_t start,
                     uint32_t count, bool spins) {
  CallScope call;
  {
    nb::gil_scoped_release unlocked;
    waitUntil(start, spins);
  }
  int64_t begin = nanoseconds();
  for (uint32_t i = 0; i < count; ++i)
    function();
  int64_t enqueued = nanoseconds();
  finish();
  return nb::make_tuple(begin, enqueued, nanoseconds());
}

} // namespace

void tandem::python::bindTiming(nb::module_ &module) {
  nb::class_<TimedProgram>(module, "TimedProgram")
      .def(nb::init<Program &, const std::shared_ptr<RuntimeContext> &, nb::object>(),
           nb::arg("program"), nb::arg("context"), nb::arg("tensors"))
      .def("run", &TimedProgram::run, nb::arg("start"), nb::arg("count"), nb::arg("spins"));
  module.def("time_calls", &timeCalls, nb::arg("function"), nb::arg("finish"), nb::arg("start"),
             nb::arg("count"), nb::arg("spins"));
  module.def(
      "has_gated_kernels",
      [](const RuntimeContext &context) {
        return tandem_context_has_gated_kernels(context.get()) != 0;
      },
      nb::arg("context"));
  nb::class_<Job>(module, "Job")
      .def(nb::init<>())
      .def_prop_ro("rank", [](const Job &job) { return job.launch().rank; })
      .def_prop_ro("world_size", [](const Job &job) { return job.launch().world_size; })
      .def_prop_ro("local_rank", [](const Job &job) { return job.launch().local_rank; })
      .def_prop_ro("local_size",
                   [](const Job &job) {
                     uint32_t size = job.launch().local_size;
                     return size ? size : job.launch().world_size;
                   })
      .def("all_gather", &Job::allGather, nb::arg("data"))
      .def("barrier", [](Job &job) { job.allGather(nb::bytes("", 1)); });
}
