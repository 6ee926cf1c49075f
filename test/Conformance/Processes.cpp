//===- Processes.cpp - a process per rank ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Runner.h"

#include "tandem/Runtime/Registry.h"

#include <atomic>
#include <cstring>
#include <functional>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace tandem::test {

namespace {

constexpr uint32_t kMaxRanks = 16;
constexpr size_t kPiece = 4096;

/// Memory that the forked ranks share.
struct Board {
  std::atomic<uint64_t> arrived[kMaxRanks]; ///< steps that each rank has come to
  std::atomic<bool> gone[kMaxRanks];
  char pieces[2][kMaxRanks][kPiece]; ///< steps use them in turn
};

/// An all-gather over shared memory, piece by piece. Two sets of pieces suffice: a rank is at most
/// one step ahead.
class BoardBootstrap final : public Bootstrap {
public:
  BoardBootstrap(Board &board, uint32_t rank, uint32_t size)
      : board(board), self(rank), size(size) {}
  ~BoardBootstrap() override { board.gone[self] = true; }
  uint32_t rank() const override { return self; }
  uint32_t worldSize() const override { return size; }
  Status allGather(const void *mine, size_t bytes, void *all) override {
    for (size_t at = 0; at == 0 || at < bytes; at += kPiece) {
      size_t n = std::min(kPiece, bytes - at);
      if (n)
        std::memcpy(board.pieces[step % 2][self], static_cast<const char *>(mine) + at, n);
      board.arrived[self] = ++step;
      for (uint32_t r = 0; r < size; ++r) {
        TANDEM_RETURN_IF_ERROR(waitFor(r));
        if (n)
          std::memcpy(static_cast<char *>(all) + r * bytes + at, board.pieces[(step - 1) % 2][r],
                      n);
      }
    }
    return Status();
  }
  Status barrier() override { return allGather(nullptr, 0, nullptr); }

private:
  Status waitFor(uint32_t r) {
    for (int tries = 0; board.arrived[r] < step; ++tries) {
      if (board.gone[r] && board.arrived[r] < step)
        return Status(Code::Aborted, "rank " + std::to_string(r) + " has left");
      if (tries > 100000)
        return Status(Code::Timeout, "no word from rank " + std::to_string(r));
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return Status();
  }
  Board &board;
  uint32_t self, size;
  uint64_t step = 0;
};

void put(std::string &out, uint64_t n) { out.append(reinterpret_cast<const char *>(&n), sizeof n); }
void put(std::string &out, const std::string &text) {
  put(out, text.size());
  out += text;
}

/// Reads what `put` wrote; false at its end.
struct Reader {
  const std::string &in;
  size_t at = 0;
  bool get(uint64_t &n) {
    if (in.size() - at < sizeof n)
      return false;
    std::memcpy(&n, in.data() + at, sizeof n);
    at += sizeof n;
    return true;
  }
  bool get(std::string &text) {
    uint64_t n = 0;
    if (!get(n) || in.size() - at < n)
      return false;
    text = in.substr(at, n);
    at += n;
    return true;
  }
};

std::string serialize(const RankResult &result) {
  std::string out;
  put(out, static_cast<uint64_t>(result.status.code()));
  put(out, result.status.message());
  put(out, result.outputs.size());
  for (const auto &run : result.outputs) {
    put(out, run.size());
    for (const Bytes &bytes : run)
      put(out, bytes);
  }
  return out;
}

RankResult deserialize(const std::string &in) {
  RankResult result;
  Reader reader{in};
  uint64_t code = 0, runs = 0;
  std::string message;
  if (!reader.get(code) || !reader.get(message) || !reader.get(runs)) {
    result.status = Status(Code::Internal, "the rank's process ended without a result");
    return result;
  }
  result.status = Status(static_cast<Code>(code), message);
  result.outputs.resize(runs);
  for (auto &run : result.outputs) {
    uint64_t count = 0;
    if (!reader.get(count))
      break;
    run.resize(count);
    for (Bytes &bytes : run)
      if (!reader.get(bytes))
        break;
  }
  return result;
}

void writeAll(int fd, const std::string &text) {
  for (size_t done = 0; done < text.size();) {
    ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n <= 0)
      return;
    done += static_cast<size_t>(n);
  }
}

std::string readAll(int fd) {
  std::string text;
  char buffer[65536];
  for (ssize_t n = 0; (n = ::read(fd, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  return text;
}

[[noreturn]] void child(const Backend &backend, const Scenario &scenario, const std::string &file,
                        Board &board, uint32_t rank, int fd) {
  auto size = static_cast<uint32_t>(scenario.spec.ranks.size());
  RankResult result;
  auto transport = makeTransport(backend.channel);
  if (transport)
    result = runRank(backend, scenario, file, std::make_unique<BoardBootstrap>(board, rank, size),
                     std::move(*transport));
  else
    result.status = transport.status();
  board.gone[rank] = true;
  writeAll(fd, serialize(result));
  ::close(fd);
  ::_exit(0); // no destructors of the parent's objects
}

} // namespace

namespace {

/// What `question` says, asked in a child.
std::string askChild(const std::function<std::string()> &question) {
  int ends[2];
  if (::pipe(ends) != 0)
    return "no pipe";
  pid_t pid = ::fork();
  if (pid == 0) {
    writeAll(ends[1], question());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string message = readAll(ends[0]);
  ::close(ends[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return status == 0 ? message : "asking for it ended the process";
}

} // namespace

std::string probeTransport(const std::string &name) {
  return askChild([&] {
    auto transport = makeTransport(name);
    return transport ? std::string() : transport.status().message();
  });
}

Probe probeGpus(const std::string &kind) {
  Probe probe;
  // With more and more GPUs asked for, until there are not as many.
  std::string text = askChild([&]() -> std::string {
    std::string why = whyNoGpu(1, kind);
    if (!why.empty())
      return why;
    uint32_t count = 1;
    while (whyNoGpu(count + 1, kind).empty())
      ++count;
    return "#" + std::to_string(count);
  });
  if (text[0] == '#')
    probe.count = static_cast<unsigned>(std::stoul(text.substr(1)));
  else
    probe.why = text;
  return probe;
}

std::vector<RankResult> runProcesses(const Backend &backend, const Scenario &scenario) {
  auto size = static_cast<uint32_t>(scenario.spec.ranks.size());
  std::string file = scenario.spec.encode();
  void *shared =
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  std::vector<RankResult> results(size);
  if (shared == MAP_FAILED || size > kMaxRanks) {
    results[0].status = Status(Code::Internal, "no shared memory for the ranks");
    return results;
  }
  Board &board = *new (shared) Board();
  std::vector<int> pipes(size, -1);
  std::vector<pid_t> pids(size, -1);
  for (uint32_t r = 0; r < size; ++r) {
    int ends[2];
    if (::pipe(ends) != 0)
      break;
    pids[r] = ::fork();
    if (pids[r] == 0) {
      ::close(ends[0]);
      child(backend, scenario, file, board, r, ends[1]);
    }
    ::close(ends[1]);
    pipes[r] = ends[0];
  }
  for (uint32_t r = 0; r < size; ++r) {
    results[r] = deserialize(pipes[r] >= 0 ? readAll(pipes[r]) : "");
    ::close(pipes[r]);
    int status = 0;
    if (pids[r] > 0)
      ::waitpid(pids[r], &status, 0);
    if (status != 0)
      results[r].status = Status(Code::Internal, "the rank's process ended with wait status " +
                                                     std::to_string(status));
  }
  ::munmap(shared, sizeof(Board));
  return results;
}

} // namespace tandem::test
