//===- FakeGpu.h - device cuda on a driver of threads ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_RUNTIME_DEVICE_GPU_FAKEGPU_H
#define TANDEM_TEST_UNIT_RUNTIME_DEVICE_GPU_FAKEGPU_H

#include "Support/ProgramSpec.h"

#include "tandem/Runtime/Context.h"

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tandem::test {

/// A knob or a counter of the stand-in driver; see test/Support/FakeCuda.h.
std::atomic<int64_t> &fakeNumber(const char *name);

/// Sets a knob while it lives.
class Knob {
public:
  Knob(const char *name, int64_t value)
      : number(fakeNumber(name)), before(number.exchange(value)) {}
  ~Knob() { number = before; }
  Knob(const Knob &) = delete;
  Knob &operator=(const Knob &) = delete;

private:
  std::atomic<int64_t> &number;
  int64_t before;
};

/// An environment variable while it lives.
class Variable {
public:
  Variable(const char *name, const char *value) : name(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name); }
  Variable(const Variable &) = delete;
  Variable &operator=(const Variable &) = delete;

private:
  const char *name;
};

/// Whether TANDEM_TEST_GPU is "hip": the tests run on device hip, else on device cuda.
bool testsHip();

/// GPU `index` of the stand-in driver, which has two.
std::unique_ptr<Device> fakeDevice(unsigned index = 0);

/// What contexts of runRanks() have logged since the last call.
std::string takeLog();

/// What a rank does with its instance.
using Part = std::function<Status(Context &context, Instance &instance)>;
struct RankOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(20);
  bool apart = false;      ///< each rank says that it is on a host of its own
  bool graphs = true;      ///< else every command is launched by itself
  bool shareMemory = true; ///< else each instance has symmetric memory of its own
  unsigned gpus = 2;       ///< rank r is on GPU r modulo this number; more than 2: TANDEM_FAKE_GPUS
};
/// A thread per rank, over `channel` ("local" or "peer"; "ccl": on GPU r). What each rank ended
/// with.
std::vector<Status> runRanks(const ProgramSpec &spec, const std::string &channel, const Part &part,
                             const RankOptions &with = {});

/// Fails the test unless all ranks ended well.
void expectAllOk(const std::vector<Status> &ranks);

/// Memory of the device for every argument that the rank has, bound.
Expected<std::vector<std::unique_ptr<Memory>>> bindAll(Context &context, Instance &instance);

} // namespace tandem::test

#endif // TANDEM_TEST_UNIT_RUNTIME_DEVICE_GPU_FAKEGPU_H
