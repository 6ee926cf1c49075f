//===- Status.cpp - errors as values ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/Status.h"

namespace tandem {

std::string_view toString(Code code) {
  switch (code) {
  case Code::Ok:
    return "ok";
  case Code::InvalidArgument:
    return "invalid-argument";
  case Code::InvalidProgram:
    return "invalid-program";
  case Code::Unsupported:
    return "unsupported";
  case Code::OutOfMemory:
    return "out-of-memory";
  case Code::Io:
    return "io";
  case Code::Timeout:
    return "timeout";
  case Code::Aborted:
    return "aborted";
  case Code::Internal:
    return "internal";
  }
  return "unknown";
}

const std::string &Status::message() const {
  static const std::string empty;
  return rep ? rep->message : empty;
}

Status Status::withPrefix(std::string_view prefix) const {
  if (!rep)
    return *this;
  return Status(rep->code, std::string(prefix) + rep->message);
}

} // namespace tandem
