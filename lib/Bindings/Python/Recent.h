//===- Recent.h - what was used last ----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_BINDINGS_PYTHON_RECENT_H
#define TANDEM_LIB_BINDINGS_PYTHON_RECENT_H

#include <cstdint>
#include <iterator>
#include <list>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tandem::python {

/// Programs that a cache keeps of one rank in one context, unless stated otherwise.
inline constexpr size_t kMostPrograms = 512;

/// Values by keys of numbers; those that were not used for the longest time are forgotten. Each
/// rank has its own: all ranks make the same calls, so they forget the same programs at the same
/// call, and prepare together one that is needed again.
template <typename Value> class Recent {
public:
  using Key = std::vector<int64_t>;

  Recent() = default;
  Recent(const Recent &) = delete;
  Recent &operator=(const Recent &) = delete;

  /// Null if there is none. Valid until the next add.
  Value *find(const Key &key) {
    auto found = places.find(key);
    if (found == places.end())
      return nullptr;
    entries.splice(entries.begin(), entries, found->second);
    return &entries.front().second;
  }
  /// Replaces the value of an equal key. Forgets values until there are `most` (at least this one).
  Value &add(Key key, Value value, size_t most) {
    Entries gone; // destroyed last: that may give up the interpreter's lock
    auto forget = [&](typename Entries::iterator entry) {
      places.erase(entry->first);
      gone.splice(gone.begin(), entries, entry);
    };
    if (auto found = places.find(key); found != places.end())
      forget(found->second);
    entries.emplace_front(key, std::move(value));
    places.emplace(std::move(key), entries.begin());
    while (entries.size() > 1 && entries.size() > most)
      forget(std::prev(entries.end()));
    return entries.front().second;
  }
  size_t size() const { return entries.size(); }

private:
  using Entries = std::list<std::pair<Key, Value>>;
  struct Hash {
    size_t operator()(const Key &key) const {
      size_t hash = key.size();
      for (int64_t number : key)
        hash = (hash ^ static_cast<size_t>(number)) * 0x9e3779b97f4a7c15ull;
      return hash;
    }
  };

  Entries entries; ///< the last one used first
  std::unordered_map<Key, typename Entries::iterator, Hash> places;
};

} // namespace tandem::python

#endif // TANDEM_LIB_BINDINGS_PYTHON_RECENT_H
