//===- Driver.h - the table of GPU vendor functions -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of vendor functions below the GPU backend. Cuda/ and Hip/ fill it; vendors() lists
// those of this build. No vendor header is included here or above. Every function may be called on
// any thread, makes its GPU current there, and does not disturb captures of other libraries.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_DRIVER_H
#define TANDEM_LIB_DEVICE_GPU_DRIVER_H

#include "tandem/Program/Epilogue.h"
#include "tandem/Program/Status.h"
#include "tandem/Program/Types.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::gpu {

// The vendor's handles: CUstream, CUevent, CUmodule, CUfunction, CUgraph, CUgraphExec, CUgraphNode;
// hipStream_t, hipEvent_t and so on.
using StreamHandle = void *;
using EventHandle = void *;
using ModuleHandle = void *;
using FunctionHandle = void *;
using GraphHandle = void *;
using ExecutableHandle = void *;
using NodeHandle = void *;

struct Vendor;

struct DeviceInfo {
  std::string name; ///< "cuda:0", "hip:0"
  std::string model;
  std::string uuid; ///< hexadecimal; identifies the GPU within a machine
  unsigned index = 0;
  unsigned processors = 1;
  /// What kernels are compiled for: "sm_90", "gfx942".
  std::string target;
  /// Of NVIDIA GPUs, the compute capability times ten: 90 for sm_90. Else 0.
  unsigned architecture = 0;
  /// allocateShared() works.
  bool sharesMemory = false;
  /// exportShared() returns bytes, not a descriptor.
  bool sharesByBytes = false;
  /// Signals that GPUs raise for each other need memory of allocateSignals(), outside the data's.
  bool separateSignalPad = false;
  /// waitValue() works.
  bool streamValues = false;
};

/// Names memory to another process. CUDA passes a file descriptor, HIP bytes.
struct SharedHandle {
  int descriptor = -1; ///< -1: none; of exportShared(): the caller closes it
  std::string bytes;
  /// The handle names a whole allocation, of which the memory may be a part: where it begins there,
  /// and the allocation's size.
  uint64_t offset = 0, allocation = 0;
};

/// A two-dimensional grid of one-dimensional blocks.
struct Grid {
  unsigned x = 1, y = 1;
  unsigned threads = 1;
};

/// Receives the launches and copies of a thread instead of the vendor's driver; see
/// Driver::intercept().
class Interceptor {
public:
  virtual ~Interceptor();
  virtual Status launch(FunctionHandle function, const Grid &grid, StreamHandle stream,
                        void **arguments) = 0;
  virtual Status copy(void *dst, const void *src, uint64_t bytes, StreamHandle stream) = 0;
  virtual Status copyRows(void *dst, uint64_t dstPitch, const void *src, uint64_t srcPitch,
                          uint64_t width, uint64_t rows, StreamHandle stream) = 0;
  /// Work that a library issues: `body` does it. It depends on `addresses` alone.
  virtual Status library(StreamHandle stream, const std::vector<const void *> &addresses,
                         const std::function<Status()> &body) = 0;
};

/// The number that the vendor has for a priority; a smaller one is preferred. `least` and
/// `greatest` are its range.
inline int priorityOf(StreamPriority priority, int least, int greatest) {
  return priority == StreamPriority::Low    ? least
         : priority == StreamPriority::High ? greatest
                                            : std::max(least - 1, greatest);
}

/// Where a vendor's function stores a handle of its type T, for `*to`.
template <typename T> class Made {
public:
  explicit Made(void **to) : to(to) {}
  Made(const Made &) = delete;
  ~Made() { *to = made; }
  operator T *() { return &made; } // NOLINT(google-explicit-constructor)

private:
  void **const to;
  T made = nullptr;
};

/// One GPU. Errors carry the vendor function's name and the vendor's message.
class Driver {
public:
  virtual ~Driver();
  virtual const DeviceInfo &info() const = 0;
  virtual const Vendor &vendor() const = 0;
  /// Runs `body`, which frees something of this GPU, with the GPU current: now, or, while other
  /// drivers of this process use the GPU, at releasePending() or at the first release() when they
  /// no longer do. To free memory a vendor's driver may wait until the GPU is idle, and the work
  /// that it waits for may wait for the thread that frees; an abort could not end this, since its
  /// own calls wait for the driver too. `body` may not refer to this object. Success if it is put
  /// off.
  virtual Status release(std::function<Status()> body) = 0;
  /// Runs what release() has put off. To be called when the ranks of this process are known to make
  /// progress.
  virtual void releasePending() = 0;
  /// free() without delay, for memory that is used while programs are prepared.
  virtual Status freeNow(void *memory) = 0;
  /// Work on this GPU does not end: what was put off, and is from now on, is never freed.
  virtual void neverRelease() = 0;
  /// Runs `body` with this GPU current: for calls of the vendor's other libraries.
  template <typename Body> Status within(Body &&body) {
    return runWithin(std::ref(body)); // a reference: the function allocates nothing
  }
  virtual Status runWithin(const std::function<Status()> &body) = 0;

