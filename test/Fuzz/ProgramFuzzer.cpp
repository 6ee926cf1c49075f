//===- ProgramFuzzer.cpp - any bytes as a stream program --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support/ProgramSpec.h"

#include "tandem/Program/Program.h"
#include "tandem/Replay/Check.h"
#include "tandem/Replay/World.h"

#include <string>

using namespace tandem;

/// Reads, dumps and checks the bytes; hashes are corrected first, or few inputs would get further.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string bytes(reinterpret_cast<const char *>(data), size);
  test::rehash(bytes);
  ProgramLimits limits;
  limits.maxArenaBytes = 1 << 20;
  auto file = ProgramFile::fromMemory(bytes, limits);
  if (!file || (*file)->numRanks() > 64)
    return 0;
  dumpIndex(**file);
  for (uint32_t rank = 0; rank < (*file)->numRanks(); ++rank)
    if (auto program = (*file)->rankProgram(rank)) {
      dumpProgram(**program);
      dumpKernels(**program);
      (*program)->shards();
    }
  (*file)->reference().status().ignore();
  auto world = replay::World::load(**file);
  if (!world)
    return 0;
  check::CheckOptions options;
  options.dataSteps = 10000;
  options.threads = 1;
  check::toText(**world, check::check(**world, options));
  return 0;
}
