//===- CContext.cpp - tandem-c/Context.h and Base.h ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FlightRecorder.h"

#include "tandem/Program/Printable.h"
#include "tandem/Runtime/Environment.h"
#include "tandem/Runtime/Link.h"
#include "tandem/Runtime/Registry.h"

#include <atomic>
#include <cstdlib>
#include <fmt/format.h>
#include <pthread.h>
#include <thread>
#include <unistd.h>

using namespace tandem;
using namespace tandem::capi;

static_assert(
    TANDEM_F32 == static_cast<int>(DType::F32) && TANDEM_F16 == static_cast<int>(DType::F16) &&
    TANDEM_BF16 == static_cast<int>(DType::BF16) && TANDEM_I32 == static_cast<int>(DType::I32) &&
    TANDEM_F64 == static_cast<int>(DType::F64) && TANDEM_I64 == static_cast<int>(DType::I64) &&
    TANDEM_I8 == static_cast<int>(DType::I8) && TANDEM_I1 == static_cast<int>(DType::I1) &&
    TANDEM_I16 == static_cast<int>(DType::I16) &&
    TANDEM_F8E4M3FN == static_cast<int>(DType::F8E4M3FN) &&
    TANDEM_F8E5M2 == static_cast<int>(DType::F8E5M2));
static_assert(TANDEM_INVALID_ARGUMENT == static_cast<int>(Code::InvalidArgument) &&
              TANDEM_INVALID_PROGRAM == static_cast<int>(Code::InvalidProgram) &&
              TANDEM_UNSUPPORTED == static_cast<int>(Code::Unsupported) &&
              TANDEM_OUT_OF_MEMORY == static_cast<int>(Code::OutOfMemory) &&
              TANDEM_IO == static_cast<int>(Code::Io) &&
              TANDEM_TIMEOUT == static_cast<int>(Code::Timeout) &&
              TANDEM_ABORTED == static_cast<int>(Code::Aborted) &&
              TANDEM_INTERNAL == static_cast<int>(Code::Internal));
static_assert(TANDEM_LOG_WARNING == static_cast<int>(LogLevel::Warning) &&
              TANDEM_LOG_INFO == static_cast<int>(LogLevel::Info));
static_assert(TANDEM_NO_PADDING_AFTER(tandem_launch, late) &&
              TANDEM_NO_PADDING_AFTER(tandem_allocator, leaves_symmetric) &&
              TANDEM_NO_PADDING_AFTER(tandem_context_options, flight_recorder_signal));

namespace {

/// The caller's options, and the launch that they point to.
struct Options {
  tandem_context_options options;
  tandem_launch launch;

