//===- Status.h - errors as values ------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_STATUS_H
#define TANDEM_PROGRAM_STATUS_H

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tandem {

/// Error classes, numbered as in the C API.
enum class Code : int {
  Ok = 0,
  InvalidArgument = 1, ///< an invalid argument of the caller
  InvalidProgram = 2,  ///< a stream program is malformed
  Unsupported = 3,     ///< well formed, but this device or channel cannot do it
  OutOfMemory = 4,
  Io = 5,       ///< file or network
  Timeout = 6,  ///< the watchdog ended a run that made no progress in time
  Aborted = 7,  ///< another rank, or an earlier error of this context, ended the run
  Internal = 8, ///< a bug of the runtime or of a vendor library
};

/// The name of a code: "invalid-program".
std::string_view toString(Code code);

/// Success, or an error code and a message. No exception crosses an interface of the runtime;
/// functions that can fail return a Status. Success is a null pointer. Messages are lower case,
/// without a final period, and state what was found and what was expected.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Code code, std::string message)
      : rep(code == Code::Ok ? nullptr
                             : std::make_shared<const Rep>(Rep{code, std::move(message)})) {}

  static Status success() { return Status(); }

  bool ok() const { return !rep; }
  Code code() const { return rep ? rep->code : Code::Ok; }
  /// Empty on success. Lives as long as any copy of this status.
  const std::string &message() const;
  /// The same code with `prefix` in front of the message; success stays success.
  Status withPrefix(std::string_view prefix) const;
  /// Documents that an error does not matter here.
  void ignore() const {}

private:
  struct Rep {
    Code code;
    std::string message;
  };
  std::shared_ptr<const Rep> rep;
};

/// A value, or the error that prevented it.
template <typename T> class [[nodiscard]] Expected {
public:
  template <typename U = T, typename = std::enable_if_t<std::is_convertible_v<U &&, T> &&
                                                        !std::is_same_v<std::decay_t<U>, Status>>>
  Expected(U &&value) : value(std::forward<U>(value)) {}
  /// `status` must be an error; success becomes an internal error.
  Expected(Status status)
      : error(status.ok() ? Status(Code::Internal, "success without a value") : std::move(status)) {
  }

  bool ok() const { return value.has_value(); }
  explicit operator bool() const { return ok(); }
  /// Success, or the error.
  const Status &status() const { return error; }
  /// Valid only if ok().
  T &operator*() { return *value; }
  const T &operator*() const { return *value; }
  T *operator->() { return &*value; }
  const T *operator->() const { return &*value; }

private:
  std::optional<T> value;
  Status error;
};

} // namespace tandem

/// Returns from the enclosing function if `expr`, a Status, is an error.
#define TANDEM_RETURN_IF_ERROR(expr)                                                               \
  do {                                                                                             \
    if (::tandem::Status tandemStatus_ = (expr); !tandemStatus_.ok())                              \
      return tandemStatus_;                                                                        \
  } while (false)

#define TANDEM_CONCAT_IMPL_(a, b) a##b
#define TANDEM_CONCAT_(a, b) TANDEM_CONCAT_IMPL_(a, b)
/// `TANDEM_ASSIGN_OR_RETURN(auto x, f())`: takes the value of an Expected, or returns its error.
#define TANDEM_ASSIGN_OR_RETURN(decl, expr)                                                        \
  auto TANDEM_CONCAT_(tandemExpected_, __LINE__) = (expr);                                         \
  if (!TANDEM_CONCAT_(tandemExpected_, __LINE__).ok())                                             \
    return TANDEM_CONCAT_(tandemExpected_, __LINE__).status();                                     \
  decl = std::move(*TANDEM_CONCAT_(tandemExpected_, __LINE__))

#endif // TANDEM_PROGRAM_STATUS_H
