//===- CJob.cpp - jobs of launchers in the C API ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Handles.h"

#include "tandem/Program/Printable.h"
#include "tandem/Runtime/Rendezvous.h"

#include <mutex>
#include <utility>

using namespace tandem;

namespace {

/// Shared with the contexts that use the job.
struct Job : std::enable_shared_from_this<Job> {
  std::unique_ptr<Bootstrap> bootstrap; ///< null if joining failed
  tandem_launch launch = {};
  std::string node, error;
  std::mutex mutex;
  std::string warning; ///< guarded by `mutex`; for the log of the first context
};

} // namespace

struct tandem_job {
  const capi::Owner owner = {};
  std::shared_ptr<Job> state = std::make_shared<Job>();
};

namespace {

/// Exceptions become codes, as everywhere in the C API.
template <typename Body>
Status guarded(Body &&body, const char *call = __builtin_FUNCTION()) noexcept {
  try {
    try {
      return body();
    } catch (const std::exception &) {
      return capi::caughtIn(call);
    }
  } catch (...) { // no memory even for the message
    return Status(Code::OutOfMemory, "");
  }
}

int finish(Job &job, const Status &status) {
  if (!status.ok())
    job.error = escapeControls(status.message());
  return static_cast<int>(status.code());
}

int allGather(void *user, const void *mine, size_t bytes, void *all) {
  auto &job = *static_cast<Job *>(user);
  return finish(job, guarded([&] { return job.bootstrap->allGather(mine, bytes, all); }));
}

int barrier(void *user) {
  auto &job = *static_cast<Job *>(user);
  return finish(job, guarded([&] { return job.bootstrap->barrier(); }));
}

int health(void *user, char *reason, size_t size) {
  Status status = static_cast<Job *>(user)->bootstrap->health();
  if (!status.ok() && size > 0)
    reason[status.message().copy(reason, size - 1)] = 0;
  return static_cast<int>(status.code());
}

void giveUp(void *user, const char *reason) {
  static_cast<Job *>(user)->bootstrap->giveUp(Status(Code::Aborted, reason));
}

void noteBegun(void *user, uint64_t runs) { static_cast<Job *>(user)->bootstrap->noteBegun(runs); }

uint64_t begunByAll(void *user) { return static_cast<Job *>(user)->bootstrap->begunByAll(); }

void late(void *user, uint64_t runs, char *text, size_t size) {
  std::string names = static_cast<Job *>(user)->bootstrap->late(runs);
  if (size > 0)
    text[names.copy(text, size - 1)] = 0;
}

Status join(Job &job) {
  TANDEM_ASSIGN_OR_RETURN(BootstrapEnvironment env, readBootstrapEnvironment());
  env.warn = [&job](const std::string &message) { job.warning = message; };
  TANDEM_ASSIGN_OR_RETURN(job.bootstrap, joinJob(env));
  job.launch.struct_size = sizeof job.launch;
  job.launch.rank = job.bootstrap->rank();
  job.launch.world_size = job.bootstrap->worldSize();
  job.launch.local_rank = job.bootstrap->localRank();
  job.launch.local_size = job.bootstrap->localSize();
  job.launch.all_gather = allGather;
  job.launch.barrier = barrier;
  job.launch.health = health;
  job.launch.give_up = giveUp;
  job.launch.note_begun = noteBegun;
  job.launch.begun_by_all = begunByAll;
  job.launch.late = late;
  job.node = job.bootstrap->host();
  job.launch.node = job.node.c_str();
  job.launch.user = &job;
  return Status();
}

} // namespace

std::shared_ptr<void> capi::jobOf(const tandem_launch &launch) {
  return launch.all_gather == allGather ? static_cast<Job *>(launch.user)->shared_from_this()
                                        : nullptr;
}

std::string capi::takeWarning(const tandem_launch &launch) {
  if (launch.all_gather != allGather)
    return {};
  auto &job = *static_cast<Job *>(launch.user);
  std::lock_guard<std::mutex> lock(job.mutex);
  return std::exchange(job.warning, {});
}

extern "C" {

tandem_code tandem_job_join(tandem_job **job) {
  if (!job)
    return TANDEM_INVALID_ARGUMENT;
  *job = nullptr;
  Status made = guarded([&] {
    *job = new tandem_job;
    return Status();
  });
  if (!made.ok())
    return static_cast<tandem_code>(made.code());
  Job &state = *(*job)->state;
  return static_cast<tandem_code>(finish(state, guarded([&] { return join(state); })));
}

const tandem_launch *tandem_job_launch(const tandem_job *job) {
  return job && job->state->bootstrap ? &job->state->launch : nullptr;
}

const char *tandem_job_error(const tandem_job *job) {
  return job ? job->state->error.c_str() : "no job";
}

void tandem_job_destroy(tandem_job *job) {
  if (job && !job->owner.isParent())
    delete job;
}

tandem_code tandem_node(char *node, size_t size) {
  if (!node || size == 0)
    return TANDEM_INVALID_ARGUMENT;
  *node = 0;
  Status written = guarded([&] {
    std::string given = readNode();
    std::string text = given.empty() ? createSelfBootstrap()->host() : hostOf(given);
    if (text.size() >= size)
      return Status(Code::InvalidArgument, "");
    node[text.copy(node, text.size())] = 0;
    return Status();
  });
  return static_cast<tandem_code>(written.code());
}

} // extern "C"
