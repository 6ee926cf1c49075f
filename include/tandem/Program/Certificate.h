//===- Certificate.h - what is proven of a program --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See docs/semantics.md.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_CERTIFICATE_H
#define TANDEM_PROGRAM_CERTIFICATE_H

#include "tandem/Program/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// What was proven and predicted of all ranks of a stream program. Seconds are of one run.
struct Certificate {
  struct Candidate {
    std::string what; ///< schedule and slices
    double seconds = 0;
  };
  /// A loop of reshards and compute.
  struct Loop {
    std::string reshards;               ///< "all-gather and all-gather"
    std::vector<std::string> locations; ///< one per reshard; "" if unknown
    std::string what;                   ///< schedule and slices
    std::string source;                 ///< "annotation", "cost", "tuned" or "fallback"
    /// The chosen one, the plainest, the fastest others. Empty without a machine file.
    std::vector<Candidate> candidates;
    double communication = 0; ///< s on the slowest rank
    double exposed = 0;       ///< of these, while nothing is computed
    /// Identifies equal loops for CompileOptions::choices; not stored in files. Empty without
    /// candidates.
    std::string signature = "";
  };

  std::string producer; ///< the compiler and its version
  /// Diagnoses of docs/semantics.md, section 6, that are excluded for all ranks and for any number
  /// of consecutive runs.
  std::vector<std::string> properties;
  std::vector<std::string> limits; ///< what could not be decided; empty: all is proven
  std::string data;                ///< how results were compared with the reference; empty: not
  uint32_t queues = 0; ///< streams may share so many hardware queues; 0: each has its own
  bool bufferedSends = false;
  std::string machine; ///< of the predicted times; empty: there are none
  uint64_t machineHash = 0;
  double seconds = 0;
  double baselineSeconds = 0; ///< of the unoverlapped baseline; 0: unknown
  /// The whole program with another candidate for one of its loops, the fastest first.
  std::vector<Candidate> alternatives;
  unsigned sms = 0; ///< kernels that wait never hold the SMs that others need, on GPUs of so many
  std::vector<Loop> loops;
};

/// The bytes of a .tsp file with this certificate in place of the one that it has. An error if they
/// are no .tsp file.
Expected<std::string> withCertificate(std::string_view bytes, const Certificate &certificate);

/// What is proven, as text.
std::string toText(const Certificate &certificate);
/// How each loop is run, whether its communication is overlapped or why not, and the runners-up.
std::string explain(const Certificate &certificate);
/// Of one loop: how much of its communication is overlapped, and why not more. Empty if it has
/// none.
std::string explainOverlap(const Certificate::Loop &loop);

} // namespace tandem

#endif // TANDEM_PROGRAM_CERTIFICATE_H
