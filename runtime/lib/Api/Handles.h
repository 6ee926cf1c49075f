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

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <vector>

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

struct ContextState;
class DumpPrograms;
class FlightRecorder;

/// A kernel of the embedder, and the context that calls it.
struct RegisteredKernel {
  ContextState *context;
  tandem_kernel kernel;
};

struct ContextState {
  const Owner owner;
  std::optional<uint32_t> rank; ///< once it is known
  std::string description, device;
  std::mutex errorMutex; ///< queries of programs may fail in any thread
  std::string lastError;
  /// By a callback on a thread of the context's own, and no call has said so yet; guarded by
  /// errorMutex.
  std::string thrown;
  std::atomic<bool> hasThrown{false};
  bool requiresProof = false; ///< of programs
  bool refusesNative = false; ///< programs with native code
  std::list<RegisteredKernel> kernels;
  const std::unique_ptr<DumpPrograms> programs;
  std::unique_ptr<FlightRecorder> recorder; ///< null: none is wanted
  /// Null if its creation failed. Ends first, because it calls the embedder until then.
  std::unique_ptr<Context> context;

  ContextState();
  ~ContextState();
  /// In a catch block: keeps what the callback `name` has thrown for `withThrown`.
  void noteThrown(const char *name) noexcept;
  /// The status of this thread's call, with what callbacks have thrown: those of the call itself,
  /// or, if it is no query, those of the context's own threads.
  Status withThrown(Status status, bool isQuery = false);
  /// A call has failed.
  void noteFailure(const Status &status);
};
using ContextRef = std::shared_ptr<ContextState>;

/// While it exists, this thread is in a callback of `context`. Calls with that context could wait
/// for the callback itself.
class CallbackScope {
public:
  explicit CallbackScope(const ContextState &context) : context(context), outer(innermost) {
    innermost = this;
  }
  ~CallbackScope() { innermost = outer; }
  CallbackScope(const CallbackScope &) = delete;
  CallbackScope &operator=(const CallbackScope &) = delete;
  static bool isIn(const ContextState &context) {
    const CallbackScope *scope = innermost;
    while (scope && &scope->context != &context)
      scope = scope->outer;
    return scope;
  }

private:
  static inline thread_local const CallbackScope *innermost = nullptr;
  const ContextState &context;
  const CallbackScope *const outer;
};

/// A call of the C API on this thread, perhaps in a callback of another one.
class CallScope {
public:
  explicit CallScope(const ContextState *context) : context(context), outer(innermost) {
    innermost = this;
  }
  ~CallScope();
  CallScope(const CallScope &) = delete;
  CallScope &operator=(const CallScope &) = delete;
  /// The innermost call with `context`; null: this is a thread of the context's own.
  static CallScope *find(const ContextState &context) {
    CallScope *scope = innermost;
    while (scope && scope->context != &context)
      scope = scope->outer;
    return scope;
  }
  /// For a body that may wait for a callback that this thread is in. Calls it after all calls of
  /// this thread, or on another thread; never, if there is no memory for that.
  static void later(std::function<void()> body) noexcept;

  std::string thrown; ///< by a callback of this call

private:
  static inline thread_local CallScope *innermost = nullptr;
  const ContextState *const context;
  CallScope *const outer;
  std::vector<std::function<void()>> ended; ///< of the outermost call
};

/// Calls a function of the embedder. If it throws, the result is `otherwise`, and the context's
/// call that led to it is an error.
template <typename Result, typename Body>
Result callback(ContextState &context, const char *name, Result otherwise, Body &&body) noexcept {
  CallbackScope scope(context);
  try {
    return body();
  } catch (...) {
    context.noteThrown(name);
  }
  return otherwise;
}

inline tandem_code fail(ContextState *context, const Status &status) {
  if (context && !status.ok())
    context->noteFailure(status);
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

inline Status refusedInCallback(const char *call) {
  return Status(Code::InvalidArgument,
                fmt::format("{}: expected no call from a callback of the same context", call));
}

/// What a callback of the context may do: calls that wait for nothing and change nothing.
enum class InCallback { Refused, Allowed };

/// Calls `body`, which returns a Status, and turns exceptions into errors. These name the rank, if
/// it is known, and the calling function of the C API.
template <InCallback inCallback = InCallback::Refused, typename Body>
tandem_code guarded(ContextState *context, Body &&body,
                    const char *call = __builtin_FUNCTION()) noexcept {
  if (context && context->owner.isParent())
    return TANDEM_INVALID_ARGUMENT; // with no lock, which a thread of the parent may have held
  CallScope scope(context);
  try {
    try {
      if (inCallback == InCallback::Refused && context && CallbackScope::isIn(*context))
        return fail(context, refusedInCallback(call));
      const Status status = body();
      constexpr bool isQuery = inCallback == InCallback::Allowed;
      return fail(context, context ? context->withThrown(status, isQuery) : status);
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
template <InCallback inCallback = InCallback::Refused, typename Handle, typename Body>
tandem_code guardedBy(const Handle *handle, Body &&body,
                      const char *call = __builtin_FUNCTION()) noexcept {
  return handle ? guarded<inCallback>(handle->context.get(), body, call) : TANDEM_INVALID_ARGUMENT;
}

/// What keeps the callbacks' job alive; null if they are the embedder's own.
std::shared_ptr<void> jobOf(const tandem_launch &launch);
/// What the user should know of this job, once; empty: nothing, or the callbacks are the
/// embedder's.
std::string takeWarning(const tandem_launch &launch);

/// Destroys a handle in the process that made it. In a callback of its context, whose end could
/// wait for the callback, later.
template <typename Handle> void destroy(Handle *handle, ContextState &context) {
  if (context.owner.isParent())
    return;
  if (CallbackScope::isIn(context))
    CallScope::later([handle, &context] { destroy(handle, context); });
  else
    delete handle;
}
template <typename Handle> void destroy(Handle *handle) {
  if (handle)
    destroy(handle, *handle->context);
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
  std::shared_ptr<const tandem::ProgramFile> file; ///< for dumps
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
template <InCallback inCallback = InCallback::Refused, typename Body>
tandem_code guardedBy(tandem_context *context, Body &&body,
                      const char *call = __builtin_FUNCTION()) noexcept {
  if (!context || !context->state->context)
    return TANDEM_INVALID_ARGUMENT;
  return guarded<inCallback>(context->state.get(), body, call);
}

/// Such a call of a function that makes a handle: `body` returns it, or an error.
template <InCallback inCallback = InCallback::Refused, typename From, typename Handle,
          typename Body>
tandem_code making(From *from, Handle **handle, Body &&body,
                   const char *call = __builtin_FUNCTION()) noexcept {
  std::unique_ptr<Handle> made; // goes if a callback has thrown
  tandem_code code = guardedBy<inCallback>(
      from,
      [&]() -> Status {
        if (!handle)
          return missing("handle");
        TANDEM_ASSIGN_OR_RETURN(made, body());
        return Status();
      },
      call);
  if (code == TANDEM_OK)
    *handle = made.release();
  return code;
}

} // namespace tandem::capi

#endif // TANDEM_LIB_API_HANDLES_H
