//===- SharedLibrary.h - libraries that are opened when needed --*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CORE_SHAREDLIBRARY_H
#define TANDEM_LIB_CORE_SHAREDLIBRARY_H

#include "tandem/Program/Status.h"

#include <initializer_list>
#include <string>

namespace tandem {

/// A vendor's library, opened at run time by its versioned name and never closed: such libraries
/// keep threads and hooks. Errors are Unsupported and begin with the name of the component that
/// needs it.
class SharedLibrary {
public:
  /// Opens the library named by environment variable `variable`, else the first of `names` that
  /// exists. `wanted`: "channel ccl: NCCL"; the error then says "channel ccl: NCCL is not
  /// installed: " and what the loader said of each.
  static Expected<SharedLibrary>
  open(const char *variable, std::initializer_list<const char *> names, const char *wanted);

  /// Looks `symbol` up into `function`, a pointer to a function.
  template <typename Function> Status find(Function &function, const char *symbol) const {
    void *address = nullptr;
    TANDEM_RETURN_IF_ERROR(lookUp(symbol, &address));
    function = reinterpret_cast<Function>(address);
    return Status();
  }

private:
  Status lookUp(const char *symbol, void **address) const;

  void *handle = nullptr;
  std::string name, wanted;
};

/// For a list `X(function)`: looks each up, under its own name, into the member of `api` of that
/// name. The second step is for headers whose names are macros for others.
#define TANDEM_SYMBOL_NAME(x) #x
#define TANDEM_FIND_FUNCTION(name)                                                                 \
  TANDEM_RETURN_IF_ERROR(library.find(api.name, TANDEM_SYMBOL_NAME(name)));

} // namespace tandem

#endif // TANDEM_LIB_CORE_SHAREDLIBRARY_H
