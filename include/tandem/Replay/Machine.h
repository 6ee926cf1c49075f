//===- Machine.h - what a machine costs -------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The numbers of a machine file, and the few formulas over them that both the compiler's cost model
// and the simulator use. No device, no LLVM. docs/simulator.md lists the fields of the file.
//
// Units everywhere: seconds, bytes, bytes per second, floating-point operations per second.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REPLAY_MACHINE_H
#define TANDEM_REPLAY_MACHINE_H

#include "tandem/Program/Status.h"
#include "tandem/Program/Types.h"

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::machine {

/// The version of the format that this library reads.
inline constexpr int kVersion = 1;

/// Where numbers of the file come from.
struct Source {
  enum Kind : uint8_t { Measured, Published, Estimate } kind = Estimate;
  std::string name, text;
};

/// A number that depends on bytes: linear in log2(bytes) between its points, constant outside.
class Curve {
public:
  Curve() = default;
  explicit Curve(double value) : points{{1, value}} {}
  /// Ascending bytes, at least one point.
  explicit Curve(std::vector<std::pair<double, double>> points) : points(std::move(points)) {}
  double at(double bytes) const;
  /// The largest value of any point.
  double most() const;
  void scale(double factor);

private:
  std::vector<std::pair<double, double>> points{{1, 0}};
};

/// What a command costs beside its work, in one way of launching.
enum class Cost : uint8_t { Kernel, Matmul, Copy, Message, Collective, Event, Signal, WaitSignal };
inline constexpr size_t kNumCosts = 8;
/// "kernel", "matmul", ...: the fields of the file.
std::string_view toString(Cost cost);

struct Launching {
  std::array<double, kNumCosts> issue{};  ///< of the host's thread, a command
  std::array<double, kNumCosts> device{}; ///< on the device, before the work begins
  double run = 0;                         ///< of the host, once a run
  /// A put begins no sooner than so much after the start of the run ...
  double engineStart = 0;
  /// ... and after the end of other work than puts and signals that it waits for.
  double engineChange = 0;
};

/// Who moves the bytes of a message or collective.
enum class Mover : uint8_t { Copy, Sm, Host };

/// How the devices of one link class are joined.
enum class Topology : uint8_t {
  Switch, ///< a port of `bandwidth` in and one out at each device
  Mesh,   ///< a link of `bandwidth` each way between any two devices
  Shared, ///< one medium of `bandwidth` for all
};

struct LinkClass {
  Topology topology = Topology::Switch;
  double latency = 0; ///< of a message, beside the costs of the transport
  Curve bandwidth;    ///< of one direction, by the bytes of a message
  double sharing = 1; ///< part of the bandwidth that is left where several transfers share a port
  double core = 0;    ///< of the switch as a whole; 0: it never limits
};

/// How messages of one kind (two-sided, one-sided) travel.
struct Transport {
  Mover mover = Mover::Copy;
  double sms = 0; ///< taken while a message is posted, if mover is Sm
  Curve startup;  ///< of a message, by its bytes
  double bandwidth = std::numeric_limits<double>::infinity(); ///< of one message
};

/// Collectives: a ring, or a tree where that is quicker.
struct Collectives {
  Mover mover = Mover::Sm;
  double sms = 0;
  double startup = 0; ///< whatever the size
  double step = 0;    ///< a step of the ring or the tree inside a node
  double networkStep = 0;
  Curve bandwidth;             ///< through a device's port inside a node, by the bytes through it
  double networkBandwidth = 0; ///< through a device's port of the network
};

/// How many times as long work takes where all cores of the node are busy: cores share units (two
/// threads of one core), caches and power.
struct Contention {
  double matmul = 1;
  double memory = 1; ///< copies, reductions, elementwise kernels
};

/// The same with `busy` of `cores` cores at work: on a line from 1, alone, to `contention`.
double slowdown(double contention, double busy, double cores);

/// A matmul that somebody has timed: one device, nothing beside it.
struct MatmulPoint {
  double m = 0, n = 0, k = 0, seconds = 0;
  double rate() const { return 2 * m * n * k / seconds; }
};

/// What a collective is made of.
struct CollectiveCost {
  double latency = 0;      ///< s
  double nodeBytes = 0;    ///< through the busiest port inside a node
  double networkBytes = 0; ///< through the busiest port of the network
  bool tree = false;
  double seconds = 0; ///< with links to itself
};

enum class MemoryWork : uint8_t { Copy, Reduce, Elementwise };

/// The file that a user means: a bare name that is no file here (h200x8) is one of the folder
/// $TANDEM_MACHINES, else of machines/ in the source tree.
std::string pathOf(const std::string &given);

class Machine {
public:
  /// Errors name the file and the field.
  static Expected<Machine> load(const std::string &path);
  /// `source` stands for the path in messages.
  static Expected<Machine> parse(std::string_view text, const std::string &source);

  std::string name, about;
  std::vector<Source> sources;
  /// Numbers of the file, by Source::Kind.
  std::array<unsigned, 3> numbersBySource{};

  uint32_t nodes = 1;          ///< 0: as many as the program needs
  uint32_t devicesPerNode = 1; ///< 0: any number, on one node

  double sms = 1;
  double copyEngines = 1;      ///< a whole number
  double copyInterference = 1; ///< by how much a matmul slows down beside a copy
  double smInterference = 1;   ///< ... beside what a library moves by SMs, besides having fewer
  /// The part that a schedule with such movement must be predicted to gain before it is chosen.
  double leastGainBesideSms = 0;
  double cores = 0; ///< of a node, shared by its devices; 0: each device computes alone
  Contention contention;
  std::array<Curve, 3> memory; ///< bytes read and written per second, by MemoryWork and by bytes
  std::array<std::vector<MatmulPoint>, kNumDTypes> matmuls; ///< by DType

  Launching streams; ///< commands enqueued one by one
  Launching graph;   ///< captured once, replayed
  bool hasGraph = false;

  LinkClass node, network;
  bool hasNetwork = false;
  Transport twoSided, oneSided;
  Collectives collectives;

  /// An error if a program of so many ranks does not fit.
  Status checkRanks(uint32_t ranks) const;
  uint32_t nodeOf(uint32_t rank) const { return devicesPerNode ? rank / devicesPerNode : 0; }
  /// Devices that a sim of `ranks` ranks has in its largest node.
  uint32_t ranksPerNode(uint32_t ranks) const {
    return devicesPerNode && devicesPerNode < ranks ? devicesPerNode : ranks;
  }
  const LinkClass &linkBetween(uint32_t a, uint32_t b) const {
    return nodeOf(a) == nodeOf(b) ? node : network;
  }

  /// Devices share nothing but the ports of switches: all of them are alike.
  bool sharesOnlyPorts() const {
    return cores == 0 && node.topology == Topology::Switch && node.core == 0 &&
           (!hasNetwork || network.core == 0);
  }

  /// Of [batch, m, k] x [k, n], alone on the device, without launch. A line through the measured
  /// points of the type (startup + operations / rate), bent to meet each of them; never quicker
  /// than its operands can be read.
  double matmulSeconds(DType dtype, double batch, double m, double n, double k) const;
  /// By what work of this kind is slower where all cores are busy; 1 without cores.
  double contentionOf(Cost cost) const {
    return cost == Cost::Matmul ? contention.matmul : contention.memory;
  }
  /// `bytes`: read and written.
  double memorySeconds(MemoryWork work, double bytes) const;
  /// A message between two ranks, links to itself.
  double messageSeconds(const Transport &transport, const LinkClass &link, double bytes) const;
  /// `bytes`: of one slice (see sp::CollectiveKind); the group is spread over `groupNodes` nodes.
  CollectiveCost collectiveCost(CollectiveKind kind, uint32_t group, uint32_t groupNodes,
                                double bytes) const;

  /// Multiplies a parameter: "link.bandwidth", "matmul.rate", ...; scalable() lists them. An error
  /// names what there is.
  Status scale(std::string_view parameter, double factor);
  static std::vector<std::string_view> scalable();
};

} // namespace tandem::machine

#endif // TANDEM_REPLAY_MACHINE_H
