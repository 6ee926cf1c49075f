//===- Bindings.h - what the parts of the extension share -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The extension module tandem._tandem uses the C API alone. Every function here needs the
// interpreter's lock (GIL) unless stated otherwise; calls of the C API that may block release it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_BINDINGS_PYTHON_BINDINGS_H
#define TANDEM_LIB_BINDINGS_PYTHON_BINDINGS_H

#include "Dlpack.h"
#include "tandem-c/Runtime.h"

#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <nanobind/nanobind.h>
#include <new>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

namespace tandem::python {

namespace nb = nanobind;

/// `module.name`, kept in `cache` for the life of the process. Not a static variable: its
/// initialisation would hold the compiler's lock while an import gives up the interpreter's, and
/// another thread would wait for the one with the other.
inline nb::handle imported(PyObject *&cache, const char *module, const char *name) {
  if (!cache)
    cache = nb::object(nb::module_::import_(module).attr(name)).release().ptr();
  return cache;
}

/// Moves out of `list` what `matches`. Destroy it only when `list` may be used again: the end of a
/// Python object or of a context may give up the interpreter's lock, and other threads then use
/// `list`. Erasing elements in place would let them see it half changed.
template <typename T, typename Matches>
[[nodiscard]] std::list<T> takeOut(std::list<T> &list, const Matches &matches) {
  std::list<T> taken;
  for (auto next = list.begin(); next != list.end();) {
    auto one = next++;
    if (matches(*one))
      taken.splice(taken.end(), list, one);
  }
  return taken;
}

//===-- Errors ------------------------------------------------------------===//

/// Raises the exception of tandem/_errors.py that belongs to `code`.
[[noreturn]] void raise(tandem_code code, const std::string &message);
[[noreturn]] inline void raiseArgument(const std::string &message) {
  raise(TANDEM_INVALID_ARGUMENT, message);
}

/// "torch.Tensor"; of types that are written in C their name alone, such as "int".
inline std::string typeName(nb::handle object) { return nb::inst_name(object).c_str(); }

/// The name of something in error messages, which is made only for them. Refers to the function
/// that it is made from.
class Naming {
public:
  template <typename Function>
  Naming(const Function &function) // NOLINT(google-explicit-constructor)
      : function(&function), call([](const void *function) -> std::string {
          return (*static_cast<const Function *>(function))();
        }) {}
  std::string operator()() const { return call(function); }

private:
  const void *function;
  std::string (*call)(const void *);
};

/// Reads a member of what the caller gave; `what` and `expected` are for the error.
template <typename T> T castTo(nb::handle object, const char *what, const char *expected) {
  T result;
  if (!nb::try_cast<T>(object, result))
    raiseArgument(std::string(what) + ": expected " + expected + ", found " +
                  nb::repr(object).c_str());
  return result;
}

//===-- Calls -------------------------------------------------------------===//

/// A call that gives up the GIL or runs Python code. When the interpreter ends, it ends the threads
/// that want the GIL, and C++ code does not survive that. So `tandem` waits for the calls of other
/// threads first; those that come later raise SystemExit, which ends their threads without a word.
class CallScope {
public:
  CallScope();
  /// Raises nothing: for destructors.
  explicit CallScope(std::nothrow_t);
  ~CallScope();
  CallScope(const CallScope &) = delete;
  CallScope &operator=(const CallScope &) = delete;
  /// Is the interpreter about to end, and this another thread than the one that ends it?
  static bool isTooLate();
};

/// Waits for the calls of other threads, and closes all contexts.
void endCalls();

//===-- Contexts ----------------------------------------------------------===//

/// The ranks of one process. Contexts keep it alive.
class World {
public:
  World(uint32_t size, double timeoutSeconds);
  ~World();
  World(const World &) = delete;
  World &operator=(const World &) = delete;

