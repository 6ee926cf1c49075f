//===- Matmul.cpp - matmul by oneDNN ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CpuDevice.h"

#include "tandem/Runtime/HostOps.h"

#include <algorithm>
#include <cstdlib>

#if TANDEM_HAVE_DNNL
#include <dnnl.hpp>
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tandem::cpu {

#if TANDEM_HAVE_DNNL

namespace {

/// oneDNN 2.6 reads the AMX tile layout from CPUID leaf 0x1d. Some hypervisors show the AMX feature
/// bits but not this leaf; the kernels then crash with an illegal instruction.
void avoidHalfVirtualizedAmx() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  bool hasTiles = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 24 & 1);
  unsigned palettes = 0;
  if (__get_cpuid_count(0x1d, 0, &a, &b, &c, &d))
    palettes = a;
  if (hasTiles && palettes == 0 && !std::getenv("DNNL_MAX_CPU_ISA"))
    dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16);
#endif
}

dnnl::engine &engine() {
  static dnnl::engine cpu = [] {
    avoidHalfVirtualizedAmx(); // only has an effect before other oneDNN calls
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return cpu;
}

dnnl::stream &stream() {
  static thread_local dnnl::stream perThread(engine());
  return perThread;
}

dnnl::memory::data_type dataType(DType type) {
  switch (type) {
  case DType::F32:
    return dnnl::memory::data_type::f32;
  case DType::F16:
    return dnnl::memory::data_type::f16;
  case DType::BF16:
    return dnnl::memory::data_type::bf16;
  default:
    break;
  }
  return dnnl::memory::data_type::undef;
}

/// Without AMX, oneDNN 2.6 repacks bf16 operands at every call; converting them to f32 is twice as
/// fast.
bool multipliesBF16Well() {
  engine();
  return dnnl::get_effective_cpu_isa() == dnnl::cpu_isa::avx512_core_amx;
}

/// `layout` with leading dimensions of extent 1 up to `rank`.
Layout padded(const Layout &layout, unsigned rank) {
  Layout result;
  result.dtype = layout.dtype;
  result.rank = static_cast<uint8_t>(rank);
  unsigned extra = rank - layout.rank;
  for (unsigned d = 0; d < rank; ++d) {
    result.shape[d] = d < extra ? 1 : layout.shape[d - extra];
    result.strides[d] = d < extra ? 1 : layout.strides[d - extra];
  }
  return result;
}

/// A factor of a product of `rank` dimensions.
Layout factor(const Operand &operand, bool transpose, unsigned rank) {
  Layout layout = padded(operand.layout, rank);
  if (transpose) {
    std::swap(layout.shape[rank - 1], layout.shape[rank - 2]);
    std::swap(layout.strides[rank - 1], layout.strides[rank - 2]);
  }
  return layout;
}

Layout withDType(Layout layout, DType type) {
  layout.dtype = type;
  return layout;
}

Layout denseLike(const Layout &layout, DType type) {
  return Layout::dense(type, layout.shape.data(), layout.rank);
}

dnnl::memory::desc descriptor(const Layout &layout) {
  dnnl::memory::dims shape(layout.shape.begin(), layout.shape.begin() + layout.rank);
  dnnl::memory::dims strides(layout.strides.begin(), layout.strides.begin() + layout.rank);
  // oneDNN expects dense-looking strides for dimensions of extent 1; their value is unused.
  for (unsigned d = layout.rank; d-- > 0;)
    if (shape[d] == 1)
      strides[d] = d + 1 < layout.rank ? std::max<int64_t>(1, shape[d + 1] * strides[d + 1]) : 1;
  return {shape, dataType(layout.dtype), strides};
}

/// Whether the fast kernels accept it: contiguous rows or columns, nothing repeated.
bool isMatrix(const Layout &layout) {
  for (unsigned d = 0; d < layout.rank; ++d)
    if (layout.shape[d] > 1 && layout.strides[d] == 0)
      return false;
  unsigned last = layout.rank - 1;
  int64_t columns = layout.shape[last], rows = layout.shape[last - 1];
  int64_t columnStride = layout.strides[last], rowStride = layout.strides[last - 1];
  return ((columnStride == 1 || columns == 1) && (rowStride >= columns || rows == 1)) ||
         ((rowStride == 1 || rows == 1) && (columnStride >= rows || columns == 1));
}

/// Elementwise copy between dtypes.
class ConvertPlan {
public:
  ConvertPlan() = default;
  ConvertPlan(const Layout &dst, const Layout &src)
      : nest({dst, src}), dstType(dst.dtype), srcType(src.dtype) {}
  void run(void *dst, void *src) const {
    constexpr int64_t tile = 512;
    float buffer[tile];
    nest.run({static_cast<std::byte *>(dst), static_cast<std::byte *>(src)},
             [&](std::byte *const *at) {
               for (int64_t i = 0; i < nest.rowLength(); i += tile) {
                 int64_t n = std::min(tile, nest.rowLength() - i);
                 loadAsF32(srcType, at[1] + i * nest.rowStride(1) * sizeOf(srcType),
                           nest.rowStride(1), n, buffer);
                 storeFromF32(dstType, buffer, at[0] + i * nest.rowStride(0) * sizeOf(dstType),
                              nest.rowStride(0), n);
               }
             });
  }

private:
  LoopNest nest;
  DType dstType = DType::F32, srcType = DType::F32;
};

/// An operand that the primitive reads in place or from a dense temporary of another dtype.
class Staged {
public:
  Staged() = default;
  Staged(const Operand &operand, const Layout &layout, DType computeType)
      : slot(operand.slot), seen(withDType(layout, computeType)) {
    inPlace = computeType == layout.dtype && isMatrix(layout);
    if (inPlace)
      return;
    seen = denseLike(layout, computeType);
    in = ConvertPlan(seen, layout);
    out = ConvertPlan(layout, seen);
  }
  const Layout &layout() const { return seen; }
  /// The address for the primitive; temporaries are in `storage`.
  void *enter(const Frame &frame, std::vector<std::byte> &storage, bool load) const {
    void *data = place(frame, storage);
    if (load && !inPlace)
      in.run(data, frame.pointers[slot]);
    return data;
  }
  /// The same, with what is there undefined.
  void *place(const Frame &frame, std::vector<std::byte> &storage) const {
    if (inPlace)
      return frame.pointers[slot];
    storage.resize(seen.numBytes());
    return storage.data();
  }
  void leave(const Frame &frame, void *data) const {
    if (!inPlace)
      out.run(frame.pointers[slot], data);
  }

private:
  uint32_t slot = 0;
  Layout seen;
  bool inPlace = true;
  ConvertPlan in, out;
};

class MatmulOperation final : public HostOperation {
public:
  explicit MatmulOperation(const MatmulDesc &desc)
      : accumulate(desc.accumulate), hasRow(desc.hasRowBias()), hasTerm(desc.hasWholeBias()),
        biasSlot(desc.bias.slot) {
    const Layout &o = desc.out.layout;
    unsigned rank = o.rank;
    Layout la = factor(desc.a, desc.transposeA, rank), lb = factor(desc.b, desc.transposeB, rank);
    // oneDNN 2.6 has no f16 matmul on CPUs; f16 converts exactly to f32, the type of accumulation.
    DType type = la.dtype;
    bool native = type == DType::F32 || (type == DType::BF16 && multipliesBF16Well());
    a = Staged(desc.a, la, native ? type : DType::F32);
    b = Staged(desc.b, lb, native ? type : DType::F32);
    out = Staged(desc.out, o, native ? o.dtype : DType::F32);

    dnnl::primitive_attr attributes;
    if (hasTerm)
      loadTerm = ConvertPlan(out.layout(), desc.bias.layout);
    if (accumulate || hasTerm) {
      dnnl::post_ops ops;
      ops.append_sum(1.0f);
      attributes.set_post_ops(ops);
    }
    aMemory = memory(a.layout());
    bMemory = memory(b.layout());
    outMemory = memory(out.layout());
    std::unique_ptr<dnnl::matmul::desc> matmul;
    if (hasRow) {
      // The bias is f32 for every dtype: it is added before the single rounding.
      Layout row = padded(Layout::dense(DType::F32, {o.shape[rank - 1]}), rank);
      biasLayout = desc.bias.layout;
      biasConvert = ConvertPlan(Layout::dense(DType::F32, {o.shape[rank - 1]}), biasLayout);
      biasMemory = memory(row);
      matmul = std::make_unique<dnnl::matmul::desc>(aMemory.get_desc(), bMemory.get_desc(),
                                                    biasMemory.get_desc(), outMemory.get_desc());
    } else {
      matmul = std::make_unique<dnnl::matmul::desc>(aMemory.get_desc(), bMemory.get_desc(),
                                                    outMemory.get_desc());
    }
    primitive = dnnl::matmul(dnnl::matmul::primitive_desc(*matmul, attributes, engine()));
  }

  Status execute(const Frame &frame) override {
    // A stream runs one execution of this operation at a time, so setting the handles is safe.
    aMemory.set_data_handle(a.enter(frame, aStorage, true));
    bMemory.set_data_handle(b.enter(frame, bStorage, true));
    void *result = out.enter(frame, outStorage, accumulate);
    if (hasTerm)
      loadTerm.run(result, frame.pointers[biasSlot]);
    outMemory.set_data_handle(result);
    // The C++ call of the library would allocate a list of arguments.
    dnnl_exec_arg_t arguments[4] = {{DNNL_ARG_SRC, aMemory.get()},
                                    {DNNL_ARG_WEIGHTS, bMemory.get()},
                                    {DNNL_ARG_DST, outMemory.get()}};
    if (hasRow) {
      biasStorage.resize(static_cast<size_t>(biasLayout.numElements()));
      biasConvert.run(biasStorage.data(), frame.pointers[biasSlot]);
      biasMemory.set_data_handle(biasStorage.data());
      arguments[3] = {DNNL_ARG_BIAS, biasMemory.get()};
    }
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(primitive.get(), stream().get(), hasRow ? 4 : 3, arguments),
        "could not execute a matmul");
    stream().wait();
    out.leave(frame, result);
    return Status();
  }

private:
  static dnnl::memory memory(const Layout &layout) {
    return dnnl::memory(descriptor(layout), engine(), nullptr);
  }

  bool accumulate, hasRow, hasTerm;
  uint32_t biasSlot;
  Staged a, b, out;
  Layout biasLayout;
  ConvertPlan biasConvert, loadTerm;
  dnnl::memory aMemory, bMemory, outMemory, biasMemory;
  dnnl::matmul primitive;
  std::vector<std::byte> aStorage, bStorage, outStorage;
  std::vector<float> biasStorage;
};

