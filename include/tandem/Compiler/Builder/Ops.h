//===- Ops.h - the ops of built fusions -------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Definitions of tandem/Compiler/Builder.h. The ops' own inference, Shapes.h of the fusion dialect,
// gives and checks shapes. What depends on more than shapes, types and names is checked by the
// compiler.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COMPILER_BUILDER_OPS_H
#define TANDEM_COMPILER_BUILDER_OPS_H

#include "tandem/Compiler/Builder.h"
#include "tandem/Compiler/Builder/Core.h"
#include "tandem/Compiler/Builder/Elementwise.h"

#include <cmath>

namespace tandem::builder {
inline namespace TANDEM_VERSION_NAMESPACE {

//===----------------------------------------------------------------------===//
// Elementwise ops
//===----------------------------------------------------------------------===//

inline Value Fusion::constant(double number, DType dtype, std::vector<int64_t> shape, Location at) {
  if (std::string error = detail::extentsError(shape); !error.empty())
    return this->error("constant", {}, std::move(error), at);
  if (std::find(shape.begin(), shape.end(), kUnknown) != shape.end())
    return error("constant", {}, "expected known extents, found " + fusion::shapes::text(shape),
                 at);
  if (!isFloat(dtype) && (number != std::floor(number) || std::fabs(number) > 0x1p53))
    return error("constant", {},
                 "expected an integer of " + std::string(builder::name(dtype)) + ", found " +
                     detail::number(number, DType::F64),
                 at);
  return make("constant", Form::Constant, "arith.constant ", {},
              "dense<" + detail::number(number, dtype) + ">", {dtype, std::move(shape), {}}, at);
}

inline Value Fusion::fit(const char *op, const Operand &operand, const Type &wanted, Location at) {
  if (operand.isNumber) {
    // The compiler gives a number's `?` extents the sizes of what it is combined with.
    bool isKnown =
        std::find(wanted.shape.begin(), wanted.shape.end(), kUnknown) == wanted.shape.end();
    Value made =
        constant(operand.number, wanted.dtype, isKnown ? wanted.shape : std::vector<int64_t>(), at);
    if (!made.valid())
      return made;
    if (isKnown) {
      nodeOf(made).results[0].axes = wanted.axes;
      return made;
    }
    return fit(op, made, wanted, at);
  }
  Value value = operand.value;
  if (type(value).shape != wanted.shape) {
    std::vector<int64_t> dims;
    for (size_t i = wanted.shape.size() - type(value).shape.size(); i < wanted.shape.size(); ++i)
      dims.push_back(static_cast<int64_t>(i));
    value = broadcast(value, wanted.shape, std::move(dims), at);
    nodeOf(value).results[0].axes = wanted.axes;
  }
  const std::optional<Axes> &axes = type(value).axes;
  if (!wanted.axes || (axes && *axes == *wanted.axes))
    return value;
  return reshard(value, *wanted.axes, std::nullopt, at);
}

inline bool Fusion::unify(const char *op, const std::vector<Operand> &given, size_t first,
                          Type *common, std::vector<Value> *operands, Location at) {
  std::vector<Value> values;
  for (const Operand &one : given)
    if (!one.isNumber)
      values.push_back(one.value);
  if (!areUsable(op, values, at))
    return false;
  bool isTyped = false;
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i].isNumber)
      continue;
    const Type &mine = type(given[i].value);
    if (i >= first && isTyped && mine.dtype != common->dtype) {
      error(op, values,
            std::string("expected elements of one type, found ") + builder::name(common->dtype) +
                " and " + builder::name(mine.dtype),
            at);
      return false;
    }
    if (i >= first) {
      common->dtype = mine.dtype;
      isTyped = true;
    }
    if (!infer(op, values, fusion::shapes::broadcast(common->shape, mine.shape), common->shape, at))
      return false;
  }
  if (!isTyped) {
    error(op, values, "expected a value, found only numbers", at);
    return false;
  }
  // Operands and result have one type. A split operand decides it, rather than one that is not.
  for (bool isSplit : {true, false})
    for (Value value : values)
      if (const Type &mine = type(value); !common->axes && mine.axes &&
                                          mine.shape == common->shape &&
                                          (!isSplit || detail::isSplit(*mine.axes)))
        common->axes = mine.axes;
  for (size_t i = 0; i < given.size(); ++i) {
    Type wanted = *common;
    if (i < first)
      wanted.dtype = DType::I1;
    Value value = fit(op, given[i], wanted, at);
    if (!value.valid())
      return false;
    operands->push_back(value);
  }
  return true;
}

