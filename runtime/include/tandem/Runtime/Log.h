//===- Log.h - messages that are no errors ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LOG_H
#define TANDEM_RUNTIME_LOG_H

#include <functional>
#include <string>

namespace tandem {

enum class LogLevel : int {
  Warning = 0, ///< results or speed may not be as expected
  Info = 1,
};

/// Receives the messages of a context; by default they are dropped. Called while the context is
/// created or destroyed and in Instance::create, on the calling thread.
class Log {
public:
  using Function = std::function<void(LogLevel level, const std::string &message)>;
  Log() = default;
  explicit Log(Function function) : function(std::move(function)) {}
  void operator()(LogLevel level, const std::string &message) const {
    if (function)
      function(level, message);
  }

private:
  Function function;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_LOG_H
