//===- PlanBuffersTest.cpp - planned memory of random programs -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostMachine.h"
#include "PassTest.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace tandem::hostir;
using namespace tandem::hostir::test;

namespace {

/// Writes programs of allocs, copies, syncs and loops. Most accesses are ordered after the alloc,
/// and most workers are joined now and then; where not, the pass may refuse the program.
class Writer {
public:
  explicit Writer(unsigned seed) : random(seed) {}

  std::string write() {
    workers = 1 + pick(4);
    text = "hostir.program @p(%a: memref<16xf32>, %r: memref<16xf32> {hostir.result}) "
           "attributes {workers = " +
           std::to_string(workers) + " : i64} {\n  %main = hostir.main_stream\n";
    for (int i = 0; i < 12; ++i)
      line("%c" + std::to_string(i) + " = arith.constant " + std::to_string(i) + " : index");
    std::vector<std::string> streams{"%main"};
    for (int i = 0; i < workers; ++i) {
      streams.push_back("%w" + std::to_string(i));
      line(streams.back() + " = hostir.worker_stream %c" + std::to_string(i));
      sync(streams.back(), "%main");
    }
    block(streams, {}, 6 + pick(10), 0);
    return text + "}\n";
  }

private:
  struct Buffer {
    std::string name, stream;
    int size;
  };

  int pick(int n) { return static_cast<int>(random() % n); }
  bool chance(int percent) { return pick(100) < percent; }
  std::string fresh(const char *prefix) { return prefix + std::to_string(next++); }
  void line(const std::string &what) { text += "  " + what + "\n"; }
  void sync(const std::string &waiter, const std::string &signaler) {
    line("hostir.sync " + waiter + " after " + signaler);
  }
  template <typename T> const T &oneOf(const std::vector<T> &of) { return of[pick(of.size())]; }

  // A view of the first 16 elements.
  std::string view(const Buffer &buffer) {
    if (buffer.size == 16)
      return buffer.name;
    std::string name = fresh("%v");
    line(name + " = memref.subview " + buffer.name + "[0] [16] [1] : memref<" +
         std::to_string(buffer.size) + "xf32> to memref<16xf32, strided<[1]>>");
    return name;
  }
  std::string viewType(const Buffer &buffer) {
    return buffer.size == 16 ? "memref<16xf32>" : "memref<16xf32, strided<[1]>>";
  }

  void access(const std::vector<std::string> &streams, const std::vector<Buffer> &buffers) {
    const Buffer &buffer = oneOf(buffers);
    std::string stream = chance(50) ? buffer.stream : oneOf(streams);
    if (stream != buffer.stream && chance(95))
      sync(stream, buffer.stream);
    std::string target = view(buffer);
    std::string source = "%a", sourceType = "memref<16xf32>";
    const Buffer &other = oneOf(buffers);
    if (chance(50) && (other.stream == stream || chance(90))) {
      if (other.stream != stream)
        sync(stream, other.stream);
      source = view(other);
      sourceType = viewType(other);
    }
    line("hostir.copy " + source + " to " + target + " on " + stream + " : " + sourceType + " to " +
         viewType(buffer));
  }

  void block(std::vector<std::string> streams, std::vector<Buffer> buffers, int statements,
             int depth) {
    for (int i = 0; i < statements; ++i) {
      int what = pick(100);
      if (what < 30 || buffers.empty()) {
        static const std::vector<int> sizes{16, 32, 48, 100};
        Buffer buffer{fresh("%b"), oneOf(streams), oneOf(sizes)};
        line(buffer.name + " = hostir.alloc on " + buffer.stream + " : memref<" +
             std::to_string(buffer.size) + "xf32>");
        buffers.push_back(buffer);
      } else if (what < 70) {
        access(streams, buffers);
      } else if (what < 85 || depth == 2) {
        std::string a = oneOf(streams), b = oneOf(streams);
        if (chance(60)) // join
          a = "%main";
        sync(a, b);
      } else {
        loop(streams, buffers, depth);
      }
    }
  }

