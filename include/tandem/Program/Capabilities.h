//===- Capabilities.h - what plans use and machines have --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan of a schedule says what it uses; a target and a machine file say what they have. The
// two sets are compared in one place, fusion-select-schedule. No LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_CAPABILITIES_H
#define TANDEM_PROGRAM_CAPABILITIES_H

#include "tandem/Program/ExchangeProtocol.h"

#include <cstdint>
#include <initializer_list>

namespace tandem::program {

enum class Capability : uint8_t {
  OneSided,      ///< of the target's channels: puts and signals. A plan cannot run without it.
  GatedMatmul,   ///< kernels for gated matmuls (docs/gated.md)
  EpilogueStore, ///< ... that store what they compute to peers
  /// A kernel for fused exchanges (docs/fused-exchange.md) with this protocol, at a known
  /// cost; in the order of ExchangeProtocol.
  SimpleProtocol,
  BlockProtocol,
  LLProtocol,
  StoresBesideCompute, ///< ... whose costs are known next to a matmul, too
  LinkPerPair,         ///< a link between any two devices of a node
};

inline Capability capabilityOf(ExchangeProtocol protocol) {
  return static_cast<Capability>(static_cast<uint8_t>(Capability::SimpleProtocol) +
                                 static_cast<uint8_t>(protocol));
}

class CapabilitySet {
public:
  CapabilitySet(std::initializer_list<Capability> capabilities = {}) {
    for (Capability capability : capabilities)
      add(capability);
  }
  static CapabilitySet all() { return CapabilitySet(~0U); }

  CapabilitySet &add(Capability capability, bool isThere = true) {
    bits |= (isThere ? 1U : 0U) << static_cast<unsigned>(capability);
    return *this;
  }
  bool empty() const { return bits == 0; }
  bool has(Capability capability) const { return !(*this & CapabilitySet{capability}).empty(); }
  CapabilitySet operator&(CapabilitySet other) const { return CapabilitySet(bits & other.bits); }
  CapabilitySet operator-(CapabilitySet other) const { return CapabilitySet(bits & ~other.bits); }

private:
  explicit CapabilitySet(uint32_t bits) : bits(bits) {}
  uint32_t bits = 0;
};

/// Sizes by which schedules choose their form, as measured on H100 and H200. Also in section
/// `selection` of a machine file, by these names.
struct Thresholds {
  /// An all-reduce by one kernel takes one shot up to so many bytes of the value, else two. Up to
  /// there the second shot costs more than sending the whole value to all others.
  int64_t oneShot = 256 * 1024;
  /// Values of more bytes are no candidates for one kernel: a library's ring adds as it sends.
  int64_t kernel = 16 * 1024 * 1024;
  /// Bytes for which the kernel has one thread block. Example: 1 MiB has 64 blocks. By LL a block
  /// has fewer, as each thread has one unit of 16 bytes for each peer.
  int64_t block = 16 * 1024, blockLL = 8 * 1024;
  /// Up to so many bytes one block is faster: several must count each other before they signal.
  int64_t oneBlock = 32 * 1024;
  /// Thread blocks at most. The other SMs are left to kernels that peers may wait for.
  int64_t mostBlocks = 64;
  /// Thread blocks of a kernel that stores to a peer: so many fill a link.
  int64_t pushBlocks = 8;
  /// Least bytes of a row in an all-reduce in slices. SMs copy shorter rows and slow the matmul,
  /// which prices leave out.
  int64_t row = 1024;

  /// Calls `visit(name, number, whether it is in bytes)` for each.
  template <typename Visit> void forEach(Visit visit) {
    visit("one_shot", oneShot, true);
    visit("kernel", kernel, true);
    visit("block", block, true);
    visit("block_ll", blockLL, true);
    visit("one_block", oneBlock, true);
    visit("most_blocks", mostBlocks, false);
    visit("push_blocks", pushBlocks, false);
    visit("row", row, true);
  }
};

/// What a candidate must gain over a plainer one, because predictions have errors: a fraction of
/// the plainer one's time, and seconds, which matter in short loops. Section `selection` of a
/// machine file.
struct Margins {
  double gain = 0.06;
  double gainOfCopies = 0.03; ///< of puts by copy engines, and of one kernel for a collective
  double gainOfStores = 0.1;  ///< of kernels that store next to a matmul, over copies that do
  /// Of slices moved by a library that uses SMs (`device.least_gain_beside_sms`).
  double gainBesideSms = 0;
  /// Of numbers of slices whose times differ by less, the smallest is taken.
  double tolerance = 0.02;
  double seconds = 5e-6;
  double secondsOfGathers = 3e-6; ///< of gathers by copy engines
  double secondsOfKernel = 1e-6;  ///< of one kernel for a collective
  double secondsOfSplit = 50e-6;  ///< of an all-reduce that becomes two reshards
  Thresholds thresholds;
};

} // namespace tandem::program

#endif // TANDEM_PROGRAM_CAPABILITIES_H
