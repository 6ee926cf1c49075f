//===- CRuntime.cpp - the C API ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem-c/Runtime.h"

#include "tandem/Runtime/Context.h"
#include "tandem/Runtime/Local.h"
#include "tandem/Runtime/Registry.h"

#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <new>

using namespace tandem;

struct tandem_context {
  std::unique_ptr<Context> context; ///< null if its creation failed
  std::string lastError, description;
  bool requiresProof = false; ///< of programs
};

struct tandem_program {
  std::shared_ptr<const Program> program;
};

struct tandem_instance {
  tandem_context *context;
  std::unique_ptr<Instance> instance;
};

struct tandem_stream {
  tandem_context *context;
  std::unique_ptr<Stream> stream;
};

struct tandem_memory {
  tandem_context *context;
  std::unique_ptr<Memory> memory;
};

struct tandem_local_world {
  std::shared_ptr<LocalWorld> world;
};

static_assert(
    TANDEM_F32 == static_cast<int>(DType::F32) && TANDEM_F16 == static_cast<int>(DType::F16) &&
    TANDEM_BF16 == static_cast<int>(DType::BF16) && TANDEM_I32 == static_cast<int>(DType::I32) &&
    TANDEM_F64 == static_cast<int>(DType::F64) && TANDEM_I64 == static_cast<int>(DType::I64) &&
    TANDEM_I8 == static_cast<int>(DType::I8) && TANDEM_I1 == static_cast<int>(DType::I1) &&
    TANDEM_I16 == static_cast<int>(DType::I16));
static_assert(TANDEM_INVALID_ARGUMENT == static_cast<int>(Code::InvalidArgument) &&
              TANDEM_INVALID_PROGRAM == static_cast<int>(Code::InvalidProgram) &&
              TANDEM_UNSUPPORTED == static_cast<int>(Code::Unsupported) &&
              TANDEM_OUT_OF_MEMORY == static_cast<int>(Code::OutOfMemory) &&
              TANDEM_IO == static_cast<int>(Code::Io) &&
              TANDEM_TIMEOUT == static_cast<int>(Code::Timeout) &&
              TANDEM_ABORTED == static_cast<int>(Code::Aborted) &&
              TANDEM_INTERNAL == static_cast<int>(Code::Internal));

// Later versions must not change the end of an earlier version's struct.
static_assert(offsetof(tandem_context_options, no_graphs) == 56 &&
              sizeof(tandem_context_options) ==
                  offsetof(tandem_context_options, require_proof) + sizeof(uint32_t));

