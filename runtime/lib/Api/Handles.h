//===- Handles.h - what the C API's handles hold ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Handles share ownership of the context, so they may be destroyed in any order. The context ends
// with the last of them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_API_HANDLES_H
#define TANDEM_LIB_API_HANDLES_H

#include "tandem-c/Runtime.h"

#include "tandem/Program/CStruct.h"
#include "tandem/Runtime/Context.h"
#include "tandem/Runtime/Local.h"

#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>

namespace tandem::capi {

/// The process that made a handle. A child that it forks has the handle's memory, but none of its
/// threads: there, calls are errors, and destroying does nothing.
class Owner {
public:
  Owner();
  /// Is this a child of that process?
  bool isParent() const { return forks != forksNow(); }
  const int64_t pid;

private:
  /// How many forks lead from the process that loaded the runtime to this one.
  static uint64_t forksNow();
  const uint64_t forks;
};

struct ContextState {
  const Owner owner;
  std::unique_ptr<Context> context; ///< null if its creation failed
  std::optional<uint32_t> rank;     ///< once it is known
  std::string description, device;
  std::mutex errorMutex; ///< queries of programs may fail in any thread
  std::string lastError;
  bool requiresProof = false; ///< of programs
  bool refusesNative = false; ///< programs with native code
};
using ContextRef = std::shared_ptr<ContextState>;

inline tandem_code fail(ContextState *context, const Status &status) {
  if (context && !status.ok()) {
    std::lock_guard<std::mutex> lock(context->errorMutex);
    context->lastError = status.message();
  }
  return static_cast<tandem_code>(status.code());
}

/// In a catch block: the exception, as an error of the function `call` of the C API.
inline Status caughtIn(const char *call) {
  try {
    throw;
  } catch (const std::bad_alloc &) {
    return Status(Code::OutOfMemory, fmt::format("{}: out of memory", call));
  } catch (const std::system_error &error) {
    bool isThread = error.code() == std::errc::resource_unavailable_try_again;
    return Status(
        Code::Internal,
        fmt::format("{}: {}{}", call, isThread ? "cannot start a thread: " : "", error.what()));
  } catch (const std::exception &error) {
    return Status(Code::Internal, fmt::format("{}: {}", call, error.what()));
  }
}

/// Calls `body`, which returns a Status, and turns exceptions into errors. These name the rank, if
/// it is known, and the calling function of the C API.
template <typename Body>
tandem_code guarded(ContextState *context, Body &&body,
                    const char *call = __builtin_FUNCTION()) noexcept {
  if (context && context->owner.isParent())
    return TANDEM_INVALID_ARGUMENT; // with no lock, which a thread of the parent may have held
  try {
    try {
      return fail(context, body());
    } catch (const std::exception &) {
      Status caught = caughtIn(call);
      if (context && context->rank)
        caught = caught.withPrefix(fmt::format("rank {}: ", *context->rank));
      return fail(context, caught);
    }
  } catch (...) { // no memory even for the message
    return TANDEM_OUT_OF_MEMORY;
  }
}

/// The same for a handle made from a context.
template <typename Handle, typename Body>
tandem_code guardedBy(const Handle *handle, Body &&body,
                      const char *call = __builtin_FUNCTION()) noexcept {
  return handle ? guarded(handle->context.get(), body, call) : TANDEM_INVALID_ARGUMENT;
}

/// What keeps the callbacks' job alive; null if they are the embedder's own.
std::shared_ptr<void> jobOf(const tandem_launch &launch);
/// What the user should know of this job, once; empty: nothing, or the callbacks are the
/// embedder's.
std::string takeWarning(const tandem_launch &launch);

/// Destroys a handle in the process that made it.
template <typename Handle> void destroy(Handle *handle, const Owner &owner) {
  if (!owner.isParent())
    delete handle;
}
template <typename Handle> void destroy(Handle *handle) {
  if (handle)
    destroy(handle, handle->context->owner);
}

inline Status missing(const char *what) {
  return Status(Code::InvalidArgument, fmt::format("{}: null pointer", what));
}

} // namespace tandem::capi

struct tandem_context {
  tandem::capi::ContextRef state = std::make_shared<tandem::capi::ContextState>();
};

// The context's reference comes first: it is dropped last.

struct tandem_program {
  tandem::capi::ContextRef context;
  std::shared_ptr<const tandem::ProgramFile> file;
  std::shared_ptr<const tandem::Program> program;
  mutable std::mutex mutex; ///< guards `loaded`
  /// The program and shards of ranks that were asked for. Entries stay.
  struct Rank {
    std::shared_ptr<const tandem::Program> program;
    std::vector<tandem::Shard> shards;
  };
  mutable std::map<uint32_t, Rank> loaded;
  std::optional<int64_t> extent; ///< of tandem_program_at_extent
};

struct tandem_instance {
  tandem::capi::ContextRef context;
  tandem::InstancePtr instance;
  std::vector<void *> addresses; ///< of the last tensors; keeps its memory
};

struct tandem_stream {
  tandem::capi::ContextRef context;
  std::shared_ptr<tandem::Stream> stream;
};

struct tandem_memory {
  tandem::capi::ContextRef context;
  std::unique_ptr<tandem::Memory> memory;
};

struct tandem_local_world {
  const tandem::capi::Owner owner = {};
  std::shared_ptr<tandem::LocalWorld> world;
};

namespace tandem::capi {

/// A call with a context that was created. Else the message stays the reason why it was not.
template <typename Body>
tandem_code guardedBy(tandem_context *context, Body &&body,
                      const char *call = __builtin_FUNCTION()) noexcept {
  if (!context || !context->state->context)
    return TANDEM_INVALID_ARGUMENT;
  return guarded(context->state.get(), body, call);
}

} // namespace tandem::capi

#endif // TANDEM_LIB_API_HANDLES_H
