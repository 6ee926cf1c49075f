//===- RankContext.h - one rank's context of the C API ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_RANKCONTEXT_H
#define TANDEM_RUN_RANKCONTEXT_H

#include "KernelLibrary.h"
#include "tandem-c/Runtime.h"
#include "tandem/Runtime/Bootstrap.h"

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

namespace tandem::run {

struct ContextRequest {
  std::string device, channels;
  std::chrono::milliseconds timeout{60000};
  bool noGraph = false;
  KernelList kernels = {};         ///< to be registered
  std::string link = {};           ///< "2GB/s,20us"; "": not shaped
  std::string flightRecorder = {}; ///< the prefix of its files; "": none. SIGUSR1 writes them
};

/// Tools use the runtime through its C API, as an embedder would.
class RankContext {
public:
  /// Collective. `world`: ranks are threads of it; null: processes. Both outlive the context.
  static Expected<std::unique_ptr<RankContext>>
  create(const ContextRequest &request, Bootstrap &bootstrap, tandem_local_world *world);
  ~RankContext();
  RankContext(const RankContext &) = delete;
  RankContext &operator=(const RankContext &) = delete;

  tandem_context *handle() const { return context; }
  /// What a call said; what the bootstrap had to say is better than "the callback returned 5".
  Status check(tandem_code code) const;
  bool isGpu() const { return gpu; }

private:
  explicit RankContext(Bootstrap &bootstrap) : bootstrap(bootstrap) {}

  Bootstrap &bootstrap;
  Status bootstrapError;
  tandem_context *context = nullptr;
  bool gpu = false;
};

/// A program of a context, prepared, with what it is bound to. Destroyed before its context.
class PreparedProgram {
public:
  /// Collective.
  static Expected<std::unique_ptr<PreparedProgram>> create(RankContext &context,
                                                           std::string_view bytes);
  ~PreparedProgram();
  PreparedProgram(const PreparedProgram &) = delete;
  PreparedProgram &operator=(const PreparedProgram &) = delete;

  RankContext &context() const { return owner; }
  tandem_instance *instance() const { return prepared; }

private:
  explicit PreparedProgram(RankContext &owner) : owner(owner) {}

  RankContext &owner;
  tandem_program *program = nullptr;
  tandem_instance *prepared = nullptr;
};

/// Memory that a rank binds: the host's where the device takes that, else a copy of it on the
/// device. Destroyed before its context.
class BoundMemory {
public:
  static Expected<std::unique_ptr<BoundMemory>> create(RankContext &context, uint64_t bytes);
  ~BoundMemory();
  BoundMemory(const BoundMemory &) = delete;
  BoundMemory &operator=(const BoundMemory &) = delete;

  /// What tandem_bind takes; null if there are no bytes.
  void *data();
  uint64_t size() const { return bytes; }
  Status write(const void *from);
  /// `count` bytes, from byte `offset` on.
  Status write(const void *from, uint64_t offset, uint64_t count);
  /// `count` bytes, from byte `offset` on.
  Status read(void *to, uint64_t offset, uint64_t count);

private:
  BoundMemory(RankContext &owner, uint64_t bytes) : owner(owner), bytes(bytes) {}

  RankContext &owner;
  uint64_t bytes;
  std::unique_ptr<std::byte[]> host;
  tandem_memory *device = nullptr;
};

} // namespace tandem::run

#endif // TANDEM_RUN_RANKCONTEXT_H
