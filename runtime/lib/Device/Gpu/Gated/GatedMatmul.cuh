//===- GatedMatmul.cuh - a persistent matmul whose tiles wait ---*- CUDA -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// CUTLASS's persistent kernel for Hopper with four changes. Before the loads of a tile, the warp
// that issues them waits for the signals of the tile's rows. Tiles are taken in the order in which
// rows arrive. Some rows of A may lie in another place than the others. And blocks of rows may be
// stored to different places, as memory of other GPUs, each with a signal. A kernel on all SMs that
// waits must not wait for work that needs an SM itself.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_GATED_GATEDMATMUL_CUH
#define TANDEM_LIB_DEVICE_GPU_GATED_GATEDMATMUL_CUH

#include "../KernelAbort.h"
#include "ClusterScheduler.cuh"
#include "KernelLibrary.h"
#include "TileRaster.h"

#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/fast_math.h>
#include <cutlass/gemm/collective/collective_builder.hpp>

namespace tandem::gpu::gated {

/// What waits need, as an argument of the kernel; see Matmul.
struct Gates {
  const uint16_t *needs = nullptr;
  const uint64_t *epoch = nullptr, *abortFlag = nullptr;
  uint64_t *stopped = nullptr;
  uint64_t *progress = nullptr;
  uint64_t marker = 0;
  int slices = 1, sliceTiles = 0;
  Gate gates[kMostGates] = {};
};

__device__ inline uint64_t acquire(const uint64_t *word) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}

/// Waits for one gate.
__device__ inline void await(const Gates &on, const Gate &gate) {
  uint64_t target = (on.epoch ? *on.epoch : 0) * gate.perRun + gate.value;
  if (acquire(gate.signal) >= target)
    return;
  bool reports = on.progress && blockIdx.x == 0 && blockIdx.y == 0;
  if (reports)
    *static_cast<volatile uint64_t *>(on.progress) = on.marker;
  for (unsigned polls = 0; acquire(gate.signal) < target; ++polls)
    if (on.abortFlag && isAborted(on.abortFlag, on.stopped, polls)) {
      stopSignals(on.stopped);
      break;
    }
  if (reports)
    *static_cast<volatile uint64_t *>(on.progress) = ~uint64_t(0);
}

/// The stock main loop, which waits before it loads, and may load some rows of A from elsewhere.
template <class Base> struct GatedMainloop : Base {
  struct Arguments : Base::Arguments {
    Gates gates;
    typename Base::Arguments own; ///< as these, with the own rows as A
    int firstOwn = 0, ownRows = 0;
  };
  struct Params : Base::Params {
    Gates gates;
    typename Base::Params own;
    int firstOwn, ownTiles; ///< rows of tiles
  };

  template <class ProblemShape>
  static Params to_underlying_arguments(const ProblemShape &shape, const Arguments &arguments,
                                        void *workspace) {
    Params params;
    static_cast<typename Base::Params &>(params) =
        Base::to_underlying_arguments(shape, arguments, workspace);
    params.gates = arguments.gates;
    constexpr int tileM = size<0>(typename Base::TileShape{});
    params.firstOwn = arguments.firstOwn / tileM;
    params.ownTiles = ceil_div(arguments.ownRows, tileM);
    params.own = params;
    if (arguments.ownRows > 0)
      params.own = Base::to_underlying_arguments(
          make_shape(arguments.ownRows, get<1>(shape), get<2>(shape), 1), arguments.own, workspace);
    return params;
  }

  CUTLASS_DEVICE static void prefetch_tma_descriptors(const Params &params) {
    Base::prefetch_tma_descriptors(params);
    if (params.ownTiles > 0)
      prefetch_tma_descriptor(params.own.tma_load_a.get_tma_descriptor());
  }

  template <class Inputs, class KTiles, class Coord>
  CUTLASS_DEVICE void load(const Params &params, typename Base::MainloopPipeline pipeline,
                           typename Base::PipelineState state, const Inputs &inputs,
                           const Coord &coord, KTiles kTiles, int kTileCount, int thread,
                           uint32_t blockInCluster, typename Base::TensorStorage &storage) {
    const Gates &gates = params.gates;
    int row = get<0>(coord);
    const uint16_t *needs = gates.needs ? gates.needs + row * gates.slices : nullptr;
    // W is the same in both.
    bool isOwn = row >= params.firstOwn && row < params.firstOwn + params.ownTiles;
    const typename Base::Params &from = isOwn ? params.own : params;
    auto at = make_coord(isOwn ? row - params.firstOwn : row, get<1>(coord), get<2>(coord),
                         get<3>(coord));
    if (gates.slices == 1) {
      if (needs)
        pass(gates, needs[0]);
      Base::load(from, pipeline, state, inputs, at, kTiles, kTileCount, thread, blockInCluster,
                 storage);
      return;
    }
    for (int slice = 0, begin = 0; begin < kTileCount; ++slice, begin += gates.sliceTiles) {
      int count = min(gates.sliceTiles, kTileCount - begin);
      if (needs)
        pass(gates, needs[slice]);
      Base::load(from, pipeline, state, inputs, at,
                 make_coord_iterator(begin, shape<3>(get<0>(inputs))), count, thread,
                 blockInCluster, storage);
      state.advance(count);
    }
  }

private:
  /// Waits for the gates before number `end` that were not waited for. What they announce may then
  /// be read by TMA, the asynchronous proxy.
  CUTLASS_DEVICE void pass(const Gates &gates, int end) {
    if (passed >= end)
      return;
    for (; passed < end; ++passed)
      await(gates, gates.gates[passed]);
    asm volatile("fence.proxy.async;" ::: "memory");
  }

  int passed = 0;
};

