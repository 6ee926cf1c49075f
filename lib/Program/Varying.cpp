//===- Varying.cpp - programs for a varying extent --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramImpl.h"

#include <algorithm>

namespace tandem {

ArgumentInfo ArgumentInfo::at(int64_t extent) const {
  ArgumentInfo result = *this;
  for (uint32_t dim : varying) {
    result.shape[dim] = std::min(extent, shape[dim]);
    if (present)
      result.localShape[dim] = std::clamp<int64_t>(extent - begin[dim], 0, localShape[dim]);
  }
  return result;
}

std::optional<int64_t> boundOf(const Program &program) {
  for (const ArgumentInfo &info : program.arguments())
    if (!info.varying.empty())
      return info.shape[info.varying[0]];
  return std::nullopt;
}

namespace {

class ProgramAt final : public Program {
public:
  ProgramAt(std::shared_ptr<const Program> whole, int64_t extent) : whole(std::move(whole)) {
    for (const ArgumentInfo &info : this->whole->arguments())
      args.push_back(info.at(extent));
  }

  std::string_view name() const override { return whole->name(); }
  std::string_view source() const override { return whole->source(); }
  uint32_t rank() const override { return whole->rank(); }
  uint32_t numRanks() const override { return whole->numRanks(); }
  bool isReference() const override { return whole->isReference(); }
  uint64_t contentHash() const override { return whole->contentHash(); }
  const std::vector<ArgumentInfo> &arguments() const override { return args; }
  const Layout &layout(uint32_t i) const override { return whole->layout(i); }
  std::string_view nameText(uint32_t name) const override { return whole->nameText(name); }
  const sp::Index &index() const override { return whole->index(); }
  const sp::RankProgram &data() const override { return whole->data(); }

  std::vector<Shard> shards() const override {
    std::vector<Shard> result = whole->shards();
    for (size_t i = 0; i < result.size(); ++i) {
      const ArgumentInfo &info = args[i];
      Shard &shard = result[i];
      if (info.varying.empty() || !shard.present)
        continue;
      // The same block of a smaller row-major tensor.
      shard.shape = info.localShape;
      shard.offset = 0;
      int64_t stride = 1;
      for (size_t dim = info.shape.size(); dim-- > 0;) {
        shard.strides[dim] = stride;
        shard.offset += info.begin[dim] * stride;
        stride *= info.shape[dim];
      }
      if (shard.numElements() == 0)
        shard.offset = 0;
    }
    return result;
  }

private:
  std::shared_ptr<const Program> whole;
  std::vector<ArgumentInfo> args;
};

} // namespace

std::shared_ptr<const Program> atExtent(std::shared_ptr<const Program> program, int64_t extent) {
  return std::make_shared<ProgramAt>(std::move(program), extent);
}

} // namespace tandem
