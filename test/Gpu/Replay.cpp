//===- Replay.cpp - a rank that replays a captured program ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The functions that tools/gpu/replays calls in each rank, by the C API and by CUDA's driver alone.
// One rank per process, one thread. All return 0, or write what is wrong to `text`.
//
//===----------------------------------------------------------------------===//

#include "tandem-c/Job.h"
#include "tandem-c/Runtime.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <dlfcn.h>
#include <string>
#include <vector>

namespace {

#define CUDA_FUNCTIONS(X)                                                                          \
  X(cuInit)                                                                                        \
  X(cuDevicePrimaryCtxRetain)                                                                      \
  X(cuCtxPushCurrent)                                                                              \
  X(cuMemAlloc)                                                                                    \
  X(cuMemsetD8Async)                                                                               \
  X(cuMemcpyAsync)                                                                                 \
  X(cuStreamCreateWithPriority)                                                                    \
  X(cuStreamQuery)                                                                                 \
  X(cuStreamSynchronize)                                                                           \
  X(cuStreamBeginCapture)                                                                          \
  X(cuStreamEndCapture)                                                                            \
  X(cuGraphInstantiate)                                                                            \
  X(cuGraphLaunch)
#define STRING_OF(name) #name
#define NAME_OF(name) STRING_OF(name) // cuda.h renames some

struct Cuda {
#define X(name) decltype(&::name) name = nullptr;
  CUDA_FUNCTIONS(X)
#undef X
};

struct Argument {
  CUdeviceptr data = 0;
  uint64_t bytes = 0;
  bool isResult = false;
  tandem_dtype type = TANDEM_F32;
};

struct Rank {
  Cuda cuda;
  tandem_job *job = nullptr;
  tandem_context *context = nullptr;
  tandem_program *program = nullptr;
  tandem_instance *instance = nullptr;
  std::vector<Argument> arguments;
  CUstream stream = nullptr;
  CUgraphExec executable = nullptr;
  std::vector<char> room; ///< of a result