  Status read(const tandem_context_options *given) {
    TANDEM_RETURN_IF_ERROR(readStruct(given, "tandem_context_options", options));
    if (!options.launch)
      return Status();
    TANDEM_RETURN_IF_ERROR(readStruct(options.launch, "tandem_launch", launch));
    options.launch = &launch;
    return Status();
  }
};

Expected<std::unique_ptr<Bootstrap>> makeBootstrap(const tandem_context_options &options,
                                                   ContextState &context) {
  if (options.local_world) {
    if (options.launch)
      return Status(Code::InvalidArgument, "expected a bootstrap or a local world, found both");
    return options.local_world->world->bootstrap(options.local_world_rank);
  }
  if (!options.launch)
    return createSelfBootstrap();
  const tandem_launch launch = *options.launch;
  BootstrapCallbacks callbacks;
  callbacks.rank = launch.rank;
  callbacks.worldSize = launch.world_size;
  bool nodeKnown = launch.local_size != 0;
  callbacks.localRank = nodeKnown ? launch.local_rank : launch.rank;
  callbacks.localSize = nodeKnown ? launch.local_size : launch.world_size;
  if (launch.all_gather)
    callbacks.allGather = [launch, &context, job = jobOf(launch)](const void *mine, size_t bytes,
                                                                  void *all) {
      return callback(context, "tandem_launch.all_gather", 1,
                      [&] { return launch.all_gather(launch.user, mine, bytes, all); });
    };
  if (launch.barrier)
    callbacks.barrier = [launch, &context] {
      return callback(context, "tandem_launch.barrier", 1,
                      [&] { return launch.barrier(launch.user); });
    };
  if (launch.node)
    callbacks.node = launch.node;
  if (launch.health)
    callbacks.health = [launch, &context] {
      char reason[1024] = "tandem_launch.health has thrown";
      int ended = callback(context, "tandem_launch.health", 1, [&] {
        char text[sizeof reason] = "";
        int code = launch.health(launch.user, text, sizeof text);
        text[sizeof text - 1] = 0;
        std::memcpy(reason, text, sizeof text);
        return code;
      });
      return ended ? Status(Code::Aborted, reason) : Status();
    };
  if (launch.give_up)
    callbacks.giveUp = [launch, &context](const Status &reason) {
      callback(context, "tandem_launch.give_up", 0, [&] {
        launch.give_up(launch.user, reason.message().c_str());
        return 0;
      });
    };
  if (launch.note_begun && launch.begun_by_all) {
    callbacks.noteBegun = [launch, &context](uint64_t runs) {
      callback(context, "tandem_launch.note_begun", 0, [&] {
        launch.note_begun(launch.user, runs);
        return 0;
      });
    };
    callbacks.begunByAll = [launch, &context] {
      return callback(context, "tandem_launch.begun_by_all", Bootstrap::kUnknown,
                      [&] { return launch.begun_by_all(launch.user); });
    };
  }
  if (launch.late)
    callbacks.late = [launch, &context](uint64_t runs) {
      return callback(context, "tandem_launch.late", std::string(), [&] {
        char text[1024] = "";
        launch.late(launch.user, runs, text, sizeof text);
        text[sizeof text - 1] = 0;
        return std::string(text);
      });
    };
  return createCallbackBootstrap(std::move(callbacks));
}

Status makeTransports(const tandem_context_options &options, ContextOptions &result) {
  std::string_view names = options.channels ? options.channels : "";
  std::vector<std::string> classes;
  bool hasClasses = false;
  std::shared_ptr<Link> link;
  if (options.link) {
    auto shape = LinkShape::parse(options.link);
    if (!shape)
      return shape.status().withPrefix("link: ");
    link = makeLink(*shape);
  }
  auto add = [&](std::unique_ptr<Transport> transport) {
    result.transports.push_back(link ? shapeTransport(std::move(transport), link)
                                     : std::move(transport));
  };
  while (!names.empty()) {
    std::string_view name = names.substr(0, names.find(','));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    size_t colon = name.find(':');
    std::string_view linkClass = name.substr(0, colon == name.npos ? 0 : colon);
    if (colon != name.npos && linkClass != "node" && linkClass != "network")
      return Status(Code::InvalidArgument,
                    fmt::format("channel \"{}\": expected node: or network:, found \"{}:\"", name,
                                linkClass));
    name.remove_prefix(colon == name.npos ? 0 : colon + 1);
    hasClasses |= !linkClass.empty();
    classes.emplace_back(linkClass);
    if (name == "local" && options.local_world) {
      add(options.local_world->world->transport(options.local_world_rank));
      continue;
    }
    if (link && name != "ucx")
      return Status(Code::Unsupported,
                    fmt::format("link \"{}\": expected channel local or ucx, found \"{}\"",
                                options.link, name));
    TANDEM_ASSIGN_OR_RETURN(auto transport, createTransport(name));
    add(std::move(transport));
  }
  if (hasClasses)
    result.linkClasses = std::move(classes);
  return Status();
}

tandem_memory_kind kindOf(MemoryKind kind) {
  return kind == MemoryKind::Symmetric   ? TANDEM_MEMORY_SYMMETRIC
         : kind == MemoryKind::Workspace ? TANDEM_MEMORY_WORKSPACE
                                         : TANDEM_MEMORY_ARENA;
}

Expected<std::shared_ptr<const Allocator>> makeAllocator(const tandem_allocator *given,
                                                         ContextState &context) {
  tandem_allocator from;
  TANDEM_RETURN_IF_ERROR(readStruct(given, "tandem_allocator", from));
  if (!from.allocate || !from.deallocate)
    return Status(Code::InvalidArgument,
                  "tandem_allocator: expected functions to allocate and deallocate");
  auto made = std::make_shared<Allocator>();
  made->allocate = [from, &context](uint64_t bytes, MemoryKind kind) {
    return callback(context, "tandem_allocator.allocate", static_cast<void *>(nullptr),
                    [&] { return from.allocate(from.user, bytes, kindOf(kind)); });
  };
  made->free = [from, &context](void *memory, uint64_t bytes, MemoryKind kind) {
    callback(context, "tandem_allocator.deallocate", 0, [&] {
      from.deallocate(from.user, memory, bytes, kindOf(kind));
      return 0;
    });
  };
  made->leavesSymmetric = from.leaves_symmetric != 0;
  return std::shared_ptr<const Allocator>(std::move(made));
}

/// A kernel's function, called as a callback of its context. What it throws is left to callKernel.
template <tandem_kernel_function tandem_kernel::*function>
int runKernel(void *user, const tandem_kernel_call *call) {
  const auto &[context, kernel] = *static_cast<const RegisteredKernel *>(user);
  CallbackScope scope(*context);
  return (kernel.*function)(kernel.user, call);
}

Status registerKernel(ContextState &context, const tandem_kernel *given) {
  if (!given)
    return missing("kernel");
  tandem_kernel kernel;
  TANDEM_RETURN_IF_ERROR(readStruct(given, "tandem_kernel", kernel));
  context.kernels.push_back({&context, kernel});
  kernel.user = &context.kernels.back();
  if (kernel.cpu_function)
    kernel.cpu_function = runKernel<&tandem_kernel::cpu_function>;
  if (kernel.gpu_function)
    kernel.gpu_function = runKernel<&tandem_kernel::gpu_function>;
  return context.context->registerKernel(kernel);
}

Status createContext(const tandem_context_options *given, ContextState &context) {
  TANDEM_RETURN_IF_ERROR(checkRuntimeEnvironment());
  Options read;
  TANDEM_RETURN_IF_ERROR(read.read(given));
  const tandem_context_options &options = read.options;
  ContextOptions result;
  CpuDeviceOptions cpu;
  cpu.matmulThreads = options.matmul_threads ? options.matmul_threads : 1;
  uint32_t localRank = options.local_world          ? options.local_world_rank
                       : !options.launch            ? 0
                       : options.launch->local_size ? options.launch->local_rank
                                                    : options.launch->rank;
  TANDEM_ASSIGN_OR_RETURN(result.device,
                          createDevice(options.device ? options.device : "cpu", cpu, localRank));
  if (options.local_world) {
    // Check first: a bad rank could not leave the world's bootstrap.
    TANDEM_RETURN_IF_ERROR(options.local_world->world->checkRank(options.local_world_rank));
  }
  TANDEM_ASSIGN_OR_RETURN(result.bootstrap, makeBootstrap(options, context));
  context.rank = result.bootstrap->rank();
  TANDEM_RETURN_IF_ERROR(makeTransports(options, result));
  if (options.timeout_ms)
    result.timeout = std::chrono::milliseconds(options.timeout_ms);
  result.graphs = options.no_graphs == 0;
  result.shareMemory = options.separate_memory == 0;
  if (options.allocator) {
    TANDEM_ASSIGN_OR_RETURN(result.allocator, makeAllocator(options.allocator, context));
  }
  if (options.log) {
    result.log = Log([log = options.log, user = options.log_user,
                      &context](LogLevel level, const std::string &message) {
      callback(context, "tandem_context_options.log", 0, [&] {
        log(user, static_cast<tandem_log_level>(level), escapeControls(message).c_str());
        return 0;
      });
    });
    if (std::string warning = options.launch ? takeWarning(*options.launch) : ""; !warning.empty())
      result.log(LogLevel::Warning, warning);
  }
  context.requiresProof = options.require_proof != 0;
  context.refusesNative = options.no_native != 0;
  TANDEM_ASSIGN_OR_RETURN(auto made, Context::create(std::move(result)));
  TANDEM_RETURN_IF_ERROR(context.withThrown(Status()));
  context.context = std::move(made);
  const char *prefix =
      options.flight_recorder ? options.flight_recorder : std::getenv("TANDEM_FLIGHT_RECORDER");
  if (!prefix || !*prefix)
    return Status();
  auto recorder = FlightRecorder::create(context, prefix, options.flight_recorder_signal);
  if (recorder)
    context.recorder = std::move(*recorder);
  else
    context.context.reset();
  return recorder.status().withPrefix("the flight recorder: ");
}

std::atomic<uint64_t> forksOfThis{0};

} // namespace

