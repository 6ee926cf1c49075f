//===- app.cpp - a target that links Tandem ---------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include <cstdio>
#include <stdexcept>
#include <tandem-c/Runtime.h>

int main() {
  try {
    throw std::runtime_error(tandem_runtime_version_string());
  } catch (const std::exception &error) {
    std::printf("%s\n", error.what());
  }
}
