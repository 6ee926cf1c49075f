//===- Fuser.cpp - runs recorded tensors through Tandem ------------- -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fuser.h"

#include "Kernels.h"

#include <algorithm>
#include <stdexcept>
#include <tandem/Compiler/Builder/Compile.h>

using namespace fuser;
namespace builder = tandem::builder;

/// Outlives what was made from it: every buffer and instance shares it. Keeps the memory of buffers
/// for later ones of their size, so addresses recur, and graphs of earlier runs fit.
class fuser::Context {
public:
  explicit Context(const tandem_context_options &options) {
    check(tandem_context_create(&options, &handle));
  }
  ~Context() {
    for (auto &[bytes, memory] : unused)
      tandem_memory_destroy(memory);
    tandem_context_destroy(handle);
  }
  Context(const Context &) = delete;

  void check(tandem_code code) const {
    if (code != TANDEM_OK)
      throw std::runtime_error(std::string(tandem_code_name(code)) + ": " +
                               (handle ? tandem_last_error(handle) : ""));
  }
  tandem_memory *allocate(int64_t bytes) {
    tandem_memory *memory = nullptr;
    if (auto found = unused.find(bytes); found != unused.end())
      memory = unused.extract(found).mapped();
    else
      check(tandem_memory_create(handle, static_cast<uint64_t>(bytes), &memory));
    return memory;
  }
  tandem_context *handle = nullptr;
  std::multimap<int64_t, tandem_memory *> unused;
};

struct fuser::Buffer {
  Buffer(std::shared_ptr<Context> context, int64_t bytes)
      : context(std::move(context)), bytes(bytes), memory(this->context->allocate(bytes)) {}
  /// No run uses it any more.
  ~Buffer() { context->unused.emplace(bytes, memory); }
  Buffer(const Buffer &) = delete;

  std::shared_ptr<Context> context;
  int64_t bytes;
  tandem_memory *memory;
};

/// A program that this rank has prepared.
struct Fuser::Instance {
  explicit Instance(std::shared_ptr<Context> context) : context(std::move(context)) {}
  ~Instance() {
    tandem_instance_destroy(instance);
    tandem_program_destroy(program);
  }
  Instance(const Instance &) = delete;

  std::shared_ptr<Context> context;
  tandem_program *program = nullptr;
  tandem_instance *instance = nullptr;
};

const std::string &ProgramCache::get(const builder::Fusion &fusion, const std::string &text) {
  std::lock_guard<std::mutex> lock(mutex);
  auto [at, isNew] = programs.try_emplace(text);
  if (!isNew)
    return at->second;
  tandem_compile_options options = {};
  options.struct_size = sizeof options;
  options.target = target.c_str();
  options.machine = machine.empty() ? nullptr : machine.c_str();
  options.no_reference = 1;
  builder::Program program = builder::compile(fusion, &options);
  if (!program.ok) {
    programs.erase(at);
    throw std::runtime_error(program.errorText());
  }
  at->second = std::move(program.bytes);
  return at->second;
}

Fuser::Fuser(const tandem_context_options &options, uint32_t rank, int64_t ranks,
             ProgramCache &programs, Limits limits, bool ownAttention)
    : Recorder(ranks), context(std::make_shared<Context>(options)), rank(rank), programs(programs),
      limits(limits) {
  if (!ownAttention)
    return;
  context->check(registerKernels(context->handle));
  attentionKernel = kAttention;
}

Fuser::~Fuser() {
  for (tandem_instance *instance : inFlight) // after an error
    static_cast<void>(tandem_wait(instance));
}

//===----------------------------------------------------------------------===//
// Data of the host
//===----------------------------------------------------------------------===//

static int64_t countOf(const Shape &shape) {
  int64_t n = 1;
  for (int64_t extent : shape)
    n *= extent;
  return n;
}

