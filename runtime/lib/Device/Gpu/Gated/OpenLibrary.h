//===- OpenLibrary.h - where libtandem_gated.so is --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_GATED_OPENLIBRARY_H
#define TANDEM_LIB_DEVICE_GPU_GATED_OPENLIBRARY_H

#include "../../../Core/SharedLibrary.h"

#include <dlfcn.h>
#include <filesystem>
#include <link.h>
#include <string>

namespace tandem::gpu::gated {

/// Opens libtandem_gated.so: the file named by TANDEM_GATED_LIBRARY, else one next to this code or
/// in ../lib, else one that the loader finds. `wanted`: as SharedLibrary::open() has it.
inline Expected<SharedLibrary> openLibrary(const char *wanted) {
  static const char anchor = 0;
  Dl_info info;
  void *map = nullptr;
  std::error_code error;
  // An executable's own name is empty here.
  std::filesystem::path file;
  if (::dladdr1(&anchor, &info, &map, RTLD_DL_LINKMAP) && map)
    file = std::filesystem::canonical(static_cast<link_map *>(map)->l_name, error);
  if (file.empty())
    file = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string folder = file.parent_path().string();
  const std::string beside = folder + "/libtandem_gated.so",
                    inLib = folder + "/../lib/libtandem_gated.so";
  return SharedLibrary::open("TANDEM_GATED_LIBRARY",
                             {beside.c_str(), inLib.c_str(), "libtandem_gated.so"}, wanted);
}

} // namespace tandem::gpu::gated

#endif // TANDEM_LIB_DEVICE_GPU_GATED_OPENLIBRARY_H
