//===- ExchangeDescriptor.cpp - fused exchanges of all ranks ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/ExchangeDescriptor.h"

#include "ExchangeAccess.h"
#include "ProgramImpl.h"

#include <algorithm>
#include <sstream>

namespace tandem::program {

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

namespace {

constexpr uint64_t kWordsOfLine = 8;
/// Of one exchange; a kernel has no more.
constexpr uint64_t kMostBlockWords = uint64_t(kMostExchangeWaits) * 1024;

/// What decides about the room of one exchange.
struct Needs {
  bool hasKernel = true; ///< that uses words
  uint64_t waits = 0;
  uint64_t ranks = 1, bytes = 0; ///< that get a value, and of the largest one
  uint16_t channel = sp::kNoChannel;
};

Needs needsOf(const sp::RankProgram &data, uint32_t head) {
  Needs needs;
  std::vector<uint32_t> peers;
  for (uint32_t i = 1; i <= data.commands()->Get(head)->aux(); ++i) {
    const sp::Command &part = *data.commands()->Get(head + i);
    if (part.channel() != sp::kNoChannel)
      needs.channel = part.channel();
    needs.waits += part.kind() == sp::CommandKind::wait_signal;
    if (part.kind() != sp::CommandKind::put && part.kind() != sp::CommandKind::reduce)
      continue;
    const sp::Layout &value =
        *data.layouts()->Get(data.views()->Get(part.operands()->Get(0))->layout());
    auto type = static_cast<DType>(value.dtype());
    if (part.kind() == sp::CommandKind::reduce) {
      needs.hasKernel &= exchangeKernelType(type, /*added=*/true).has_value();
      continue;
    }
    needs.hasKernel &= exchangeKernelType(type, /*added=*/false).has_value();
    uint64_t bytes = sizeOf(type);
    for (uint32_t d = 0; d < sizeOfVector(value.shape()); ++d)
      bytes *= static_cast<uint64_t>(value.shape()->Get(d));
    needs.bytes = std::max(needs.bytes, bytes);
    if (std::find(peers.begin(), peers.end(), part.peer()) == peers.end())
      peers.push_back(part.peer());
  }
  needs.ranks += peers.size();
  return needs;
}

} // namespace

const ExchangeRoom::Place *ExchangeRoom::find(uint32_t head) const {
  auto found = std::find_if(places.begin(), places.end(),
                            [&](const Place &place) { return place.head == head; });
  return found == places.end() ? nullptr : &*found;
}

ExchangeRoom exchangeRoom(const sp::RankProgram &data) {
  ExchangeRoom room;
  uint16_t channel = sp::kNoChannel, stream = 0; // of the exchanges by words
  for (uint32_t i = 0; i < sizeOfVector(data.commands()); ++i) {
    const sp::Command &head = *data.commands()->Get(i);
    if (head.kind() != sp::CommandKind::fused_exchange || head.op() == 0)
      continue;
    Needs needs = needsOf(data, i);
    if (needs.waits == 0 || needs.waits * head.value() > kMostBlockWords)
      continue;
    ExchangeRoom::Place &place = room.places.emplace_back();
    place.head = i;
    place.first = room.size;
    room.size += needs.waits * head.value();
    // Exchanges by words share memory: each follows the one before it on all ranks.
    bool follows =
        channel == sp::kNoChannel || (channel == needs.channel && stream == head.stream());
    if (head.op() != static_cast<uint8_t>(ExchangeSignals::Word) || !follows || needs.bytes == 0 ||
        !needs.hasKernel || needs.ranks > kMostWordRanks || needs.bytes > kMostWordValue)
      continue;
    place.signals = ExchangeSignals::Word;
    place.number = room.numByWords++;
    channel = needs.channel;
    stream = head.stream();
    room.halfOfWords =
        std::max(room.halfOfWords, needs.ranks * wordsOfUnits((needs.bytes + 15) / 16));
  }
  auto roundUp = [](uint64_t n) { return (n + kWordsOfLine - 1) / kWordsOfLine * kWordsOfLine; };
  room.firstOfWords = roundUp(room.size);
  room.halfOfWords = roundUp(room.halfOfWords);
  room.size = room.firstOfWords + 2 * room.halfOfWords;
  return room;
}

//===----------------------------------------------------------------------===//
// Descriptors
//===----------------------------------------------------------------------===//

namespace {

void write(std::ostringstream &out, const PlacedView &view) {
  out << ' ' << view.buffer << ' ' << view.address << ' ' << unsigned(view.layout.dtype) << ' '
      << unsigned(view.layout.rank);
  for (unsigned d = 0; d < view.layout.rank; ++d)
    out << ' ' << view.layout.shape[d] << ' ' << view.layout.strides[d];
}

/// False for a view that no program has.
bool read(std::istringstream &in, PlacedView &view) {
  constexpr int64_t kMost = int64_t(1) << 40;
  unsigned dtype = 0, rank = 0;
  if (!(in >> view.buffer >> view.address >> dtype >> rank) || dtype >= kNumDTypes ||
      rank > kMaxRank || view.address > uint64_t(kMost))
    return false;
  view.layout.dtype = static_cast<DType>(dtype);
  view.layout.rank = static_cast<uint8_t>(rank);
  int64_t elements = 1, span = 1;
  for (unsigned d = 0; d < rank; ++d) {
    int64_t &shape = view.layout.shape[d], &stride = view.layout.strides[d];
    if (!(in >> shape >> stride) || shape < 1 || shape > kMost / elements || stride < 0 ||
        stride > kMost / shape)
      return false;
    elements *= shape;
    span += (shape - 1) * stride;
  }
  return span <= kMost;
}

bool mayBePart(unsigned kind) {
  return kind < kNumCommandKinds && (static_cast<unsigned>(infoOf(CommandKind(kind)).partOf) &
                                     static_cast<unsigned>(PartOf::Exchange));
}

constexpr size_t kMostParts = kMostExchangeStores + kMostExchangeWaits + kMostExchangeSignals + 1;

} // namespace

std::string ExchangeDescriptor::str() const {
  std::ostringstream out;
  out << number << ' ' << unsigned(signals) << ' ' << blocks << ' ' << blocksOfRoom << ' ' << first
      << ' ' << firstOfWords << ' ' << halfOfWords << ' ' << sizeOfSet << ' ' << wordNumber << ' '
      << numByWords << ' ' << parts.size();
  for (const DescribedPart &described : parts) {
    const ExchangePart &part = described.part;
    out << ' ' << unsigned(part.kind) << ' ' << part.peer << ' ' << unsigned(part.reduceOp) << ' '
        << part.dims << ' ' << described.slot << ' ' << described.value << ' ' << described.perRun;
    if (part.moves()) {
      write(out, part.out);
      write(out, part.in);
    }
  }
  return out.str();
}

std::optional<ExchangeDescriptor> ExchangeDescriptor::parse(std::string_view text) {
  std::istringstream in{std::string(text)};
  ExchangeDescriptor descriptor;
  unsigned signals = 0;
  size_t numParts = 0;
  if (!(in >> descriptor.number >> signals >> descriptor.blocks >> descriptor.blocksOfRoom >>
        descriptor.first >> descriptor.firstOfWords >> descriptor.halfOfWords >>
        descriptor.sizeOfSet >> descriptor.wordNumber >> descriptor.numByWords >> numParts) ||
      signals >= kNumExchangeSignals || numParts > kMostParts)
    return std::nullopt;
  descriptor.signals = static_cast<ExchangeSignals>(signals);
  for (size_t i = 0; i < numParts; ++i) {
    DescribedPart &described = descriptor.parts.emplace_back();
    ExchangePart &part = described.part;
    unsigned kind = 0, reduceOp = 0;
    if (!(in >> kind >> part.peer >> reduceOp >> part.dims >> described.slot >> described.value >>
          described.perRun) ||
        !mayBePart(kind) || reduceOp > unsigned(ReduceOp::Min))
      return std::nullopt;
    part.kind = static_cast<ExchangePart::Kind>(kind);
    part.reduceOp = static_cast<uint8_t>(reduceOp);
    if (part.moves() && (!read(in, part.out) || !read(in, part.in) ||
                         (part.kind == ExchangePart::Kind::Reduce && part.in.layout.rank == 0)))
      return std::nullopt;
  }
  std::string more;
  if (in >> more)
    return std::nullopt;
  return descriptor;
}

//===----------------------------------------------------------------------===//
// Agreement
//===----------------------------------------------------------------------===//

namespace {

bool isSymmetric(const PlacedView &view) {
  return view.buffer == static_cast<uint64_t>(sp::Space::symmetric) << 32;
}

class Matcher {
public:
  explicit Matcher(const std::vector<ExchangeDescriptor> &descriptors) : descriptors(descriptors) {}

