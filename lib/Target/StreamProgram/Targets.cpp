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

#include <optional>

using namespace mlir;

namespace tandem {

namespace {
enum : uint32_t { kTwoSided = 1, kOneSided = 2, kCollectives = 4 };

constexpr GpuArchitecture kNvidia[] = {{"sm_90", 32}};
constexpr GpuArchitecture kAmd[] = {{"gfx942", 64}, {"gfx90a", 64}, {"gfx1100", 32}};

constexpr TargetInfo kTargets[] = {
    {"cpu-ucx", "host memory, one process per rank, UCX", kTwoSided | kOneSided},
    {"cpu-local", "host memory, ranks as threads of one process",
     kTwoSided | kOneSided | kCollectives},
    {"cuda-ucx", "NVIDIA GPUs, messages only: UCX by staging, or NCCL", kTwoSided, kNvidia},
    {"cuda-nccl", "NVIDIA GPUs, one per rank, NCCL; also runs on the CPU", kTwoSided | kCollectives,
     kNvidia},
    {"cuda-peer", "NVIDIA GPUs of one node, one-sided copies between them, and NCCL",
     kTwoSided | kOneSided | kCollectives, kNvidia},
    {"hip-ucx", "AMD GPUs, messages only: UCX by staging, or RCCL", kTwoSided, kAmd},
    {"hip-rccl", "AMD GPUs, one per rank, RCCL; also runs on the CPU", kTwoSided | kCollectives,
     kAmd},
    {"hip-peer", "AMD GPUs of one node, one-sided copies between them, and RCCL",
     kTwoSided | kOneSided | kCollectives, kAmd},
};

/// The target and the architectures of a name. No target: it is unknown. `unknown`: of an
/// architecture that the target does not have.
struct ParsedTarget {
  const TargetInfo *target = nullptr;
  llvm::SmallVector<GpuArchitecture> architectures;
  std::optional<llvm::StringRef> unknown;
};

template <typename Range> std::string namesOf(const Range &known) {
  return llvm::join(llvm::map_range(known, [](const auto &each) { return each.name; }), " or ");
}
} // namespace

static ParsedTarget parse(llvm::StringRef name) {
  auto [first, list] = name.split(':');
  llvm::StringRef base = first; // a lambda cannot capture the binding
  ParsedTarget parsed;
  const auto *found = llvm::find_if(kTargets, [&](const TargetInfo &t) { return t.name == base; });
  if (found == std::end(kTargets))
    return parsed;
  parsed.target = found;
  if (base.size() == name.size()) {
    llvm::append_range(parsed.architectures, found->architectures.take_front());
    return parsed;
  }
  for (llvm::StringRef each : llvm::split(list, ',')) {
    const auto *known = llvm::find_if(found->architectures,
                                      [&](const GpuArchitecture &a) { return a.name == each; });
    if (known == found->architectures.end()) {
      parsed.unknown = each;
      return parsed;
    }
    parsed.architectures.push_back(*known);
  }
  return parsed;
}

llvm::ArrayRef<TargetInfo> knownTargets() { return kTargets; }

const TargetInfo *lookupTarget(llvm::StringRef name) {
  ParsedTarget parsed = parse(name);
  return parsed.unknown ? nullptr : parsed.target;
}

llvm::SmallVector<GpuArchitecture> architecturesOf(llvm::StringRef name) {
  return parse(name).architectures;
}

std::string unknownTargetMessage(llvm::StringRef name) {
  ParsedTarget parsed = parse(name);
  if (!parsed.target)
    return (llvm::Twine("unknown target \"") + name + "\", expected " + namesOf(kTargets)).str();
  if (parsed.target->architectures.empty())
    return (llvm::Twine("target ") + parsed.target->name + " has no GPU, found architecture \"" +
            parsed.unknown.value_or("") + "\"")
        .str();
  return (llvm::Twine("unknown architecture \"") + parsed.unknown.value_or("") + "\" of target " +
          parsed.target->name + ", expected " + namesOf(parsed.target->architectures))
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
