//===- CInstance.cpp - tandem-c/Instance.h ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dlpack.h"
#include "FlightRecorder.h"

using namespace tandem;
using namespace tandem::capi;

static_assert(TANDEM_NO_PADDING_AFTER(tandem_run_options, call));
static_assert(sizeof(CommandTime) == 2 * sizeof(int64_t));

/// The addresses of a DLTensor per argument, into instance.addresses.
static Status readTensors(tandem_instance &instance, const void *const *tensors) {
  const Program &program = instance.instance->program();
  std::vector<void *> &data = instance.addresses;
  data.assign(program.arguments().size(), nullptr);
  for (uint32_t i = 0; i < data.size(); ++i) {
    if (!instance.instance->argument(i).present)
      continue;
    if (!tensors[i])
      return Status(Code::InvalidArgument,
                    fmt::format("@{}: argument {} \"{}\": null pointer", program.name(), i,
                                program.arguments()[i].name));
    TANDEM_ASSIGN_OR_RETURN(data[i],
                            addressOf(*static_cast<const dlpack::Tensor *>(tensors[i]),
                                      instance.context->context->device(), *instance.instance, i));
  }
  return Status();
}

static Status enqueue(tandem_instance &instance, const tandem_run_options *given) {
  tandem_run_options options{};
  if (given)
    TANDEM_RETURN_IF_ERROR(readStruct(given, "tandem_run_options", options));
  if (options.bytes && !options.data)
    return Status(Code::InvalidArgument, "tandem_run_options: bytes without data");
  if (options.data && options.dl_tensors)
    return Status(Code::InvalidArgument,
                  "tandem_run_options: expected data or dl_tensors, found both");
  if (options.stream && options.stream->context != instance.context)
    return Status(Code::InvalidArgument, "the stream is of another context than the instance");
  std::shared_ptr<Stream> stream = options.stream ? options.stream->stream : nullptr;
  std::string_view call = options.call ? options.call : "";
  if (options.data)
    return instance.instance->enqueue(std::move(stream), options.data, options.bytes, call);
  if (!options.dl_tensors)
    return instance.instance->enqueue(std::move(stream), call);
  TANDEM_RETURN_IF_ERROR(readTensors(instance, options.dl_tensors));
  return instance.instance->enqueue(std::move(stream), instance.addresses.data(), nullptr, call);
}

extern "C" {

tandem_code tandem_prepare(tandem_context *context, const tandem_program *program,
                           tandem_instance **instance) {
  return making(context, instance, [&]() -> Expected<std::unique_ptr<tandem_instance>> {
    if (!program)
      return missing("program");
    if (program->extent)
      return Status(Code::InvalidArgument,
                    "a program of tandem_program_at_extent is for queries: prepare the original");
    TANDEM_ASSIGN_OR_RETURN(auto made,
                            Instance::create(*context->state->context, program->program));
    context->state->programs->add(program->program->id(), program->file);
    return std::unique_ptr<tandem_instance>(
        new tandem_instance{context->state, program->file, std::move(made), {}});
  });
}

void tandem_instance_destroy(tandem_instance *instance) { destroy(instance); }

tandem_code tandem_bind(tandem_instance *instance, uint32_t index, void *data, uint64_t bytes,
                        tandem_dtype dtype, uint32_t rank, const int64_t *shape) {
  return guardedBy(instance, [&]() -> Status {
    if (!shape && rank)
      return missing("shape");
    if (static_cast<uint32_t>(dtype) >= kNumDTypes)
      return Status(Code::InvalidArgument,
                    fmt::format("argument {}: unknown dtype {}", index, dtype));
    if (rank > kMaxRank)
      return Status(Code::InvalidArgument,
                    fmt::format("argument {}: expected at most {} dimensions, found {}", index,
                                kMaxRank, rank));
    for (uint32_t d = 0; d < rank; ++d)
      if (shape[d] < 0)
        return Status(Code::InvalidArgument,
                      fmt::format("argument {}: negative extent {}", index, shape[d]));
    Layout layout = Layout::dense(static_cast<DType>(dtype), shape, rank);
    return instance->instance->bind(index, {data, layout}, bytes);
  });
}

tandem_code tandem_enqueue(tandem_instance *instance, const tandem_run_options *options) {
  return guardedBy(instance, [&] { return enqueue(*instance, options); });
}

tandem_code tandem_set_extent(tandem_instance *instance, int64_t extent) {
  return guardedBy(instance, [&] { return instance->instance->setExtent(extent); });
}

tandem_code tandem_wait(tandem_instance *instance) {
  return guardedBy(instance, [&] { return instance->instance->wait(); });
}

tandem_code tandem_query(tandem_instance *instance, int *done) {
  return guardedBy(instance, [&]() -> Status {
    if (!done)
      return missing("done");
    TANDEM_ASSIGN_OR_RETURN(*done, instance->instance->query());
    return Status();
  });
}

tandem_code tandem_run(tandem_instance *instance) {
  return guardedBy(instance, [&] { return instance->instance->run(); });
}

tandem_code tandem_trace(tandem_instance *instance, int on) {
  return guardedBy(instance, [&] { return instance->instance->trace(on != 0); });
}

tandem_code tandem_command_times(const tandem_instance *instance, const int64_t **times,
                                 uint32_t *count) {
  return guardedBy(instance, [&]() -> Status {
    if (!times || !count)
      return missing("times or count");
    const std::vector<CommandTime> &found = instance->instance->times();
    *times = reinterpret_cast<const int64_t *>(found.data());
    *count = static_cast<uint32_t>(found.size());
    return Status();
  });
}

} // extern "C"