  Expected<ExchangeMatch> run() {
    for (uint32_t m = 0; m < descriptors.size(); ++m) {
      std::vector<ExchangePart> parts;
      for (const DescribedPart &described : descriptors[m].parts)
        parts.push_back(described.part);
      TANDEM_ASSIGN_OR_RETURN(std::vector<ExchangeStep> found, describeExchange(parts));
      steps.push_back(std::move(found));
    }
    TANDEM_RETURN_IF_ERROR(compareMoves());
    match.blocks = descriptors[0].blocks;
    for (const ExchangeDescriptor &descriptor : descriptors)
      match.blocks = std::min({match.blocks, descriptor.blocks, descriptor.blocksOfRoom});
    if (match.blocks == 0)
      return invalid("a member has no thread block");
    TANDEM_RETURN_IF_ERROR(matchSignals());
    for (uint32_t owner = 0; owner < descriptors.size(); ++owner)
      TANDEM_RETURN_IF_ERROR(checkMemory(owner));
    match.whyNotByWords = findObstacleToWords();
    return std::move(match);
  }

private:
  const ExchangePart &part(uint32_t member, uint32_t number) const {
    return descriptors[member].parts[number].part;
  }

  /// Block b handles the same elements on all members.
  Status compareMoves() const {
    for (uint32_t m = 1; m < descriptors.size(); ++m) {
      if (descriptors[m].number != descriptors[0].number)
        return invalid("member {} has no such exchange", m);
      if (steps[m].size() != steps[0].size())
        return invalid("member {} has {} steps, member 0 {}", m, steps[m].size(), steps[0].size());
      for (size_t s = 0; s < steps[m].size(); ++s) {
        const ExchangeMove &one = steps[0][s].move, &other = steps[m][s].move;
        if (one.stores.empty() != other.stores.empty() || one.out != other.out ||
            one.in != other.in || one.terms != other.terms || one.termStride != other.termStride ||
            one.reduces != other.reduces || one.reduceOp != other.reduceOp)
          return invalid("step {} of member {} moves other elements than that of member 0", s, m);
      }
    }
    return Status();
  }