  const uint32_t size;
  tandem_local_world *handle = nullptr;
};

class RuntimeContext;

/// What a context has made, which ends before it.
class ContextPart {
public:
  virtual ~ContextPart() = default;
  /// Destroys the handles. Releases the lock while it waits. A second call has no effect.
  virtual void close() = 0;
};

struct ContextOptions {
  std::string device = "cpu", channels;
  std::shared_ptr<World> world;
  std::optional<uint32_t> rank;
  /// None (the launcher's), or an object with rank, world_size, local_rank, local_size, all_gather
  /// and barrier.
  nb::object bootstrap = nb::none();
  double timeoutSeconds = 60;
  uint32_t matmulThreads = 0;
  bool graphs = true, requireProof = false, noNative = false;
  /// None (the device's), or an object with `tandem_allocator`: the address of that struct.
  nb::object allocator = nb::none();
  std::optional<std::string> flightRecorder; ///< none: that of the environment
  uint32_t flightRecorderSignal = 0;
};

/// A function that a program calls as a kernel.
class PythonKernel {
public:
  PythonKernel(RuntimeContext &context, nb::object function)
      : context(context), function(std::move(function)) {}
  static int run(void *user, const tandem_kernel_call *call);

private:
  RuntimeContext &context;
  const nb::object function;
};

class RuntimeContext : public std::enable_shared_from_this<RuntimeContext> {
public:
  explicit RuntimeContext(const ContextOptions &options);
  ~RuntimeContext();
  RuntimeContext(const RuntimeContext &) = delete;
  RuntimeContext &operator=(const RuntimeContext &) = delete;

  /// Destroys its parts, then itself. A second call has no effect. Not in a callback.
  void close();
  /// The same if no thread uses it; else returns false.
  bool tryClose();
  /// Raises what a callback has raised since the last call.
  void raisePending();
  /// Is this thread in a callback of this context? Then a call would wait for itself.
  bool isInCallback() const;
  /// Destroys handles, at the next call if this is one of its callbacks.
  void end(tandem_instance *instance, tandem_program *program);
  void add(const std::shared_ptr<ContextPart> &part);
  /// Raises the error of a call that returned `code`, or the exception of a bootstrap callback.
  void check(tandem_code code);
  /// Raises if the context was closed.
  tandem_context *get() const;
  bool isClosed() const { return !handle; }
  std::string description() const;
  /// The caller's stream as a handle, which lives as long as the context.
  tandem_stream *wrap(void *native);
  /// `function` may be None, `image` empty.
  void registerKernel(const std::string &name, nb::object function, nb::bytes image,
                      const std::string &entry, uint32_t threads, uint32_t indicesPerBlock);

  const std::string device;
  const nb::object allocator; ///< as given
  std::string channels;
  uint32_t rank = 0, worldSize = 1;
  bool isHost = true; ///< its device computes on host memory
  int32_t gpu = -1;   ///< the number of its GPU, as CUDA numbers them in this process; -1: none
  /// Equal for contexts with equal device, channels and world size.
  uint32_t kind = 0;

private:
  friend class PythonKernel;
  friend class ContextLock;
  /// This thread has the GIL, and is in a callback of `context`.
  struct CallbackScope {
    explicit CallbackScope(RuntimeContext &context) : context(context), outer(innermost) {
      innermost = this;
    }
    ~CallbackScope() { innermost = outer; }
    CallbackScope(const CallbackScope &) = delete;
    CallbackScope &operator=(const CallbackScope &) = delete;
    nb::gil_scoped_acquire lock;
    RuntimeContext &context;
    const CallbackScope *const outer;
    static inline thread_local const CallbackScope *innermost = nullptr;
  };
  /// In a catch block of a callback.
  void keepRaised(nb::python_error &error);
  void readBootstrap(nb::object given, tandem_launch &launch);
  void joinJob();
  static void log(void *user, tandem_log_level level, const char *message);
  static int allGather(void *user, const void *mine, size_t bytes, void *all);
  static int barrier(void *user);

