//===- GraphProfiler.cpp - what the nodes of a CUDA graph did, and when ---===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A library that the CUDA driver loads into any process (CUDA_INJECTION64_PATH). By CUPTI it lists
// the launches of graphs and the kernels, copies and fills of each. TANDEM_PROFILE=PREFIX: they go
// to PREFIX.PID.json when the process ends by itself. tools/gpu/profile reads these files.
// TANDEM_CUPTI_LIBRARY: CUPTI, if it is not libcupti.so.13 of the usual places.
//
// Where something is missing, it says so on the standard error, and the process runs as without it.
//
//===----------------------------------------------------------------------===//

#include <cstdio>
#include <cstdlib>
#include <cupti.h>
#include <dlfcn.h>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

/// Times are CUPTI's, in ns; processes of one host share them.
struct Launch {
  uint32_t correlation; ///< of its nodes, too
  uint64_t begin, end;  ///< of the call
};

struct Node {
  uint32_t correlation, device, stream;
  uint64_t id, begin, end;
  uint64_t bytes; ///< of copies and fills
  uint32_t name;
};

/// The functions that are used; null where the library lacks one.
struct Cupti {
  decltype(&cuptiActivityRegisterCallbacks) registerCallbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityEnableDriverApi) enableDriverApi = nullptr;
  decltype(&cuptiActivityFlushAll) flushAll = nullptr;
  decltype(&cuptiActivityGetNextRecord) nextRecord = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped = nullptr;
  decltype(&cuptiGetResultString) resultString = nullptr;
};

struct Profile {
  Cupti cupti;
  std::string prefix;
  std::mutex mutex; ///< of all below: CUPTI hands over buffers from a thread of its own
  std::vector<Launch> launches;
  std::vector<Node> nodes;
  std::vector<std::string> names;
  std::map<std::string, uint32_t> numbers; ///< of `names`
  uint64_t dropped = 0;

  uint32_t number(const char *name) {
    auto [it, isNew] = numbers.emplace(name ? name : "", static_cast<uint32_t>(names.size()));
    if (isNew)
      names.push_back(it->first);
    return it->second;
  }
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

void Profile::add(const CUpti_Activity &record) {
  auto node = [&](const auto &of, uint64_t bytes, const char *name) {
    if (of.graphId)
      nodes.push_back({of.correlationId, of.deviceId, of.streamId, of.graphNodeId, of.start, of.end,
                       bytes, number(name)});
  };
  switch (record.kind) {
  case CUPTI_ACTIVITY_KIND_DRIVER: {
    const auto &call = reinterpret_cast<const CUpti_ActivityAPI &>(record);
    if (call.cbid == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch ||
        call.cbid == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz)
      launches.push_back({call.correlationId, call.start, call.end});
    return;
  }
  case CUPTI_ACTIVITY_KIND_KERNEL:
  case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
    const auto &kernel = reinterpret_cast<const CUpti_ActivityKernel10 &>(record);
    return node(kernel, 0, kernel.name);
  }
  case CUPTI_ACTIVITY_KIND_MEMCPY: {
    const auto &copy = reinterpret_cast<const CUpti_ActivityMemcpy6 &>(record);
    return node(copy, copy.bytes, "memcpy");
  }
  case CUPTI_ACTIVITY_KIND_MEMCPY2: {
    const auto &copy = reinterpret_cast<const CUpti_ActivityMemcpyPtoP4 &>(record);
    return node(copy, copy.bytes, "memcpy to a peer");
  }
  case CUPTI_ACTIVITY_KIND_MEMSET: {
    const auto &fill = reinterpret_cast<const CUpti_ActivityMemset4 &>(record);
    return node(fill, fill.bytes, "memset");
  }
  default:
    return;
  }
}

void CUPTIAPI giveBuffer(uint8_t **buffer, size_t *size, size_t *most) {
  constexpr size_t kBytes = 4 << 20; // CUPTI wants it aligned to 8
  *buffer = static_cast<uint8_t *>(std::malloc(kBytes));
  *size = *buffer ? kBytes : 0;
  *most = 0; // as many as fit
}

void CUPTIAPI takeBuffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t /*size*/,
                         size_t valid) {
  Profile &to = profile();
  std::lock_guard<std::mutex> lock(to.mutex);
  CUpti_Activity *record = nullptr;
  while (to.cupti.nextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
    to.add(*record);
  size_t dropped = 0;
  if (to.cupti.dropped(context, stream, &dropped) == CUPTI_SUCCESS)
    to.dropped += dropped;
  std::free(buffer);
}

void Profile::write() {
  std::lock_guard<std::mutex> lock(mutex);
  nlohmann::json file = {{"version", 1}, {"dropped", dropped}, {"names", names}};
  auto &calls = file["launches"] = nlohmann::json::array(),
       &list = file["nodes"] = nlohmann::json::array();
  for (const Launch &launch : launches)
    calls.push_back({launch.correlation, launch.begin, launch.end});
  for (const Node &node : nodes)
    list.push_back({node.correlation, node.device, node.stream, node.id, node.begin, node.end,
                    node.bytes, node.name});
  std::string path = prefix + "." + std::to_string(::getpid()) + ".json", part = path + ".part";
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
  find(cupti.enableDriverApi, "cuptiActivityEnableDriverApi");
  find(cupti.flushAll, "cuptiActivityFlushAll");
  find(cupti.nextRecord, "cuptiActivityGetNextRecord");
  find(cupti.dropped, "cuptiActivityGetNumDroppedRecords");
  find(cupti.resultString, "cuptiGetResultString");
  return all;
}

} // namespace

/// Called by the driver, once, in cuInit. The result is not used.
// NOLINTNEXTLINE(readability-identifier-naming): the name that the driver looks for
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const char *prefix = std::getenv("TANDEM_PROFILE");
  Profile &mine = profile();
  if (!prefix || !open(mine.cupti))
    return 1;
  mine.prefix = prefix;
  const Cupti &cupti = mine.cupti;
  auto must = [&](CUptiResult result, const char *what) {
    const char *text = nullptr;
    if (result != CUPTI_SUCCESS) {
      cupti.resultString(result, &text);
      say(std::string(what) + ": " + (text ? text : "unknown error"));
    }
    return result == CUPTI_SUCCESS;
  };
  if (!must(cupti.registerCallbacks(giveBuffer, takeBuffer), "buffers"))
    return 1;
  // CONCURRENT_KERNEL: kernels of several streams stay side by side.
  for (CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                  CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET})
    if (!must(cupti.enable(kind), "activities"))
      return 1;
  for (CUpti_CallbackId call :
       {CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz})
    if (!must(cupti.enableDriverApi(call, 1), "calls of the driver"))
      return 1;
  std::atexit([] {
    profile().cupti.flushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    profile().write();
  });
  return 1;
}