ContextState::ContextState() : programs(std::make_unique<DumpPrograms>()) {}

ContextState::~ContextState() {
  if (recorder)
    recorder->stop();
}

void ContextState::noteFailure(const Status &status) {
  {
    std::lock_guard<std::mutex> lock(errorMutex);
    lastError = status.message();
  }
  if (recorder)
    recorder->update(false).ignore(); // the disk may be full
}

void ContextState::noteThrown(const char *name) noexcept {
  try {
    std::string what;
    try {
      throw;
    } catch (const std::exception &error) {
      what = error.what();
    } catch (...) {
      what = "an object that is no std::exception";
    }
    what = fmt::format("{} has thrown {}", name, what);
    if (CallScope *call = CallScope::find(*this)) {
      call->thrown = std::move(what);
      return;
    }
    std::lock_guard<std::mutex> lock(errorMutex);
    thrown = std::move(what);
    hasThrown = true;
  } catch (const std::exception &) { // no memory for the words
    hasThrown = true;
  }
}

Status ContextState::withThrown(Status status, bool isQuery) {
  std::string what = std::exchange(CallScope::find(*this)->thrown, {});
  if (what.empty() && (isQuery || !hasThrown.load(std::memory_order_relaxed)))
    return status;
  if (what.empty()) {
    std::lock_guard<std::mutex> lock(errorMutex);
    hasThrown = false;
    what = std::exchange(thrown, {});
  }
  return status.ok() ? Status(Code::Internal, what)
                     : Status(status.code(), status.message() + ": " + what);
}

