//===- CStruct.h - structs of the C API, which begin with their size ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Caller and library may have been compiled with different versions of a struct; `struct_size` is
// the caller's sizeof. New members go to the end. No struct ends in padding: there, a newer library
// would read what an older caller has not set.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_CSTRUCT_H
#define TANDEM_PROGRAM_CSTRUCT_H

#include "tandem/Program/Status.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>

namespace tandem {

/// Copies what the caller has set into `known`, whose other members become 0. An error if the size
/// is missing, or if the caller is newer and has set members that are unknown here. `name` is the
/// struct's, for the message.
template <typename T> Status readStruct(const T *given, const char *name, T &known) {
  known = T{};
  if (!given)
    return Status(Code::InvalidArgument, fmt::format("{}: null pointer", name));
  size_t size = given->struct_size;
  if (size < sizeof(size_t))
    return Status(Code::InvalidArgument,
                  fmt::format("{}: struct_size: expected {}, found {}", name, sizeof(T), size));
  const auto *bytes = reinterpret_cast<const unsigned char *>(given);
  for (size_t i = sizeof(T); i < size; ++i)
    if (bytes[i])
      return Status(Code::InvalidArgument,
                    fmt::format("{}: byte {} is set, but this library knows {} bytes: the caller "
                                "was compiled for a newer version",
                                name, i, sizeof(T)));
  std::memcpy(&known, given, std::min(size, sizeof(T)));
  return Status();
}

/// Element `i` of an array of structs, which are as large as the first one says.
template <typename T> const T *elementOf(const T *first, size_t i) {
  return reinterpret_cast<const T *>(reinterpret_cast<const char *>(first) +
                                     i * first->struct_size);
}

/// Writes the members that the caller's size covers, other than the size.
template <typename T> Status writeStruct(const T &from, const char *name, T *to) {
  if (!to)
    return Status(Code::InvalidArgument, fmt::format("{}: null pointer", name));
  size_t size = to->struct_size;
  if (size < sizeof(size_t))
    return Status(Code::InvalidArgument,
                  fmt::format("{}: struct_size: expected {}, found {}", name, sizeof(T), size));
  constexpr size_t begin = sizeof(size_t);
  std::memcpy(reinterpret_cast<char *>(to) + begin, reinterpret_cast<const char *>(&from) + begin,
              std::min(size, sizeof(T)) - begin);
  return Status();
}

/// Whether a member at `offset` reaches to the end of its struct.
template <typename T, typename Member> constexpr bool isAtEnd(size_t offset, Member T::*) {
  return offset + sizeof(Member) == sizeof(T);
}

/// static_assert it of every struct that callers fill.
#define TANDEM_NO_PADDING_AFTER(type, last)                                                        \
  (offsetof(type, struct_size) == 0 && ::tandem::isAtEnd(offsetof(type, last), &type::last))

} // namespace tandem

#endif // TANDEM_PROGRAM_CSTRUCT_H
