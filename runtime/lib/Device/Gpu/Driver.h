//===- Driver.h - what a GPU vendor must offer ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The GPU backend is written once, over this table of functions; a vendor fills it (Cuda/ does; HIP
// would be another folder and nothing else). Nothing here or above it includes a vendor's header.
// Every function may be called on any thread: the table makes its GPU current there.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_DRIVER_H
#define TANDEM_LIB_DEVICE_GPU_DRIVER_H

#include "tandem/Program/Status.h"
#include "tandem/Program/Types.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace tandem::gpu {

// The vendor's handles (CUstream, CUevent, CUmodule, CUfunction, CUgraph,
// CUgraphExec).
using StreamHandle = void *;
using EventHandle = void *;
using ModuleHandle = void *;
using FunctionHandle = void *;
using GraphHandle = void *;
using ExecutableHandle = void *;

struct DeviceInfo {
  std::string name; ///< "cuda:0"
  std::string model;
  std::string uuid; ///< hexadecimal; tells GPUs of one machine apart
  unsigned index = 0;
  unsigned processors = 1;
  /// Compute capability times ten: 90.
  unsigned architecture = 0;
  /// allocateShared() works.
  bool sharesMemory = false;
  /// writeValue() and waitValue() work.
  bool streamValues = false;
};

/// Blocks in two dimensions, of so many threads in one.
struct Grid {
  unsigned x = 1, y = 1;
  unsigned threads = 1;
};

/// One GPU. Errors carry the vendor's name of the function and its text.
class Driver {
public:
  virtual ~Driver();
  virtual const DeviceInfo &info() const = 0;
  /// Runs `body` with this GPU current: for calls of the vendor's other libraries.
  virtual Status within(const std::function<Status()> &body) = 0;

  virtual Status allocate(uint64_t bytes, void **memory) = 0;
  virtual Status free(void *memory) = 0;
  /// Memory of the host that kernels and copies reach under the same address.
  virtual Status allocateHost(uint64_t bytes, void **memory) = 0;
  virtual Status freeHost(void *memory) = 0;
  /// Memory that the other GPUs of this process reach under the same address, if they reach this
  /// one at all, and that other processes can map: freed with freeShared().
  virtual Status allocateShared(uint64_t bytes, void **memory) = 0;
  /// A file descriptor that stands for it, the caller's to close.
  virtual Status exportShared(const void *memory, int *descriptor) = 0;
  /// Maps what another process has exported; freed with freeShared().
  virtual Status importShared(int descriptor, uint64_t bytes, void **memory) = 0;
  virtual Status freeShared(void *memory) = 0;
  /// Whether this GPU reaches the memory of GPU `index` of this process.
  virtual bool reaches(unsigned index) = 0;
  /// Blocking. Either side may be the host's.
  virtual Status copy(void *dst, const void *src, uint64_t bytes) = 0;
  virtual Status fill(void *dst, uint8_t value, uint64_t bytes) = 0;

  virtual Status createStream(StreamHandle *stream, StreamPriority priority) = 0;
  virtual Status destroyStream(StreamHandle stream) = 0;
  /// Sets `done` if nothing is left to do; an error if something has failed.
  virtual Status queryStream(StreamHandle stream, bool *done) = 0;
  /// `timing`: elapsed() may be asked of it.
  virtual Status createEvent(EventHandle *event, bool timing) = 0;
  virtual Status destroyEvent(EventHandle event) = 0;
  virtual Status record(EventHandle event, StreamHandle stream) = 0;
  virtual Status wait(StreamHandle stream, EventHandle event) = 0;
  virtual Status queryEvent(EventHandle event, bool *done) = 0;
  /// Milliseconds between two records that have been reached.
  virtual Status elapsed(EventHandle from, EventHandle to, float *milliseconds) = 0;

  virtual Status copyAsync(void *dst, const void *src, uint64_t bytes, StreamHandle stream) = 0;
  /// `rows` rows of `width` bytes, `dstPitch` and `srcPitch` bytes apart.
  virtual Status copyRowsAsync(void *dst, uint64_t dstPitch, const void *src, uint64_t srcPitch,
                               uint64_t width, uint64_t rows, StreamHandle stream) = 0;