/// What targets need, as an argument of the kernel; see Matmul.
struct Targets {
  int count = 0; ///< 0: the rows are one block without a signal
  uint32_t *arrivals = nullptr;
  const uint64_t *epoch = nullptr, *stopped = nullptr;
  struct Block {
    uint64_t *signal;
    uint64_t perRun, value;
    uint32_t arrivals; ///< of its tiles, and of the block before it
    int32_t next;      ///< block; -1: none
  } blocks[kMostTargets] = {};
};

/// The stock epilogue, with a destination for each block of rows. Tiles of a block are counted
/// where a thread block has finished with it: by then its earlier stores have arrived anyway.
template <class Base> class TargetEpilogue : public Base {
public:
  struct Arguments : Base::Arguments {
    void *d[kMostTargets] = {};
    Targets targets;
    Function function = {};
  };
  struct Params : Base::Params {
    typename Base::Params more[kMostTargets - 1]; ///< of the blocks after the first
    Targets targets;
    Function function;
  };
  using typename Base::TensorStorage;

  template <class ProblemShape>
  static Params to_underlying_arguments(const ProblemShape &shape, const Arguments &arguments,
                                        void *workspace) {
    Params params;
    params.targets = arguments.targets;
    params.function = arguments.function;
    auto one = make_shape(get<0>(shape), get<1>(shape), get<2>(shape), 1);
    static_cast<typename Base::Params &>(params) =
        Base::to_underlying_arguments(one, arguments, workspace);
    for (int block = 0; block < arguments.targets.count; ++block) {
      typename Base::Arguments of = arguments;
      of.ptr_D = static_cast<typename Base::ElementD *>(arguments.d[block]);
      (block ? params.more[block - 1] : static_cast<typename Base::Params &>(params)) =
          Base::to_underlying_arguments(one, of, workspace);
    }
    return params;
  }

  CUTLASS_DEVICE TargetEpilogue(const Params &params, TensorStorage &storage)
      : Base(params, storage), params(params) {}
  CUTLASS_DEVICE ~TargetEpilogue() { finish(); }

  template <class LoadState, class StoreState, class Problem, class Tile, class Coord, class Sums,
            class Mma>
  CUTLASS_DEVICE auto store(typename Base::LoadPipeline load, LoadState loadState,
                            typename Base::StorePipeline store, StoreState storeState,
                            Problem problem, Tile tile, Coord coord, Sums &sums, Mma mma,
                            int thread, TensorStorage &storage, int subtile = -1) {
    int of = get<3>(coord);
    if (of != block) {
      finish();
      block = of;
    }
    ++stored;
    issues = thread / 32 == 0;
    if (params.function.present)
      apply(problem, tile, coord, sums, mma, thread);
    const typename Base::Params &to = of ? params.more[of - 1] : params;
    Base base(to, storage);
    return base.store(load, loadState, store, storeState,
                      make_shape(get<0>(problem), get<1>(problem), get<2>(problem), 1), tile,
                      make_coord(get<0>(coord), get<1>(coord), get<2>(coord), 0), sums, mma, thread,
                      storage, subtile);
  }

private:
  /// The function, of a thread's sums. Elements beyond M and N are computed, but not stored.
  template <class Problem, class Tile, class Coord, class Sums, class Mma>
  CUTLASS_DEVICE void apply(Problem problem, Tile tile, Coord coord, Sums &sums, Mma mma,
                            int thread) {
    using Element = typename Base::ElementD;
    const Function &function = params.function;
    const auto *bias = static_cast<const Element *>(function.bias);
    const auto *residual = static_cast<const Element *>(function.residual);
    auto places = mma.get_thread_slice(thread).partition_C(
        make_identity_tensor(make_shape(get<0>(tile), get<1>(tile))));
    const int firstRow = int(get<0>(coord)) * int(get<0>(tile)),
              firstColumn = int(get<1>(coord)) * int(get<1>(tile));
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < size(sums); ++i) { // all in one: several loops spill registers
      int row = firstRow + int(get<0>(places(i))), column = firstColumn + int(get<1>(places(i)));
      float y = function.alpha * sums(i);
      if (bias && column < get<1>(problem))
        y += float(bias[column]);
      if (residual && column < get<1>(problem) && row < get<0>(problem))
        y += function.beta * float(residual[row * function.strideResidual + column]);
      sums(i) = function.activation == Function::Relu && y < 0 ? 0 : y;
    }
    if (function.activation != Function::Sigmoid)
      return;
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < size(sums); ++i) {
      float y = sums(i), square = fminf(y * y, 1e8f); // 0 * inf would be NaN
      float power;
      asm("ex2.approx.ftz.f32 %0, %1;"
          : "=f"(power)
          : "f"(y * (function.c0 + function.c1 * square)));
      sums(i) = __fdividef(y, 1 + power);
    }
  }

  /// Counts the tiles of the block whose stores this warp has issued. The last one signals, once
  /// the blocks before it have: a signal covers them, too.
  CUTLASS_DEVICE void finish() {
    if (stored && issues && params.targets.count) {
      asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); // they are visible to the warp
      __syncwarp();
      if (threadIdx.x % 32 == 0) {
        int of = block;
        for (uint32_t count = stored; of >= 0 && arrive(of, count); count = 1)
          of = params.targets.blocks[of].next;
      }
      __syncwarp();
    }
    stored = 0;
  }

  /// True for the last arrival of a block, which signals.
  CUTLASS_DEVICE bool arrive(int of, uint32_t count) {
    const Targets &targets = params.targets;
    const Targets::Block &to = targets.blocks[of];
    asm volatile("fence.acq_rel.sys;" ::: "memory");
    if (atomicAdd(targets.arrivals + of, count) + count != to.arrivals)
      return false;
    asm volatile("fence.acq_rel.sys;" ::: "memory");
    targets.arrivals[of] = 0;
    bool isStopped = targets.stopped && *static_cast<const volatile uint64_t *>(targets.stopped);
    if (to.signal && !isStopped)
      atomicMax_system(reinterpret_cast<unsigned long long *>(to.signal),
                       static_cast<unsigned long long>(
                           (targets.epoch ? *targets.epoch : 0) * to.perRun + to.value));
    return true;
  }

  const Params &params;
  int block = 0;
  uint32_t stored = 0;
  bool issues = false;
};

