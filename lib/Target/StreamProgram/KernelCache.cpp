//===- KernelCache.cpp - GPU code of kernels compiled before ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LLVM takes longer for one elementwise kernel than Tandem for a whole program. A kernel has no
// extents, so the programs of a layer for other numbers of tokens, and its unoverlapped baseline,
// have the same kernels.
//
//===----------------------------------------------------------------------===//

#include "Code.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/raw_ostream.h"

#include <mutex>

using namespace mlir;

namespace tandem::target {

namespace {

/// The most kernels; beyond, all are forgotten: a process may live as long as a training job.
constexpr unsigned kMostKernels = 512;

/// Code by a kernel's text and architecture. It depends on nothing else, so one map serves all
/// contexts of a process.
struct KernelCache {
  std::mutex mutex; ///< guards `known`
  llvm::StringMap<std::string> known;
};

} // namespace

static KernelCache &getCache() {
  static KernelCache cache;
  return cache;
}

/// Types and ops of a kernel, without its name and locations.
static std::string getText(hostir::KernelOp kernel, StringRef arch) {
  OwningOpRef<hostir::KernelOp> copy(kernel.clone());
  copy->setSymName("kernel");
  std::string text = arch.str() + "\n";
  llvm::raw_string_ostream os(text);
  (*copy)->print(os, OpPrintingFlags().printGenericOpForm().useLocalScope());
  return text;
}

FailureOr<std::string> buildNative(hostir::KernelOp kernel, const GpuArchitecture &architecture) {
  KernelCache &cache = getCache();
  std::string text = getText(kernel, architecture.name);
  {
    std::lock_guard<std::mutex> lock(cache.mutex);
    if (auto known = cache.known.find(text); known != cache.known.end())
      return known->second;
  }
  FailureOr<std::string> code = compileNative(kernel, architecture);
  if (failed(code))
    return failure();
  std::lock_guard<std::mutex> lock(cache.mutex);
  if (cache.known.size() >= kMostKernels)
    cache.known.clear();
  cache.known.try_emplace(text, *code);
  return code;
}

} // namespace tandem::target