  /// Stream memory operations on 8 bytes: a write behind everything before it in the stream, and a
  /// wait until the difference to `atLeast`, as a signed number, is not negative.
  virtual Status writeValue(StreamHandle stream, void *address, uint64_t value) = 0;
  virtual Status waitValue(StreamHandle stream, void *address, uint64_t atLeast) = 0;
  /// The same write, also where there are no such operations, for words that only later work of
  /// this stream reads: others might see half of it.
  virtual Status setWord(StreamHandle stream, void *address, uint64_t value) = 0;

  /// From here on the stream, and those that wait for events of it, collect their work in a graph,
  /// until endCapture(), which it takes with whatever is wrong with it.
  virtual Status beginCapture(StreamHandle stream) = 0;
  virtual Status endCapture(StreamHandle stream, GraphHandle *graph) = 0;
  virtual Status destroyGraph(GraphHandle graph) = 0;
  virtual Status instantiate(GraphHandle graph, ExecutableHandle *executable) = 0;
  /// Sets `done` if the executable now does what `graph` says; it cannot if they differ in more
  /// than the arguments of their nodes.
  virtual Status update(ExecutableHandle executable, GraphHandle graph, bool *done) = 0;
  virtual Status launchGraph(ExecutableHandle executable, StreamHandle stream) = 0;
  /// May be running: it goes when it has ended.
  virtual Status destroyExecutable(ExecutableHandle executable) = 0;

  /// Code for this GPU (an image of the vendor's, or PTX as text with its terminating zero); it is
  /// compiled and loaded here and at function(), never when a kernel is first launched.
  virtual Status loadModule(const void *image, ModuleHandle *module) = 0;
  virtual Status unloadModule(ModuleHandle module) = 0;
  virtual Status function(ModuleHandle module, const char *name, FunctionHandle *function) = 0;
  /// `arguments`: a pointer to each of the kernel's.
  virtual Status launch(FunctionHandle function, const Grid &grid, StreamHandle stream,
                        void **arguments) = 0;
};

/// A product as the library sees it: out[m, n] (+)= a[m, k] * b[k, n] + bias[n], row-major out.
struct Product {
  DType dtype = DType::F32;
  DType outType = DType::F32; ///< of out and bias: f32, or that of a and b
  int64_t m = 0, n = 0, k = 0;
  /// Elements between rows of a and b as they lie in memory; `transpose`: it lies the other way
  /// round.
  int64_t lda = 0, ldb = 0, ldo = 0;
  bool transposeA = false, transposeB = false;
  bool accumulate = false, bias = false;
  /// `batch` products, so many elements apart (0: the same operand for all).
  int64_t batch = 1, strideA = 0, strideB = 0, strideOut = 0;
  /// What the addresses are multiples of, in bytes: algorithms ask for it.
  unsigned alignment = 16;
};

/// A product that the library has found algorithms for, the one that it thinks best first.
class ProductPlan {
public:
  virtual ~ProductPlan();
  virtual unsigned candidates() const = 0;
  /// Which is run; 0 at first.
  virtual void select(unsigned candidate) = 0;
  /// Names a candidate: the same name is the same algorithm wherever the library's version() is.
  virtual std::string algorithm(unsigned candidate) const = 0;
  virtual uint64_t workspaceBytes() const = 0;
  virtual Status run(StreamHandle stream, void *workspace, const void *a, const void *b, void *out,
                     const void *bias) = 0;
};

/// The vendor's matrix library on one GPU.
class Blas {
public:
  virtual ~Blas();
  /// "cublasLt 130000".
  virtual std::string version() const = 0;
  virtual Expected<std::unique_ptr<ProductPlan>> plan(const Product &product,
                                                      unsigned maxCandidates) = 0;
};

/// Workspace that a plan may ask for; every stream has one of this size.
inline constexpr uint64_t kWorkspaceBytes = uint64_t(32) << 20;

// The vendors. Unsupported, with the reason, where this build or this machine lacks it.
Expected<std::unique_ptr<Driver>> openCuda(unsigned index);
Expected<unsigned> countCudaDevices();
/// Opened when the first matmul is prepared; `driver` outlives it.
Expected<std::unique_ptr<Blas>> openCublas(Driver &driver);

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_DRIVER_H