namespace {

tandem_code fail(tandem_context *context, const Status &status) {
  if (context && !status.ok())
    context->lastError = status.message();
  return static_cast<tandem_code>(status.code());
}

/// Calls `body`, which returns a Status, and turns exceptions into errors.
template <typename Body> tandem_code guarded(tandem_context *context, Body &&body) noexcept {
  try {
    try {
      return fail(context, body());
    } catch (const std::bad_alloc &) {
      return fail(context, Status(Code::OutOfMemory, "out of memory"));
    } catch (const std::exception &error) {
      return fail(context, Status(Code::Internal, error.what()));
    }
  } catch (...) { // no memory even for the message
    return TANDEM_OUT_OF_MEMORY;
  }
}

Status missing(const char *what) {
  return Status(Code::InvalidArgument, fmt::format("{}: null pointer", what));
}

Expected<std::unique_ptr<Bootstrap>> makeBootstrap(const tandem_context_options &options) {
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
    callbacks.allGather = [launch](const void *mine, size_t bytes, void *all) {
      return launch.all_gather(launch.user, mine, bytes, all);
    };
  if (launch.barrier)
    callbacks.barrier = [launch] { return launch.barrier(launch.user); };
  return createCallbackBootstrap(std::move(callbacks));
}

Status makeTransports(const tandem_context_options &options, ContextOptions &result) {
  std::string_view names = options.channels ? options.channels : "";
  while (!names.empty()) {
    std::string_view name = names.substr(0, names.find(','));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    if (name == "local" && options.local_world) {
      result.transports.push_back(options.local_world->world->transport(options.local_world_rank));
      continue;
    }
    TANDEM_ASSIGN_OR_RETURN(auto transport, createTransport(name));
    result.transports.push_back(std::move(transport));
  }
  return Status();
}

Status createContext(const tandem_context_options *given, tandem_context &context) {
  if (!given)
    return missing("options");
  tandem_context_options options{};
  if (given->struct_size < offsetof(tandem_context_options, launch))
    return Status(Code::InvalidArgument, fmt::format("struct_size: expected {}, found {}",
                                                     sizeof options, given->struct_size));
  std::memcpy(&options, given, std::min(given->struct_size, sizeof options));
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
  TANDEM_ASSIGN_OR_RETURN(result.bootstrap, makeBootstrap(options));
  TANDEM_RETURN_IF_ERROR(makeTransports(options, result));
  if (options.timeout_ms)
    result.timeout = std::chrono::milliseconds(options.timeout_ms);
  result.graphs = options.no_graphs == 0;
  context.requiresProof = options.require_proof != 0;
  TANDEM_ASSIGN_OR_RETURN(context.context, Context::create(std::move(result)));
  return Status();
}

Status load(tandem_context *context, Expected<std::shared_ptr<const ProgramFile>> file,
            tandem_program **program) {
  if (!file)
    return file.status();
  if (context->requiresProof)
    TANDEM_RETURN_IF_ERROR((*file)->requireProof());
  TANDEM_ASSIGN_OR_RETURN(auto loaded, (*file)->rankProgram(context->context->rank()));
  *program = new tandem_program{std::move(loaded)};
  return Status();
}

Status usable(const tandem_context *context) {
  if (!context || !context->context)
    return Status(Code::InvalidArgument, "the context is null, or its creation failed");
  return Status();
}

Status inside(const Memory &memory, uint64_t offset, uint64_t bytes) {
  if (offset <= memory.size() && bytes <= memory.size() - offset)
    return Status();
  return Status(Code::InvalidArgument,
                fmt::format("{} bytes at {} are not inside the {} bytes there", bytes, offset,
                            memory.size()));
}

} // namespace

