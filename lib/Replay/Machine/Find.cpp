//===- Find.cpp - where machine files are ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Replay/Machine.h"

#include <cstdlib>
#include <unistd.h>

namespace tandem::machine {

std::string pathOf(const std::string &given) {
  if (given.find('/') != std::string::npos || ::access(given.c_str(), R_OK) == 0)
    return given;
  const char *folder = std::getenv("TANDEM_MACHINES");
  std::string path = std::string(folder ? folder : TANDEM_MACHINES) + "/" + given;
  bool suffix = given.size() > 5 && given.compare(given.size() - 5, 5, ".json") == 0;
  return suffix ? path : path + ".json";
}

} // namespace tandem::machine