  /// Held during a call, because the runtime allows one thread at a time. Recursive: Python code
  /// that this thread runs during the call, such as a finalizer, may use the context again.
  std::recursive_mutex mutex;
  const pid_t pid = getpid(); ///< of the process that made it
  tandem_context *handle = nullptr;
  tandem_job *job = nullptr; ///< of a launcher
  std::shared_ptr<World> world;
  nb::object gatherCallback, barrierCallback;
  std::string node; ///< the bootstrap's
  /// Raised by a callback.
  std::optional<nb::python_error> raised;
  std::vector<std::unique_ptr<PythonKernel>> kernels;
  std::vector<std::weak_ptr<ContextPart>> parts;
  std::vector<std::pair<tandem_instance *, tandem_program *>> ended; ///< in callbacks
  std::vector<std::pair<void *, tandem_stream *>> streams;           ///< those that were wrapped
};

/// Serialises the threads that share a context: they prepare, run and close one after another.
/// Waiting releases the GIL, so the thread that holds the context can go on. `context` must outlive
/// the lock. Raises in a callback of the context.
class ContextLock {
public:
  explicit ContextLock(RuntimeContext &context) : context(context) {
    if (context.isInCallback())
      raiseArgument("expected no call from a callback of the same context");
    isHeld = context.mutex.try_lock();
    // In a forked child the thread that held it does not exist. The C API refuses the call there.
    if (isHeld || context.pid != getpid())
      return;
    nb::gil_scoped_release unlocked;
    context.mutex.lock();
    isHeld = true;
  }
  ~ContextLock() {
    if (isHeld)
      context.mutex.unlock();
  }
  ContextLock(const ContextLock &) = delete;
  ContextLock &operator=(const ContextLock &) = delete;

private:
  RuntimeContext &context;
  bool isHeld = false;
};

/// The stream of a run. On the CPU there is none, and a call waits for its run.
class RunStream {
public:
  /// `given`: a number (cudaStream_t), or an object with __cuda_stream__, cuda_stream or ptr. None:
  /// the current stream of the library of `like`, a tensor (or null).
  RunStream(RuntimeContext &context, nb::handle given, nb::handle like);

  tandem_stream *handle = nullptr;
  nb::object number = nb::none(); ///< for __dlpack__
  /// The library of `like` has no current stream: a call waits for its run.
  bool isAwaited = true;
  nb::handle like;
};

/// The context of this thread: that of the innermost `with`, else that of the process. Null if
/// there is none.
std::shared_ptr<RuntimeContext> currentContext();

//===-- Tensors -----------------------------------------------------------===//

inline constexpr uint32_t kMaxDims = 16;

/// Memory of a caller's tensor, and what keeps it.
class Tensor {
public:
  Tensor() = default;
  ~Tensor() { release(); }
  Tensor(const Tensor &) = delete;
  Tensor &operator=(const Tensor &) = delete;

  /// Reads `object` without a copy; `what` names it in errors. `stream`: for tensors of a device,
  /// the stream (a number, as in the array API) on which they will be used.
  /// Raises if its memory is of another device than the context's.
  void read(nb::handle object, const Naming &what, const RuntimeContext &context,
            nb::handle stream);
  /// "f32[4, 8]".
  std::string str() const;

  void *data = nullptr;
  tandem_dtype dtype = TANDEM_F32;
  uint32_t rank = 0;
  int64_t shape[kMaxDims] = {};
  uint64_t bytes = 0;
  bool isReadOnly = false, isRead = false;

private:
  void readTorch(nb::handle object, const Naming &what, const RuntimeContext &context);
  void readBuffer(nb::handle object, const Naming &what, const RuntimeContext &context);
  void readDlpack(nb::handle object, const Naming &what, const RuntimeContext &context,
                  nb::handle stream);
  void finish(const Naming &what, const int64_t *strides, int64_t unit);
  void release();

  Py_buffer buffer = {};
  bool hasBuffer = false;
  nb::object capsule;
  nb::object copy; ///< owns `data`, where the object could not be read in place
};

/// "f32"; "" if unknown.
const char *nameOf(tandem_dtype dtype);
uint32_t sizeOf(tandem_dtype dtype);
dlpack::DataType dlpackType(tandem_dtype dtype);
/// Nothing if it has no tandem_dtype.
std::optional<tandem_dtype> fromDlpack(dlpack::DataType dtype);
std::string describe(tandem_dtype dtype, const std::vector<int64_t> &shape);
/// A new tensor of the library and device of `like` (null: NumPy), or an Array. `extents`: the
/// shape as a tuple.
nb::object makeTensor(const std::shared_ptr<RuntimeContext> &context, nb::handle like,
                      tandem_dtype dtype, const std::vector<int64_t> &shape, nb::handle extents);
/// The tensor of the library of `like` for what makeTensor made, once it is filled.
nb::object finishTensor(nb::handle like, nb::object made);

//===-- The parts of the module -------------------------------------------===//

void bindArrays(nb::module_ &module);
void bindAllocators(nb::module_ &module);
void bindContexts(nb::module_ &module);
void bindFusions(nb::module_ &module);
void bindKernels(nb::module_ &module);
void bindShapes(nb::module_ &module);
void bindOperators(nb::module_ &module);
void bindPrograms(nb::module_ &module);
void bindTiming(nb::module_ &module);
void bindCompiler(nb::module_ &module);

} // namespace tandem::python

#endif // TANDEM_LIB_BINDINGS_PYTHON_BINDINGS_H