/// Dense copies and three plain loops, for what oneDNN lacks: f64, products that are added up in
/// the order of K whatever M and N are, and empty ones. `T` (f32 or f64) is the type of sums.
template <typename T> class PlainProductOperation final : public HostOperation {
  static constexpr DType kType = std::is_same_v<T, double> ? DType::F64 : DType::F32;

public:
  explicit PlainProductOperation(const MatmulDesc &desc)
      : slots{desc.out.slot, desc.a.slot, desc.b.slot, desc.bias.slot}, hasRow(desc.hasRowBias()),
        hasTerm(desc.hasWholeBias()), accumulate(desc.accumulate) {
    const Layout &out = desc.out.layout;
    unsigned rank = out.rank;
    Layout la = factor(desc.a, desc.transposeA, rank), lb = factor(desc.b, desc.transposeB, rank);
    rows = out.shape[rank - 2];
    columns = out.shape[rank - 1];
    depth = la.shape[rank - 1];
    // Broadcast factors are copied as often as they are used.
    for (Layout *layout : {&la, &lb})
      for (unsigned d = 0; d + 2 < rank; ++d)
        if (layout->shape[d] != out.shape[d]) {
          layout->shape[d] = out.shape[d];
          layout->strides[d] = 0;
        }
    Layout denseOut = denseLike(out, kType), denseA = denseLike(la, kType),
           denseB = denseLike(lb, kType), denseRow = Layout::dense(kType, {columns});
    inA = Load(denseA, la);
    inB = Load(denseB, lb);
    inOut = Load(denseOut, hasTerm ? desc.bias.layout : out);
    if (hasRow)
      inBias = Load(denseRow, desc.bias.layout);
    outCopy = Load(out, denseOut);
    a.resize(static_cast<size_t>(denseA.numElements()));
    b.resize(static_cast<size_t>(denseB.numElements()));
    sums.resize(static_cast<size_t>(denseOut.numElements()));
    bias.resize(hasRow ? static_cast<size_t>(columns) : 0);
  }

  Status execute(const Frame &frame) override {
    void *target = frame.pointers[slots[0]];
    inA.run(a.data(), frame.pointers[slots[1]]);
    inB.run(b.data(), frame.pointers[slots[2]]);
    if (accumulate || hasTerm)
      inOut.run(sums.data(), hasTerm ? frame.pointers[slots[3]] : target);
    else
      std::fill(sums.begin(), sums.end(), T(0));
    if (hasRow)
      inBias.run(bias.data(), frame.pointers[slots[3]]);
    int64_t lines = sums.empty() ? 0 : static_cast<int64_t>(sums.size()) / columns;
    for (int64_t line = 0; hasRow && line < lines; ++line)
      for (int64_t n = 0; n < columns; ++n)
        sums[static_cast<size_t>(line * columns + n)] += bias[static_cast<size_t>(n)];
    for (int64_t line = 0; line < lines; ++line) {
      const T *factors = a.data() + line * depth;
      const T *matrix = b.data() + line / rows * depth * columns;
      T *to = sums.data() + line * columns;
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t n = 0; n < columns; ++n)
          to[n] += factors[k] * matrix[k * columns + n];
    }
    outCopy.run(target, sums.data());
    return Status();
  }

