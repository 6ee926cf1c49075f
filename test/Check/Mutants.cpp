//===- Mutants.cpp - stream programs broken in one place ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Mutants.h"

#include <fmt/format.h>

namespace tandem::test {

using Kind = sp::CommandKind;

namespace {

bool isMessage(Kind kind) { return kind == Kind::send || kind == Kind::recv; }

class Mutator {
public:
  Mutator(const Program &program, const std::function<void(const Mutant &)> &body)
      : program(program), body(body), original(listsOf(program)) {}

  void run() {
    for (size_t i = 0; i < original.commands.size(); ++i) {
      drop(i);
      duplicate(i);
      swap(i);
      changeFields(i);
      changeOperands(i);
    }
  }

private:
  Kind kindOf(size_t i) const { return original.commands[i].kind; }

  void emit(const char *what, size_t i, RankLists lists) {
    std::string kind = fmt::format("{} {}", what, sp::EnumNameCommandKind(kindOf(i)));
    body({kind, fmt::format("rank {} command {}", program.rank(), i), std::move(lists)});
  }

  /// The commands that belong together: a group with its messages, else one.
  size_t extent(size_t i) const {
    return kindOf(i) == Kind::group ? 1 + original.commands[i].aux : 1;
  }

  size_t groupOf(size_t message) const {
    while (kindOf(message) != Kind::group)
      --message;
    return message;
  }

  void drop(size_t i) {
    RankLists lists = original;
    auto at = lists.commands.begin() + static_cast<ptrdiff_t>(i);
    lists.commands.erase(at, at + static_cast<ptrdiff_t>(extent(i)));
    if (isMessage(kindOf(i))) {
      CommandSpec &group = lists.commands[groupOf(i)];
      group.aux = group.aux - 1;
    }
    emit("drop", i, std::move(lists));
  }

  void duplicate(size_t i) {
    if (isMessage(kindOf(i)))
      return; // two of one tag: the reader says so, and so it does for groups
    RankLists lists = original;
    std::vector<CommandSpec> copy(lists.commands.begin() + static_cast<ptrdiff_t>(i),
                                  lists.commands.begin() + static_cast<ptrdiff_t>(i + extent(i)));
    lists.commands.insert(lists.commands.begin() + static_cast<ptrdiff_t>(i + extent(i)),
                          copy.begin(), copy.end());
    emit("duplicate", i, std::move(lists));
  }

  /// With what follows on the same stream.
  void swap(size_t i) {
    if (isMessage(kindOf(i)))
      return;
    size_t next = i + extent(i);
    while (
        next < original.commands.size() &&
        (isMessage(kindOf(next)) || original.commands[next].stream != original.commands[i].stream))
      ++next;
    if (next >= original.commands.size())
      return;
    const std::vector<CommandSpec> &all = original.commands;
    auto piece = [&](size_t begin, size_t end) {
      return std::vector<CommandSpec>(all.begin() + static_cast<ptrdiff_t>(begin),
                                      all.begin() + static_cast<ptrdiff_t>(end));
    };
    RankLists lists = original;
    lists.commands = piece(0, i);
    for (const auto &part : {piece(next, next + extent(next)), piece(i + extent(i), next),
                             piece(i, i + extent(i)), piece(next + extent(next), all.size())})
      lists.commands.insert(lists.commands.end(), part.begin(), part.end());
    emit("swap", i, std::move(lists));
  }

  void changeFields(size_t i) {
    const CommandSpec &c = original.commands[i];
    RankLists lists = original;
    CommandSpec &changed = lists.commands[i];
    bool hasPeer = isMessage(c.kind) || c.kind == Kind::put || c.kind == Kind::signal ||
                   (c.kind == Kind::collective && c.op >= 4);
    if (hasPeer) {
      uint32_t size = program.data().channels()->Get(c.channel)->group()->size();
      if (size > 1) {
        changed.peer = (c.peer + 1) % size;
        emit("change peer of", i, lists);
        changed = c;
      }
    }
    if (c.kind == Kind::wait && c.aux > 0) {
      changed.aux = c.aux - 1;
      emit("change event of", i, lists);
      changed = c;
    }
    if (isMessage(c.kind)) {
      changed.aux = c.aux + 1;
      emit("change tag of", i, lists);
      changed = c;
    }
    if ((c.kind == Kind::signal || c.kind == Kind::wait_signal) && c.value > 1) {
      changed.value = c.value - 1;
      emit("lower value of", i, lists);
      changed = c;
    }
    if (!isMessage(c.kind) && program.data().num_streams() > 1) {
      auto stream = static_cast<uint16_t>((c.stream + 1u) % program.data().num_streams());
      for (size_t k = i; k < i + extent(i); ++k)
        lists.commands[k].stream = stream;
      emit("change stream of", i, lists);
    }
  }

  /// A view of its own for one operand: further on, or of another size.
  void changeOperands(size_t i) {
    const CommandSpec &c = original.commands[i];
    if (c.kind == Kind::launch || c.kind == Kind::call)
      return;
    for (uint32_t k = 0; k < 4; ++k) {
      uint32_t view = c.operands[k];
      if (view == sp::kNoView)
        continue;
      const sp::View &old = original.views[view];
      const sp::Buffer &buffer = *program.data().buffers()->Get(old.buffer());
      const Layout &layout = program.layout(old.layout());
      uint64_t span = layout.spanBytes();
      for (uint64_t step : {span, uint64_t(sizeOf(layout.dtype))}) {
        if (span == 0 || step > buffer.size() || old.offset() + span + step > buffer.size())
          continue;
        withView(i, k, sp::View(old.buffer(), old.layout(), old.offset() + step),
                 step == span ? "move operand of" : "shift operand of");
        break;
      }
      if (old.offset() >= span && span > 0)
        withView(i, k, sp::View(old.buffer(), old.layout(), old.offset() - span),
                 "move operand of");
      for (uint32_t l = 0; l < program.data().layouts()->size(); ++l)
        if (program.layout(l).numElements() < layout.numElements() &&
            program.layout(l).numElements() > 0 && program.layout(l).dtype == layout.dtype) {
          withView(i, k, sp::View(old.buffer(), l, old.offset()), "shrink operand of");
          break;
        }
    }
  }

  void withView(size_t i, uint32_t k, const sp::View &view, const char *what) {
    RankLists lists = original;
    lists.views.push_back(view);
    lists.commands[i].operands[k] = static_cast<uint32_t>(lists.views.size() - 1);
    emit(what, i, std::move(lists));
  }

  const Program &program;
  const std::function<void(const Mutant &)> &body;
  RankLists original;
};

} // namespace

void forEachMutant(const Program &program, const std::function<void(const Mutant &)> &body) {
  Mutator(program, body).run();
}

} // namespace tandem::test
