//===- Predict.cpp - a stream loop, one rank of many alike ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Replay/Predict.h"

#include <algorithm>
#include <limits>

namespace tandem::machine {

using Kind = PlanStep::Kind;

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// A kernel is never starved wholly by collectives.
constexpr double kLeastCompute = 0.05;

class Predictor {
public:
  Predictor(const Machine &machine, const Plan &plan)
      : machine(machine), plan(plan), ranks(std::max(1u, plan.ranksPerNode)),
        launching(machine.hasGraph ? machine.graph : machine.streams) {}

  double run() {
    enqueue();
    double last = 0;
    while (true) {
      while (startAll())
        ;
      updateRates();
      double next = kNever;
      for (const Running &running : active)
        next = std::min(next, nextOf(running));
      if (next == kNever)
        return last;
      advance(next);
      last = std::max(last, now);
    }
  }

private:
  /// A step at the head of its stream. First it waits until `ready`, then it works.
  struct Running {
    uint32_t step;
    double ready, remaining = 0, rate = 0;
    bool works = false;
  };

  size_t indexOf(Cost cost) const { return static_cast<size_t>(cost); }

  static Cost costOf(const PlanStep &step) {
    switch (step.kind) {
    case Kind::Compute:
      return step.launch;
    case Kind::Message:
      return Cost::Message;
    case Kind::Collective:
      return Cost::Collective;
    case Kind::Put:
      return Cost::Copy;
    case Kind::Signal:
      return Cost::Signal;
    case Kind::WaitSignal:
      return Cost::WaitSignal;
    case Kind::Sync:
      return Cost::Event;
    }
    return Cost::Kernel;
  }

  /// Streams as queues, what each sync waits for, and when the host has issued what.
  void enqueue() {
    uint32_t streams = plan.numStreams();
    queues.resize(streams);
    heads.assign(streams, 0);
    busy.assign(streams, false);
    awaited.assign(plan.steps.size(), kNone);
    issued.resize(plan.steps.size());
    std::vector<uint8_t> events = plan.countEvents();
    ends.assign(plan.steps.size(), kNever);
    changes.assign(plan.steps.size(), false);
    double host = launching.run;
    for (uint32_t i = 0; i < plan.steps.size(); ++i) {
      const PlanStep &step = plan.steps[i];
      bool isSync = step.kind == Kind::Sync;
      if (isSync && events[i] == 0)
        continue;
      host += launching.issue[indexOf(costOf(step))] * (isSync ? events[i] : 1);
      issued[i] = host;
      if (isSync && !queues[step.after].empty())
        awaited[i] = queues[step.after].back();
      else if (step.kind == Kind::WaitSignal)
        awaited[i] = step.after;
      changes[i] =
          step.kind == Kind::Put && (launching.engineStart > 0 || launching.engineChange > 0);
      queues[step.stream].push_back(i);
    }
  }

  /// How long after a step a put can begin that waits for it; kNone: the start of the run.
  double changeAfter(uint32_t i) const {
    if (i == kNone)
      return launching.engineStart;
    Kind before = plan.steps[i].kind;
    return before == Kind::Put || before == Kind::Signal ? 0 : launching.engineChange;
  }

  /// When a put at the head of its stream, which would begin at `begin`, can ask for an engine.
  double engineReady(uint32_t put, double begin) const {
    uint32_t stream = plan.steps[put].stream;
    size_t at = heads[stream];
    if (at == 0)
      return begin + changeAfter(kNone);
    double ready = begin, hop = launching.device[indexOf(Cost::Event)];
    for (; at > 0; --at) {
      uint32_t before = queues[stream][at - 1], from = awaited[before];
      if (plan.steps[before].kind != Kind::Sync)
        return std::max(ready, ends[before] + changeAfter(before));
      double end = from == kNone ? issued[before] : ends[from];
      ready = std::max(ready, end + hop + changeAfter(from));
    }
    return ready;
  }

  bool startAll() {
    bool started = false;
    for (uint32_t stream = 0; stream < queues.size(); ++stream) {
      if (busy[stream] || heads[stream] == queues[stream].size())
        continue;
      uint32_t i = queues[stream][heads[stream]];
      const PlanStep &step = plan.steps[i];
      if (awaited[i] != kNone && ends[awaited[i]] > now)
        continue;
      if (step.kind == Kind::Put && !changes[i] && machine.oneSided.mover == Mover::Copy &&
          puts >= machine.copyEngines)
        continue;
      start(i);
      started = true;
    }
    return started;
  }