int64_t Fuser::localBytes(const Node &node) const {
  int64_t bytes = countOf(node.shape) * static_cast<int64_t>(sizeof(float));
  return node.placement.split < 0 ? bytes : bytes / ranks;
}

Tensor Fuser::input(const std::vector<float> &whole, Shape shape, int split) {
  Node node;
  node.id = recorded++;
  node.placement.split = split;
  node.shape = std::move(shape);
  if (countOf(node.shape) != static_cast<int64_t>(whole.size()))
    throw std::invalid_argument("expected as many elements as the shape has");
  std::vector<float> mine;
  if (split < 0) {
    mine = whole;
  } else {
    auto dim = static_cast<size_t>(split);
    if (node.shape[dim] % ranks != 0)
      throw std::invalid_argument("expected an extent that the ranks divide");
    // Rows of the split dimension: each is this rank's part of an outer index.
    int64_t row = node.shape[dim] / ranks;
    for (size_t i = dim + 1; i < node.shape.size(); ++i)
      row *= node.shape[i];
    for (int64_t at = row * rank; at < countOf(node.shape); at += row * ranks)
      mine.insert(mine.end(), whole.begin() + at, whole.begin() + at + row);
  }
  auto bytes = static_cast<int64_t>(mine.size() * sizeof(float));
  node.data = std::make_shared<Buffer>(context, bytes);
  context->check(
      tandem_memory_write(node.data->memory, 0, mine.data(), static_cast<uint64_t>(bytes)));
  return std::make_shared<const Node>(std::move(node));
}

Tensor Fuser::table(const std::string &name, int64_t rows, int64_t columns,
                    double (*element)(int64_t row, int64_t column, int64_t columns)) {
  Tensor &made = tables[name + " " + std::to_string(rows) + "x" + std::to_string(columns)];
  if (!made) {
    std::vector<float> values;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t k = 0; k < columns; ++k)
        values.push_back(static_cast<float>(element(i, k, columns)));
    made = input(values, {rows, columns}, -1);
  }
  return made;
}

Tensor Fuser::detach(const Tensor &x) {
  if (!x->data)
    throw std::invalid_argument("expected a computed tensor to detach");
  Node node;
  node.id = recorded++;
  node.shape = x->shape;
  node.placement.split = x->placement.split;
  node.data = x->data;
  return std::make_shared<const Node>(std::move(node));
}