  virtual Status allocate(uint64_t bytes, void **memory) = 0;
  virtual Status free(void *memory) = 0;
  /// Host memory that kernels and copies access at the same address.
  virtual Status allocateHost(uint64_t bytes, void **memory) = 0;
  virtual Status freeHost(void *memory) = 0;
  /// Memory that GPUs of this process with peer access see at the same address, and that other
  /// processes can map. Free with freeShared().
  virtual Status allocateShared(uint64_t bytes, void **memory) = 0;
  /// Zeroed memory like that of allocateShared(), in which a kernel that is running sees what other
  /// GPUs write. Only where info().separateSignalPad. Free with freeShared().
  virtual Status allocateSignals(uint64_t bytes, void **memory) = 0;
  /// What another process needs to map the memory, of allocateShared() or of the embedder, who may
  /// give a part of an allocation. Unsupported if it is of several.
  virtual Status exportShared(const void *memory, uint64_t bytes, SharedHandle *handle) = 0;
  /// Maps an allocation of `bytes` bytes exported by another process. Free with freeShared().
  virtual Status importShared(const SharedHandle &handle, uint64_t bytes, void **memory) = 0;
  virtual Status freeShared(void *memory) = 0;
  /// Whether this GPU can access the memory of GPU `index` of this process.
  virtual bool reaches(unsigned index) = 0;
  /// The UUIDs of the GPUs, among those that this process sees, on whose memory atomic operations
  /// of this GPU are atomic: its own one, and others over NVLink and xGMI, but not over PCIe.
  virtual std::vector<std::string> atomicsOn() = 0;
  /// Blocking. Either side may be host memory.
  virtual Status copy(void *dst, const void *src, uint64_t bytes) = 0;
  virtual Status fill(void *dst, uint8_t value, uint64_t bytes) = 0;

  virtual Status createStream(StreamHandle *stream, StreamPriority priority) = 0;
  virtual Status destroyStream(StreamHandle stream) = 0;
  /// An error if the caller's stream is of another GPU. Null: the legacy default stream.
  virtual Status checkStream(StreamHandle stream) = 0;
  /// Sets `done` if the stream is idle; an error if its work has failed.
  virtual Status queryStream(StreamHandle stream, bool *done) = 0;
  /// `timing`: elapsed() may use the event.
  virtual Status createEvent(EventHandle *event, bool timing) = 0;
  virtual Status destroyEvent(EventHandle event) = 0;
  virtual Status record(EventHandle event, StreamHandle stream) = 0;
  virtual Status wait(StreamHandle stream, EventHandle event) = 0;
  virtual Status queryEvent(EventHandle event, bool *done) = 0;
  /// Milliseconds between two completed events.
  virtual Status elapsed(EventHandle from, EventHandle to, float *milliseconds) = 0;

  /// From now on, this thread's calls of launch(), copyAsync(), copyRowsAsync() and library() of
  /// any driver go to `to`; null: no longer. Returns what was there before.
  static Interceptor *intercept(Interceptor *to);
  Status copyAsync(void *dst, const void *src, uint64_t bytes, StreamHandle stream) {
    return interceptor ? interceptor->copy(dst, src, bytes, stream)
                       : issueCopy(dst, src, bytes, stream);
  }
  /// `rows` rows of `width` bytes, `dstPitch` and `srcPitch` bytes from start to start.
  Status copyRowsAsync(void *dst, uint64_t dstPitch, const void *src, uint64_t srcPitch,
                       uint64_t width, uint64_t rows, StreamHandle stream) {
    return interceptor ? interceptor->copyRows(dst, dstPitch, src, srcPitch, width, rows, stream)
                       : issueCopyRows(dst, dstPitch, src, srcPitch, width, rows, stream);
  }
  /// `arguments`: one pointer per kernel argument.
  Status launch(FunctionHandle function, const Grid &grid, StreamHandle stream, void **arguments) {
    return interceptor ? interceptor->launch(function, grid, stream, arguments)
                       : issueLaunch(function, grid, stream, arguments);
  }
  /// See Interceptor::library().
  template <typename Body>
  Status library(StreamHandle stream, std::initializer_list<const void *> addresses, Body &&body) {
    return interceptor ? interceptor->library(stream, addresses, body) : body();
  }
  template <typename Body>
  Status library(StreamHandle stream, const void *const *addresses, size_t count, Body &&body) {
    if (!interceptor)
      return body();
    // No braces: they would make a list of these two pointers.
    std::vector<const void *> all(addresses, addresses + count);
    return interceptor->library(stream, all, body);
  }
  // The same calls, not intercepted.
  virtual Status issueCopy(void *dst, const void *src, uint64_t bytes, StreamHandle stream) = 0;
  virtual Status issueCopyRows(void *dst, uint64_t dstPitch, const void *src, uint64_t srcPitch,
                               uint64_t width, uint64_t rows, StreamHandle stream) = 0;
  virtual Status issueLaunch(FunctionHandle function, const Grid &grid, StreamHandle stream,
                             void **arguments) = 0;