  void loop(std::vector<std::string> streams, const std::vector<Buffer> &buffers, int depth) {
    std::string index = fresh("%i"), stream = fresh("%s");
    int first = pick(3);
    line("scf.for " + index + " = %c" + std::to_string(first) + " to %c" +
         std::to_string(first + pick(6)) + " step %c" + std::to_string(1 + pick(2)) + " {");
    line(stream + " = hostir.worker_stream " + index);
    if (chance(70))
      sync(stream, "%main");
    streams.push_back(stream);
    block(streams, chance(50) ? buffers : std::vector<Buffer>{}, 2 + pick(5), depth + 1);
    if (chance(30))
      sync("%main", stream);
    line("}");
  }

  std::mt19937 random;
  std::string text;
  int workers = 0, next = 0;
};

int64_t bytesUnshared(const RankProgram &program) {
  std::map<std::pair<Operation *, int>, int64_t> places;
  for (const Instance &instance : program.instances)
    places[{instance.alloc, instance.stream}] = (instance.end - instance.begin + 63) / 64 * 64;
  int64_t bytes = 0;
  for (auto &[place, size] : places)
    bytes += size;
  return bytes;
}

} // namespace

TEST(PlanBuffers, RandomProgramsNeverShareWhatIsAliveAtOnce) {
  int planned = 0, refused = 0;
  int64_t unshared = 0, shared = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::string text = Writer(seed).write();
    PassTest test;
    OwningOpRef<ModuleOp> module = test.parse(text);
    ASSERT_TRUE(module) << text << test.diagnostics;
    if (failed(test.run(*module, "hostir-plan-buffers{log=true}"))) {
      // Refused for its order, and for nothing else.
      EXPECT_TRUE(StringRef(test.diagnostics).contains("ordered")) << test.diagnostics;
      ++refused;
      continue;
    }
    ++planned;
    ProgramOp program = PassTest::programOf(*module);
    RankProgram flat = flatten(program, 0);
    int64_t arena = *program.getArenaBytes();
    ASSERT_EQ(findConflicts(flat, arena), "") << "seed " << seed << "\n" << text;
    // "planned 3 buffers: 256 + 0 symmetric bytes, 512 without sharing"
    int64_t none = -1;
    StringRef(test.diagnostics).split("symmetric bytes, ").second.consumeInteger(10, none);
    ASSERT_LE(arena, none) << "seed " << seed << "\n" << text << test.diagnostics;
    unshared += bytesUnshared(flat);
    shared += arena;
  }
  // The test would show nothing if nearly all programs were refused, or if nothing was shared.
  EXPECT_GT(planned, 500) << refused;
  EXPECT_LT(shared, unshared * 9 / 10);
  RecordProperty("planned", planned);
  RecordProperty("bytes", std::to_string(shared) + " of " + std::to_string(unshared));
}

// A thousand layers that each fork, work and join: the arena is that of one layer, and nothing is
// quadratic.
TEST(PlanBuffers, ManyLayersUseTheMemoryOfOne) {
  std::string text = "hostir.program @p(%a: memref<1024xf32>, %r: memref<1024xf32> "
                     "{hostir.result}) {\n  %main = hostir.main_stream\n"
                     "  %c0 = arith.constant 0 : index\n  %c1 = arith.constant 1 : index\n"
                     "  %c4 = arith.constant 4 : index\n";
  for (int layer = 0; layer < 1000; ++layer) {
    std::string n = std::to_string(layer);
    text += "  %b" + n + " = hostir.alloc on %main : memref<1024xf32>\n";
    text += "  scf.for %i = %c0 to %c4 step %c1 {\n    %s = hostir.worker_stream %i\n"
            "    hostir.sync %s after %main\n    %t = hostir.alloc on %s : memref<1024xf32>\n"
            "    hostir.copy %a to %t on %s : memref<1024xf32> to memref<1024xf32>\n"
            "    hostir.copy %t to %b" +
            n +
            " on %s : memref<1024xf32> to memref<1024xf32>\n"
            "    hostir.sync %main after %s\n  }\n";
    text += "  hostir.copy %b" + n + " to %r on %main : memref<1024xf32> to memref<1024xf32>\n";
  }
  PassTest test;
  OwningOpRef<ModuleOp> module = test.parse(text + "}\n");
  ASSERT_TRUE(module) << test.diagnostics;
  ASSERT_TRUE(
      succeeded(test.run(*module, "hostir-insert-deallocs,hostir-plan-buffers,hostir-verify")))
      << test.diagnostics;
  EXPECT_EQ(*PassTest::programOf(*module).getArenaBytes(), 5 * 4096u);
}
