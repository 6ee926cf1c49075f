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
    Diagnosis diagnosis = diagnosisOf(m.kind);
    if (!findings.wants(diagnosis))
      return findings.count(diagnosis);
    Finding finding{diagnosis, message(m), {}, {}};
    for (CommandId command : {m.a, m.b})
      if (command != kNone) {
        finding.commands.push_back(command);
        finding.notes.push_back(world.describe(command));
      }
    findings.add(std::move(finding));
  }

private:
  static Diagnosis diagnosisOf(Mismatch::Kind kind) {
    switch (kind) {
    case Mismatch::SendWithoutRecv:
      return Diagnosis::UnmatchedSend;
    case Mismatch::RecvWithoutSend:
      return Diagnosis::UnmatchedRecv;
    case Mismatch::MessageSize:
      return Diagnosis::MessageSize;
    case Mismatch::MessageType:
      return Diagnosis::MessageType;
    case Mismatch::GroupsDiffer:
      return Diagnosis::GroupMismatch;
    case Mismatch::WaitWithoutSignal:
      return Diagnosis::SignalMissing;
    case Mismatch::PutOutside:
      return Diagnosis::PutOutside;
    default:
      return Diagnosis::CollectiveMismatch;
    }
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

  std::string message(const Mismatch &m) const {
    switch (m.kind) {
    case Mismatch::SendWithoutRecv:
      return fmt::format("rank {} sends to rank {} with tag {} on {}, without a matching receive",
                         world.rankOf(m.a), command(m.a).peer, command(m.a).aux,
                         channel(command(m.a).channel));
    case Mismatch::RecvWithoutSend:
      return fmt::format("rank {} receives from rank {} with tag {} on {}, without a matching send",
                         world.rankOf(m.a), command(m.a).peer, command(m.a).aux,
                         channel(command(m.a).channel));
    case Mismatch::MessageSize:
    case Mismatch::MessageType:
      return fmt::format("rank {} sends {}, rank {} receives it as {}", world.rankOf(m.a),
                         operand(m.a, 0), world.rankOf(m.b), operand(m.b, 0));
    case Mismatch::GroupsDiffer:
      return fmt::format("{}: the group of rank {} contains rank {}, which has another group",
                         channel(m.channel), m.other, m.rank);
    case Mismatch::WaitWithoutSignal:
      return fmt::format("rank {} waits for slot {} to reach {}, and no command raises it that far",
                         world.rankOf(m.a), command(m.a).aux, command(m.a).value);
    case Mismatch::PutOutside:
      return fmt::format("rank {} writes outside the {} symmetric bytes of rank {}",
                         world.rankOf(m.a), world.ranks[m.rank].symmetricBytes, m.rank);
    case Mismatch::CollectiveMissing: {
      const replay::MatchedCollective &c = world.collectives[command(m.a).partner];
      return fmt::format("{}: rank {} issues {} collectives, rank {} more", channel(c.channel),
                         m.rank, c.sequence, world.rankOf(m.a));
    }
    default: {
      const replay::MatchedCollective &c = world.collectives[command(m.a).partner];
      const char *what = m.kind == Mismatch::CollectiveKind       ? "kind"
                         : m.kind == Mismatch::CollectiveRoot     ? "root"
                         : m.kind == Mismatch::CollectiveReduceOp ? "reduction"
                         : m.kind == Mismatch::CollectiveSize     ? "size"
                                                                  : "type";
      return fmt::format("{}: collective {} differs in {}: rank {} has {}, rank {} has {}",
                         channel(c.channel), c.sequence, what, world.rankOf(m.a), collective(m.a),
                         world.rankOf(m.b), collective(m.b));
    }
    }
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