inline bool Fusion::infer(const char *op, const std::vector<Value> &operands,
                          fusion::shapes::Inferred inferred, std::vector<int64_t> &shape,
                          Location at) {
  if (!inferred.error.empty())
    error(op, operands, inferred.error, at);
  else
    shape = std::move(inferred.shape);
  return inferred.error.empty();
}

inline bool Fusion::checkExtents(const char *op, Value value, const std::vector<int64_t> &shape,
                                 Location at) {
  std::string error = detail::extentsError(shape);
  if (!error.empty())
    this->error(op, {value}, error, at);
  return error.empty();
}

inline Value Fusion::map(const std::string &op, const std::vector<Operand> &given, Location at) {
  const detail::Elementwise *known = detail::findElementwise(op);
  std::vector<Value> values;
  for (const Operand &one : given)
    if (!one.isNumber)
      values.push_back(one.value);
  if (!known)
    return error(
        op.c_str(), values,
        "expected the name of an elementwise op (" +
            detail::join(detail::elementwiseOps(), ", ",
                         [](const detail::Elementwise &one) { return std::string(one.name); }) +
            "), found " + detail::quote(op),
        at);
  if (given.size() != known->operands)
    return error(op.c_str(), values,
                 "expected " + std::to_string(known->operands) + " operands, found " +
                     std::to_string(given.size()),
                 at);
  Type result;
  std::vector<Value> operands;
  if (!unify(op.c_str(), given, 0, &result, &operands, at))
    return error();
  const char *name = isFloat(result.dtype) ? known->floats : known->integers;
  bool isNamed = op == known->name || (name && op == name);
  if (!name || !isNamed || (result.dtype == DType::I1 && !known->truth))
    return error(op.c_str(), values,
                 std::string("expected elements ") +
                     (op == known->name ? known->floats && known->integers ? "that are numbers"
                                          : known->floats                  ? "of floating point"
                                                                           : "that are integers"
                      : known->floats && op == known->floats ? "of floating point"
                                                             : "that are integers") +
                     ", found " + builder::name(result.dtype),
                 at);
  return make(op.c_str(), Form::Same, std::string(name) + " ", std::move(operands), "",
              std::move(result), at);
}

inline Value Fusion::compare(const std::string &predicate, Operand a, Operand b, Location at) {
  const detail::Predicate *known = detail::findPredicate(predicate);
  std::vector<Value> operands;
  Type result;
  if (!unify("compare", {a, b}, 0, &result, &operands, at))
    return error();
  DType dtype = result.dtype;
  if (!known)
    return error("compare", operands,
                 "expected eq, ne, lt, le, gt or ge, found " + detail::quote(predicate), at);
  if (dtype == DType::I1)
    return error("compare", operands, "expected numbers, found i1", at);
  result.dtype = DType::I1;
  std::string op = isFloat(dtype) ? std::string("arith.cmpf ") + known->floats
                                  : std::string("arith.cmpi ") + known->integers;
  return make("compare", Form::Operand, op + ", ", std::move(operands), "", std::move(result), at);
}

inline Value Fusion::select(Value condition, Operand a, Operand b, Location at) {
  std::vector<Value> operands;
  Type result;
  if (!areUsable("select", {condition}, at))
    return error();
  if (type(condition).dtype != DType::I1)
    return error("select", {condition},
                 std::string("expected a condition of i1, found ") +
                     builder::name(type(condition).dtype),
                 at);
  if (!unify("select", {condition, a, b}, 1, &result, &operands, at))
    return error();
  return make("select", Form::Select, "arith.select ", std::move(operands), "", std::move(result),
              at);
}

