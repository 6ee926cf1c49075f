//===- CodeObject.h - what a code object of an AMD GPU says ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// HIP has no function like cuFuncGetParamInfo, so the sizes of a kernel's parameters are read from
// the code object's metadata: a MessagePack map in note NT_AMDGPU_METADATA of the ELF file
// (LLVM's AMDGPU usage guide, "Code Object Metadata").
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_HIP_CODEOBJECT_H
#define TANDEM_LIB_DEVICE_GPU_HIP_CODEOBJECT_H

#include "tandem/Program/Status.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::gpu {

/// Bytes of each parameter that a kernel declares (not those that the compiler adds), by the
/// kernel's name.
using KernelParameters = std::map<std::string, std::vector<uint32_t>, std::less<>>;

/// The code object for `target` ("gfx942") in `image`: `image` itself if it is a code object, else
/// the entry of an offload bundle whose processor is `target`. Unsupported, with the targets that
/// are there, if there is none. Never reads outside `image`.
Expected<std::string_view> selectCodeObject(std::string_view image, std::string_view target);

/// InvalidArgument if `object` is not a code object with metadata. Never reads outside `object`.
Expected<KernelParameters> readKernelParameters(std::string_view object);

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_HIP_CODEOBJECT_H
