//===- Commands.cpp - the table of commands ---------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/Commands.h"

#include "tandem/Program/stream_program_generated.h"

#include <string_view>

namespace tandem::program {

#define TANDEM_COMMAND(Kind, name, ...)                                                            \
  static_assert(static_cast<int>(CommandKind::Kind) == static_cast<int>(sp::CommandKind::name));
#include "tandem/Program/Commands.def"
static_assert(kNumCommandKinds == static_cast<size_t>(sp::CommandKind::MAX) + 1);
static_assert(
    static_cast<int>(ChannelNeed::TwoSided) == static_cast<int>(sp::Capability::two_sided) &&
    static_cast<int>(ChannelNeed::OneSided) == static_cast<int>(sp::Capability::one_sided) &&
    static_cast<int>(ChannelNeed::Collectives) == static_cast<int>(sp::Capability::collectives));

static constexpr std::array<OperandUse, 4> usesOf(std::string_view letters) {
  std::array<OperandUse, 4> uses{};
  if (letters == "*")
    return uses;
  for (size_t k = 0; k < letters.size(); ++k) {
    uses[k].exists = true;
    uses[k].isOptional = letters[k] == 'R' || letters[k] == 'W';
    uses[k].reads = letters[k] == 'r' || letters[k] == 'R' || letters[k] == 'u';
    uses[k].writes = letters[k] == 'w' || letters[k] == 'W' || letters[k] == 'u';
  }
  return uses;
}

static constexpr CommandInfo kInfos[] = {
#define TANDEM_COMMAND(Kind, name, operands, flags, needs, sync, category, computes, engine, cost, \
                       partOf, format)                                                             \
  {#name,                                                                                          \
   std::string_view(operands) == "*",                                                              \
   usesOf(operands),                                                                               \
   flags,                                                                                          \
   ChannelNeed::needs,                                                                             \
   Sync::sync,                                                                                     \
   Category::category,                                                                             \
   computes,                                                                                       \
   Engine::engine,                                                                                 \
   CommandCost::cost,                                                                              \
   PartOf::partOf,                                                                                 \
   format},
#include "tandem/Program/Commands.def"
}; // namespace tandem::program

std::string capabilitiesToString(uint32_t bits) {
  std::string result;
  for (sp::Capability c : sp::EnumValuesCapability())
    if (bits & static_cast<uint32_t>(c))
      result += (result.empty() ? "" : "|") + std::string(sp::EnumNameCapability(c));
  return result.empty() ? "none" : result;
}

const CommandInfo &infoOf(CommandKind kind) { return kInfos[static_cast<size_t>(kind)]; }

} // namespace tandem::program