  void start(uint32_t i) {
    const PlanStep &step = plan.steps[i];
    double begin = std::max(now, issued[i]);
    busy[step.stream] = true;
    if (changes[i])
      return active.push_back({i, engineReady(i, begin)});
    double overhead = launching.device[indexOf(costOf(step))];
    Running running{i, begin + overhead};
    switch (step.kind) {
    case Kind::Compute:
      running.remaining = step.seconds;
      break;
    case Kind::Message:
      running.ready += machine.twoSided.startup.at(step.bytes) + linkOf(step).latency;
      running.remaining = step.bytes;
      takenSms += smsOf(step);
      break;
    case Kind::Collective:
      running.ready += step.collective.latency;
      running.remaining = std::max(0.0, step.collective.seconds - step.collective.latency);
      takenSms += smsOf(step);
      break;
    case Kind::Put:
      running.ready += machine.oneSided.startup.at(step.bytes) + linkOf(step).latency;
      running.remaining = step.bytes;
      ++puts;
      break;
    case Kind::Signal:
      running.ready += linkOf(step).latency;
      break;
    case Kind::WaitSignal:
      break;
    case Kind::Sync:
      // What was over long ago costs nothing; news from another stream take their time. With
      // nothing before it, the record is over as soon as it is issued.
      running.ready =
          std::max(begin, (awaited[i] == kNone ? issued[i] : ends[awaited[i]]) + overhead);
      break;
    }
    active.push_back(running);
  }

  const LinkClass &linkOf(const PlanStep &step) const {
    return step.network && machine.hasNetwork ? machine.network : machine.node;
  }

  double smsOf(const PlanStep &step) const {
    if (step.kind == Kind::Message && machine.twoSided.mover == Mover::Sm)
      return machine.twoSided.sms;
    if (step.kind == Kind::Collective && machine.collectives.mover == Mover::Sm)
      return machine.collectives.sms;
    return 0;
  }

  /// The next moment at which something changes for `running`.
  double nextOf(const Running &running) const {
    return running.works ? now + running.remaining / running.rate : running.ready;
  }

  void updateRates() {
    Load load;
    for (const Running &running : active) {
      if (!running.works)
        continue;
      const PlanStep &step = plan.steps[running.step];
      load.compute += step.kind == Kind::Compute;
      bool collective = step.kind == Kind::Collective;
      load.node += collective ? step.collective.nodeBytes > 0 : isMessage(step) && !onNetwork(step);
      load.network +=
          collective ? step.collective.networkBytes > 0 : isMessage(step) && onNetwork(step);
      // One activity for all members, where each rank has its own messages.
      load.medium += collective ? 1 : isMessage(step) && !onNetwork(step) ? ranks : 0;
      if (moverOf(step) == Mover::Host)
        load.cores += collective ? 1 : isMessage(step) ? ranks : 0;
    }
    load.cores += load.compute * ranks;
    for (Running &running : active)
      if (running.works)
        running.rate = rateOf(plan.steps[running.step], load);
  }

  /// What shares each resource now.
  struct Load {
    double compute = 0; ///< kernels of a device
    double node = 0;    ///< transfers through a port inside the node
    double network = 0; ///< ... and of the network
    double medium = 0;  ///< transfers through the node's switch or medium
    double cores = 0;   ///< kernels and host copies on a node's cores
  };

  static bool isMessage(const PlanStep &step) {
    return step.kind == Kind::Message || step.kind == Kind::Put;
  }
  bool onNetwork(const PlanStep &step) const { return step.network && machine.hasNetwork; }

  Mover moverOf(const PlanStep &step) const {
    return step.kind == Kind::Collective ? machine.collectives.mover
           : step.kind == Kind::Put      ? machine.oneSided.mover
                                         : machine.twoSided.mover;
  }

  static double part(double capacity, double shared, double members) {
    return members > 1 ? capacity * shared / members : capacity;
  }

