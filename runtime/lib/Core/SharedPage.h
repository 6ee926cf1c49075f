//===- SharedPage.h - memory of a rank that its host reads ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CORE_SHAREDPAGE_H
#define TANDEM_LIB_CORE_SHAREDPAGE_H

#include "tandem/Runtime/MappedMemory.h"

#include <new>
#include <random>

namespace tandem::core {

/// A T of this process that other processes of the host read: plain data and lock-free atomics.
template <typename T> class SharedPage {
public:
  /// What another process needs to map it: plain data, to be exchanged.
  struct Address {
    MappedMemory::Handle memory;
    uint64_t number = 0; ///< random: distinguishes pages of different hosts
  };

  /// Null where the system has no shared memory.
  SharedPage() = default;
  static SharedPage make() {
    SharedPage page;
    if (auto made = MappedMemory::allocate(sizeof(Content))) {
      page.memory = std::move(*made);
      page.content = new (page.memory->base()) Content;
      std::random_device random;
      page.where = {page.memory->handle(), uint64_t(random()) << 32 | random()};
      page.content->number = page.where.number;
    }
    return page;
  }
  explicit operator bool() const { return content != nullptr; }
  T *operator->() const { return &content->data; }
  const Address &address() const { return where; }

  /// The page of another process; null if this one cannot map it. It may outlive that process.
  static std::shared_ptr<const T> map(const Address &address) {
    if (address.memory.bytes != sizeof(Content))
      return nullptr;
    auto mapped = MappedMemory::map(address.memory);
    if (!mapped)
      return nullptr;
    const auto *theirs = static_cast<const Content *>((*mapped)->base());
    return theirs->number == address.number ? std::shared_ptr<const T>(*mapped, &theirs->data)
                                            : nullptr;
  }

private:
  struct Content {
    uint64_t number = 0;
    T data;
  };
  Address where;
  std::shared_ptr<MappedMemory> memory;
  Content *content = nullptr; ///< in `memory`
};

} // namespace tandem::core

#endif // TANDEM_LIB_CORE_SHAREDPAGE_H
