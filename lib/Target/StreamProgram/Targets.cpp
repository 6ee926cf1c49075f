//===- Targets.cpp - the table of targets -----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Target/StreamProgram/Targets.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

using namespace mlir;

namespace tandem {

namespace {
enum : uint32_t { kTwoSided = 1, kOneSided = 2, kCollectives = 4 };

constexpr TargetInfo kTargets[] = {
    {"cpu-ucx", "host memory, one process per rank, UCX", kTwoSided | kOneSided, ""},
    {"cpu-local", "host memory, ranks as threads of one process",
     kTwoSided | kOneSided | kCollectives, ""},
    {"cuda-ucx", "NVIDIA GPUs, messages only: UCX by staging, or NCCL", kTwoSided, "sm_90"},
    {"cuda-nccl", "NVIDIA GPUs, one per rank, NCCL; also runs on the CPU", kTwoSided | kCollectives,
     "sm_90"},
    {"cuda-peer", "NVIDIA GPUs of one node, one-sided copies between them, and NCCL",
     kTwoSided | kOneSided | kCollectives, "sm_90"},
};
} // namespace

llvm::ArrayRef<TargetInfo> knownTargets() { return kTargets; }

const TargetInfo *lookupTarget(llvm::StringRef name) {
  const auto *found = llvm::find_if(kTargets, [&](const TargetInfo &t) { return t.name == name; });
  return found == std::end(kTargets) ? nullptr : found;
}

std::string unknownTargetMessage(llvm::StringRef name) {
  return (llvm::Twine("unknown target \"") + name + "\", expected " +
          llvm::join(llvm::map_range(kTargets, [](const TargetInfo &t) { return t.name; }), " or "))
      .str();
}

std::string capabilityNames(uint32_t capabilities) {
  static constexpr llvm::StringLiteral names[] = {"two_sided", "one_sided", "collectives"};
  std::string text;
  for (auto [bit, name] : llvm::enumerate(names))
    if ((capabilities >> bit) & 1)
      text += (text.empty() ? "" : ", ") + name.str();
  return text;
}

} // namespace tandem