  double rateOf(const PlanStep &step, const Load &load) const {
    switch (step.kind) {
    case Kind::Compute: {
      if (machine.cores > 0)
        return std::min(1.0, machine.cores / load.cores) /
               slowdown(machine.contentionOf(step.launch), load.cores, machine.cores);
      double capacity = std::max(kLeastCompute, 1 - takenSms / machine.sms);
      if (takenSms > 0)
        capacity /= machine.smInterference;
      return capacity / (puts > 0 ? machine.copyInterference : 1) / load.compute;
    }
    case Kind::Message:
      return std::min(messageRate(step, load), machine.twoSided.bandwidth);
    case Kind::Put:
      return std::min(messageRate(step, load), machine.oneSided.bandwidth);
    case Kind::Collective:
      return collectiveRate(step.collective, load);
    default:
      return 1;
    }
  }

  double portOf(double bandwidth, const Load &load) const {
    double ports = machine.node.topology == Topology::Mesh ? std::max(1u, ranks - 1u) : 1;
    return part(bandwidth * ports, machine.node.sharing, load.node);
  }

  double messageRate(const PlanStep &step, const Load &load) const {
    const LinkClass &link = linkOf(step);
    double alone = link.bandwidth.at(step.bytes), rate = alone;
    if (moverOf(step) == Mover::Host && machine.cores > 0)
      rate = std::min(rate, machine.cores / load.cores * alone);
    if (onNetwork(step))
      return std::min(rate, part(alone, link.sharing, load.network));
    if (link.topology == Topology::Shared)
      return std::min(rate, part(alone, link.sharing, load.medium));
    rate = std::min(rate, portOf(alone, load));
    return link.core > 0 ? std::min(rate, link.core / load.medium) : rate;
  }

  /// Of seconds alone, a second.
  double collectiveRate(const CollectiveCost &cost, const Load &load) const {
    double seconds = cost.seconds - cost.latency, rate = 1;
    if (machine.node.topology == Topology::Shared)
      rate = std::min(rate, part(1, machine.node.sharing, load.medium));
    else if (cost.nodeBytes > 0)
      rate = std::min(rate, portOf(machine.node.bandwidth.most(), load) * seconds / cost.nodeBytes);
    if (cost.networkBytes > 0 && machine.hasNetwork)
      rate = std::min(
          rate, part(machine.network.bandwidth.most(), machine.network.sharing, load.network) *
                    seconds / cost.networkBytes);
    if (machine.collectives.mover == Mover::Host && machine.cores > 0)
      rate = std::min(rate, machine.cores / load.cores / std::min<double>(ranks, machine.cores));
    return rate;
  }

  /// Moves the clock to `time`, where something ends or begins to work.
  void advance(double time) {
    // Work of less than this is rounding: the clock could not tell when it ends.
    double least = 1e-12;
    for (Running &running : active)
      if (running.works)
        running.remaining -= running.rate * (time - now);
    now = time;
    for (size_t i = 0; i < active.size();) {
      Running &running = active[i];
      bool ends = running.works && running.remaining <= running.rate * least;
      if (!running.works && running.ready <= now) {
        running.works = running.remaining > 0;
        ends = !running.works;
      }
      if (!ends) {
        ++i;
        continue;
      }
      finish(running.step);
      active[i] = active.back();
      active.pop_back();
    }
  }

  void finish(uint32_t i) {
    const PlanStep &step = plan.steps[i];
    busy[step.stream] = false;
    if (changes[i]) {
      changes[i] = false; // now it can ask for a copy engine
      return;
    }
    ends[i] = now;
    ++heads[step.stream];
    takenSms -= smsOf(step);
    puts -= step.kind == Kind::Put;
  }

  static constexpr uint32_t kNone = 0xffffffffu;

  const Machine &machine;
  const Plan &plan;
  uint32_t ranks; ///< of a node
  const Launching &launching;
  double now = 0, takenSms = 0, puts = 0;
  std::vector<std::vector<uint32_t>> queues; ///< steps of each stream
  std::vector<size_t> heads;
  std::vector<bool> busy;
  std::vector<uint32_t> awaited; ///< by step: the one that must be over
  std::vector<double> issued, ends;
  std::vector<bool> changes; ///< by step: a put that has yet to ask for a copy engine
  std::vector<Running> active;
};

} // namespace

double predict(const Machine &machine, const Plan &plan) { return Predictor(machine, plan).run(); }

} // namespace tandem::machine
