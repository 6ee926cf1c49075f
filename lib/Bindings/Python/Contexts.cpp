//===- Contexts.cpp - worlds, contexts, bootstraps --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <pthread.h>
#include <stdexcept>
#include <thread>
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
/// All that were made, for the end of the interpreter.
std::vector<std::weak_ptr<RuntimeContext>> &contexts() {
  static auto *all = new std::vector<std::weak_ptr<RuntimeContext>>;
  all->erase(std::remove_if(all->begin(), all->end(), [](auto &one) { return one.expired(); }),
             all->end());
  return *all;
}

/// Calls in progress, of all threads and of this one. Guarded by the GIL.
size_t calls = 0;
thread_local size_t callsOfThread = 0;
bool isEnding = false;
std::thread::id endingThread;

} // namespace

CallScope::CallScope() {
  if (callsOfThread == 0 && isTooLate()) {
    PyErr_SetNone(PyExc_SystemExit);
    throw nb::python_error();
  }
  calls += callsOfThread++ == 0;
}
CallScope::CallScope(std::nothrow_t) { calls += callsOfThread++ == 0; }
CallScope::~CallScope() { calls -= --callsOfThread == 0; }

bool CallScope::isTooLate() { return isEnding && std::this_thread::get_id() != endingThread; }

void tandem::python::endCalls() {
  isEnding = true;
  endingThread = std::this_thread::get_id();
  while (true) {
    // Those first that no thread uses: threads of other ranks may wait for this end.
    bool areClosed = true;
    for (const std::weak_ptr<RuntimeContext> &one : std::vector(contexts()))
      if (std::shared_ptr<RuntimeContext> context = one.lock())
        areClosed &= context->tryClose();
    if (areClosed && calls == 0)
      return;
    nb::gil_scoped_release unlocked;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::shared_ptr<RuntimeContext> tandem::python::currentContext() {
  return entered ? entered->back() : processContext();
}

World::World(uint32_t size, double timeoutSeconds) : size(size) {
  if (size == 0 || size > 65536)
    raiseArgument("expected at least one rank and at most 65536, found " + std::to_string(size));
  if (tandem_code code = tandem_local_world_create(size, milliseconds(timeoutSeconds), &handle);
      code != TANDEM_OK)
    raise(code, "cannot create the local world");
}

World::~World() { tandem_local_world_destroy(handle); }

void RuntimeContext::log(void *user, tandem_log_level level, const char *message) {
  auto *self = static_cast<RuntimeContext *>(user);
  CallbackScope scope(*self);
  try {
    nb::module_::import_("tandem._errors").attr("_log")(level == TANDEM_LOG_WARNING, message);
  } catch (nb::python_error &error) { // of a handler that the program has set
    self->keepRaised(error);
    throw std::runtime_error("a handler of logging has raised"); // the call fails
  }
}

int RuntimeContext::allGather(void *user, const void *mine, size_t bytes, void *all) {
  auto *self = static_cast<RuntimeContext *>(user);
  CallbackScope scope(*self);
  try {
    nb::object parts = self->gatherCallback(nb::bytes(mine, bytes));
    if (nb::len(parts) != self->worldSize) {
      PyErr_Format(PyExc_ValueError, "bootstrap: expected all_gather to return %u parts, found %zu",
                   self->worldSize, nb::len(parts));
      throw nb::python_error();
    }
    auto *to = static_cast<char *>(all);
    for (nb::handle part : parts) {
      auto given = castTo<nb::bytes>(part, "bootstrap: all_gather", "a list of bytes");
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
    self->keepRaised(error);
  }
  return 1;
}

int RuntimeContext::barrier(void *user) {
  auto *self = static_cast<RuntimeContext *>(user);
  CallbackScope scope(*self);
  try {
    self->barrierCallback();
    return 0;
  } catch (nb::python_error &error) {
    self->keepRaised(error);
  }
  return 1;
}

void RuntimeContext::keepRaised(nb::python_error &error) {
  if (!raised) // the first one is the reason of the others
    raised.emplace(std::move(error));
}

void RuntimeContext::readBootstrap(nb::object given, tandem_launch &launch) {
  auto number = [&](const char *name) {
    return castTo<uint32_t>(given.attr(name), (std::string("bootstrap: ") + name).c_str(),
                            "a number of at least 0");
  };
  launch.rank = number("rank");
  launch.world_size = number("world_size");
  if (nb::hasattr(given, "local_size")) {
    launch.local_size = number("local_size");
    launch.local_rank = nb::hasattr(given, "local_rank") ? number("local_rank") : 0;
  }
  if (nb::hasattr(given, "node")) {
    node = castTo<std::string>(given.attr("node"), "bootstrap: node", "a str");
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
  options.flight_recorder = given.flightRecorder ? given.flightRecorder->c_str() : nullptr;
  options.flight_recorder_signal = given.flightRecorderSignal;
  if (!allocator.is_none())
    // NOLINTNEXTLINE(performance-no-int-to-ptr): Python has addresses as integers
    options.allocator = reinterpret_cast<const tandem_allocator *>(
        castTo<uintptr_t>(allocator.attr("tandem_allocator"), "allocator",
                          "an object whose tandem_allocator is an address"));
  options.log = log;
  options.log_user = this;
  tandem_launch launch = {};
  launch.struct_size = sizeof launch;
  if (world) {
    if (!given.bootstrap.is_none())
      raiseArgument("expected a bootstrap or a local world, found both");
    if (!given.rank && world->size > 1)
      raiseArgument("world: expected a rank, too, found none");
    options.local_world = world->handle;
    options.local_world_rank = rank = given.rank.value_or(0);
    worldSize = world->size;
  } else if (!given.bootstrap.is_none()) {
    readBootstrap(given.bootstrap, launch);
    options.launch = &launch;
  } else {
    joinJob();
    options.launch = tandem_job_launch(job);
  }
  if (!world && given.rank && *given.rank != rank) {
    tandem_job_destroy(std::exchange(job, nullptr));
    raiseArgument("rank: expected that of the " +
                  std::string(given.bootstrap.is_none() ? "launcher" : "bootstrap") + ", " +
                  std::to_string(rank) + ", without a world, found " + std::to_string(*given.rank));
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
  raisePending();
  raise(code, message);
}

RuntimeContext::~RuntimeContext() {
  close();
  if (raised)
    raised->discard_as_unraisable("the end of a context");
}

void RuntimeContext::add(const std::shared_ptr<ContextPart> &part) {
  // Those that are gone leave their places.
  for (std::weak_ptr<ContextPart> &place : parts)
    if (place.expired()) {
      place = part;
      return;
    }
  parts.push_back(part);
}

bool RuntimeContext::isInCallback() const {
  for (const CallbackScope *scope = CallbackScope::innermost; scope; scope = scope->outer)
    if (&scope->context == this)
      return true;
  return false;
}

void RuntimeContext::end(tandem_instance *instance, tandem_program *program) {
  ended.emplace_back(instance, program);
  if (isInCallback())
    return;
  auto all = std::exchange(ended, {});
  nb::gil_scoped_release unlocked;
  for (auto [oneInstance, oneProgram] : all) {
    tandem_instance_destroy(oneInstance);
    tandem_program_destroy(oneProgram);
  }
}

bool RuntimeContext::tryClose() {
  if (pid != getpid()) // the parent's, and some thread of it may use it
    return true;
  if (!mutex.try_lock())
    return false;
  close();
  mutex.unlock();
  return true;
}

void RuntimeContext::close() {
  CallScope call(std::nothrow);
  ContextLock lock(*this); // the run of another thread ends before
  end(nullptr, nullptr);
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
  // They may refer to this object.
  auto functions = std::exchange(kernels, {});
  gatherCallback = barrierCallback = nb::object();
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

void RuntimeContext::raisePending() {
  if (!raised)
    return;
  nb::python_error error(std::move(*raised));
  raised.reset();
  throw error;
}

void RuntimeContext::check(tandem_code code) {
  if (code == TANDEM_OK)
    return;
  raisePending();
  // A failed exchange says more than that a callback failed.
  raise(code, job && *tandem_job_error(job) ? tandem_job_error(job) : tandem_last_error(handle));
}

static constexpr const char *kContextDoc =
    R"(This rank's device, channels and connections to the other ranks. Threads that share it use it one
after another. Collective. `with context:` makes it the thread's current one.

Args:
    device: "cpu", "cuda" (GPU: local rank modulo the number of GPUs) or "cuda:1".
    channels: Comma-separated, first choice first. Default: "local" for threads, "ucx" for processes,
        "peer,ccl" for GPUs.
    world, rank: A World, and the rank in it.
    bootstrap: An object with rank, world_size, optionally local_rank and local_size, and node,
        all_gather(bytes) -> [bytes] and barrier(). Without it and a world: the job of torchrun, mpirun
        or srun, else a world of one rank.
    timeout: Seconds until a run that makes no progress is ended.
    matmul_threads: Threads of a product on the CPU; 0: one.
    graphs: Capture runs of GPUs in graphs.
    require_proof: Reject programs without a complete certificate.
    no_native: Reject programs with native code (PTX, code objects of AMD GPUs).
    allocator: An object whose attribute tandem_allocator is the address of that struct
        (tandem-c/Context.h), in place of the device's memory; the context keeps the object.
    flight_recorder: Keeps the file "<flight_recorder>.rank<rank>" up to date: what this rank is doing
        (docs/operations.md, "Hang reports"). Default: TANDEM_FLIGHT_RECORDER.
    flight_recorder_signal: A signal upon which it writes the file, such as signal.SIGUSR1. Default:
        TANDEM_FLIGHT_RECORDER_SIGNAL.

Raises ArgumentError for bad options, Error if the device, a channel or another rank is not there, and
what the bootstrap raises.

Example:
    with tandem.Context("cuda") as context:
        y = program(x, w)
)";

static std::shared_ptr<RuntimeContext>
makeContext(const std::string &device, const std::string &channels, std::shared_ptr<World> world,
            std::optional<uint32_t> rank, nb::object bootstrap, double timeout,
            uint32_t matmulThreads, bool graphs, bool requireProof, bool noNative,
            nb::object allocator, std::optional<std::string> flightRecorder,
            uint32_t flightRecorderSignal) {
  CallScope call;
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
  options.flightRecorder = std::move(flightRecorder);
  options.flightRecorderSignal = flightRecorderSignal;
  auto made = std::make_shared<RuntimeContext>(options);
  contexts().push_back(made);
  return made;
}

/// Calls `fill` with a function for the text and its argument, and reads the text.
template <typename Fill> static nb::object readJson(const Fill &fill) {
  std::string text;
  fill([](void *user, const char *json,
          size_t size) { static_cast<std::string *>(user)->assign(json, size); },
       &text);
  return nb::module_::import_("json").attr("loads")(text);
}

static void bindContext(nb::module_ &module) {
  module.def(
      "hang_report",
      [](const std::string &prefix) {
        return readJson([&](auto write, void *user) {
          if (tandem_code code = tandem_hang_report(prefix.c_str(), 0, nullptr, write, user))
            raise(code, "hang_report: no file of a flight recorder: " + prefix + ".rank0, ...");
        });
      },
      nb::arg("prefix"));
  nb::class_<RuntimeContext>(module, "Context", kContextDoc)
      .def(nb::new_(&makeContext), nb::arg("device") = "cpu", nb::arg("channels") = "",
           nb::kw_only(), nb::arg("world") = nb::none(), nb::arg("rank") = nb::none(),
           nb::arg("bootstrap") = nb::none(), nb::arg("timeout") = 60.0,
           nb::arg("matmul_threads") = 0, nb::arg("graphs") = true,
           nb::arg("require_proof") = false, nb::arg("no_native") = false,
           nb::arg("allocator") = nb::none(), nb::arg("flight_recorder") = nb::none(),
           nb::arg("flight_recorder_signal") = 0)
      .def_ro("rank", &RuntimeContext::rank)
      .def_ro("world_size", &RuntimeContext::worldSize)
      .def_ro("device", &RuntimeContext::device)
      .def_ro("channels", &RuntimeContext::channels)
      .def_ro("allocator", &RuntimeContext::allocator)
      .def_prop_ro("description", &RuntimeContext::description)
      .def(
          "close",
          [](RuntimeContext &context) {
            CallScope call;
            context.close();
            context.raisePending();
          },
          "Ends what was made from the context, and the context. Waits for no other rank.")
      .def_prop_ro(
          "compares_runs",
          [](RuntimeContext &context) { return tandem_context_compares_runs(context.get()) != 0; })
      .def(
          "agree",
          [](RuntimeContext &context, const char *call) {
            CallScope scope;
            ContextLock lock(context);
            tandem_code code = TANDEM_OK;
            {
              nb::gil_scoped_release unlocked; // an error tells the other ranks
              code = tandem_context_agree(context.get(), call);
            }
            context.check(code);
          },
          nb::arg("call"),
          "All ranks are about to do what `call` says, between the same runs; else an error.")
      .def(
          "check_health",
          [](RuntimeContext &context) { context.check(tandem_context_health(context.get())); },
          "Raises the error of the failed run after which the context cannot be used.")
      .def(
          "dump",
          [](RuntimeContext &context) {
            return readJson([&](auto write, void *user) {
              tandem_code code = TANDEM_OK;
              {
                nb::gil_scoped_release unlocked; // it may call the functions of a bootstrap
                code = tandem_context_dump(context.get(), nullptr, write, user);
              }
              context.check(code);
            });
          },
          "What this rank is doing (docs/operations.md, \"Hang reports\"). Any thread, also while "
          "another one waits for a run.")
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
}

void tandem::python::bindContexts(nb::module_ &module) {
  nb::class_<World>(module, "World",
                    "Ranks that are threads of this process. Each has a Context(world=..., "
                    "rank=...); tandem.local_world makes them.")
      .def(nb::init<uint32_t, double>(), nb::arg("size"), nb::arg("timeout") = 60.0)
      .def_ro("size", &World::size);

  bindContext(module);

  module.def(
      "node",
      [] {
        char text[4096];
        if (tandem_code code = tandem_node(text, sizeof text); code != TANDEM_OK)
          raise(code, "TANDEM_NODE: expected a name of at most 4000 bytes");
        return std::string(text);
      },
      "A text that is equal on the processes of one host, and only there.");
  // A child has this thread only.
  pthread_atfork(nullptr, nullptr, [] { calls = callsOfThread > 0; });
  module.def("end", &endCalls);
  module.def("current_context", &currentContext,
             "The context of this thread: that of the innermost `with`, else that of tandem.init; "
             "None if there is none.");
  module.def(
      "set_process_context",
      [](std::shared_ptr<RuntimeContext> context) { processContext() = std::move(context); },
      nb::arg("context").none());
}
