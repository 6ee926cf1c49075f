//===- EditedFile.cpp - a stream program with one rank's lists replaced ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EditedFile.h"

#include <cstring>

namespace tandem::test {

RankLists listsOf(const Program &program) {
  RankLists lists;
  const sp::RankProgram &data = program.data();
  for (const sp::Command *c : *data.commands()) {
    CommandSpec out{c->kind(),   c->flags(),   c->op(),  c->reduce_op(),
                    c->stream(), c->channel(), c->name()};
    for (uint32_t k = 0; k < 4; ++k)
      out.operands[k] = c->operands()->Get(k);
    out.peer = c->peer();
    out.aux = c->aux();
    out.value = c->value();
    lists.commands.push_back(out);
  }
  if (data.views())
    for (const sp::View *view : *data.views())
      lists.views.push_back(*view);
  return lists;
}

/// Appends a vector of structs to a FlatBuffer and lets the root table's field point at it: offsets
/// go forward only, and what stood there before stays as a gap.
template <typename T>
static void replaceVector(std::string &blob, flatbuffers::voffset_t field,
                          const std::vector<T> &list) {
  // The elements are aligned to 8, the count stands in the four bytes before.
  while (blob.size() % 8 != 4)
    blob.push_back('\0');
  auto at = static_cast<uint32_t>(blob.size());
  auto count = static_cast<uint32_t>(list.size());
  blob.append(reinterpret_cast<const char *>(&count), sizeof count);
  blob.append(reinterpret_cast<const char *>(list.data()), list.size() * sizeof(T));
  const auto *root =
      flatbuffers::GetRoot<flatbuffers::Table>(reinterpret_cast<const uint8_t *>(blob.data()));
  const uint8_t *address = root->GetAddressOf(field);
  if (!address)
    return; // the program has none of it, and neither has the mutant
  auto place = static_cast<uint32_t>(address - reinterpret_cast<const uint8_t *>(blob.data()));
  uint32_t offset = at - place;
  std::memcpy(blob.data() + place, &offset, sizeof offset);
}

std::string replaceLists(const std::string &file, uint32_t rank, const RankLists &lists) {
  std::string result = file;
  sp::Header header;
  std::memcpy(&header, result.data(), sizeof header);
  std::vector<uint64_t> index(header.indexSize / 8 + 1);
  std::memcpy(index.data(), result.data() + header.indexOffset, header.indexSize);
  const sp::Blob &old = *flatbuffers::GetRoot<sp::Index>(index.data())->ranks()->Get(rank);
  std::string blob = result.substr(old.offset(), old.size());
  std::vector<sp::Command> commands;
  for (const CommandSpec &c : lists.commands)
    commands.emplace_back(c.kind, c.flags, c.op, c.reduceOp, c.stream, c.channel, c.name,
                          flatbuffers::span<const uint32_t, 4>(c.operands), c.peer, c.aux, c.value,
                          c.reserved);
  replaceVector(blob, sp::RankProgram::VT_COMMANDS, commands);
  replaceVector(blob, sp::RankProgram::VT_VIEWS, lists.views);

  result.resize((result.size() + 63) / 64 * 64, '\0');
  sp::Blob place(result.size(), blob.size(), 0);
  size_t inIndex = static_cast<size_t>(reinterpret_cast<const char *>(&old) -
                                       reinterpret_cast<const char *>(index.data()));
  std::memcpy(result.data() + header.indexOffset + inIndex, &place, sizeof place);
  result += blob;
  rehash(result);
  return result;
}

} // namespace tandem::test