  /// Each signal has one wait, and each wait one signal.
  Status matchSignals() {
    std::vector<std::vector<bool>> taken;
    for (const ExchangeDescriptor &descriptor : descriptors)
      taken.emplace_back(descriptor.parts.size(), false);
    match.waitOf.resize(descriptors.size());
    for (uint32_t m = 0; m < descriptors.size(); ++m)
      for (const DescribedPart &signal : descriptors[m].parts) {
        if (signal.part.kind != ExchangePart::Kind::Signal)
          continue;
        uint32_t peer = signal.part.peer;
        if (peer >= descriptors.size() || peer == m)
          return invalid("a signal of member {} is to no other member", m);
        uint32_t number = 0, found = ~uint32_t(0);
        const std::vector<DescribedPart> &theirs = descriptors[peer].parts;
        for (size_t i = 0; i < theirs.size(); ++i) {
          if (theirs[i].part.kind != ExchangePart::Kind::WaitSignal)
            continue;
          if (theirs[i].slot == signal.slot && theirs[i].value == signal.value &&
              theirs[i].perRun == signal.perRun && !taken[peer][i] && found == ~uint32_t(0)) {
            found = number;
            taken[peer][i] = true;
          }
          ++number;
        }
        if (found == ~uint32_t(0))
          return invalid("member {} does not await a signal of member {} here", peer, m);
        match.waitOf[m].push_back(found);
      }
    for (uint32_t m = 0; m < descriptors.size(); ++m)
      for (size_t i = 0; i < descriptors[m].parts.size(); ++i)
        if (descriptors[m].parts[i].part.kind == ExchangePart::Kind::WaitSignal && !taken[m][i])
          return invalid("member {} awaits a signal that no member raises here", m);
    return Status();
  }

