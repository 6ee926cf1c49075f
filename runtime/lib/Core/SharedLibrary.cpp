//===- SharedLibrary.cpp - libraries that are opened when needed ----------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SharedLibrary.h"

#include <cstdlib>
#include <dlfcn.h>
#include <fmt/format.h>
#include <vector>

namespace tandem {

Expected<SharedLibrary> SharedLibrary::open(const char *variable,
                                            std::initializer_list<const char *> names,
                                            const char *wanted) {
  const char *given = std::getenv(variable);
  std::vector<const char *> candidates(names);
  if (given && *given)
    candidates = {given};
  SharedLibrary library;
  library.wanted = wanted;
  std::string why;
  for (const char *name : candidates) {
    library.handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library.handle) {
      library.name = name;
      return library;
    }
    why += (why.empty() ? "" : "; ") + std::string(::dlerror());
  }
  return Status(Code::Unsupported, fmt::format("{} is not installed: {}", wanted, why));
}

Status SharedLibrary::lookUp(const char *symbol, void **address) const {
  *address = ::dlsym(handle, symbol);
  return *address
             ? Status()
             : Status(Code::Unsupported, fmt::format("{}: {} has no {}", wanted, name, symbol));
}

} // namespace tandem