inline Value Fusion::cast(Value value, DType dtype, Location at) {
  if (!areUsable("cast", {value}, at))
    return error();
  Type result{dtype, type(value).shape, type(value).axes};
  if (type(value).dtype == dtype)
    return value;
  const char *op = detail::castOp(type(value).dtype, dtype);
  if (!op)
    return error("cast", {value},
                 std::string("expected types with a cast between them, found ") +
                     builder::name(type(value).dtype) + " and " + builder::name(dtype) +
                     (isFloat(dtype) ? " (f32 is between them)" : ""),
                 at);
  return make("cast", Form::Cast, std::string(op) + " ", {value}, "", std::move(result), at);
}

//===----------------------------------------------------------------------===//
// Products and reductions
//===----------------------------------------------------------------------===//

inline bool Fusion::productType(const char *op, const std::vector<Value> &operands,
                                std::optional<DType> wanted, DType &result, Location at) {
  DType a = type(operands[0]).dtype, b = type(operands[1]).dtype;
  result = wanted.value_or(isFloat8(a) ? DType::F32 : a);
  std::string error =
      fusion::shapes::productError(builder::name(a), builder::name(b), builder::name(result));
  if (!error.empty())
    this->error(op, operands, error, at);
  return error.empty();
}

inline Value Fusion::matmul(Value lhs, Value rhs, const MatmulOptions &options, Location at) {
  std::vector<Value> operands{lhs, rhs};
  if (options.bias)
    operands.push_back(*options.bias);
  if (!areUsable("matmul", operands, at))
    return error();
  Type result;
  if (!productType("matmul", operands, options.result, result.dtype, at))
    return error();
  std::optional<fusion::shapes::Shape> bias;
  if (options.bias)
    bias = type(*options.bias).shape;
  if (!infer("matmul", operands,
             fusion::shapes::matmul(type(lhs).shape, type(rhs).shape, options.transposeA,
                                    options.transposeB, bias),
             result.shape, at))
    return error();
  if (options.bias && type(*options.bias).dtype != result.dtype)
    return error("matmul", operands,
                 std::string("expected a bias of ") + builder::name(result.dtype) + ", found " +
                     builder::name(type(*options.bias).dtype),
                 at);
  Value value = make("matmul", Form::Arrow, "fusion.matmul ", operands, "", std::move(result), at);
  Node &node = nodeOf(value);
  node.separator = options.bias ? 2 : 0;
  if (options.transposeA)
    node.attributes = "transpose_a";
  if (options.transposeB)
    node.attributes += node.attributes.empty() ? "transpose_b" : ", transpose_b";
  return value;
}

inline Value Fusion::scaledMatmul(Value lhs, Value rhs, Value lhsScale, Value rhsScale,
                                  const ScaledMatmulOptions &options, Location at) {
  std::vector<Value> operands{lhs, rhs, lhsScale, rhsScale};
  for (const std::optional<Value> &more : {options.bias, options.resultScale})
    if (more)
      operands.push_back(*more);
  if (!areUsable("scaledMatmul", operands, at))
    return error();
  if (!isFloat(options.result) || options.result == DType::F64)
    return error("scaledMatmul", operands,
                 std::string("expected a result of f32, f16, bf16 or 8-bit floats, found ") +
                     builder::name(options.result),
                 at);
  Value value =
      matmul(lhs, rhs, {options.transposeA, options.transposeB, std::nullopt, DType::F32}, at);
  if (!value.valid())
    return value;
  std::vector<int64_t> shape = type(value).shape;
  if (shape.size() != 2)
    return error("scaledMatmul", operands, "expected matrices, found others", at);
  // `dim`: of the result, one number for each of its indices or one for all. -1: one for all.
  auto spread = [&](const char *what, Value one, int64_t dim) {
    const Type &mine = type(one);
    bool isNumber = mine.shape.empty(),
         isVector = dim >= 0 && mine.shape.size() == 1 &&
                    detail::areCompatible(mine.shape[0], shape[static_cast<size_t>(dim)]);
    if (mine.dtype != DType::F32 || (!isNumber && !isVector))
      return error(
          "scaledMatmul", operands,
          std::string("expected ") + what + " of f32" +
              (dim < 0 ? ""
                       : " or " + fusion::shapes::text(shape[static_cast<size_t>(dim)]) + "xf32") +
              ", found " + detail::shortText(mine),
          at);
    return broadcast(one, shape, isNumber ? std::vector<int64_t>{} : std::vector<int64_t>{dim}, at);
  };
  struct Step {
    const char *op, *what;
    std::optional<Value> value;
    int64_t dim;
  };
  for (const Step &step :
       {Step{"mul", "a left scale", lhsScale, 0}, Step{"mul", "a right scale", rhsScale, 1},
        Step{"add", "a bias", options.bias, 1},
        Step{"mul", "a scale of the result", options.resultScale, -1}}) {
    if (!step.value)
      continue;
    Value other = spread(step.what, *step.value, step.dim);
    if (!other.valid())
      return other;
    value = map(step.op, {value, other}, at);
  }
  if (isFloat8(options.result)) {
    double largest = options.result == DType::F8E4M3FN ? 448 : 57344;
    value = map("maximum", {map("minimum", {value, largest}, at), -largest}, at);
  }
  return cast(value, options.result, at);
}