  /// What a peer stores into this member's memory is touched here as the same elements, if at all:
  /// then the same block does both.
  Status checkMemory(uint32_t owner) const {
    struct Written {
      uint32_t by, number;
    };
    std::vector<Written> puts;
    for (uint32_t m = 0; m < descriptors.size(); ++m)
      for (const ExchangeStep &step : steps[m])
        for (const ExchangeMove::Store &store : step.move.stores)
          if (part(m, store.target).kind == ExchangePart::Kind::Put &&
              part(m, store.target).peer == owner)
            puts.push_back({m, store.target});
    for (const Written &put : puts) {
      const PlacedView &place = part(put.by, put.number).out;
      if (!isSymmetric(place))
        return invalid("a put of member {} is not to symmetric memory", put.by);
      for (const Written &other : puts)
        if (other.by != put.by && mayOverlap(place, part(other.by, other.number).out))
          return invalid("members {} and {} store to one place of member {}", put.by, other.by,
                         owner);
      for (const ExchangeStep &step : steps[owner])
        for (const ExchangeMove::Store &store : step.move.stores) {
          const ExchangePart &target = part(owner, store.target),
                             &source = part(owner, store.source);
          if (target.kind != ExchangePart::Kind::Put && mayOverlap(place, target.out) &&
              place != target.out)
            return invalid("member {} writes what member {} stores there", owner, put.by);
          TANDEM_ASSIGN_OR_RETURN(ExchangeReads reads, readsOf(source));
          if (mayOverlap(place, source.in) && !termOf(place, reads))
            return invalid("member {} reads what member {} stores there, as other elements", owner,
                           put.by);
        }
    }
    return Status();
  }

  /// Why the members cannot exchange by words; empty: they can. There must be two steps: first each
  /// member sends each one a value, into the slot of the sender. Then it adds all, or copies some.
  std::string findObstacleToWords() {
    auto members = static_cast<uint32_t>(descriptors.size());
    if (members > kMostWordRanks)
      return fmt::format("it has {} members, of at most {}", members, kMostWordRanks);
    for (uint32_t m = 0; m < members; ++m) {
      if (descriptors[m].signals != ExchangeSignals::Word ||
          descriptors[m].numByWords != descriptors[0].numByWords ||
          descriptors[m].wordNumber != descriptors[0].wordNumber ||
          descriptors[m].halfOfWords != descriptors[0].halfOfWords)
        return fmt::format("member {} does not support it", m);
      if (steps[m].size() != 2 || !steps[m][0].waits.empty() || !steps[m][1].signals.empty() ||
          steps[m][0].move.reduces || steps[m][0].move.stores.empty())
        return "it is not one shot";
      match.copies.emplace_back(members, ExchangeMatch::kNone);
    }
    std::vector<PlacedView> slots;
    for (uint32_t m = 0; m < members; ++m) {
      if (std::string why = findSlot(m, slots); !why.empty())
        return why;
      match.slots.push_back(slots.back().address);
    }
    bool adds = steps[0][1].move.reduces;
    for (uint32_t m = 0; m < members; ++m)
      if (std::string why = adds ? findTerm(m, slots[m]) : findCopies(m, slots); !why.empty())
        return why;
    return "";
  }