  std::string open(const char *file, unsigned gpu, unsigned timeout);
  std::string enqueue(CUstream on);
  std::string check(CUstream on);
  std::string error(const char *what) const {
    const char *said = context ? tandem_last_error(context) : tandem_job_error(job);
    return std::string(what) + ": " + (said ? said : "");
  }
};

#define TRY_CUDA(call)                                                                             \
  if (CUresult failed = cuda.call)                                                                 \
  return std::string(#call) + ": error " + std::to_string(failed)
#define TRY_TANDEM(call)                                                                           \
  if (call != TANDEM_OK)                                                                           \
  return error(#call)

std::string Rank::open(const char *file, unsigned gpu, unsigned timeout) {
  const char *library = std::getenv("TANDEM_CUDA_LIBRARY");
  void *driver = ::dlopen(library ? library : "libcuda.so.1", RTLD_NOW);
  if (!driver)
    return ::dlerror();
#define X(name)                                                                                    \
  cuda.name = reinterpret_cast<decltype(&::name)>(::dlsym(driver, NAME_OF(name)));                 \
  if (!cuda.name)                                                                                  \
    return std::string("no function ") + NAME_OF(name);
  CUDA_FUNCTIONS(X)
#undef X
  TRY_CUDA(cuInit(0));
  CUcontext primary = nullptr;
  TRY_CUDA(cuDevicePrimaryCtxRetain(&primary, static_cast<CUdevice>(gpu)));
  TRY_CUDA(cuCtxPushCurrent(primary));
  TRY_TANDEM(tandem_job_join(&job));
  std::string device = "cuda:" + std::to_string(gpu);
  tandem_context_options options{};
  options.struct_size = sizeof options;
  options.device = device.c_str();
  options.channels = "peer";
  options.launch = tandem_job_launch(job);
  options.timeout_ms = timeout;
  TRY_TANDEM(tandem_context_create(&options, &context));
  TRY_TANDEM(tandem_program_load_file(context, file, &program));
  TRY_TANDEM(tandem_prepare(context, program, &instance));
  for (uint32_t i = 0; i < tandem_program_num_arguments(program); ++i) {
    tandem_argument found{};
    found.struct_size = sizeof found;
    TRY_TANDEM(tandem_program_argument(program, i, &found));
    Argument &made = arguments.emplace_back();
    made.bytes = found.local_bytes;
    made.isResult = found.is_result != 0;
    made.type = found.dtype;
    TRY_CUDA(cuMemAlloc(&made.data, made.bytes ? made.bytes : 16));
  }
  // A caller's stream, which waits for no other one.
  TRY_CUDA(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
  return "";
}

std::string Rank::enqueue(CUstream on) {
  tandem_stream *wrapped = nullptr;
  TRY_TANDEM(tandem_stream_wrap(context, on, &wrapped));
  std::vector<void *> data;
  std::vector<uint64_t> bytes;
  for (const Argument &argument : arguments) {
    data.push_back(reinterpret_cast<void *>(argument.data));
    bytes.push_back(argument.bytes);
  }
  tandem_run_options run{};
  run.struct_size = sizeof run;
  run.stream = wrapped;
  run.data = data.data();
  run.bytes = bytes.data();
  TRY_TANDEM(tandem_enqueue(instance, &run));
  return "";
}

/// Of a bf16 or an f32.
float valueOf(const char *at, tandem_dtype type) {
  uint32_t bits = 0;
  std::memcpy(type == TANDEM_BF16 ? reinterpret_cast<char *>(&bits) + 2
                                  : reinterpret_cast<char *>(&bits),
              at, type == TANDEM_BF16 ? 2 : 4);
  float value = 0;
  std::memcpy(&value, &bits, 4);
  return value;
}

/// All elements of the results are the same number, but for the order of sums.
std::string Rank::check(CUstream on) {
  for (const Argument &argument : arguments) {
    if (!argument.isResult)
      continue;
    room.resize(argument.bytes);
    TRY_CUDA(cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(room.data()), argument.data,
                           argument.bytes, on));
    TRY_CUDA(cuStreamSynchronize(on));
    size_t size = argument.type == TANDEM_BF16 ? 2 : 4;
    float first = valueOf(room.data(), argument.type);
    for (uint64_t at = 0; at < argument.bytes; at += size) {
      float value = valueOf(room.data() + at, argument.type);
      if (!(std::fabs(value - first) <= 0.02f * std::fabs(first)))
        return "element " + std::to_string(at / size) + " is " + std::to_string(value) +
               ", the first one is " + std::to_string(first);
    }
  }
  return "";
}

Rank rank; // lives until the process ends: so do replays

int answer(const std::string &wrong, char *text, size_t size) {
  std::snprintf(text, size, "%s", wrong.c_str());
  return wrong.empty() ? 0 : 1;
}

} // namespace

extern "C" {

/// Joins the job of the environment and prepares a program, of two ranks, with a time limit.
int replay_open(const char *file, unsigned gpu, unsigned timeout, char *text, size_t size) {
  return answer(rank.open(file, gpu, timeout), text, size);
}
/// The rank's own stream.
void *replay_stream() { return rank.stream; }
/// Enqueues a run.
int replay_enqueue(void *stream, char *text, size_t size) {
  return answer(rank.enqueue(static_cast<CUstream>(stream)), text, size);
}
/// Waits for the runs that were enqueued outside of captures.
int replay_wait(char *text, size_t size) {
  return answer(tandem_wait(rank.instance) ? rank.error("tandem_wait") : "", text, size);
}
/// Captures a run on the rank's own stream, for replay_launch().
int replay_capture(char *text, size_t size) {
  const Cuda &cuda = rank.cuda;
  auto capture = [&]() -> std::string {
    CUgraph graph = nullptr;
    TRY_CUDA(cuStreamBeginCapture(rank.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    std::string wrong = rank.enqueue(rank.stream);
    TRY_CUDA(cuStreamEndCapture(rank.stream, &graph));
    if (!wrong.empty())
      return wrong;
    TRY_CUDA(cuGraphInstantiate(&rank.executable, graph, 0));
    return "";
  };
  return answer(capture(), text, size);
}
int replay_launch(void *stream) {
  return rank.cuda.cuGraphLaunch(rank.executable, static_cast<CUstream>(stream));
}
/// 0: the stream is idle; 1: it is not; 2: an error.
int replay_query(void *stream) {
  CUresult result = rank.cuda.cuStreamQuery(static_cast<CUstream>(stream));
  return result == CUDA_SUCCESS ? 0 : result == CUDA_ERROR_NOT_READY ? 1 : 2;
}
/// Sets all elements of the inputs to a number that depends on `run`, on the stream.
int replay_fill(void *stream, unsigned run) {
  for (const Argument &argument : rank.arguments)
    if (!argument.isResult)
      if (int failed =
              rank.cuda.cuMemsetD8Async(argument.data, static_cast<unsigned char>(0x38 + run % 7),
                                        argument.bytes, static_cast<CUstream>(stream)))
        return failed;
  return 0;
}
/// Whether the results are those of a run whose inputs are equal on all ranks.
int replay_check(void *stream, char *text, size_t size) {
  return answer(rank.check(static_cast<CUstream>(stream)), text, size);
}
/// 0 while the context is healthy.
int replay_health(char *text, size_t size) {
  return answer(tandem_context_health(rank.context) ? rank.error("health") : "", text, size);
}

} // extern "C"
