//===- Kernel.h - kernels of the embedder -----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_KERNEL_H
#define TANDEM_RUNTIME_KERNEL_H

#include "tandem-c/Kernel.h"
#include "tandem/Program/Status.h"
#include "tandem/Runtime/Device.h"

#include <memory>
#include <string>
#include <vector>

namespace tandem {

/// A registered kernel (tandem_kernel of the C API), with copies of its texts and image.
struct ExternalKernel {
  std::string name;
  void *user = nullptr;
  tandem_kernel_function cpuFunction = nullptr, gpuFunction = nullptr;
  std::vector<char> image; ///< ends in a null; empty: none
  std::string entry;
  uint32_t threads = 0, indicesPerBlock = 0;

  /// InvalidArgument if a member is missing.
  static Expected<std::shared_ptr<const ExternalKernel>> create(const tandem_kernel &kernel);
};

/// A call of a kernel of the embedder, or of the runtime itself.
struct CallDesc {
  std::shared_ptr<const ExternalKernel> kernel;
  /// A kernel that the device has (tandem/Program/BuiltinKernels.h); `kernel` is only its name.
  bool isBuiltin = false;
  bool ordered = false;    ///< of a built-in matmul: as MatmulDesc::ordered
  const char *config = ""; ///< lives as long as the operation
  uint32_t outputs = 1;
  std::vector<uint32_t> slots;                 ///< of the outputs, then of the inputs
  std::vector<tandem_kernel_operand> operands; ///< likewise, without data
  int64_t indices = 1; ///< of the outputs' parallel dimensions, all together
  /// A dimension whose extent is `times` the frame's.
  struct Varying {
    uint32_t operand, dim;
    int64_t times;
  };
  std::vector<Varying> varying;
  std::vector<Layout> layouts() const; ///< of the operands
  /// The operands of a run.
  void fill(const Frame &frame, tandem_kernel_operand *run) const;
};

/// Calls `function` on `stream` with the frame's addresses.
Status callKernel(const CallDesc &desc, tandem_kernel_function function, void *stream,
                  const Frame &frame);

} // namespace tandem

#endif // TANDEM_RUNTIME_KERNEL_H
