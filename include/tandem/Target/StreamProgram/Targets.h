//===- Targets.h - compile targets and channel capabilities -----*- C++ -*-===//
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
  /// Bit i: channels have capability i, numbered as hostir::Capability and sp::Capability.
  uint32_t capabilities;
  /// The GPU that kernels are also compiled for, as PTX: "sm_90" also runs on later ones. Empty:
  /// none.
  llvm::StringRef gpuArch;

  /// `capability`: a hostir::Capability.
  template <typename CapabilityT> bool has(CapabilityT capability) const {
    return (capabilities >> static_cast<uint32_t>(capability)) & 1;
  }
};

/// The default target.
inline constexpr llvm::StringLiteral kDefaultTarget = "cpu-ucx";

/// All targets.
llvm::ArrayRef<TargetInfo> knownTargets();

/// The target called `name`, or null. Static lifetime.
const TargetInfo *lookupTarget(llvm::StringRef name);

/// The error message for an unknown target; lists the known ones.
std::string unknownTargetMessage(llvm::StringRef name);

/// "two_sided, one_sided": the names of the bits of a capability set.
std::string capabilityNames(uint32_t capabilities);

} // namespace tandem

#endif // TANDEM_TARGET_STREAMPROGRAM_TARGETS_H