inline Value Fusion::groupedMatmul(Value x, Value w, Value ends,
                                   const GroupedMatmulOptions &options, Location at) {
  std::vector<Value> operands{x, w, ends};
  if (!areUsable("groupedMatmul", operands, at))
    return error();
  Type result;
  if (type(ends).dtype != DType::I32 || type(x).dtype == DType::F64)
    return error(
        "groupedMatmul", operands,
        std::string("expected factors of f32, f16, bf16 or 8 bits and ends of i32, found ") +
            builder::name(type(x).dtype) + " and " + builder::name(type(ends).dtype),
        at);
  if (!productType("groupedMatmul", operands, options.result, result.dtype, at) ||
      !infer("groupedMatmul", operands,
             fusion::shapes::groupedMatmul(type(x).shape, type(w).shape, type(ends).shape,
                                           options.transposeB),
             result.shape, at))
    return error();
  Value made = make("groupedMatmul", Form::Arrow, "fusion.grouped_matmul ", std::move(operands), "",
                    std::move(result), at);
  if (options.transposeB)
    nodeOf(made).attributes = "transpose_b";
  return made;
}

inline Value Fusion::attention(Value query, Value key, Value value, const AttentionOptions &options,
                               Location at) {
  std::vector<Value> operands{query, key, value};
  if (!areUsable("attention", operands, at))
    return error();
  const Type &q = type(query), &k = type(key), &v = type(value);
  if (q.dtype != k.dtype || q.dtype != v.dtype || !isProductOfFloat8(q.dtype))
    return error("attention", operands,
                 std::string("expected elements of f32, f16 or bf16, found ") +
                     builder::name(q.dtype) + ", " + builder::name(k.dtype) + " and " +
                     builder::name(v.dtype),
                 at);
  Type result{q.dtype, {}, {}};
  fusion::shapes::AttentionForm form;
  form.isCausal = options.causal;
  form.scale = options.scale;
  if (options.zigzag)
    form.zigzag = options.zigzag;
  if (options.keyCount)
    form.keyCount = options.keyCount;
  if (!infer("attention", operands, fusion::shapes::attention(q.shape, k.shape, v.shape, form),
             result.shape, at))
    return error();
  std::vector<std::string> attributes;
  if (options.causal)
    attributes.emplace_back("causal");
  if (options.keyCount)
    attributes.push_back("key_count = " + std::to_string(options.keyCount) + " : i64");
  if (options.scale)
    attributes.push_back("scale = " + detail::number(*options.scale, DType::F64) + " : f64");
  if (options.zigzag)
    attributes.push_back("zigzag = " + std::to_string(options.zigzag) + " : i64");
  Value made = make("attention", Form::Arrow, "fusion.attention ", std::move(operands), "",
                    std::move(result), at);
  nodeOf(made).attributes = detail::join(attributes, ", ", [](auto &one) { return one; });
  return made;
}

