//===- GraphProfiler.cpp - what the nodes of a CUDA graph did, and when ---===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A library that the CUDA driver loads into a process (CUDA_INJECTION64_PATH). It records through
// CUPTI when graphs are launched, and the kernels, copies and fills of each launch.
//
//   TANDEM_PROFILE=PREFIX       where to: PREFIX.PID.json, when the process exits normally
//   TANDEM_CUPTI_LIBRARY=FILE   CUPTI, if the linker does not find libcupti.so.13
//
// Where something is missing, it says so on the standard error, and the process continues without a
// profile. tools/gpu/profile starts ranks with it and reads the files.
//
//===----------------------------------------------------------------------===//

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cupti.h>
#include <cxxabi.h>
#include <dlfcn.h>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <unistd.h>
#include <vector>

namespace {

/// The functions that are used.
struct Cupti {
  decltype(&cuptiActivityRegisterCallbacks) registerCallbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityEnableDriverApi) enableDriverApi = nullptr;
  decltype(&cuptiActivityFlushAll) flushAll = nullptr;
  decltype(&cuptiActivityGetNextRecord) nextRecord = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped = nullptr;
  decltype(&cuptiGetResultString) resultString = nullptr;
};

/// Times are CUPTI's, in ns; processes of one host share them.
struct Launch {
  uint32_t correlation; ///< of its nodes, too
  uint64_t begin;       ///< of the call
};

struct Node {
  uint32_t correlation, device, stream;
  uint64_t begin, end;
  uint64_t bytes; ///< of copies and fills
  uint32_t name;
};

struct Profile {
  Cupti cupti;
  std::string prefix;
  pid_t process = 0;
  std::mutex mutex; ///< of all below: CUPTI hands over buffers from a thread of its own
  std::vector<Launch> launches;
  std::vector<Node> nodes;
  std::vector<std::string> names;
  std::map<std::string, uint32_t> numbers; ///< of mangled names
  uint64_t lost = 0;                       ///< nodes that were not recorded, or without their times

  uint32_t number(const char *mangled);
  void add(const CUpti_Activity &record);
  void write();
};

/// Lives until the process has ended: CUPTI's thread may call at any time.
Profile &profile() {
  static auto *made = new Profile;
  return *made;
}

void say(const std::string &what) {
  std::fprintf(stderr, "libtandem_graph_profiler: %s\n", what.c_str());
}

std::string demangled(const char *name) {
  int status = 0;
  std::unique_ptr<char, void (*)(void *)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                               std::free);
  return text ? text.get() : name;
}

uint32_t Profile::number(const char *mangled) {
  auto [it, isNew] = numbers.emplace(mangled, static_cast<uint32_t>(names.size()));
  if (isNew)
    names.push_back(demangled(mangled));
  return it->second;
}

void Profile::add(const CUpti_Activity &record) {
  auto node = [&](const auto &of, uint64_t bytes, const char *name) {
    if (of.graphId && of.end) // CUPTI may have no times
      nodes.push_back({of.correlationId, of.deviceId, of.streamId, of.start, of.end, bytes,
                       number(name ? name : "")});
    else if (of.graphId)
      ++lost;
  };
  if (record.kind == CUPTI_ACTIVITY_KIND_DRIVER) {
    const auto &call = reinterpret_cast<const CUpti_ActivityAPI &>(record);
    launches.push_back({call.correlationId, call.start});
  } else if (record.kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const auto &kernel = reinterpret_cast<const CUpti_ActivityKernel10 &>(record);
    node(kernel, 0, kernel.name);
  } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto &copy = reinterpret_cast<const CUpti_ActivityMemcpy6 &>(record);
    node(copy, copy.bytes, "memcpy");
  } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMCPY2) {
    const auto &copy = reinterpret_cast<const CUpti_ActivityMemcpyPtoP4 &>(record);
    node(copy, copy.bytes, "memcpy to a peer");
  } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const auto &fill = reinterpret_cast<const CUpti_ActivityMemset4 &>(record);
    node(fill, fill.bytes, "memset");
  }
}

void CUPTIAPI giveBuffer(uint8_t **buffer, size_t *size, size_t *most) {
  constexpr size_t kBytes = 4 << 20; // malloc aligns it to 8, as CUPTI wants
  *buffer = static_cast<uint8_t *>(std::malloc(kBytes));
  *size = *buffer ? kBytes : 0;
  *most = 0; // as many as fit
}

