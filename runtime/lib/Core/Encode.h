//===- Encode.h - what ranks tell each other, as bytes ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CORE_ENCODE_H
#define TANDEM_LIB_CORE_ENCODE_H

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace tandem::core {

/// Plain data as it is in memory; strings and vectors behind their size.
template <typename T> void append(std::string &to, const T &value) {
  if constexpr (std::is_trivially_copyable_v<T>) {
    to.append(reinterpret_cast<const char *>(&value), sizeof value);
  } else {
    append(to, uint64_t(value.size()));
    for (const auto &each : value)
      append(to, each);
  }
}

/// Takes what append() has added from the front; false if `from` has no such bytes.
template <typename T> bool take(std::string_view &from, T &value) {
  if constexpr (std::is_trivially_copyable_v<T>) {
    if (from.size() < sizeof value)
      return false;
    from.copy(reinterpret_cast<char *>(&value), sizeof value);
    from.remove_prefix(sizeof value);
    return true;
  } else {
    uint64_t size = 0;
    if (!take(from, size) || size > from.size()) // an element has a byte at least
      return false;
    value.resize(size);
    for (auto &each : value)
      if (!take(from, each))
        return false;
    return true;
  }
}

/// `fields`: std::tie of plain data, strings, and vectors of either. For ranks of one version.
template <typename... T> std::string encode(const std::tuple<T &...> &fields) {
  std::string bytes;
  std::apply([&](const T &...field) { (append(bytes, field), ...); }, fields);
  return bytes;
}

/// Whether `bytes` are exactly those of such fields, which then have their values.
template <typename... T> bool decode(std::string_view bytes, const std::tuple<T &...> &fields) {
  return std::apply([&](T &...field) { return (take(bytes, field) && ...); }, fields) &&
         bytes.empty();
}

} // namespace tandem::core

#endif // TANDEM_LIB_CORE_ENCODE_H
