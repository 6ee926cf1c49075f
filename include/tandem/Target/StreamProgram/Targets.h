//===- Targets.h - what a program may ask of its channels -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TARGET_STREAMPROGRAM_TARGETS_H
#define TANDEM_TARGET_STREAMPROGRAM_TARGETS_H

#include "tandem/Support/LLVM.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>

namespace tandem {

/// A compile target: a named set of capabilities of its channels.
struct TargetInfo {
  llvm::StringRef name;
  llvm::StringRef summary;
  /// Bit i is set if channels have capability i; numbers as in hostir::Capability and
  /// sp::Capability.
  uint32_t capabilities;
  /// The GPU that kernels are compiled for beside the CPU, as PTX: "sm_90" also runs on later ones.
  /// Empty: none.
  llvm::StringRef gpuArch;

  /// `capability`: a hostir::Capability.
  template <typename CapabilityT> bool has(CapabilityT capability) const {
    return (capabilities >> static_cast<uint32_t>(capability)) & 1;
  }
};

/// The target that is meant when none is named.
inline constexpr llvm::StringLiteral kDefaultTarget = "cpu-ucx";

/// All targets.
llvm::ArrayRef<TargetInfo> knownTargets();

/// The target called `name`, or null. Lives forever.
const TargetInfo *lookupTarget(llvm::StringRef name);

/// What to say when lookupTarget has returned null: lists the known targets.
std::string unknownTargetMessage(llvm::StringRef name);

/// "two_sided, one_sided": the names of the bits of a capability set.
std::string capabilityNames(uint32_t capabilities);

} // namespace tandem

#endif // TANDEM_TARGET_STREAMPROGRAM_TARGETS_H