void CUPTIAPI takeBuffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t /*size*/,
                         size_t valid) {
  Profile &to = profile();
  std::lock_guard<std::mutex> lock(to.mutex);
  CUpti_Activity *record = nullptr;
  CUptiResult result = CUPTI_SUCCESS;
  while ((result = to.cupti.nextRecord(buffer, valid, &record)) == CUPTI_SUCCESS)
    to.add(*record);
  if (valid > 0 && result != CUPTI_ERROR_MAX_LIMIT_REACHED)
    ++to.lost;
  size_t dropped = 0;
  if (to.cupti.dropped(context, stream, &dropped) == CUPTI_SUCCESS)
    to.lost += dropped;
  std::free(buffer);
}

void Profile::write() {
  std::lock_guard<std::mutex> lock(mutex);
  const char *rank = std::getenv("TANDEM_RANK");
  nlohmann::json file = {{"version", 1},
                         {"rank", rank ? std::strtol(rank, nullptr, 10) : -1},
                         {"lost", lost},
                         {"names", names}};
  auto &calls = file["launches"] = nlohmann::json::array(),
       &list = file["nodes"] = nlohmann::json::array();
  for (const Launch &launch : launches)
    calls.push_back({launch.correlation, launch.begin});
  for (const Node &node : nodes)
    list.push_back(
        {node.correlation, node.device, node.stream, node.begin, node.end, node.bytes, node.name});
  std::string path = prefix + "." + std::to_string(process) + ".json", part = path + ".part";
  std::ofstream out(part);
  // A kernel's name may have any bytes.
  out << file.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  out.close();
  if (!out || std::rename(part.c_str(), path.c_str()) != 0) {
    say("cannot write " + path);
    std::remove(part.c_str());
  }
}

/// False and a message if CUPTI is not there or lacks something.
bool open(Cupti &cupti) {
  const char *named = std::getenv("TANDEM_CUPTI_LIBRARY");
  void *library = ::dlopen(named ? named : "libcupti.so.13", RTLD_NOW);
  if (!library) {
    say(::dlerror());
    return false;
  }
  bool all = true;
  auto find = [&](auto &function, const char *name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(library, name));
    if (!function)
      say(std::string("CUPTI has no ") + name);
    all = all && function;
  };
  find(cupti.registerCallbacks, "cuptiActivityRegisterCallbacks");
  find(cupti.enable, "cuptiActivityEnable");
  find(cupti.disable, "cuptiActivityDisable");
  find(cupti.enableDriverApi, "cuptiActivityEnableDriverApi");
  find(cupti.flushAll, "cuptiActivityFlushAll");
  find(cupti.nextRecord, "cuptiActivityGetNextRecord");
  find(cupti.dropped, "cuptiActivityGetNumDroppedRecords");
  find(cupti.resultString, "cuptiGetResultString");
  return all;
}

/// Switches on what is recorded, all of it or nothing.
bool enable(const Cupti &cupti) {
  auto must = [&](CUptiResult result, const char *what) {
    const char *text = nullptr;
    if (result != CUPTI_SUCCESS) {
      cupti.resultString(result, &text);
      say(std::string(what) + ": " + (text ? text : "unknown error"));
    }
    return result == CUPTI_SUCCESS;
  };
  // CONCURRENT_KERNEL: kernels of several streams stay side by side.
  constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                           CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2,
                                           CUPTI_ACTIVITY_KIND_MEMSET};
  constexpr CUpti_CallbackId kCalls[] = {CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
                                         CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz};
  bool all = must(cupti.registerCallbacks(giveBuffer, takeBuffer), "cannot give CUPTI buffers");
  for (CUpti_ActivityKind kind : kKinds)
    all = all && must(cupti.enable(kind), "cannot record kernels, copies and fills");
  for (CUpti_CallbackId call : kCalls)
    all = all && must(cupti.enableDriverApi(call, 1), "cannot record calls of cuGraphLaunch");
  if (all)
    return true;
  for (CUpti_ActivityKind kind : kKinds)
    cupti.disable(kind);
  for (CUpti_CallbackId call : kCalls)
    cupti.enableDriverApi(call, 0);
  return false;
}

/// A process that was forked has the records of another one.
void finish() {
  Profile &mine = profile();
  if (::getpid() != mine.process)
    return;
  mine.cupti.flushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  mine.write();
}

} // namespace

/// Called by the driver, once, in cuInit. The result is not used.
// NOLINTNEXTLINE(readability-identifier-naming): the name that the driver looks for
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const char *prefix = std::getenv("TANDEM_PROFILE");
  Profile &mine = profile();
  if (!prefix || !open(mine.cupti) || !enable(mine.cupti))
    return 1;
  mine.prefix = prefix;
  mine.process = ::getpid();
  std::atexit(finish);
  return 1;
}