CallScope::~CallScope() {
  innermost = outer;
  for (const std::function<void()> &body : ended)
    body();
}

void CallScope::later(std::function<void()> body) noexcept {
  CallScope *outermost = innermost;
  while (outermost && outermost->outer)
    outermost = outermost->outer;
  try {
    if (outermost)
      outermost->ended.push_back(std::move(body));
    else
      std::thread(std::move(body)).detach();
  } catch (const std::exception &) {
    return; // no memory, or no thread: the handle is never destroyed
  }
}

Owner::Owner() : pid(getpid()), forks(forksNow()) {
  // Without memory for it, a child's calls are what they were without the check.
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { ++forksOfThis; });
}

uint64_t Owner::forksNow() { return forksOfThis.load(std::memory_order_relaxed); }

extern "C" {

uint32_t tandem_runtime_version(void) { return TANDEM_VERSION; }
const char *tandem_runtime_version_string(void) { return TANDEM_VERSION_STRING; }

const char *tandem_code_name(tandem_code code) {
  return toString(static_cast<Code>(code)).data(); // literals: null-terminated
}

tandem_code tandem_local_world_create(uint32_t worldSize, uint32_t timeoutMs,
                                      tandem_local_world **world) {
  return guarded(nullptr, [&]() -> Status {
    if (!world || worldSize == 0 || worldSize > 65536)
      return Status(Code::InvalidArgument, "expected a size of 1 to 65536 and a non-null world");
    auto made = std::make_unique<tandem_local_world>();
    made->world =
        LocalWorld::create(worldSize, std::chrono::milliseconds(timeoutMs ? timeoutMs : 60000));
    *world = made.release();
    return Status();
  });
}

void tandem_local_world_destroy(tandem_local_world *world) {
  if (world && !world->owner.isParent())
    delete world;
}

tandem_code tandem_context_create(const tandem_context_options *options, tandem_context **context) {
  if (!context)
    return TANDEM_INVALID_ARGUMENT;
  *context = nullptr;
  tandem_code made = guarded(nullptr, [&] {
    *context = new tandem_context;
    return Status();
  });
  if (made != TANDEM_OK)
    return made;
  ContextState &state = *(*context)->state;
  return guarded(&state, [&] { return createContext(options, state); });
}

void tandem_context_destroy(tandem_context *context) {
  if (context)
    destroy(context, *context->state);
}

const char *tandem_last_error(const tandem_context *context) {
  if (!context)
    return "no context";
  thread_local std::string copy; // another thread may replace the message
  try {
    if (const Owner &owner = context->state->owner; owner.isParent()) {
      copy = fmt::format("expected a call from process {}, which made the context, found one from "
                         "its fork {}: make a context of its own there",
                         owner.pid, getpid());
      return copy.c_str();
    }
    std::lock_guard<std::mutex> lock(context->state->errorMutex);
    copy = escapeControls(context->state->lastError);
  } catch (...) {
    return "out of memory";
  }
  return copy.c_str();
}

const char *tandem_context_description(tandem_context *context) {
  (void)guardedBy<InCallback::Allowed>(context, [&]() -> Status {
    if (context->state->description.empty())
      context->state->description = context->state->context->description();
    return Status();
  });
  return context ? context->state->description.c_str() : "";
}

int tandem_context_has_gated_kernels(tandem_context *context) {
  bool has = false;
  (void)guardedBy<InCallback::Allowed>(context, [&]() -> Status {
    has = context->state->context->device().hasGatedKernels();
    return Status();
  });
  return has ? 1 : 0;
}

const char *tandem_context_device(tandem_context *context) {
  (void)guardedBy<InCallback::Allowed>(context, [&]() -> Status {
    if (context->state->device.empty())
      context->state->device = context->state->context->device().name();
    return Status();
  });
  return context ? context->state->device.c_str() : "";
}

int tandem_context_compares_runs(tandem_context *context) {
  bool compares = false;
  (void)guardedBy(context, [&]() -> Status {
    compares = context->state->context->comparesRuns();
    return Status();
  });
  return compares ? 1 : 0;
}

tandem_code tandem_context_agree(tandem_context *context, const char *call) {
  return guardedBy(context, [&]() -> Status {
    if (!call)
      return missing("call");
    return context->state->context->agree(call);
  });
}

tandem_code tandem_context_health(tandem_context *context) {
  return guardedBy<InCallback::Allowed>(context, [&] { return context->state->context->health(); });
}

tandem_code tandem_commands_in_flight(tandem_context *context,
                                      void (*each)(void *user,
                                                   const tandem_command_in_flight *command),
                                      void *user) {
  return guardedBy<InCallback::Allowed>(context, [&]() -> Status {
    if (!each)
      return missing("each");
    for (const CommandInFlight &found : context->state->context->inFlight()) {
      tandem_command_in_flight command = {sizeof command,    found.program.c_str(), found.run,
                                          found.stream,      found.command,         found.isCertain,
                                          found.text.c_str()};
      callback(*context->state, "each", 0, [&] {
        each(user, &command);
        return 0;
      });
    }
    return Status();
  });
}

tandem_code tandem_register_kernel(tandem_context *context, const tandem_kernel *kernel) {
  return guardedBy(context, [&] { return registerKernel(*context->state, kernel); });
}

} // extern "C"