inline Value Fusion::reduce(Reduction kind, Value value, std::vector<int64_t> dims, bool keepDims,
                            Location at) {
  if (!areUsable("reduce", {value}, at))
    return error();
  Type result{type(value).dtype, {}, {}};
  if (result.dtype == DType::I16 || isFloat8(result.dtype) ||
      (result.dtype == DType::I1 && kind == Reduction::Sum))
    return error("reduce", {value},
                 std::string("expected elements that can be reduced by ") + builder::name(kind) +
                     ", found " + builder::name(result.dtype),
                 at);
  if (!infer("reduce", {value}, fusion::shapes::reduce(type(value).shape, dims, keepDims),
             result.shape, at))
    return error();
  Value made =
      make("reduce", Form::Arrow, std::string("fusion.reduce ") + builder::name(kind) + " ",
           {value}, " dims " + detail::list(dims), std::move(result), at);
  if (keepDims)
    nodeOf(made).attributes = "keep_dims";
  return made;
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

inline Value Fusion::broadcast(Value value, std::vector<int64_t> shape, std::vector<int64_t> dims,
                               Location at) {
  if (!areUsable("broadcast", {value}, at))
    return error();
  // A `?` stays: another op may say what it is.
  std::vector<int64_t> inferred;
  if (!checkExtents("broadcast", value, shape, at) ||
      !infer("broadcast", {value}, fusion::shapes::broadcastTo(type(value).shape, shape, dims),
             inferred, at))
    return error();
  return make("broadcast", Form::Arrow, "fusion.broadcast ", {value}, " dims " + detail::list(dims),
              {type(value).dtype, std::move(shape), {}}, at);
}

inline Value Fusion::permute(Value value, std::vector<int64_t> permutation, Location at) {
  if (!areUsable("permute", {value}, at))
    return error();
  Type result{type(value).dtype, {}, {}};
  if (!infer("permute", {value}, fusion::shapes::permute(type(value).shape, permutation),
             result.shape, at))
    return error();
  return make("permute", Form::Arrow, "fusion.permute ", {value}, " " + detail::list(permutation),
              std::move(result), at);
}

inline Value Fusion::reshape(Value value, std::vector<int64_t> shape, Location at) {
  if (!areUsable("reshape", {value}, at))
    return error();
  if (!checkExtents("reshape", value, shape, at) ||
      !infer("reshape", {value}, fusion::shapes::reshape(type(value).shape, shape), shape, at))
    return error();
  return make("reshape", Form::Arrow, "fusion.reshape ", {value}, "",
              {type(value).dtype, std::move(shape), {}}, at);
}

inline Value Fusion::slice(Value value, std::vector<int64_t> offsets, std::vector<int64_t> extents,
                           std::vector<int64_t> steps, Location at) {
  if (!areUsable("slice", {value}, at))
    return error();
  if (steps.empty())
    steps.assign(offsets.size(), 1);
  std::vector<int64_t> inferred;
  if (!checkExtents("slice", value, extents, at) ||
      !infer("slice", {value}, fusion::shapes::slice(type(value).shape, extents, offsets, steps),
             inferred, at))
    return error();
  return make("slice", Form::Arrow, "fusion.slice ", {value},
              " offsets " + detail::list(offsets) + " steps " + detail::list(steps),
              {type(value).dtype, std::move(extents), {}}, at);
}

inline Value Fusion::concat(const std::vector<Value> &values, int64_t dim, Location at) {
  if (!areUsable("concat", values, at))
    return error();
  Type result{values.empty() ? DType::F32 : type(values[0]).dtype, {}, {}};
  std::vector<std::vector<int64_t>> shapes;
  for (Value value : values) {
    if (type(value).dtype != result.dtype)
      return error("concat", values,
                   std::string("expected elements of one type, found ") +
                       builder::name(result.dtype) + " and " + builder::name(type(value).dtype),
                   at);
    shapes.push_back(type(value).shape);
  }
  if (!infer("concat", values, fusion::shapes::concat(shapes, dim), result.shape, at))
    return error();
  return make("concat", Form::Function, "fusion.concat ", values, " dim " + std::to_string(dim),
              std::move(result), at);
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

inline std::string Fusion::declare(const std::string &callee, const std::vector<Value> &inputs,
                                   const std::vector<Type> &results) {
  // One declaration serves all extents.
  auto getText = [&](Type one) {
    std::fill(one.shape.begin(), one.shape.end(), kUnknown);
    one.axes.reset();
    return typeText(one);
  };
  std::string text = "func.func private @" + callee + "(" +
                     detail::join(inputs, ", ", [&](Value one) { return getText(type(one)); }) +
                     ") -> (" + detail::join(results, ", ", getText) + ")\n";
  for (const Declaration &known : declarations)
    if (known.name == callee)
      return known.text == text ? ""
                                : "expected the ranks and element types of its earlier call, "
                                  "found others";
  declarations.push_back({callee, std::move(text)});
  return "";
}

inline std::vector<Value> Fusion::call(const std::string &callee, const std::vector<Value> &inputs,
                                       const std::vector<Type> &results, const std::string &dims,
                                       const CallOptions &options, Location at) {
  const std::vector<Value> invalid(results.size(), this->error());
  if (!areUsable("call", inputs, at))
    return invalid;
  std::string error;
  std::vector<std::vector<int64_t>> shapes;
  for (const Type &result : results) {
    shapes.push_back(result.shape);
    if (error.empty())
      error = detail::extentsError(result.shape);
  }
  for (Value input : inputs)
    shapes.push_back(type(input).shape);
  if (!detail::isWord(callee) || callee == functionName)
    error = "expected the name of a kernel, found " + detail::quote(callee);
  if (error.empty())
    error = fusion::shapes::callDims(shapes, results.size(), dims).error;
  if (error.empty() && (options.flops.value_or(0) < 0 || options.bytes.value_or(0) < 0))
    error = "expected costs that are not negative";
  if (error.empty() && !options.effects.empty() && options.effects != "reads" &&
      options.effects != "writes")
    error =
        "expected effects \"reads\", \"writes\" or none, found " + detail::quote(options.effects);
  if (!error.empty()) {
    this->error("call", inputs, callee + ": " + error, at);
    return invalid;
  }
  for (const Type &result : results)
    if (result.axes && !checkAxes("call", inputs, *result.axes, result.shape.size(), at))
      return invalid;

  error = declare(callee, inputs, results);
  if (!error.empty()) {
    this->error("call", inputs, callee + ": " + error, at);
    return invalid;
  }

  std::vector<std::string> attributes;
  if (options.bytes)
    attributes.push_back("bytes = " + detail::number(*options.bytes, DType::F64) + " : f64");
  if (!options.config.empty())
    attributes.push_back("config = " + detail::quote(options.config));
  if (!options.effects.empty())
    attributes.push_back("effects = " + detail::quote(options.effects));
  if (options.flops)
    attributes.push_back("flops = " + detail::number(*options.flops, DType::F64) + " : f64");
  if (options.strided)
    attributes.emplace_back("strided");
  Node node;
  node.op = "call";
  node.form = Form::Function;
  node.before = "fusion.call @" + callee + "(";
  node.operands = inputs;
  node.after = ") dims " + detail::quote(dims);
  node.attributes = detail::join(attributes, ", ", [](auto &one) { return one; });
  node.results = results;
  node.at = at;
  std::vector<Value> made(results.size(), add(std::move(node)));
  for (size_t i = 0; i < made.size(); ++i)
    made[i].result = static_cast<int>(i);
  return made;
}

inline Value Fusion::call(const std::string &callee, const std::vector<Value> &inputs, Type result,
                          const std::string &dims, const CallOptions &options, Location at) {
  return call(callee, inputs, std::vector<Type>{std::move(result)}, dims, options, at)[0];
}

} // namespace TANDEM_VERSION_NAMESPACE
} // namespace tandem::builder

#endif // TANDEM_COMPILER_BUILDER_OPS_H
