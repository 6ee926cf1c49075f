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
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>

namespace tandem {

/// What kernels are compiled for. NVIDIA: PTX, which later GPUs also run. AMD: a code object, which
/// only GPUs of that name run.
struct GpuArchitecture {
  llvm::StringRef name; ///< "sm_90", "gfx942"
  unsigned waveSize;    ///< lanes of a warp, or of a wavefront
  bool isAmd() const { return name.starts_with("gfx"); }
};

/// A compile target: a named set of capabilities of its channels.
struct TargetInfo {
  llvm::StringRef name;
  llvm::StringRef summary;
  /// Bit i: channels have capability i, numbered as hostir::Capability and sp::Capability.
  uint32_t capabilities;
  /// The GPU architectures that kernels can be compiled for. The first one is the default.
  llvm::ArrayRef<GpuArchitecture> architectures = {};

  /// `capability`: a hostir::Capability.
  template <typename CapabilityT> bool has(CapabilityT capability) const {
    return (capabilities >> static_cast<uint32_t>(capability)) & 1;
  }
};

/// The default target.
inline constexpr llvm::StringLiteral kDefaultTarget = "cpu-ucx";

/// All targets.
llvm::ArrayRef<TargetInfo> knownTargets();

/// The target called `name`, or null. Static lifetime. "hip-rccl:gfx90a,gfx942" is target hip-rccl
/// with the architectures that it also compiles kernels for; null if it does not have them.
const TargetInfo *lookupTarget(llvm::StringRef name);

/// The architectures that `name` names, else the default one of its target. None: CPU only.
llvm::SmallVector<GpuArchitecture> architecturesOf(llvm::StringRef name);

/// The error message for an unknown target or architecture; lists the known ones.
std::string unknownTargetMessage(llvm::StringRef name);

/// "two_sided, one_sided": the names of the bits of a capability set.
std::string capabilityNames(uint32_t capabilities);

} // namespace tandem

#endif // TANDEM_TARGET_STREAMPROGRAM_TARGETS_H
