//===- KernelLibrary.cpp - kernels of shared libraries ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelLibrary.h"

#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>

using namespace tandem;

Expected<run::KernelList> run::loadKernels(const std::vector<std::string> &paths) {
  KernelList kernels;
  for (const std::string &path : paths) {
    // Without a slash the loader looks in the system's folders only.
    bool isHere = path.find('/') == std::string::npos && std::filesystem::exists(path);
    std::string file = isHere ? "./" + path : path;
    std::error_code error;
    if (auto status = std::filesystem::status(file, error);
        std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
      return Status(Code::Io, fmt::format("cannot load \"{}\": not a regular file", path));
    void *library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
      return Status(Code::Io, fmt::format("cannot load \"{}\": {}", path, dlerror()));
    auto list = reinterpret_cast<tandem_kernels_function>(dlsym(library, TANDEM_KERNELS_SYMBOL));
    if (!list)
      return Status(
          Code::InvalidArgument,
          fmt::format("\"{}\": expected the function {}, found none", path, TANDEM_KERNELS_SYMBOL));
    size_t count = 0;
    const tandem_kernel *first = list(&count);
    for (size_t i = 0; i < count; ++i)
      kernels.push_back(first + i);
  }
  return kernels;
}
