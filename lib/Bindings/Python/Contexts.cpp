//===- Contexts.cpp - worlds, contexts, bootstraps --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <utility>

using namespace tandem::python;

namespace {

uint32_t milliseconds(double seconds) {
  if (!(seconds > 0) || seconds > 4e6)
    raiseArgument("timeout: expected seconds above 0 and at most 4000000");
  return static_cast<uint32_t>(std::ceil(seconds * 1000));
}

using Contexts = std::vector<std::shared_ptr<RuntimeContext>>;
/// Contexts entered by `with` on this thread, innermost last; null if there is none. A thread that
/// ends inside of a `with` leaves them: no interpreter could then destroy them.
thread_local Contexts *entered = nullptr;
/// That of all other threads; tandem.init closes it before the interpreter ends.
std::shared_ptr<RuntimeContext> &processContext() {
  static auto *context = new std::shared_ptr<RuntimeContext>;
  return *context;
}

} // namespace

std::shared_ptr<RuntimeContext> tandem::python::currentContext() {
  return entered ? entered->back() : processContext();
}

World::World(uint32_t size, double timeoutSeconds) : size(size) {
  if (size == 0)
    raiseArgument("expected at least one rank, found 0");
  if (tandem_code code = tandem_local_world_create(size, milliseconds(timeoutSeconds), &handle);
      code != TANDEM_OK)
    raise(code, "cannot create the local world");
}

World::~World() { tandem_local_world_destroy(handle); }

void RuntimeContext::log(void *user, tandem_log_level level, const char *message) {
  auto *self = static_cast<RuntimeContext *>(user);
  nb::gil_scoped_acquire lock;
  try {
    nb::module_::import_("tandem._errors").attr("_log")(level == TANDEM_LOG_WARNING, message);
  } catch (nb::python_error &error) { // of a handler that the program has set
    self->raised.emplace(std::move(error));
  }
}

int RuntimeContext::allGather(void *user, const void *mine, size_t bytes, void *all) {
  auto *self = static_cast<RuntimeContext *>(user);
  nb::gil_scoped_acquire lock;
  try {
    nb::object parts = self->gatherCallback(nb::bytes(mine, bytes));
    if (nb::len(parts) != self->worldSize) {
      PyErr_Format(PyExc_ValueError, "bootstrap: expected all_gather to return %u parts, found %zu",
                   self->worldSize, nb::len(parts));
      throw nb::python_error();
    }
    auto *to = static_cast<char *>(all);
    for (nb::handle part : parts) {
      auto given = nb::cast<nb::bytes>(part);
      if (given.size() != bytes) {
        PyErr_Format(PyExc_ValueError,
                     "bootstrap: expected all_gather to return parts of %zu bytes, found %zu",
                     bytes, given.size());
        throw nb::python_error();
      }
      std::memcpy(to, given.c_str(), bytes);
      to += bytes;
    }
    return 0;
  } catch (nb::python_error &error) {
    self->raised.emplace(std::move(error));
  } catch (const std::exception &error) { // of a cast
    PyErr_Format(PyExc_TypeError, "bootstrap: all_gather: expected a list of bytes (%s)",
                 error.what());
    self->raised.emplace();
  }
  return 1;
}

int RuntimeContext::barrier(void *user) {
  auto *self = static_cast<RuntimeContext *>(user);
  nb::gil_scoped_acquire lock;
  try {
    self->barrierCallback();
    return 0;
  } catch (nb::python_error &error) {
    self->raised.emplace(std::move(error));
  }
  return 1;
}

