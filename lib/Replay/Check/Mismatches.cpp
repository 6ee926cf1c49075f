//===- Mismatches.cpp - what did not match ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckImpl.h"

namespace tandem::check {

using namespace replay;

namespace {

class Reporter {
public:
  Reporter(const World &world, Findings &findings) : world(world), findings(findings) {}

  void report(const Mismatch &m) {
    switch (m.problem) {
    case Mismatch::SendWithoutRecv:
      return add(m, Diagnosis::UnmatchedSend, [&] {
        return fmt::format("rank {} sends to rank {} with tag {} on {}, without a matching receive",
                           world.rankOf(m.a), command(m.a).peer, command(m.a).aux,
                           channel(command(m.a).channel));
      });
    case Mismatch::RecvWithoutSend:
      return add(m, Diagnosis::UnmatchedRecv, [&] {
        return fmt::format(
            "rank {} receives from rank {} with tag {} on {}, without a matching send",
            world.rankOf(m.a), command(m.a).peer, command(m.a).aux, channel(command(m.a).channel));
      });
    case Mismatch::MessageSize:
      return add(m, Diagnosis::MessageSize, [&] { return operandsDiffer(m); });
    case Mismatch::MessageType:
      return add(m, Diagnosis::MessageType, [&] { return operandsDiffer(m); });
    case Mismatch::GroupsDiffer:
      return add(m, Diagnosis::GroupMismatch, [&] {
        return fmt::format("{}: the group of rank {} contains rank {}, which has another group",
                           channel(m.channel), m.other, m.rank);
      });
    case Mismatch::WaitWithoutSignal:
      return add(m, Diagnosis::SignalMissing, [&] {
        return fmt::format(
            "rank {} waits for slot {} to reach {}, and no command raises it that far",
            world.rankOf(m.a), command(m.a).aux, command(m.a).value);
      });
    case Mismatch::PutOutside:
      return add(m, Diagnosis::PutOutside, [&] {
        return fmt::format("rank {} writes outside the {} symmetric bytes of rank {}",
                           world.rankOf(m.a), world.ranks[m.rank].symmetricBytes, m.rank);
      });
    case Mismatch::CollectiveMissing:
      return add(m, Diagnosis::CollectiveMismatch, [&] {
        const replay::MatchedCollective &c = world.collectives[command(m.a).partner];
        return fmt::format("{}: rank {} issues {} collectives, rank {} more", channel(c.channel),
                           m.rank, c.sequence, world.rankOf(m.a));
      });
    case Mismatch::CollectiveDiffers:
      return add(m, Diagnosis::CollectiveMismatch, [&] {
        const replay::MatchedCollective &c = world.collectives[command(m.a).partner];
        return fmt::format("{}: collective {} differs in {}: rank {} has {}, rank {} has {}",
                           channel(c.channel), c.sequence, m.field, world.rankOf(m.a),
                           collective(m.a), world.rankOf(m.b), collective(m.b));
      });
    }
  }

private:
  template <typename Message> void add(const Mismatch &m, Diagnosis diagnosis, Message message) {
    if (!findings.wants(diagnosis))
      return findings.count(diagnosis);
    Finding finding{diagnosis, message(), {}, {}};
    for (CommandId command : {m.a, m.b})
      if (command != kNone) {
        finding.commands.push_back(command);
        finding.notes.push_back(world.describe(command));
      }
    findings.add(std::move(finding));
  }

  std::string operandsDiffer(const Mismatch &m) const {
    return fmt::format("rank {} sends {}, rank {} receives it as {}", world.rankOf(m.a),
                       operand(m.a, 0), world.rankOf(m.b), operand(m.b, 0));
  }

  const Command &command(CommandId id) const { return world.commands[id]; }

  std::string operand(CommandId id, uint32_t k) const {
    const View *view = world.operand(world.ranks[world.rankOf(id)], command(id), k);
    return view ? world.layoutOf(*view).str() : "nothing";
  }

  std::string channel(uint32_t c) const {
    return fmt::format("channel c{} \"{}\"", c, world.channels[c].name);
  }

  /// "all_gather f32[4] -> f32[2,4] root 1"
  std::string collective(CommandId id) const {
    const Command &c = command(id);
    std::string text =
        fmt::format("{} {} -> {}", tandem::toString(static_cast<tandem::CollectiveKind>(c.op)),
                    operand(id, 1), operand(id, 0));
    if (c.peer != kNone)
      text += fmt::format(" root rank {}", c.peer);
    return text;
  }

  const World &world;
  Findings &findings;
};

} // namespace

void reportMismatches(const World &world, Findings &findings) {
  Reporter reporter(world, findings);
  for (const Mismatch &mismatch : world.mismatches)
    reporter.report(mismatch);
}

} // namespace tandem::check