private:
  using Load = std::conditional_t<std::is_same_v<T, double>, CopyPlan, ConvertPlan>;

  uint32_t slots[4]; ///< out, a, b, bias
  bool hasRow, hasTerm, accumulate;
  int64_t rows = 0, columns = 0, depth = 0;
  Load inA, inB, inBias, inOut, outCopy;
  std::vector<T> a, b, sums, bias;
};

} // namespace

std::string matrixLibrary() {
  const dnnl::version_t *version = dnnl::version();
  return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

Expected<std::unique_ptr<Operation>> prepareMatmul(const MatmulDesc &desc, unsigned threads) {
  if (desc.out.layout.dtype == DType::F64)
    return std::make_unique<PlainProductOperation<double>>(desc);
  if (!isFloat(desc.out.layout.dtype))
    return Status(Code::Unsupported, "the cpu device has no matmul of " +
                                         std::string(toString(desc.out.layout.dtype)));
  int64_t k = desc.a.layout.shape[desc.a.layout.rank - (desc.transposeA ? 2 : 1)];
  if (desc.ordered || k == 0 || desc.out.layout.numElements() == 0)
    return std::make_unique<PlainProductOperation<float>>(desc);
  if (desc.out.layout.rank > DNNL_MAX_NDIMS)
    return Status(Code::Unsupported, "the cpu device's matmul takes at most " +
                                         std::to_string(DNNL_MAX_NDIMS) + " dimensions, found " +
                                         std::to_string(desc.out.layout.rank));
  // oneDNN fixes the number of threads when a primitive is created, per creating thread.
  struct Threads {
    explicit Threads(int n) : before(setOpenMPThreads(n)) {}
    ~Threads() {
      if (before)
        setOpenMPThreads(before);
    }
    int before;
  } guard(static_cast<int>(threads));
  try {
    return std::make_unique<MatmulOperation>(desc);
  } catch (const dnnl::error &error) {
    return Status(Code::Unsupported, "oneDNN cannot multiply " + desc.a.layout.str() + " by " +
                                         desc.b.layout.str() + " into " + desc.out.layout.str() +
                                         ": " + error.what());
  }
}

#else

std::string matrixLibrary() { return "no matrix library"; }

Expected<std::unique_ptr<Operation>> prepareMatmul(const MatmulDesc &, unsigned) {
  return Status(Code::Unsupported,
                "this runtime was built without oneDNN: the cpu device has no matmul");
}

#endif

} // namespace tandem::cpu