extern "C" {

const char *tandem_version(void) { return TANDEM_VERSION; }

const char *tandem_code_name(tandem_code code) {
  return toString(static_cast<Code>(code)).data(); // literals: null-terminated
}

tandem_code tandem_local_world_create(uint32_t worldSize, uint32_t timeoutMs,
                                      tandem_local_world **world) {
  return guarded(nullptr, [&]() -> Status {
    if (!world || worldSize == 0)
      return Status(Code::InvalidArgument, "expected a size above 0 and a non-null world");
    *world = new tandem_local_world{
        LocalWorld::create(worldSize, std::chrono::milliseconds(timeoutMs ? timeoutMs : 60000))};
    return Status();
  });
}

void tandem_local_world_destroy(tandem_local_world *world) { delete world; }

tandem_code tandem_context_create(const tandem_context_options *options, tandem_context **context) {
  if (!context)
    return TANDEM_INVALID_ARGUMENT;
  *context = new (std::nothrow) tandem_context;
  if (!*context)
    return TANDEM_OUT_OF_MEMORY;
  return guarded(*context, [&] { return createContext(options, **context); });
}

void tandem_context_destroy(tandem_context *context) { delete context; }

const char *tandem_last_error(const tandem_context *context) {
  return context ? context->lastError.c_str() : "no context";
}

const char *tandem_context_description(tandem_context *context) {
  (void)guarded(context, [&]() -> Status {
    TANDEM_RETURN_IF_ERROR(usable(context));
    if (context->description.empty())
      context->description = context->context->description();
    return Status();
  });
  return context ? context->description.c_str() : "";
}

tandem_code tandem_context_health(tandem_context *context) {
  return guarded(context, [&]() -> Status {
    TANDEM_RETURN_IF_ERROR(usable(context));
    return context->context->health();
  });
}

tandem_code tandem_program_load_file(tandem_context *context, const char *path,
                                     tandem_program **program) {
  return guarded(context, [&]() -> Status {
    TANDEM_RETURN_IF_ERROR(usable(context));
    if (!path || !program)
      return missing("path or program");
    return load(context, ProgramFile::open(path), program);
  });
}

tandem_code tandem_program_load_memory(tandem_context *context, const void *bytes, size_t size,
                                       tandem_program **program) {
  return guarded(context, [&]() -> Status {
    TANDEM_RETURN_IF_ERROR(usable(context));
    if (!bytes || !program)
      return missing("bytes or program");
    return load(context, ProgramFile::fromMemory({static_cast<const char *>(bytes), size}),
                program);
  });
}

void tandem_program_destroy(tandem_program *program) { delete program; }

const char *tandem_program_name(const tandem_program *program) {
  return program ? program->program->name().data() : ""; // FlatBuffers strings are null-terminated
}

uint32_t tandem_program_num_arguments(const tandem_program *program) {
  return program ? static_cast<uint32_t>(program->program->arguments().size()) : 0;
}

tandem_code tandem_program_argument(const tandem_program *program, uint32_t index,
                                    tandem_argument *argument) {
  if (!program || !argument || index >= program->program->arguments().size())
    return TANDEM_INVALID_ARGUMENT;
  const ArgumentInfo &info = program->program->arguments()[index];
  argument->name = info.name.c_str();
  argument->is_result = info.isResult;
  argument->present = info.present;
  argument->dtype = static_cast<tandem_dtype>(info.dtype);
  argument->rank = static_cast<uint32_t>(info.shape.size());
  argument->shape = info.shape.data();
  argument->local_rank = static_cast<uint32_t>(info.localShape.size());
  argument->local_shape = info.localShape.data();
  argument->local_bytes = info.present ? info.localBytes() : 0;
  return TANDEM_OK;
}

tandem_code tandem_prepare(tandem_context *context, const tandem_program *program,
                           tandem_instance **instance) {
  return guarded(context, [&]() -> Status {
    TANDEM_RETURN_IF_ERROR(usable(context));
    if (!program || !instance)
      return missing("program or instance");
    TANDEM_ASSIGN_OR_RETURN(auto made, Instance::create(*context->context, program->program));
    *instance = new tandem_instance{context, std::move(made)};
    return Status();
  });
}

void tandem_instance_destroy(tandem_instance *instance) { delete instance; }

tandem_code tandem_bind(tandem_instance *instance, uint32_t index, void *data, uint64_t bytes,
                        tandem_dtype dtype, uint32_t rank, const int64_t *shape) {
  if (!instance)
    return TANDEM_INVALID_ARGUMENT;
  return guarded(instance->context, [&]() -> Status {
    if (!shape && rank)
      return missing("shape");
    if (static_cast<uint32_t>(dtype) >= kNumDTypes)
      return Status(Code::InvalidArgument,
                    fmt::format("argument {}: unknown dtype {}", index, dtype));
    if (rank > kMaxRank)
      return Status(Code::InvalidArgument,
                    fmt::format("argument {}: expected at most {} dimensions, found {}", index,
                                kMaxRank, rank));
    for (uint32_t d = 0; d < rank; ++d)
      if (shape[d] < 0)
        return Status(Code::InvalidArgument,
                      fmt::format("argument {}: negative extent {}", index, shape[d]));
    Layout layout = Layout::dense(static_cast<DType>(dtype), shape, rank);
    return instance->instance->bind(index, {data, layout}, bytes);
  });
}

tandem_code tandem_run(tandem_instance *instance) {
  if (!instance)
    return TANDEM_INVALID_ARGUMENT;
  return guarded(instance->context, [&] { return instance->instance->run(); });
}

tandem_code tandem_run_on(tandem_instance *instance, tandem_stream *stream) {
  if (!instance)
    return TANDEM_INVALID_ARGUMENT;
  return guarded(instance->context, [&] {
    return instance->instance->enqueue(stream ? stream->stream.get() : nullptr);
  });
}

tandem_code tandem_wait(tandem_instance *instance) {
  if (!instance)
    return TANDEM_INVALID_ARGUMENT;
  return guarded(instance->context, [&] { return instance->instance->wait(); });
}

tandem_code tandem_trace(tandem_instance *instance, int on) {
  if (!instance)
    return TANDEM_INVALID_ARGUMENT;
  return guarded(instance->context, [&] { return instance->instance->trace(on != 0); });
}

tandem_code tandem_command_times(const tandem_instance *instance, const tandem_command_time **times,
                                 uint32_t *count) {
  static_assert(sizeof(tandem_command_time) == sizeof(CommandTime));
  if (!instance || !times || !count)
    return TANDEM_INVALID_ARGUMENT;
  const std::vector<CommandTime> &noted = instance->instance->times();
  *times = reinterpret_cast<const tandem_command_time *>(noted.data());
  *count = static_cast<uint32_t>(noted.size());
  return TANDEM_OK;
}

tandem_code tandem_memory_create(tandem_context *context, uint64_t bytes, tandem_memory **memory) {
  return guarded(context, [&]() -> Status {
    TANDEM_RETURN_IF_ERROR(usable(context));
    if (!memory)
      return missing("memory");
    TANDEM_ASSIGN_OR_RETURN(auto made,
                            context->context->device().allocate(bytes, MemoryKind::Plain));
    *memory = new tandem_memory{context, std::move(made)};
    return Status();
  });
}

void tandem_memory_destroy(tandem_memory *memory) { delete memory; }

void *tandem_memory_data(tandem_memory *memory) {
  return memory ? memory->memory->data() : nullptr;
}

tandem_code tandem_memory_write(tandem_memory *memory, uint64_t offset, const void *from,
                                uint64_t bytes) {
  if (!memory)
    return TANDEM_INVALID_ARGUMENT;
  return guarded(memory->context, [&]() -> Status {
    TANDEM_RETURN_IF_ERROR(inside(*memory->memory, offset, bytes));
    auto *to = static_cast<std::byte *>(memory->memory->data()) + offset;
    return memory->context->context->device().upload(to, from, bytes);
  });
}

tandem_code tandem_memory_read(tandem_memory *memory, uint64_t offset, void *to, uint64_t bytes) {
  if (!memory)
    return TANDEM_INVALID_ARGUMENT;
  return guarded(memory->context, [&]() -> Status {
    TANDEM_RETURN_IF_ERROR(inside(*memory->memory, offset, bytes));
    auto *from = static_cast<const std::byte *>(memory->memory->data()) + offset;
    return memory->context->context->device().download(to, from, bytes);
  });
}

tandem_code tandem_stream_create(tandem_context *context, tandem_stream **stream) {
  return guarded(context, [&]() -> Status {
    TANDEM_RETURN_IF_ERROR(usable(context));
    if (!stream)
      return missing("stream");
    TANDEM_ASSIGN_OR_RETURN(auto made,
                            context->context->device().createStream(StreamPriority::Normal));
    *stream = new tandem_stream{context, std::move(made)};
    return Status();
  });
}

tandem_code tandem_stream_synchronize(tandem_stream *stream) {
  if (!stream)
    return TANDEM_INVALID_ARGUMENT;
  return guarded(stream->context, [&] { return stream->stream->synchronize(); });
}

void tandem_stream_destroy(tandem_stream *stream) { delete stream; }

} // extern "C"