  /// Where all members get the value of member m.
  std::string findSlot(uint32_t m, std::vector<PlacedView> &slots) {
    const ExchangeMove &sends = steps[m][0].move;
    const PlacedView *slot = nullptr;
    for (const ExchangeMove::Store &store : sends.stores)
      if (part(m, store.target).kind == ExchangePart::Kind::Put) {
        if (slot && *slot != part(m, store.target).out)
          return "the values have other places on other members";
        slot = &part(m, store.target).out;
      }
    std::vector<bool> gets(descriptors.size(), false);
    const PlacedView *own = nullptr; // the value that the member keeps
    for (uint32_t k = 0; slot && k < sends.stores.size(); ++k) {
      const ExchangePart &source = part(m, sends.stores[k].source),
                         &target = part(m, sends.stores[k].target);
      bool isPut = target.kind == ExchangePart::Kind::Put;
      if (!isPut) {
        if (own && *own != source.in)
          return "a member copies several values";
        own = &source.in;
        if (target.out != *slot) {
          if (match.copies[m][m] != ExchangeMatch::kNone)
            return "a value has several copies";
          match.copies[m][m] = k;
          continue;
        }
      }
      uint32_t to = isPut ? target.peer : m;
      if (to >= gets.size() || gets[to])
        return "a member gets several values of another one";
      gets[to] = true;
    }
    if (std::find(gets.begin(), gets.end(), false) != gets.end())
      return "not all members get a value";
    slots.push_back(*slot);
    return "";
  }

  /// Which term of the sums of all members is the value of member m.
  std::string findTerm(uint32_t m, const PlacedView &slot) {
    const ExchangeMove &adds = steps[m][1].move;
    if (adds.terms != static_cast<int64_t>(descriptors.size()) || adds.stores.size() != 1 ||
        adds.stores[0].source != adds.stores[0].target ||
        match.copies[m][m] != ExchangeMatch::kNone)
      return "it adds and does more";
    const ExchangePart &sum = part(m, adds.stores[0].source);
    auto reads = readsOf(sum);
    if (!reads || !isSymmetric(sum.in) ||
        sum.in.address != part(0, steps[0][1].move.stores[0].source).in.address)
      return "the terms have other places on other members";
    std::optional<int64_t> term = termOf(slot, *reads);
    if (!term || std::find(match.terms.begin(), match.terms.end(), static_cast<uint32_t>(*term)) !=
                     match.terms.end())
      return "a value is not a term of its own";
    match.terms.push_back(static_cast<uint32_t>(*term));
    return "";
  }

  /// Which values member m copies from their slots.
  std::string findCopies(uint32_t m, const std::vector<PlacedView> &slots) {
    match.terms.push_back(m);
    const ExchangeMove &sends = steps[m][0].move, &copies = steps[m][1].move;
    for (uint32_t k = 0; k < copies.stores.size(); ++k) {
      const ExchangePart &source = part(m, copies.stores[k].source),
                         &target = part(m, copies.stores[k].target);
      auto slot = std::find(slots.begin(), slots.end(), source.in);
      if (slot == slots.end() || target.kind == ExchangePart::Kind::Put || copies.out != sends.out)
        return "it copies other elements than it got";
      if (slot - slots.begin() == m) // by words, own values are copied at once
        return "it waits before it copies its own value";
      uint32_t &copy = match.copies[m][static_cast<size_t>(slot - slots.begin())];
      if (copy != ExchangeMatch::kNone)
        return "a value has several copies";
      copy = static_cast<uint32_t>(sends.stores.size()) + k;
    }
    return "";
  }

  const std::vector<ExchangeDescriptor> &descriptors;
  std::vector<std::vector<ExchangeStep>> steps; ///< of each member
  ExchangeMatch match;
};

} // namespace

Expected<ExchangeMatch> matchExchange(const std::vector<ExchangeDescriptor> &descriptors) {
  return Matcher(descriptors).run();
}

} // namespace tandem::program