void RuntimeContext::readBootstrap(nb::object given, tandem_launch &launch) {
  launch.rank = nb::cast<uint32_t>(given.attr("rank"));
  launch.world_size = nb::cast<uint32_t>(given.attr("world_size"));
  if (nb::hasattr(given, "local_size")) {
    launch.local_size = nb::cast<uint32_t>(given.attr("local_size"));
    launch.local_rank = nb::cast<uint32_t>(given.attr("local_rank"));
  }
  if (nb::hasattr(given, "node")) {
    node = nb::cast<std::string>(given.attr("node"));
    launch.node = node.c_str();
  }
  gatherCallback = given.attr("all_gather");
  barrierCallback = given.attr("barrier");
  launch.all_gather = allGather;
  launch.barrier = barrier;
  launch.user = this;
  rank = launch.rank;
  worldSize = launch.world_size;
}

void RuntimeContext::joinJob() {
  tandem_code code = TANDEM_OK;
  {
    nb::gil_scoped_release unlocked;
    code = tandem_job_join(&job);
  }
  if (code != TANDEM_OK) {
    std::string message = job ? tandem_job_error(job) : "out of memory";
    tandem_job_destroy(std::exchange(job, nullptr));
    raise(code, message);
  }
  rank = tandem_job_launch(job)->rank;
  worldSize = tandem_job_launch(job)->world_size;
}

/// A number per text.
static uint32_t kindOf(const std::string &text) {
  static auto *known = new std::vector<std::string>;
  for (size_t i = 0; i < known->size(); ++i)
    if ((*known)[i] == text)
      return static_cast<uint32_t>(i);
  known->push_back(text);
  return static_cast<uint32_t>(known->size() - 1);
}

/// The usual channels of a device and a way to start ranks.
static std::string usualChannels(const ContextOptions &given, bool isHost, uint32_t worldSize) {
  if (!given.channels.empty())
    return given.channels;
  if (given.world)
    return isHost ? "local" : "peer,ccl";
  return worldSize == 1 ? "" : isHost ? "ucx" : "peer,ccl";
}

RuntimeContext::RuntimeContext(const ContextOptions &given)
    : device(given.device), allocator(given.allocator), isHost(device.compare(0, 4, "cuda") != 0),
      world(given.world) {
  if (device.compare(0, 3, "hip") == 0)
    raiseArgument("device: expected cpu, null or cuda, found " + device +
                  ": the Python package does not take tensors of HIP yet");
  tandem_context_options options = {};
  options.struct_size = sizeof options;
  options.device = device.c_str();
  options.timeout_ms = milliseconds(given.timeoutSeconds);
  options.matmul_threads = given.matmulThreads;
  options.no_graphs = given.graphs ? 0 : 1;
  options.require_proof = given.requireProof ? 1 : 0;
  options.no_native = given.noNative ? 1 : 0;
  if (!allocator.is_none())
    // NOLINTNEXTLINE(performance-no-int-to-ptr): Python has addresses as integers
    options.allocator = reinterpret_cast<const tandem_allocator *>(
        nb::cast<uintptr_t>(allocator.attr("tandem_allocator")));
  options.log = log;
  options.log_user = this;
  tandem_launch launch = {};
  launch.struct_size = sizeof launch;
  if (world) {
    if (!given.bootstrap.is_none())
      raiseArgument("expected a bootstrap or a local world, found both");
    options.local_world = world->handle;
    options.local_world_rank = rank = given.rank;
    worldSize = world->size;
  } else if (!given.bootstrap.is_none()) {
    readBootstrap(given.bootstrap, launch);
    options.launch = &launch;
  } else {
    joinJob();
    options.launch = tandem_job_launch(job);
  }
  channels = usualChannels(given, isHost, worldSize);
  kind =
      kindOf(device.substr(0, device.find(':')) + "|" + channels + "|" + std::to_string(worldSize));
  options.channels = channels.empty() ? nullptr : channels.c_str();
  tandem_code code = TANDEM_OK;
  {
    nb::gil_scoped_release unlocked;
    code = tandem_context_create(&options, &handle);
  }
  if (code == TANDEM_OK) {
    std::string name = tandem_context_device(handle);
    if (size_t colon = name.find(':'); !isHost && colon != std::string::npos)
      gpu = static_cast<int32_t>(std::strtol(name.c_str() + colon + 1, nullptr, 10));
    return;
  }
  std::string message = handle ? tandem_last_error(handle) : "out of memory";
  tandem_context_destroy(std::exchange(handle, nullptr));
  if (job && *tandem_job_error(job))
    message = tandem_job_error(job);
  tandem_job_destroy(std::exchange(job, nullptr));
  if (raised)
    throw std::move(*raised);
  raise(code, message);
}

