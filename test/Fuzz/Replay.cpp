//===- Replay.cpp - a fuzzer's inputs without libFuzzer ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//   <Name>Replay [OPTION...] FOLDER...
//
// Gives the files of the folders to the fuzzer's function, which aborts if an input shows a defect.
// Fails if a folder has no files.
//   --every=N     only each N-th file of the folders that follow
//   --mutations=N then so many mutated files; the last one is in the file of --last
//   --seconds=N   at most for so long
//   --seed=N      of the mutations
//   --last=FILE
//
//===----------------------------------------------------------------------===//

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

extern "C" {
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
/// The fuzzer's own, if it has them.
__attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most,
                                                     unsigned seed);
__attribute__((weak)) size_t LLVMFuzzerCustomCrossOver(const uint8_t *data1, size_t size1,
                                                       const uint8_t *data2, size_t size2,
                                                       uint8_t *out, size_t most, unsigned seed);
}

namespace {

constexpr size_t kMost = 1 << 16;
/// An input that takes longer has failed.
constexpr unsigned kSeconds = 120;

// Reproducible.
std::minstd_rand generator(1); // NOLINT(bugprone-random-generator-seed)
size_t below(size_t count) { return count ? generator() % count : 0; }

int run(const std::string &input) {
  ::alarm(kSeconds);
  return LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(input.data()), input.size());
}

/// Whether the argument is this option with a number.
bool isNumber(const char *argument, const char *option, unsigned long &value) {
  size_t length = std::strlen(option);
  if (std::strncmp(argument, option, length) != 0)
    return false;
  value = std::strtoul(argument + length, nullptr, 10);
  return true;
}

/// The file that has the last input, whatever ends the process.
class LastInput {
public:
  explicit LastInput(const std::string &path) {
    int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || ::ftruncate(fd, kMost) != 0) {
      std::perror(path.c_str());
      std::exit(1);
    }
    memory = ::mmap(nullptr, kMost, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
      std::perror("mmap");
      std::exit(1);
    }
    file = fd;
  }
  void set(const std::string &input) const {
    if (::ftruncate(file, kMost) == 0)
      std::memcpy(memory, input.data(), input.size());
    if (::ftruncate(file, static_cast<off_t>(input.size())) != 0)
      std::perror("ftruncate");
  }

private:
  void *memory = nullptr;
  int file = -1;
};

std::string mutate(const std::vector<std::string> &inputs) {
  std::string input = inputs[below(inputs.size())];
  input.resize(std::min(input.size(), kMost));
  std::vector<uint8_t> data(kMost);
  auto *bytes = reinterpret_cast<const uint8_t *>(input.data());
  size_t size = input.size();
  if (LLVMFuzzerCustomCrossOver && generator() % 4 == 0) {
    const std::string &other = inputs[below(inputs.size())];
    size = LLVMFuzzerCustomCrossOver(bytes, size, reinterpret_cast<const uint8_t *>(other.data()),
                                     other.size(), data.data(), kMost,
                                     static_cast<unsigned>(generator()));
  } else {
    std::copy(input.begin(), input.end(), data.begin());
  }
  size = LLVMFuzzerCustomMutator
             ? LLVMFuzzerCustomMutator(data.data(), size, kMost, static_cast<unsigned>(generator()))
             : LLVMFuzzerMutate(data.data(), size, kMost);
  return {reinterpret_cast<const char *>(data.data()), size};
}

} // namespace

/// Replaces the function of that name in libFuzzer.
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most) {
  std::string text(reinterpret_cast<char *>(data), size);
  for (unsigned times = 1 + generator() % 4; times > 0; --times) {
    size_t at = below(text.size() + 1), count = 1 + below(8);
    switch (generator() % 6) {
    case 0:
      text.insert(at, count, static_cast<char>(generator()));
      break;
    case 1:
      text.erase(at, count);
      break;
    case 2:
      text.insert(at, text, below(text.size() + 1), 4 * count);
      break;
    case 3: { // a number of 4 or 8 bytes
      static const uint64_t kNumbers[] = {0,          1,          255,        65536,
                                          0x7fffffff, 0xffffffff, 1ull << 40, ~0ull};
      uint64_t number = kNumbers[below(std::size(kNumbers))];
      size_t width = generator() % 2 ? 4 : 8;
      if (at + width <= text.size())
        std::memcpy(text.data() + at, &number, width);
      break;
    }
    default:
      if (at < text.size())
        text[at] = static_cast<char>(generator() % 2 ? text[at] ^ (1 << below(8)) : generator());
    }
  }
  text.resize(std::min(text.size(), most));
  std::copy(text.begin(), text.end(), data);
  return text.size();
}

int main(int argc, char **argv) {
  unsigned long count = 0, every = 1, seconds = 0, mutations = 0, seed = 1;
  std::string last;
  std::vector<std::string> inputs;
  for (int i = 1; i < argc; ++i) {
    if (isNumber(argv[i], "--every=", every) || isNumber(argv[i], "--seconds=", seconds) ||
        isNumber(argv[i], "--mutations=", mutations) || isNumber(argv[i], "--seed=", seed))
      continue;
    if (std::strncmp(argv[i], "--last=", 7) == 0) {
      last = argv[i] + 7;
      continue;
    }
    std::vector<std::filesystem::path> files;
    for (const auto &entry : std::filesystem::directory_iterator(argv[i]))
      if (entry.is_regular_file())
        files.push_back(entry.path());
    if (files.empty()) {
      std::fprintf(stderr, "%s: no files\n", argv[i]);
      return 1;
    }
    std::sort(files.begin(), files.end());
    for (size_t f = 0; f < files.size(); ++f) {
      std::ifstream file(files[f], std::ios::binary);
      inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
      if (f % std::max(every, 1ul) != 0)
        continue;
      std::fprintf(stderr, "%s\n", files[f].c_str()); // the last one is the one that failed
      run(inputs.back());
      ++count;
    }
  }
  if (mutations + seconds > 0 && !inputs.empty()) {
    LastInput file(last.empty() ? "last-input" : last);
    generator.seed(static_cast<std::minstd_rand::result_type>(seed));
    auto start = std::chrono::steady_clock::now();
    for (unsigned long i = 0; mutations == 0 || i < mutations; ++i, ++count) {
      if (seconds > 0 && std::chrono::steady_clock::now() - start > std::chrono::seconds(seconds))
        break;
      std::string input = mutate(inputs);
      file.set(input);
      run(input);
    }
  }
  std::printf("%lu inputs\n", count);
  return count ? 0 : 1;
}
