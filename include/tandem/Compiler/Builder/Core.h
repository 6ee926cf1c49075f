//===- Core.h - bookkeeping of built fusions --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Definitions of tandem/Compiler/Builder.h: arguments, results, annotations, diagnostics, text.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COMPILER_BUILDER_CORE_H
#define TANDEM_COMPILER_BUILDER_CORE_H

#include "tandem/Compiler/Builder.h"
#include "tandem/Compiler/Builder/Text.h"

namespace tandem::builder {
inline namespace TANDEM_VERSION_NAMESPACE {

//===----------------------------------------------------------------------===//
// Diagnostics
//===----------------------------------------------------------------------===//

inline Value Fusion::error() const { return {this, -1, 0}; }

inline Value Fusion::error(const char *op, const std::vector<Value> &operands, std::string message,
                           Location at) {
  Diagnostic diagnostic;
  diagnostic.op = op;
  for (Value operand : operands)
    diagnostic.operands.push_back(describe(operand));
  diagnostic.message = std::move(message);
  diagnostic.file = at.file;
  diagnostic.line = at.line;
  found.push_back(std::move(diagnostic));
  return error();
}

inline std::string Fusion::describe(Value value) const {
  if (value.owner != this || !value.valid())
    return "?";
  const Node &node = nodeOf(value);
  std::string label = !node.name.empty() ? node.name : "%" + operandText(value).substr(1);
  return label + ": " + detail::shortText(type(value));
}

inline std::string Fusion::errorText() const {
  return detail::join(found, "\n", [](const Diagnostic &one) { return one.str(); });
}

inline bool Fusion::areUsable(const char *op, const std::vector<Value> &operands, Location at) {
  bool areValid = true;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].owner != this) {
      error(op, operands,
            "expected a value of this fusion as operand " + std::to_string(i) + ", found " +
                (operands[i].owner ? "one of another fusion" : "none"),
            at);
      return false;
    }
    areValid &= operands[i].valid();
  }
  return areValid;
}