/// Takes clusters of tiles block by block, in these as TileRaster numbers them, in a given order of
/// their rows.
template <class ClusterShape>
class RasterScheduler : public ClusterScheduler<RasterScheduler<ClusterShape>, ClusterShape> {
public:
  using Base = ClusterScheduler<RasterScheduler<ClusterShape>, ClusterShape>;
  using Base::clusterM, Base::clusterN, Base::next;
  using typename Base::WorkTileInfo;

  struct Arguments {
    const uint16_t *order = nullptr;
    int groupRows = 1, firstGroupRows = 0; ///< 0: as the others
    uint8_t blocks[kMostTargets] = {};     ///< in their order
  };
  struct Params {
    const uint16_t *order = nullptr;
    TileRaster<cutlass::FastDivmod> walk; ///< of clusters of a block
    int numBlocks = 1;
    uint8_t blocks[kMostTargets] = {};
    cutlass::FastDivmod perBlock; ///< clusters
  };

  template <class ProblemShape, class TileShape>
  static Params to_underlying_arguments(ProblemShape shape, TileShape tile, ClusterShape,
                                        const cutlass::KernelHardwareInfo &,
                                        const Arguments &arguments, void * = nullptr, uint32_t = 1,
                                        uint32_t = 1) {
    Params params;
    params.order = arguments.order;
    params.walk = {ceil_div(int(get<0>(shape)), int(size<0>(tile) * clusterM)),
                   ceil_div(int(get<1>(shape)), int(size<1>(tile) * clusterN)), arguments.groupRows,
                   arguments.firstGroupRows};
    params.numBlocks = int(get<3>(shape));
    for (uint32_t i = 0; i < kMostTargets; ++i)
      params.blocks[i] = arguments.blocks[i];
    params.perBlock = cutlass::FastDivmod(params.walk.rows * params.walk.columns);
    return params;
  }

