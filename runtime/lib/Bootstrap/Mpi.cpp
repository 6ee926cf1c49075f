//===- Mpi.cpp - rank 0's address, by way of MPI ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// mpirun tells a process its rank, but not where rank 0 is. MPI itself knows: it is opened at run
// time, used for one broadcast, and closed down. No MPI headers are needed; the few symbols below
// are Open MPI's ABI of version 3 and 4 (libmpi.so.40).
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/Rendezvous.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fmt/format.h>
#include <random>
#include <unistd.h>

using namespace tandem;

namespace {

struct OpenMpi {
  int (*initialized)(int *) = nullptr;
  int (*init)(int *, char ***) = nullptr;
  int (*broadcast)(void *, int, void *, int, void *) = nullptr;
  int (*finalize)() = nullptr;
  void *world = nullptr, *byte = nullptr;

  /// Never closed again: MPI leaves threads and handlers behind.
  bool open() {
    void *library = ::dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
    if (!library)
      return false;
    auto find = [&](const char *name, auto &entry) {
      entry = reinterpret_cast<std::decay_t<decltype(entry)>>(::dlsym(library, name));
      return entry != nullptr;
    };
    return find("MPI_Initialized", initialized) && find("MPI_Init", init) &&
           find("MPI_Bcast", broadcast) && find("MPI_Finalize", finalize) &&
           find("ompi_mpi_comm_world", world) && find("ompi_mpi_byte", byte);
  }
};

/// What rank 0 broadcasts.
struct Announcement {
  uint64_t token;
  uint32_t port; ///< 0: rank 0 failed
  char addresses[1012];
};

/// Rank 0 listens and writes down where.
Status announce(LaunchEnvironment &env, Announcement &announcement) {
  auto listener = ListenSocket::open(0);
  if (!listener)
    return listener.status();
  std::vector<std::string> addresses;
  if (env.localSize < env.worldSize)
    addresses = hostAddresses();
  else
    addresses = {"127.0.0.1"};
  std::string text;
  for (const std::string &address : addresses)
    if (text.size() + address.size() + 2 < sizeof(announcement.addresses))
      text += (text.empty() ? "" : ",") + address;
  std::memcpy(announcement.addresses, text.c_str(), text.size() + 1);
  std::random_device random;
  announcement.token = (uint64_t(random()) << 32) | random();
  announcement.port = listener->port();
  env.listenFd = listener->release();
  return Status::success();
}

Status withoutMpi(LaunchEnvironment &env) {
  if (env.localSize != env.worldSize)
    return Status(
        Code::Unsupported,
        fmt::format("rank {}: mpirun does not say where rank 0 is, and libmpi.so.40 cannot "
                    "be opened to ask; set MASTER_ADDR and MASTER_PORT",
                    env.rank));
  env.addresses = {"127.0.0.1"};
  env.port = static_cast<uint16_t>(20000 + env.token % 20000);
  return Status::success();
}

} // namespace

Status tandem::findRendezvousByMpi(LaunchEnvironment &env) {
  if (env.launcher != Launcher::OpenMpi || env.worldSize == 1 ||
      (!env.addresses.empty() && env.port))
    return Status::success();
  // One broadcast needs no fast network, and UCX belongs to the channel. The user's word stays.
  ::setenv("OMPI_MCA_pml", "ob1", 0);
  ::setenv("OMPI_MCA_osc", "^ucx", 0);
  OpenMpi mpi;
  if (!mpi.open())
    return withoutMpi(env);

  int before = 0;
  if (mpi.initialized(&before) || (!before && mpi.init(nullptr, nullptr)))
    return Status(Code::Io, fmt::format("rank {}: MPI_Init failed", env.rank));
  Announcement announcement{};
  Status result;
  if (env.rank == 0)
    result = announce(env, announcement);
  if (mpi.broadcast(&announcement, sizeof(announcement), mpi.byte, 0, mpi.world))
    return Status(Code::Io, fmt::format("rank {}: MPI_Bcast failed", env.rank));
  if (!before)
    mpi.finalize();
  if (!result.ok())
    return result.withPrefix("rank 0: ");
  if (!announcement.port)
    return Status(Code::Aborted, fmt::format("rank {}: rank 0 cannot listen", env.rank));
  announcement.addresses[sizeof(announcement.addresses) - 1] = 0;
  env.port = static_cast<uint16_t>(announcement.port);
  env.token = announcement.token;
  std::string text = announcement.addresses;
  env.addresses.clear();
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find(',', begin), text.size());
    env.addresses.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return Status::success();
}