RuntimeContext::~RuntimeContext() { close(); }

void RuntimeContext::add(const std::shared_ptr<ContextPart> &part) {
  // Those that are gone leave their places.
  for (std::weak_ptr<ContextPart> &place : parts)
    if (place.expired()) {
      place = part;
      return;
    }
  parts.push_back(part);
}

void RuntimeContext::close() {
  ContextLock lock(*this); // the run of another thread ends before
  for (std::weak_ptr<ContextPart> &place : std::exchange(parts, {}))
    if (std::shared_ptr<ContextPart> part = place.lock())
      part->close();
  if (tandem_context *last = std::exchange(handle, nullptr)) {
    nb::gil_scoped_release unlocked;
    for (auto &[native, stream] : std::exchange(streams, {}))
      tandem_stream_destroy(stream);
    tandem_context_destroy(last);
  }
  tandem_job_destroy(std::exchange(job, nullptr));
}

tandem_context *RuntimeContext::get() const {
  if (!handle)
    raiseArgument("the context is closed");
  return handle;
}

tandem_stream *RuntimeContext::wrap(void *native) {
  for (auto &[known, stream] : streams)
    if (known == native)
      return stream;
  tandem_stream *stream = nullptr;
  check(tandem_stream_wrap(get(), native, &stream));
  streams.emplace_back(native, stream);
  return stream;
}

std::string RuntimeContext::description() const { return tandem_context_description(get()); }

void RuntimeContext::check(tandem_code code) {
  if (code == TANDEM_OK)
    return;
  if (raised) {
    nb::python_error error(std::move(*raised));
    raised.reset();
    throw error;
  }
  // A failed exchange says more than that a callback failed.
  raise(code, job && *tandem_job_error(job) ? tandem_job_error(job) : tandem_last_error(handle));
}