std::vector<float> Fuser::read(const Tensor &x) {
  Tensor whole = shard(x, -1);
  evaluate({whole});
  std::vector<float> values(static_cast<size_t>(countOf(x->shape)));
  context->check(
      tandem_memory_read(whole->data->memory, 0, values.data(), values.size() * sizeof(float)));
  return values;
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

std::vector<Tensor> Fuser::needed(const std::vector<Tensor> &roots) const {
  std::map<uint64_t, Tensor> found;
  std::vector<Tensor> open = roots;
  while (!open.empty()) {
    Tensor x = open.back();
    open.pop_back();
    if (x->data || !found.emplace(x->id, x).second)
      continue;
    open.insert(open.end(), x->operands.begin(), x->operands.end());
  }
  std::vector<Tensor> nodes; // operands come first
  for (auto &[id, node] : found)
    nodes.push_back(node);
  return nodes;
}

size_t Fuser::cut(const std::vector<Tensor> &nodes, size_t begin) const {
  size_t end = begin;
  for (int64_t bytes = 0; end < nodes.size() && end - begin < limits.ops; ++end) {
    bytes += localBytes(*nodes[end]);
    if (bytes > limits.bytes && end > begin)
      break;
  }
  if (end == nodes.size())
    return end;
  // In the later half: the place over which the fewest bytes go to later groups.
  std::map<uint64_t, size_t> lastUse;
  for (size_t i = begin; i < nodes.size(); ++i)
    for (const Tensor &x : nodes[i]->operands)
      lastUse[x->id] = i;
  size_t best = end;
  int64_t least = -1;
  for (size_t at = end; at > begin + (end - begin) / 2; --at) {
    int64_t bytes = 0;
    for (size_t i = begin; i < at; ++i)
      if (auto use = lastUse.find(nodes[i]->id); use != lastUse.end() && use->second >= at)
        bytes += localBytes(*nodes[i]);
    if (least < 0 || bytes < least) {
      least = bytes;
      best = at;
    }
  }
  return best;
}

void Fuser::evaluate(const std::vector<Tensor> &tensors) {
  std::vector<Tensor> nodes = needed(tensors);
  std::set<uint64_t> wanted;
  for (const Tensor &x : tensors)
    wanted.insert(x->id);
  for (size_t begin = 0, end = 0; begin < nodes.size(); begin = end) {
    end = cut(nodes, begin);
    std::set<uint64_t> usedLater;
    for (size_t i = end; i < nodes.size(); ++i)
      for (const Tensor &x : nodes[i]->operands)
        usedLater.insert(x->id);
    std::vector<Tensor> group(nodes.begin() + static_cast<std::ptrdiff_t>(begin),
                              nodes.begin() + static_cast<std::ptrdiff_t>(end));
    std::vector<Tensor> results;
    for (const Tensor &x : group)
      if (wanted.count(x->id) || usedLater.count(x->id))
        results.push_back(x);
    run(group, results);
  }
  for (tandem_instance *instance : inFlight)
    context->check(tandem_wait(instance));
  inFlight.clear();
  held.clear();
}

void Fuser::run(const std::vector<Tensor> &group, const std::vector<Tensor> &results) {
  // Names say nothing of the tensors, so that equal groups have equal texts.
  builder::Fusion fusion("group");
  std::map<uint64_t, builder::Value> values;
  std::vector<Tensor> arguments;
  for (const Tensor &node : group) {
    std::vector<builder::Value> operands;
    for (const Tensor &x : node->operands) {
      auto [at, isNew] = values.try_emplace(x->id);
      if (isNew) {
        at->second =
            fusion.input("a" + std::to_string(arguments.size()), builder::DType::F32, x->shape,
                         axesOf(x->placement.split, x->shape.size(), ranks), node->at);
        arguments.push_back(x);
      }
      operands.push_back(at->second);
    }
    values[node->id] = emit(fusion, *node, operands, ranks);
  }
  for (size_t i = 0; i < results.size(); ++i)
    fusion.output("r" + std::to_string(i), values[results[i]->id],
                  axesOf(results[i]->placement.split, results[i]->shape.size(), ranks),
                  results[i]->at);
  if (!fusion.ok())
    throw std::runtime_error(fusion.errorText());

  Instance &instance = prepare(fusion);
  for (const Tensor &x : results)
    x->data = std::make_shared<Buffer>(context, localBytes(*x));
  // [docs: enqueue]
  arguments.insert(arguments.end(), results.begin(), results.end());
  std::vector<void *> data;
  for (const Tensor &x : arguments) {
    data.push_back(tandem_memory_data(x->data->memory));
    held.push_back(x->data);
  }
  tandem_run_options options = {};
  options.struct_size = sizeof options;
  options.data = data.data(); // bound and enqueued in one step
  context->check(tandem_enqueue(instance.instance, &options));
  inFlight.insert(instance.instance);
  // [docs: end]
  ++counts.groups;
  counts.ops += group.size();
}

Fuser::Instance &Fuser::prepare(const builder::Fusion &fusion) {
  // [docs: key]
  std::string key = fusion.text(/*locations=*/false);
  std::unique_ptr<Instance> &made = instances[key];
  if (made)
    return *made;
  const std::string &program = programs.get(fusion, key);
  auto instance = std::make_unique<Instance>(context);
  context->check(tandem_program_load_memory(context->handle, program.data(), program.size(),
                                            &instance->program));
  context->check(tandem_prepare(context->handle, instance->program, &instance->instance));
  // [docs: end]
  ++counts.instances;
  made = std::move(instance);
  return *made;
}
