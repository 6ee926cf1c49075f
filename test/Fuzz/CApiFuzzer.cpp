//===- CApiFuzzer.cpp - runs any bytes as a stream program ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support/ProgramSpec.h"
#include "tandem-c/Runtime.h"

#include <cstdlib>
#include <string>
#include <vector>

using namespace tandem;

/// Bytes of one kind of memory that a program may have here.
static constexpr uint64_t kMost = 1 << 20;

static tandem_context *makeContext() {
  tandem_context_options options{};
  options.struct_size = sizeof options;
  options.timeout_ms = 200;
  tandem_context *context = nullptr;
  if (tandem_context_create(&options, &context))
    std::abort();
  return context;
}

/// Programs of one rank: loads, prepares, binds memory of the size that the program states, runs.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static tandem_context *context = makeContext();
  std::string bytes(reinterpret_cast<const char *>(data), size);
  test::rehash(bytes);
  tandem_program *program = nullptr;
  tandem_instance *instance = nullptr;
  tandem_memory_needs needs{};
  needs.struct_size = sizeof needs;
  if (tandem_program_load_memory(context, bytes.data(), bytes.size(), &program) == TANDEM_OK &&
      tandem_program_memory(program, &needs) == TANDEM_OK && needs.arena_bytes <= kMost &&
      needs.symmetric_bytes <= kMost && needs.own_bytes <= kMost &&
      tandem_prepare(context, program, &instance) == TANDEM_OK) {
    std::vector<std::vector<uint64_t>> memory;
    bool fits = true;
    uint32_t count = tandem_program_num_arguments(program);
    for (uint32_t i = 0; i < count && fits; ++i) {
      tandem_argument argument{};
      argument.struct_size = sizeof argument;
      fits = tandem_program_argument(program, i, &argument) == TANDEM_OK &&
             argument.local_bytes <= kMost;
      if (!fits)
        break;
      memory.emplace_back(argument.local_bytes / 8 + 1);
      if (argument.present)
        tandem_bind(instance, i, memory.back().data(), argument.local_bytes, argument.dtype,
                    argument.local_rank, argument.local_shape);
    }
    if (fits)
      tandem_run(instance);
  }
  tandem_instance_destroy(instance);
  tandem_program_destroy(program);
  // The programs are not checked, so a run may hang: that ends the context.
  if (tandem_context_health(context) != TANDEM_OK) {
    tandem_context_destroy(context);
    context = makeContext();
  }
  return 0;
}
