//===- Locate.cpp - where the machine files are ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Replay/Machine.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <link.h>
#include <unistd.h>

namespace fs = std::filesystem;

/// The file with this code: a shared library, or the executable into which it is linked. Empty if
/// unknown.
static fs::path ownFile() {
  static const char anchor = 0;
  Dl_info info;
  void *map = nullptr;
  std::error_code error;
  // The executable's own name is empty here; in `info` it would be argv[0], which may lack a
  // folder.
  if (::dladdr1(&anchor, &info, &map, RTLD_DL_LINKMAP) && map &&
      *static_cast<link_map *>(map)->l_name)
    return fs::canonical(static_cast<link_map *>(map)->l_name, error);
  return fs::read_symlink("/proc/self/exe", error);
}

/// The build folder has the layout of an installation.
static fs::path machinesFolder() {
  if (const char *given = std::getenv("TANDEM_MACHINES"))
    return given;
  fs::path bin = ownFile().parent_path(); // or lib, or lib/x86_64-linux-gnu
  fs::path machines = bin.parent_path() / "share/tandem/machines";
  std::error_code error;
  if (fs::path above = bin.parent_path().parent_path() / "share/tandem/machines";
      !fs::is_directory(machines, error) && fs::is_directory(above, error))
    return above;
  return machines;
}

std::string tandem::machine::pathOf(const std::string &given) {
  if (given.find('/') != std::string::npos || ::access(given.c_str(), R_OK) == 0)
    return given;
  bool suffix = given.size() > 5 && given.compare(given.size() - 5, 5, ".json") == 0;
  return machinesFolder() / (suffix ? given : given + ".json");
}