  CUTLASS_DEVICE explicit RasterScheduler(const Params &params)
      : params(params), total(params.numBlocks * params.walk.rows * params.walk.columns),
        inM(int(blockIdx.x) % clusterM), inN(int(blockIdx.y) % clusterN) {}

  CUTLASS_DEVICE WorkTileInfo get_current_work() const {
    if (next >= total)
      return WorkTileInfo::invalid_work_tile();
    int block, within, row, column;
    params.perBlock(block, within, next);
    params.walk.find(within, row, column);
    if (params.order)
      row = params.order[row];
    return {row * clusterM + inM, column * clusterN + inN, params.blocks[block], true};
  }

  CUTLASS_DEVICE bool is_last_tile(WorkTileInfo &, uint32_t count = 1) const {
    return next + this->step * int(count) >= total;
  }

private:
  const Params &params;
  int total = 0, inM = 0, inN = 0;
};

struct RasterSchedulerTag {};

} // namespace tandem::gpu::gated

namespace cutlass::gemm::kernel::detail {
template <class TileShape, class ClusterShape, uint32_t Stages>
struct TileSchedulerSelector<tandem::gpu::gated::RasterSchedulerTag, arch::Sm90, TileShape,
                             ClusterShape, Stages> {
  using Scheduler = tandem::gpu::gated::RasterScheduler<ClusterShape>;
};
} // namespace cutlass::gemm::kernel::detail

