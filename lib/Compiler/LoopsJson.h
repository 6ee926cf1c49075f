//===- LoopsJson.h - the loops of a program as JSON -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_COMPILER_LOOPSJSON_H
#define TANDEM_LIB_COMPILER_LOOPSJSON_H

#include "tandem/Program/Certificate.h"

#include <nlohmann/json.hpp>

namespace tandem::compiler {

inline nlohmann::json loopsJson(const std::vector<Certificate::Loop> &loops) {
  nlohmann::json list = nlohmann::json::array();
  for (const Certificate::Loop &loop : loops) {
    nlohmann::json candidates = nlohmann::json::array();
    for (const Certificate::Candidate &candidate : loop.candidates)
      candidates.push_back({{"schedule", candidate.what}, {"seconds", candidate.seconds}});
    list.push_back({{"reshards", loop.reshards},
                    {"locations", loop.locations},
                    {"schedule", loop.what},
                    {"source", loop.source},
                    {"signature", loop.signature},
                    {"communication_seconds", loop.communication},
                    {"exposed_seconds", loop.exposed},
                    {"explanation", explainOverlap(loop)},
                    {"candidates", std::move(candidates)}});
  }
  return list;
}

} // namespace tandem::compiler

#endif // TANDEM_LIB_COMPILER_LOOPSJSON_H