  /// A stream memory operation on 8 bytes: waits until (signed)(*address - atLeast) >= 0.
  virtual Status waitValue(StreamHandle stream, void *address, uint64_t atLeast) = 0;
  /// Writes 8 bytes after all earlier work of the stream. Only later work of this stream may read
  /// the word: others might see a half-written value.
  virtual Status setWord(StreamHandle stream, void *address, uint64_t value) = 0;

  /// Captures later work of the stream, and of streams that wait for its events, into a graph.
  /// endCapture() returns the graph, or the error that ended the capture.
  virtual Status beginCapture(StreamHandle stream) = 0;
  virtual Status endCapture(StreamHandle stream, GraphHandle *graph) = 0;
  /// Whether a capture of the stream is in progress, by anybody.
  virtual Status isCapturing(StreamHandle stream, bool *capturing) = 0;
  virtual Status destroyGraph(GraphHandle graph) = 0;
  virtual Status instantiate(GraphHandle graph, ExecutableHandle *executable) = 0;
  /// Sets `done` if the executable was updated to `graph`. Fails to update (`done` false) if more
  /// differs than the arguments of nodes.
  virtual Status update(ExecutableHandle executable, GraphHandle graph, bool *done) = 0;
  /// Nodes that the next work of a stream being captured will depend on.
  virtual Status frontier(StreamHandle stream, std::vector<NodeHandle> &nodes) = 0;
  /// Nodes that a node depends on.
  virtual Status dependencies(NodeHandle node, std::vector<NodeHandle> &nodes) = 0;
  // Change the work of a node in an executable. `node`: of the graph that the executable was made
  // of, which must still exist. Launches that are enqueued already keep the earlier work.
  virtual Status setLaunch(ExecutableHandle executable, NodeHandle node, FunctionHandle function,
                           const Grid &grid, void **arguments) = 0;
  /// Only for contiguous copies.
  virtual Status setCopy(ExecutableHandle executable, NodeHandle node, void *dst, const void *src,
                         uint64_t bytes) = 0;
  /// To the work of a node of another graph. Unsupported if the kinds of the nodes differ.
  virtual Status setLike(ExecutableHandle executable, NodeHandle node, NodeHandle other) = 0;
  virtual Status launchGraph(ExecutableHandle executable, StreamHandle stream) = 0;
  /// A running executable is destroyed when it ends.
  virtual Status destroyExecutable(ExecutableHandle executable) = 0;

  /// Code for this GPU: PTX with a null behind it, or a cubin (CUDA); a code object, or several for
  /// GPUs of different kinds in an offload bundle (HIP). Compiled and loaded here and at
  /// function(), never at the first launch.
  virtual Status loadModule(std::string_view image, ModuleHandle *module) = 0;
  virtual Status unloadModule(ModuleHandle module) = 0;
  virtual Status function(ModuleHandle module, const char *name, FunctionHandle *function) = 0;
  /// Bytes of each of the kernel's arguments; lives as long as the driver.
  virtual Expected<const std::vector<uint32_t> *> argumentSizes(FunctionHandle function) = 0;

private:
  static thread_local Interceptor *interceptor;
};