inline const Type &Fusion::type(Value value) const {
  static const Type empty;
  if (value.owner != this || !value.valid())
    return empty;
  return nodeOf(value).results[static_cast<size_t>(value.result)];
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

inline Value Fusion::add(Node node) {
  for (Value operand : node.operands)
    nodeOf(operand).isUsed = true;
  for (const Type &result : node.results)
    if (result.axes && std::find(meshes.begin(), meshes.end(), result.axes->mesh) == meshes.end())
      meshes.push_back(result.axes->mesh);
  nodes.push_back(std::move(node));
  return {this, static_cast<int>(nodes.size()) - 1, 0};
}

inline Value Fusion::make(const char *op, Form form, std::string before,
                          std::vector<Value> operands, std::string after, Type result,
                          Location at) {
  Node node;
  node.op = op;
  node.form = form;
  node.before = std::move(before);
  node.operands = std::move(operands);
  node.after = std::move(after);
  node.results.push_back(std::move(result));
  node.at = at;
  return add(std::move(node));
}

inline bool Fusion::checkAxes(const char *op, const std::vector<Value> &operands, const Axes &axes,
                              size_t rank, Location at) {
  std::string error = detail::axesError(axes, rank);
  for (const Mesh &other : meshes)
    if (error.empty() && other.name() == axes.mesh.name() && !(other == axes.mesh))
      error = "expected one mesh called " + detail::quote(other.name()) + ", found two";
  if (error.empty())
    return true;
  this->error(op, operands, std::move(error), at);
  return false;
}

inline Value Fusion::input(const std::string &name, DType dtype, std::vector<int64_t> shape,
                           std::optional<Axes> axes, Location at) {
  std::string error = detail::extentsError(shape);
  for (const Node &node : nodes)
    if (node.form == Form::Input && node.name == name)
      error = "expected a name that no other argument has, found " + detail::quote(name);
  if (!error.empty())
    return this->error("input", {}, detail::quote(name) + ": " + error, at);
  if (axes && !checkAxes("input", {}, *axes, shape.size(), at))
    return this->error();
  Value value =
      make("input", Form::Input, "", {}, "", {dtype, std::move(shape), std::move(axes)}, at);
  nodeOf(value).name = name;
  return value;
}

inline void Fusion::output(const std::string &name, Value value, std::optional<Axes> axes,
                           Location at) {
  if (!areUsable("output", {value}, at))
    return;
  for (const Result &other : results)
    if (other.name == name) {
      error("output", {value},
            "expected a name that no other result has, found " + detail::quote(name), at);
      return;
    }
  if (axes) {
    if (!checkAxes("output", {value}, *axes, type(value).shape.size(), at))
      return;
    const Node &node = nodeOf(value);
    bool isFree =
        !node.isUsed && !type(value).axes && node.form != Form::Input && node.results.size() == 1;
    value = isFree ? withAxes(value, std::move(*axes), at)
                   : reshard(value, std::move(*axes), std::nullopt, at);
  }
  nodeOf(value).isUsed = true;
  results.push_back({name, value, at});
}

inline Value Fusion::reshard(Value value, Axes axes, std::optional<Schedule> schedule,
                             Location at) {
  if (!areUsable("reshard", {value}, at) ||
      !checkAxes("reshard", {value}, axes, type(value).shape.size(), at))
    return error();
  std::string attributes;
  if (schedule) {
    if (std::string error = detail::scheduleError(*schedule); !error.empty())
      return this->error("reshard", {value}, std::move(error), at);
    attributes = "schedule = " + detail::scheduleText(*schedule);
  }
  Value made = make("reshard", Form::Arrow, "fusion.reshard ", {value}, "",
                    {type(value).dtype, type(value).shape, std::move(axes)}, at);
  nodeOf(made).attributes = std::move(attributes);
  return made;
}

inline Value Fusion::withAxes(Value value, Axes axes, Location at) {
  if (!areUsable("withAxes", {value}, at) ||
      !checkAxes("withAxes", {value}, axes, type(value).shape.size(), at))
    return error();
  if (type(value).axes)
    return error("withAxes", {value}, "expected a value without axes, found one with axes", at);
  Form form = nodeOf(value).form;
  if (form != Form::Arrow && form != Form::Function)
    return reshard(value, std::move(axes), std::nullopt, at);
  if (std::find(meshes.begin(), meshes.end(), axes.mesh) == meshes.end())
    meshes.push_back(axes.mesh);
  nodeOf(value).results[static_cast<size_t>(value.result)].axes = std::move(axes);
  return value;
}

inline Value Fusion::annotate(const char *op, Value value, const std::string &attribute,
                              Location at) {
  Node &node = nodeOf(value);
  if (node.form == Form::Input || node.form == Form::Constant || node.op == "reshard")
    return error(op, {value},
                 "expected the result of an op that computes, found that of " + node.op, at);
  node.attributes += (node.attributes.empty() ? "" : ", ") + attribute;
  return value;
}

inline Value Fusion::withSchedule(Value value, const Schedule &schedule, Location at) {
  if (!areUsable("withSchedule", {value}, at))
    return error();
  if (std::string error = detail::scheduleError(schedule); !error.empty())
    return this->error("withSchedule", {value}, std::move(error), at);
  return annotate("withSchedule", value, "fusion.schedule = " + detail::scheduleText(schedule), at);
}

inline Value Fusion::withGather(Value value, const std::string &side, Location at) {
  if (!areUsable("withGather", {value}, at))
    return error();
  if (side != "before" && side != "after")
    return error("withGather", {value},
                 "expected \"before\" or \"after\", found " + detail::quote(side), at);
  return annotate("withGather", value, "fusion.gather = " + detail::quote(side), at);
}

inline Value Fusion::named(Value value, const std::string &name) {
  if (value.owner == this && value.valid() && nodeOf(value).form != Form::Input)
    nodeOf(value).name = name;
  return value;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

inline std::string Fusion::operandText(Value value) const {
  std::string text = "%v" + std::to_string(value.node);
  return nodeOf(value).results.size() > 1 ? text + "#" + std::to_string(value.result) : text;
}

inline std::string Fusion::typeText(const Type &type) const {
  std::string text = "tensor<" + detail::shortText(type);
  if (type.axes) {
    size_t mesh = static_cast<size_t>(std::find(meshes.begin(), meshes.end(), type.axes->mesh) -
                                      meshes.begin());
    text += ", " + detail::axesText(*type.axes, "#m" + std::to_string(mesh));
  }
  return text + ">";
}

inline std::string Fusion::locationText(const std::string &name, Location at, bool isWanted) const {
  if (!isWanted)
    return "";
  std::string text = detail::quote(at.file) + ":" + std::to_string(at.line) + ":1";
  return name.empty() ? " loc(" + text + ")" : " loc(" + detail::quote(name) + "(" + text + "))";
}

inline std::string Fusion::nodeText(size_t index, bool locations) const {
  const Node &node = nodes[index];
  std::string text = "  ";
  if (!node.results.empty())
    text += "%v" + std::to_string(index) +
            (node.results.size() > 1 ? ":" + std::to_string(node.results.size()) : "") + " = ";
  text += node.before;
  for (size_t i = 0; i < node.operands.size(); ++i)
    text += (!i                                      ? ""
             : node.separator && i == node.separator ? " bias "
                                                     : ", ") +
            operandText(node.operands[i]);
  text += node.after;
  if (!node.attributes.empty())
    text += " {" + node.attributes + "}";
  auto printType = [&](const Type &type) { return typeText(type); };
  auto printOperand = [&](Value value) { return typeText(this->type(value)); };
  std::string result = node.results.size() == 1 ? typeText(node.results[0]) : "";
  text += " : ";
  switch (node.form) {
  case Form::Input:
  case Form::Constant:
  case Form::Same:
    text += result;
    break;
  case Form::Operand:
    text += printOperand(node.operands[0]);
    break;
  case Form::Select:
    text += printOperand(node.operands[0]) + ", " + result;
    break;
  case Form::Cast:
    text += printOperand(node.operands[0]) + " to " + result;
    break;
  case Form::Arrow:
    text += detail::join(node.operands, ", ", printOperand) + " -> " + result;
    break;
  case Form::Function:
    text += "(" + detail::join(node.operands, ", ", printOperand) + ") -> " +
            (result.empty() ? "(" + detail::join(node.results, ", ", printType) + ")" : result);
    break;
  }
  return text + locationText(node.name, node.at, locations) + "\n";
}

inline std::string Fusion::text(bool locations) const {
  if (!ok())
    return "";
  std::string text, arguments, body;
  for (size_t i = 0; i < meshes.size(); ++i) {
    const Mesh &mesh = meshes[i];
    text +=
        "#m" + std::to_string(i) + " = #tandem.mesh<" + detail::quote(mesh.name()) + ", [" +
        detail::join(mesh.getAxes(), ", ",
                     [](const auto &axis) {
                       return detail::quote(axis.first) + " = " + fusion::shapes::text(axis.second);
                     }) +
        "]" + (mesh.devices().empty() ? "" : ", devices = " + detail::list(mesh.devices())) + ">\n";
  }
  for (const Declaration &kernel : declarations)
    text += kernel.text;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node &node = nodes[i];
    if (node.form == Form::Input)
      arguments += (arguments.empty() ? "" : ", ") + ("%v" + std::to_string(i)) + ": " +
                   typeText(node.results[0]) + " {fusion.name = " + detail::quote(node.name) + "}" +
                   locationText("", node.at, locations);
    else
      body += nodeText(i, locations);
  }
  text +=
      "func.func @" + detail::quote(functionName) + "(" + arguments + ") -> (" +
      detail::join(results, ", ",
                   [&](const Result &result) {
                     return typeText(type(result.value)) +
                            " {fusion.name = " + detail::quote(result.name) + "}";
                   }) +
      ") {\n" + body + "  return " +
      detail::join(results, ", ", [&](const Result &one) { return operandText(one.value); }) +
      (results.empty() ? "" : " : ") +
      detail::join(results, ", ", [&](const Result &one) { return typeText(type(one.value)); }) +
      "\n}\n";
  return text;
}

} // namespace TANDEM_VERSION_NAMESPACE
} // namespace tandem::builder

#endif // TANDEM_COMPILER_BUILDER_CORE_H
