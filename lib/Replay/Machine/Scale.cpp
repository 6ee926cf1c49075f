//===- Scale.cpp - scaled parameters of a machine ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Replay/Machine.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>

namespace tandem::machine {

namespace {

struct Parameter {
  std::string_view name;
  void (*apply)(Machine &machine, double factor);
};

void scaleNodeBandwidth(Machine &m, double f) {
  // Bandwidths measured through the link scale with it.
  m.node.bandwidth.scale(f);
  m.node.core *= f;
  m.twoSided.bandwidth *= f;
  m.oneSided.bandwidth *= f;
  m.collectives.bandwidth.scale(f);
  m.exchange.stores *= f;
}

void scaleNetworkBandwidth(Machine &m, double f) {
  m.network.bandwidth.scale(f);
  m.network.core *= f;
  m.collectives.networkBandwidth *= f;
}

void scaleLatency(Machine &m, double f) {
  m.node.latency *= f;
  m.network.latency *= f;
  m.twoSided.startup.scale(f);
  m.oneSided.startup.scale(f);
  m.collectives.startup *= f;
  m.collectives.step *= f;
  m.collectives.networkStep *= f;
  m.exchange.signal *= f;
  m.exchange.count *= f;
  m.exchange.blockSignal *= f;
  m.exchange.llSignal *= f;
}

void scaleIssue(Machine &m, double f) {
  for (Launching *launching : {&m.streams, &m.graph}) {
    launching->run.scale(f);
    for (double &cost : launching->issue)
      cost *= f;
  }
}

void scaleDeviceCosts(Machine &m, double f) {
  for (Launching *launching : {&m.streams, &m.graph}) {
    launching->engineStart *= f;
    launching->engineChange *= f;
    for (double &cost : launching->device)
      cost *= f;
  }
}

constexpr Parameter kParameters[] = {
    {"link.bandwidth",
     [](Machine &m, double f) {
       scaleNodeBandwidth(m, f);
       scaleNetworkBandwidth(m, f);
     }},
    {"link.node.bandwidth", scaleNodeBandwidth},
    {"link.network.bandwidth", scaleNetworkBandwidth},
    {"link.latency", scaleLatency},
    {"matmul.rate",
     [](Machine &m, double f) {
       for (std::vector<MatmulPoint> &points : m.matmuls)
         for (MatmulPoint &point : points)
           point.seconds /= f;
     }},
    {"memory.bandwidth",
     [](Machine &m, double f) {
       for (Curve &bandwidth : m.memory)
         bandwidth.scale(f);
       m.exchange.memory *= f;
       m.exchange.llReads *= f;
     }},
    {"copy.engines",
     [](Machine &m, double f) {
       m.copyEngines = std::max(1.0, std::floor(m.copyEngines * f + 0.5));
     }},
    {"collective.sms", [](Machine &m, double f) { m.collectives.sms *= f; }},
    {"host.issue", scaleIssue},
    {"host.cores", [](Machine &m, double f) { m.cores *= f; }},
    {"device.overhead", scaleDeviceCosts},
};

} // namespace

std::vector<std::string_view> Machine::scalable() {
  std::vector<std::string_view> names;
  for (const Parameter &parameter : kParameters)
    names.push_back(parameter.name);
  return names;
}

Status Machine::scale(std::string_view parameter, double factor) {
  if (!(factor > 0) || !std::isfinite(factor))
    return Status(Code::InvalidArgument,
                  fmt::format("{}: expected a factor above 0, found {}", parameter, factor));
  for (const Parameter &known : kParameters)
    if (known.name == parameter) {
      known.apply(*this, factor);
      return Status();
    }
  return Status(Code::InvalidArgument, fmt::format("no parameter \"{}\", expected one of {}",
                                                   parameter, fmt::join(scalable(), ", ")));
}

} // namespace tandem::machine