void tandem::python::bindContexts(nb::module_ &module) {
  nb::class_<World>(module, "World",
                    "Ranks that are threads of this process. Each has a Context(world=..., "
                    "rank=...); tandem.local_world makes them.")
      .def(nb::init<uint32_t, double>(), nb::arg("size"), nb::arg("timeout") = 60.0)
      .def_ro("size", &World::size);

  nb::class_<RuntimeContext>(
      module, "Context",
      "This rank's device, channels and connections to the other ranks. Threads that share "
      "it use it one after another.\n\n"
      "Context(device='cpu', channels='', world=None, rank=0, bootstrap=None, timeout=60.0,\n"
      "        matmul_threads=0, graphs=True, require_proof=False,\n"
      "        no_native=False, allocator=None)\n\n"
      "device: 'cpu', 'cuda' (GPU: local rank modulo the number of GPUs) or 'cuda:1'.\n"
      "channels: comma-separated, first choice first; '': 'local' for threads, 'ucx' for "
      "processes,\n"
      "    'peer,ccl' for GPUs.\n"
      "world, rank: a World, and the rank in it. bootstrap: an object with rank, world_size,\n"
      "    optionally local_rank and local_size, and node, all_gather(bytes) -> [bytes] and "
      "barrier(). "
      "Neither:\n"
      "    the job of torchrun, mpirun or srun, else a world of one rank.\n"
      "timeout: seconds until a run that makes no progress is ended.\n"
      "matmul_threads: threads of a product on the CPU; 0: one.\n"
      "graphs: capture runs of GPUs in graphs. require_proof: reject programs without a complete\n"
      "    certificate. no_native: reject programs with native code (PTX,\n"
      "    code objects of AMD GPUs).\n"
      "allocator: an object whose attribute tandem_allocator is the address of that struct\n"
      "    (tandem-c/Context.h), in place of the device's memory; the context keeps the object.\n\n"
      "Collective. Raises ArgumentError for bad options, Error if the device, a channel or "
      "another\n"
      "rank is not there, and what the bootstrap raises. `with context:` makes it the thread's\n"
      "current one.")
      .def(nb::new_([](const std::string &device, const std::string &channels,
                       std::shared_ptr<World> world, uint32_t rank, nb::object bootstrap,
                       double timeout, uint32_t matmulThreads, bool graphs, bool requireProof,
                       bool noNative, nb::object allocator) {
             ContextOptions options;
             options.device = device;
             options.channels = channels;
             options.world = std::move(world);
             options.rank = rank;
             options.bootstrap = std::move(bootstrap);
             options.timeoutSeconds = timeout;
             options.matmulThreads = matmulThreads;
             options.graphs = graphs;
             options.requireProof = requireProof;
             options.noNative = noNative;
             options.allocator = std::move(allocator);
             return std::make_shared<RuntimeContext>(options);
           }),
           nb::arg("device") = "cpu", nb::arg("channels") = "", nb::arg("world") = nb::none(),
           nb::arg("rank") = 0, nb::arg("bootstrap") = nb::none(), nb::arg("timeout") = 60.0,
           nb::arg("matmul_threads") = 0, nb::arg("graphs") = true,
           nb::arg("require_proof") = false, nb::arg("no_native") = false,
           nb::arg("allocator") = nb::none())
      .def_ro("rank", &RuntimeContext::rank)
      .def_ro("world_size", &RuntimeContext::worldSize)
      .def_ro("device", &RuntimeContext::device)
      .def_ro("channels", &RuntimeContext::channels)
      .def_ro("allocator", &RuntimeContext::allocator)
      .def_prop_ro("description", &RuntimeContext::description)
      .def("close", &RuntimeContext::close,
           "Ends what was made from the context, and the context. Waits for no other rank.")
      .def_prop_ro(
          "compares_runs",
          [](RuntimeContext &context) { return tandem_context_compares_runs(context.get()) != 0; })
      .def(
          "agree",
          [](RuntimeContext &context, const char *call) {
            ContextLock lock(context);
            context.check(tandem_context_agree(context.get(), call));
          },
          nb::arg("call"),
          "All ranks are about to do what `call` says, between the same runs; else an error.")
      .def(
          "check_health",
          [](RuntimeContext &context) { context.check(tandem_context_health(context.get())); },
          "Raises the error of the failed run after which the context cannot be used.")
      .def("__enter__",
           [](std::shared_ptr<RuntimeContext> context) {
             (void)context->get();
             if (!entered)
               entered = new Contexts;
             entered->push_back(context);
             return context;
           })
      .def(
          "__exit__",
          [](RuntimeContext &context, nb::handle, nb::handle, nb::handle) {
            if (!entered || entered->back().get() != &context)
              raiseArgument("this thread did not enter the context last");
            entered->pop_back();
            if (entered->empty())
              delete std::exchange(entered, nullptr);
          },
          nb::arg().none(), nb::arg().none(), nb::arg().none());

  module.def(
      "node",
      [] {
        char text[4096];
        if (tandem_code code = tandem_node(text, sizeof text); code != TANDEM_OK)
          raise(code, "TANDEM_NODE: expected a name of at most 4000 bytes");
        return std::string(text);
      },
      "A text that is equal on the processes of one host, and only there.");
  module.def("current_context", &currentContext,
             "The context of this thread: that of the innermost `with`, else that of tandem.init; "
             "None if there is none.");
  module.def(
      "set_process_context",
      [](std::shared_ptr<RuntimeContext> context) { processContext() = std::move(context); },
      nb::arg("context").none());
}