/// A product as the library sees it: out[m, n] (+)= a[m, k] * b[k, n] + bias[n], row-major out.
/// With `adds`: + term[m, n], instead of the old contents and the bias. With an epilogue: out =
/// activation(alpha * a b + bias + beta * residual).
struct Product {
  DType dtype = DType::F32;   ///< of a
  DType bType = DType::F32;   ///< the same, unless both have 8 bits
  DType outType = DType::F32; ///< of out and bias: f32, or the type of a and b; of 8 bits: wider
  int64_t m = 0, n = 0, k = 0;
  /// Elements between consecutive rows of a and b in memory. `transpose`: the matrix is stored
  /// transposed.
  int64_t lda = 0, ldb = 0, ldo = 0;
  bool transposeA = false, transposeB = false;
  bool accumulate = false, bias = false, adds = false;
  int64_t ldTerm = 0; ///< of the term
  program::Activation activation = program::Activation::None;
  float alpha = 1;
  float beta = 0; ///< of the residual, which has the layout of out; 0: there is none
  /// If the product of 8-bit factors is scaled: memory of the scales that is read until
  /// ProductPlan::setScales(). `scaleVectors`: both, one f32 per row and per column of out; else
  /// one number each.
  const void *rowScale = nullptr, *columnScale = nullptr;
  bool scaleVectors = false;
  /// `batch` products; strides in elements (0: all use the same operand).
  int64_t batch = 1, strideA = 0, strideB = 0, strideOut = 0;
  /// Alignment of all addresses in bytes; algorithms depend on it.
  unsigned alignment = 16;
  /// Only algorithms that do not split K among blocks.
  bool ordered = false;
};

/// The algorithms of the library for one product, best guess first.
class ProductPlan {
public:
  virtual ~ProductPlan();
  virtual unsigned candidates() const = 0;
  /// Selects the algorithm to run; 0 at first.
  virtual void select(unsigned candidate) = 0;
  /// Adds the first algorithm of another product's plan, by the same library, unless it is among
  /// this plan's. The candidate's number. It may not run this product; then run() fails.
  virtual unsigned add(const ProductPlan &other) = 0;
  /// Drops all other candidates, and selects the first of these. `numbers`: ascending, not empty.
  virtual void keep(const std::vector<unsigned> &numbers) = 0;
  /// The candidate's name: equal names are the same algorithm if version() is equal.
  virtual std::string algorithm(unsigned candidate) const = 0;
  virtual uint64_t workspaceBytes() const = 0;
  /// Of later runs; those that the product has.
  virtual void setScales(const void *, const void *) {}
  /// `added`: the bias or the term; null: there is none. `residual`: null: a product that has one
  /// reads `out` instead.
  virtual Status run(StreamHandle stream, void *workspace, const void *a, const void *b, void *out,
                     const void *added, const void *residual = nullptr) = 0;
};

/// The vendor's matrix library on one GPU.
class Blas {
public:
  virtual ~Blas();
  /// "cublasLt 130000".
  virtual std::string version() const = 0;
  /// Whether there may be products of 8-bit floats: rows of a and of b along K, addresses, rows and
  /// numbers of columns at multiples of 16 bytes.
  virtual bool hasFp8() const = 0;
  virtual Expected<std::unique_ptr<ProductPlan>> plan(const Product &product,
                                                      unsigned maxCandidates) = 0;
};

/// Bytes of workspace that a plan may use.
inline constexpr uint64_t kWorkspaceBytes = uint64_t(32) << 20;

/// A vendor of GPUs: where its functions come from. Static lifetime. Each function is Unsupported,
/// with the reason, if this machine lacks the vendor's driver or library.
struct Vendor {
  const char *device; ///< "cuda": devices are "cuda" and "cuda:NUMBER"
  const char *title;  ///< "CUDA"
  Expected<unsigned> (*count)();
  Expected<std::unique_ptr<Driver>> (*open)(unsigned index);
  /// Opened when the first matmul is prepared; `driver` outlives it.
  Expected<std::unique_ptr<Blas>> (*openBlas)(Driver &driver);
  /// Kernels.cu, compiled, for loadModule().
  std::string_view (*kernels)();
  /// The format of a program's kernels for these GPUs: sp::KernelFormat.
  uint8_t kernelFormat;
  /// What to do about a program without them, for a message.
  const char *kernelAdvice;
  /// A range of the vendor's profiler on the calling thread. `name` may be freed before its end.
  void (*beginRange)(const char *name);
  void (*endRange)();
};

extern const Vendor kCuda, kHip; ///< each defined where this build has it

/// The vendors of this build; not empty.
const std::vector<const Vendor *> &vendors();
/// The vendor of device `name` ("cuda", "cuda:1"), or null.
const Vendor *vendorOf(std::string_view name);

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_DRIVER_H
