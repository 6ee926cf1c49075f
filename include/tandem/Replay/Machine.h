//===- Machine.h - machine files and their cost formulas --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The numbers of a machine file and the cost formulas over them. No device, no LLVM.
// docs/simulator.md lists the fields of the file.
//
// Units everywhere: seconds, bytes, bytes per second, floating-point operations per second.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REPLAY_MACHINE_H
#define TANDEM_REPLAY_MACHINE_H

#include "tandem/Program/Capabilities.h"
#include "tandem/Program/Commands.h"
#include "tandem/Program/ExchangeProtocol.h"
#include "tandem/Program/Status.h"
#include "tandem/Program/Types.h"

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::machine {

/// The version of the format that this library reads.
inline constexpr int kVersion = 1;

/// Origin of a number in the file.
struct Source {
  enum Kind : uint8_t { Measured, Published, Estimate } kind = Estimate;
  std::string name, text;
};

/// A function of bytes: linear in log2(bytes) between its points, constant outside.
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

/// The kinds of overhead that a command has besides its work.
using Cost = program::CommandCost;
inline constexpr size_t kNumCosts = program::kNumCommandCosts;

struct Launching {
  std::array<double, kNumCosts> issue{};  ///< of the host thread, per command
  std::array<double, kNumCosts> device{}; ///< on the device, before the work starts
  /// Of the host, once per run, before the first command is issued: by the microseconds from there
  /// to the end of the last command.
  Curve run;
  /// A put starts at least this long after the start of the run ...
  double engineStart = 0;
  /// ... and after the end of earlier work, except puts and signals, that it waits for.
  double engineChange = 0;
};

/// The engine that moves a message's or collective's bytes.
enum class Mover : uint8_t { Copy, Sm, Host };

/// How the devices of a link class are connected.
enum class Topology : uint8_t {
  Switch, ///< each device has one port in and one port out of `bandwidth`
  Mesh,   ///< a link of `bandwidth` each way between any two devices
  Shared, ///< one medium of `bandwidth` shared by all
};

struct LinkClass {
  Topology topology = Topology::Switch;
  double latency = 0; ///< of a message, besides the transport's costs
  Curve bandwidth;    ///< of one direction, by message bytes
  double sharing = 1; ///< fraction of the bandwidth left if several transfers share a port
  double core = 0;    ///< of the switch as a whole; 0: unlimited
};

/// How two-sided or one-sided messages travel.
struct Transport {
  Mover mover = Mover::Copy;
  double sms = 0; ///< SMs taken while a message is posted, if mover is Sm
  Curve startup;  ///< of a message, by its bytes
  double bandwidth = std::numeric_limits<double>::infinity(); ///< of one message
  /// Of one-sided copies by copy engines into memory with gaps: the share of the rate of a copy
  /// without, by the bytes of a row.
  Curve rows{1};
  /// Of one-sided copies by copy engines: the share of the rate of those whose bytes are sums of
  /// what peers have sent, if their channel has more than two ranks, and the device puts something
  /// else there, or a second sum to some peer, before it waits for a peer. Such devices get out of
  /// step, and then two send to the same one. 1: no loss.
  double drift = 1;
};

/// Collectives: a ring, or a tree if it is faster.
struct Collectives {
  Mover mover = Mover::Sm;
  double sms = 0;
  double startup = 0; ///< independent of size
  double step = 0;    ///< one step of the ring or tree within a node
  double networkStep = 0;
  Curve bandwidth;             ///< of a device's port within a node, by the bytes through it
  Curve allReduce{1};          ///< that of an all-reduce, as a multiple of it, by the same
  double networkBandwidth = 0; ///< of a device's network port
};

/// Slowdown factors when all cores of a node are busy: cores share execution units, caches and
/// power.
struct Contention {
  double matmul = 1;
  double memory = 1; ///< copies, reductions, elementwise kernels
};

/// Slowdown with `busy` of `cores` cores: linear from 1 (one core) to `contention` (all).
double slowdown(double contention, double busy, double cores);

/// A measured matmul on one device without other work.
struct MatmulPoint {
  double m = 0, n = 0, k = 0, seconds = 0;
  double rate() const { return 2 * m * n * k / seconds; }
};

/// Bytes of a line of a GPU's cache.
inline constexpr uint64_t kCacheLine = 128;

/// The largest power of two, up to a line, that divides a number of bytes.
inline uint64_t alignmentOf(uint64_t bytes) { return (bytes | kCacheLine) & -(bytes | kCacheLine); }

/// By alignmentOf() of where the rows of a matmul's factors begin.
struct RowAlignment {
  uint64_t left = kCacheLine, right = kCacheLine;
};

/// Factors on a matmul's time, by the alignment of rows that do not begin at lines of the cache:
/// those of the left factor, or those of both.
struct Unaligned {
  Curve left{1}, both{1};
  double slowdown(const RowAlignment &rows) const;
};

/// The rate of a gated matmul (docs/gated.md) on all SMs, as a share of the library's for the whole
/// product, with the same row alignment.
struct GatedPoint {
  double m = 0, n = 0, k = 0, efficiency = 1;
};

/// The kernel of a fused exchange (docs/fused-exchange.md).
struct ExchangeKernel {
  double startup = 0; ///< besides the launch of a kernel
  double signal = 0;  ///< from the last store of a step until peers see its signals
  double count = 0;   ///< longer than that with several blocks, which count each other
  double stores = 0;  ///< bytes that a thread block stores to peers per second
  double memory = 0;  ///< bytes that a thread block reads and writes here per second
  /// 1: these numbers hold next to a matmul; 0: not known.
  double besideCompute = 0;
  double blockSignal = 0; ///< as `signal`, where each block signals; 0: not known
  double llSignal = 0;    ///< from a word's store until peers see it; 0: not known
  /// Bytes of words from peers that a kernel reads per second to add their values.
  double llReads = std::numeric_limits<double>::infinity();

  bool prices(program::ExchangeProtocol protocol) const {
    return protocol == program::ExchangeProtocol::Simple ||
           (protocol == program::ExchangeProtocol::Block ? blockSignal : llSignal) > 0;
  }
};

/// The parts of a collective's time.
struct CollectiveCost {
  double latency = 0;      ///< s
  double nodeBytes = 0;    ///< through the busiest port within a node
  double networkBytes = 0; ///< through the busiest network port
  bool tree = false;
  double seconds = 0; ///< if it has the links to itself
};

enum class MemoryWork : uint8_t { Copy, Reduce, Elementwise };

/// The path of a machine file. A bare name that is not a file here (h200x8) is looked up in
/// $TANDEM_MACHINES, or in share/tandem/machines next to the folder (bin, lib) of the tool or the
/// shared library that contains this function.
std::string pathOf(const std::string &given);

/// The bare name of the machine file in that folder that is of this GPU ("NVIDIA H200"), of one
/// node, and of the fewest devices that are at least `ranks`. "": there is none.
std::string findForGpu(const std::string &gpu, uint32_t ranks);

struct MachineFile {
  std::string path, text;
};

/// A machine file, the one that it extends, and so on. Errors name the file, and "extends" if that
/// is no machine file or one of these. Mistakes in the texts are found when they are parsed.
Expected<std::vector<MachineFile>> readMachine(const std::string &path);

class Machine {
public:
  /// Errors name the file, that which has the mistake, and the field.
  static Expected<Machine> load(const std::string &path);
  /// `source` replaces the path in messages.
  static Expected<Machine> parse(std::string_view text, const std::string &source);

  std::string name, about;
  std::string gpu; ///< part of the names of its GPUs: "H200"; "": it has none
  std::vector<Source> sources;
  /// Number of fields by Source::Kind.
  std::array<unsigned, 3> numbersBySource{};

  uint32_t nodes = 1;          ///< 0: as many as the program needs
  uint32_t devicesPerNode = 1; ///< 0: any number, on one node

  double sms = 1;
  double copyEngines = 1;      ///< a whole number
  double copyInterference = 1; ///< slowdown of a matmul during a copy
  double smInterference = 1;   ///< slowdown during transfers by SMs, besides the missing SMs
  double cores = 0;            ///< per node, shared by its devices; 0: each device computes alone
  Contention contention;
  /// Empty: the device has no kernels for gated matmuls.
  std::vector<GatedPoint> gatedMatmuls;
  /// 1: gated matmuls store what they compute to peers, at the rate of the links; 0: not known.
  double epiloguePush = 0;
  bool hasExchangeKernel = false; ///< else the parts of fused exchanges run one by one
  ExchangeKernel exchange;
  std::array<Curve, 3> memory; ///< bytes read and written per second, by MemoryWork and by bytes
  std::array<std::vector<MatmulPoint>, kNumDTypes> matmuls; ///< by DType
  std::array<Unaligned, kNumDTypes> unaligned;              ///< by DType
  /// By DType: rows and columns of the tiles that libraries compute. M and N above one tile are
  /// rounded up to multiples. 0: not known.
  std::array<double, kNumDTypes> matmulTile{};

  Launching streams; ///< commands enqueued one by one
  Launching graph;   ///< captured once, replayed
  bool hasGraph = false;

  LinkClass node, network;
  bool hasNetwork = false;
  Transport twoSided, oneSided;
  Collectives collectives;

  program::Margins margins; ///< what candidates must gain to be chosen

  /// Of ways to compute the same that take `seconds`, the plainest first: the index of the one to
  /// take. Of the others the first that is within the tolerance of the fastest, if it gains enough.
  size_t choose(const std::vector<double> &seconds) const;
  /// An error if the machine has fewer than `ranks` devices.
  Status checkRanks(uint32_t ranks) const;
  uint32_t nodeOf(uint32_t rank) const { return devicesPerNode ? rank / devicesPerNode : 0; }
  /// Devices in the largest node of a simulation with `ranks` ranks.
  uint32_t ranksPerNode(uint32_t ranks) const {
    return devicesPerNode && devicesPerNode < ranks ? devicesPerNode : ranks;
  }

  /// Whether devices share only the ports of switches, so that all of them are alike.
  bool sharesOnlyPorts() const {
    return cores == 0 && node.topology == Topology::Switch && node.core == 0 &&
           (!hasNetwork || network.core == 0);
  }

  /// Seconds of [batch, m, k] x [k, n] alone on the device, without launch. A line through the
  /// measured points of the type (startup + operations / rate), adjusted by the deviations of the
  /// nearest points; at least the time to read the operands. `rows`: default: those of dense
  /// [m, k] and [k, n].
  double matmulSeconds(DType dtype, double batch, double m, double n, double k) const;
  double matmulSeconds(DType dtype, double batch, double m, double n, double k,
                       const RowAlignment &rows) const;
  /// The capabilities of the devices and links, without those of channels.
  program::CapabilitySet capabilities() const;
  bool hasGatedMatmuls() const { return !gatedMatmuls.empty(); }
  bool hasEpiloguePush() const { return hasGatedMatmuls() && epiloguePush > 0; }
  /// Seconds of a gated matmul whose gates are open, on all SMs but `left`. Only with
  /// hasGatedMatmuls().
  double gatedMatmulSeconds(DType dtype, double m, double n, double k, const RowAlignment &rows,
                            double left) const;
  /// Slowdown of this kind of work when all cores are busy; 1 without cores.
  double contentionOf(Cost cost) const {
    return cost == Cost::Matmul ? contention.matmul : contention.memory;
  }
  /// `bytes`: read plus written.
  double memorySeconds(MemoryWork work, double bytes) const;
  /// The least that a kernel takes which moves so many bytes that were in no cache: at the rate of
  /// the largest measured piece, if that is slower than the rate of a piece of this size.
  double uncachedSeconds(double bytes) const;
  /// A message between two ranks with the links to itself.
  /// `share`: of the rate, what the message has.
  double messageSeconds(const Transport &transport, const LinkClass &link, double bytes,
                        double share = 1) const;
  /// `bytes` of one slice (see sp::CollectiveKind); the group spans `groupNodes` nodes.
  CollectiveCost collectiveCost(CollectiveKind kind, uint32_t group, uint32_t groupNodes,
                                double bytes) const;

  /// Multiplies a parameter ("link.bandwidth", "matmul.rate", ...; see scalable()). Errors list the
  /// known parameters.
  Status scale(std::string_view parameter, double factor);
  static std::vector<std::string_view> scalable();
};

} // namespace tandem::machine

#endif // TANDEM_REPLAY_MACHINE_H