namespace tandem::gpu::gated {

template <class Type, class LayoutW, class Tile, class Cluster, bool pingpong> struct GatedMatmul {
  using Schedule = cute::conditional_t<pingpong, cutlass::gemm::KernelTmaWarpSpecializedPingpong,
                                       cutlass::gemm::KernelTmaWarpSpecializedCooperative>;
  using EpilogueSchedule = cute::conditional_t<pingpong, cutlass::epilogue::TmaWarpSpecialized,
                                               cutlass::epilogue::TmaWarpSpecializedCooperative>;
  using RowMajor = cutlass::layout::RowMajor;
  using Epilogue = TargetEpilogue<typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
      cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, RowMajor, 8, Type,
      RowMajor, 8, EpilogueSchedule>::CollectiveOp>;
  using StockMainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Type, RowMajor, 8, Type, LayoutW, 8,
      float, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<int(
          sizeof(typename Epilogue::SharedStorage))>,
      Schedule>::CollectiveOp;
  using Mainloop = GatedMainloop<StockMainloop>;
  using Gemm = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop,
                                                    Epilogue, RasterSchedulerTag>;

  static constexpr int tileM = size<0>(Tile{}), tileN = size<1>(Tile{}), tileK = size<2>(Tile{});
  static constexpr int clusterM = size<0>(Cluster{}), clusterN = size<1>(Cluster{});

  static typename Gemm::Arguments arguments(const Matmul &matmul) {
    typename Gemm::Arguments to;
    to.mode = cutlass::gemm::GemmUniversalMode::kGemm;
    int blocks = max(1, int(matmul.numTargets));
    int64_t rows = matmul.m / blocks;
    to.problem_shape = {int(rows), int(matmul.n), int(matmul.k), blocks};
    to.mainloop.ptr_A = static_cast<const Type *>(matmul.a);
    to.mainloop.ptr_B = static_cast<const Type *>(matmul.w);
    // The stride that is not 1.
    get<0>(to.mainloop.dA) = matmul.strideA;
    get<2>(to.mainloop.dA) = rows * matmul.strideA;
    constexpr bool byColumns = cute::is_same_v<LayoutW, cutlass::layout::ColumnMajor>;
    get<byColumns ? 0 : 1>(to.mainloop.dB) = matmul.strideW;
    auto &own = to.mainloop.own = to.mainloop;
    own.ptr_A = static_cast<const Type *>(matmul.own);
    get<0>(own.dA) = matmul.strideOwn;
    get<2>(own.dA) = matmul.ownRows * matmul.strideOwn;
    to.mainloop.firstOwn = int(matmul.firstOwn);
    to.mainloop.ownRows = int(matmul.ownRows);
    to.epilogue.ptr_C = nullptr;
    to.epilogue.ptr_D = static_cast<Type *>(matmul.numTargets ? matmul.targets[0].d : matmul.d);
    get<0>(to.epilogue.dD) = matmul.strideD;
    to.epilogue.thread.alpha = 1;
    to.epilogue.thread.beta = 0;
    to.epilogue.function = matmul.function;
    Targets &targets = to.epilogue.targets;
    targets.count = int(matmul.numTargets);
    auto tiles = static_cast<uint32_t>(ceil_div(rows, int64_t(tileM * clusterM)) * clusterM *
                                       ceil_div(matmul.n, int64_t(tileN * clusterN)) * clusterN);
    targets.arrivals = matmul.arrivals;
    targets.epoch = matmul.epoch;
    targets.stopped = matmul.stopped;
    for (uint32_t i = 0; i < matmul.numTargets; ++i) {
      const Target &target = matmul.targets[i];
      to.scheduler.blocks[i] = static_cast<uint8_t>(target.block);
      to.epilogue.d[target.block] = target.d;
      bool isLast = i + 1 == matmul.numTargets;
      targets.blocks[target.block] = {target.signal, target.perRun, target.value, tiles + (i > 0),
                                      isLast ? -1 : matmul.targets[i + 1].block};
    }
    Gates &gates = to.mainloop.gates;
    gates.needs = matmul.needs;
    gates.epoch = matmul.epoch;
    gates.abortFlag = matmul.abortFlag;
    gates.stopped = matmul.stopped;
    gates.progress = matmul.progress;
    gates.marker = matmul.marker;
    gates.slices = matmul.slices;
    gates.sliceTiles = matmul.sliceTiles;
    for (uint32_t i = 0; i < matmul.numGates; ++i)
      gates.gates[i] = matmul.gates[i];
    to.scheduler.order = matmul.order;
    to.scheduler.groupRows = (matmul.groupRows + clusterM - 1) / clusterM;
    to.scheduler.firstGroupRows = (matmul.firstGroupRows + clusterM - 1) / clusterM;
    to.hw_info.sm_count = matmul.sms;
    to.hw_info.max_active_clusters = 1; // else CUTLASS asks the driver; it is not used
    return to;
  }

  static const char *whyNot(const Matmul &matmul) {
    if (matmul.m < 1 || matmul.n < 1 || matmul.k < 1)
      return "an extent is 0";
    if (matmul.m > INT32_MAX / 2 || matmul.n > INT32_MAX / 2 || matmul.k > INT32_MAX / 2)
      return "an extent is too large";
    if (matmul.n % 8 != 0 || matmul.k % 8 != 0 || matmul.strideA % 8 != 0 ||
        matmul.strideW % 8 != 0 || matmul.strideD % 8 != 0)
      return "N, K and the strides of rows must be multiples of 8";
    if (matmul.slices < 1 ||
        (matmul.slices > 1 && (matmul.sliceTiles < 1 ||
                               int64_t(matmul.slices - 1) * matmul.sliceTiles * tileK >= matmul.k ||
                               int64_t(matmul.slices) * matmul.sliceTiles * tileK < matmul.k)))
      return "slices of K do not cover it";
    if (matmul.numGates > kMostGates)
      return "it has too many gates";
    if (matmul.numTargets > kMostTargets)
      return "its rows go to too many places";
    if (matmul.numTargets > 0 && (matmul.m % matmul.numTargets != 0 || matmul.slices != 1))
      return "blocks of rows that go to different places are not of equal size";
    if (matmul.function.present && matmul.numTargets > 0)
      return "rows that go to different places have no epilogue";
    int64_t endOfOwn = matmul.firstOwn + matmul.ownRows;
    if (matmul.ownRows < 0 || matmul.firstOwn < 0 || endOfOwn > matmul.m)
      return "rows in another matrix are not among the others";
    if (matmul.ownRows > 0 &&
        (matmul.firstOwn % tileM != 0 || (endOfOwn % tileM != 0 && endOfOwn != matmul.m)))
      return "rows in another matrix are not whole tiles";
    if (matmul.ownRows > 0 && (matmul.strideOwn % 8 != 0 || matmul.numTargets > 0))
      return "rows in another matrix have a stride that is no multiple of 8, or targets";
    if (matmul.sms < clusterM * clusterN)
      return "there are fewer SMs than a cluster has blocks";
    return nullptr;
  }

  static const char *run(const Matmul &matmul, void *stream) {
    if (cudaError_t error = allowSharedMemory<Gemm>(); error != cudaSuccess)
      return cudaGetErrorString(error);
    typename Gemm::Params params = Gemm::to_underlying_arguments(arguments(matmul), nullptr);
    const auto &walk = params.scheduler.walk;
    int clusters = params.scheduler.numBlocks * walk.rows * walk.columns;
    return launchClusters<Gemm, clusterM, clusterN>(
        params, min(matmul.sms / (clusterM * clusterN), clusters), stream);
  }
};

} // namespace tandem::gpu::gated

#endif // TANDEM_LIB_DEVICE_GPU_GATED_GATEDMATMUL_CUH
