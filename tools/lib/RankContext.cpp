//===- RankContext.cpp - one rank's context of the C API --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RankContext.h"

#include "tandem/Program/Printable.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <sched.h>

using namespace tandem;
using namespace tandem::run;

/// Cores of this process, shared among the ranks of the node.
static uint32_t matmulThreads(const Bootstrap &bootstrap, bool threads) {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set))
    return 1;
  auto cores = static_cast<uint32_t>(CPU_COUNT(&set));
  return std::max(1u,
                  cores / std::max(1u, threads ? bootstrap.worldSize() : bootstrap.localSize()));
}

Expected<std::unique_ptr<RankContext>> RankContext::create(const ContextRequest &request,
                                                           Bootstrap &bootstrap,
                                                           tandem_local_world *world) {
  std::unique_ptr<RankContext> self(new RankContext(bootstrap));
  tandem_launch callbacks{};
  callbacks.struct_size = sizeof callbacks;
  callbacks.rank = bootstrap.rank();
  callbacks.world_size = bootstrap.worldSize();
  callbacks.local_rank = bootstrap.localRank();
  callbacks.local_size = bootstrap.localSize();
  callbacks.user = self.get();
  callbacks.all_gather = [](void *user, const void *mine, size_t bytes, void *all) {
    auto *context = static_cast<RankContext *>(user);
    context->bootstrapError = context->bootstrap.allGather(mine, bytes, all);
    return static_cast<int>(context->bootstrapError.code());
  };
  callbacks.barrier = [](void *user) {
    auto *context = static_cast<RankContext *>(user);
    context->bootstrapError = context->bootstrap.barrier();
    return static_cast<int>(context->bootstrapError.code());
  };
  callbacks.health = [](void *user, char *reason, size_t size) {
    Status status = static_cast<RankContext *>(user)->bootstrap.health();
    if (!status.ok() && size > 0)
      reason[status.message().copy(reason, size - 1)] = 0;
    return static_cast<int>(status.code());
  };
  callbacks.give_up = [](void *user, const char *reason) {
    static_cast<RankContext *>(user)->bootstrap.giveUp(Status(Code::Aborted, reason));
  };
  callbacks.note_begun = [](void *user, uint64_t runs) {
    static_cast<RankContext *>(user)->bootstrap.noteBegun(runs);
  };
  callbacks.begun_by_all = [](void *user) {
    return static_cast<RankContext *>(user)->bootstrap.begunByAll();
  };
  callbacks.late = [](void *user, uint64_t runs, char *text, size_t size) {
    std::string late = static_cast<RankContext *>(user)->bootstrap.late(runs);
    if (size > 0)
      text[late.copy(text, size - 1)] = 0;
  };
  std::string node = bootstrap.host();
  callbacks.node = node.c_str();
  tandem_context_options options{};
  options.struct_size = sizeof(options);
  options.device = request.device.c_str();
  options.channels = request.channels.c_str();
  if (world) {
    options.local_world = world;
    options.local_world_rank = bootstrap.rank();
  } else if (bootstrap.worldSize() > 1) {
    options.launch = &callbacks;
  }
  options.timeout_ms = static_cast<uint32_t>(request.timeout.count());
  options.no_graphs = request.noGraph;
  options.link = request.link.empty() ? nullptr : request.link.c_str();
  if (!request.flightRecorder.empty()) {
    options.flight_recorder = request.flightRecorder.c_str();
    options.flight_recorder_signal = SIGUSR1;
  }
  options.matmul_threads = matmulThreads(bootstrap, world != nullptr);
  options.log = [](void *, tandem_log_level, const char *message) {
    fmt::print(stderr, "tandem: {}\n", escapeControls(message));
  };
  self->gpu = request.device.compare(0, 4, "cuda") == 0 || request.device.compare(0, 3, "hip") == 0;
  TANDEM_RETURN_IF_ERROR(self->check(tandem_context_create(&options, &self->context)));
  for (const tandem_kernel *kernel : request.kernels)
    TANDEM_RETURN_IF_ERROR(self->check(tandem_register_kernel(self->context, kernel)));
  return self;
}

RankContext::~RankContext() {
  if (context)
    tandem_context_destroy(context);
}

Status RankContext::check(tandem_code code) const {
  if (code == TANDEM_OK)
    return Status::success();
  std::string said = tandem_last_error(context);
  if (bootstrapError.ok())
    return Status(static_cast<Code>(code), said);
  // With the reason, the runtime's message also tells what this rank was doing.
  bool hasReason = said.find(bootstrapError.message()) != std::string::npos;
  return Status(bootstrapError.code(), hasReason ? said : bootstrapError.message());
}

Expected<std::unique_ptr<PreparedProgram>> PreparedProgram::create(RankContext &context,
                                                                   std::string_view bytes) {
  std::unique_ptr<PreparedProgram> self(new PreparedProgram(context));
  TANDEM_RETURN_IF_ERROR(context.check(
      tandem_program_load_memory(context.handle(), bytes.data(), bytes.size(), &self->program)));
  TANDEM_RETURN_IF_ERROR(
      context.check(tandem_prepare(context.handle(), self->program, &self->prepared)));
  return self;
}

PreparedProgram::~PreparedProgram() {
  if (prepared)
    tandem_instance_destroy(prepared);
  if (program)
    tandem_program_destroy(program);
}

Expected<std::unique_ptr<BoundMemory>> BoundMemory::create(RankContext &context, uint64_t bytes) {
  std::unique_ptr<BoundMemory> self(new BoundMemory(context, bytes));
  if (!context.isGpu())
    self->host = std::make_unique<std::byte[]>(bytes);
  else
    TANDEM_RETURN_IF_ERROR(
        context.check(tandem_memory_create(context.handle(), bytes, &self->device)));
  return self;
}

BoundMemory::~BoundMemory() {
  if (device)
    tandem_memory_destroy(device);
}

void *BoundMemory::data() { return device ? tandem_memory_data(device) : host.get(); }

Status BoundMemory::write(const void *from) { return write(from, 0, bytes); }

Status BoundMemory::write(const void *from, uint64_t offset, uint64_t count) {
  if (device)
    return owner.check(tandem_memory_write(device, offset, from, count));
  if (count)
    std::memcpy(host.get() + offset, from, count);
  return Status::success();
}

Status BoundMemory::read(void *to, uint64_t offset, uint64_t count) {
  if (device)
    return owner.check(tandem_memory_read(device, offset, to, count));
  if (count)
    std::memcpy(to, host.get() + offset, count);
  return Status::success();
}
