//===- GroupedMatmul.cuh - a persistent matmul of groups of rows ---*- CUDA -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// CUTLASS's persistent kernel for Hopper with three changes. The scheduler reads the bounds of the
// groups from device memory (GroupWalk.h). A tile begins at any row: TMA loads it from the whole X
// and from the W of all groups, so there are no descriptors per group. The rows that a tile loads
// beyond the end of its group are computed, but not stored; so threads store their sums themselves.
// Before all that, each block clears its share of the rows that belong to no group.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_GATED_GROUPEDMATMUL_CUH
#define TANDEM_LIB_DEVICE_GPU_GATED_GROUPEDMATMUL_CUH

#include "ClusterScheduler.cuh"
#include "GroupWalk.h"
#include "GroupedLibrary.h"

#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/epilogue/collective/detail.hpp>
#include <cutlass/fast_math.h>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/numeric_conversion.h>

namespace tandem::gpu::gated {

/// The coordinates of a tile, as CUTLASS hands them from the scheduler to loads and stores: three
/// integers, which it does not change.
struct TileCoord {
  static constexpr int kRowBits = 9, kMostColumns = 1 << 21;
  static constexpr int kGroupBits = 16, kMostGroups = 1 << kGroupBits, kMostBatches = 1 << 14;

  int first, rows, column, group, batch; ///< rows: to store, 0 ... tileM

  CUTLASS_HOST_DEVICE int m() const { return first; }
  CUTLASS_HOST_DEVICE int n() const { return column << kRowBits | rows; }
  CUTLASS_HOST_DEVICE int l() const { return batch << kGroupBits | group; }

  template <class Coord> CUTLASS_HOST_DEVICE static TileCoord of(const Coord &coord) {
    int n = get<1>(coord), l = get<3>(coord);
    return {int(get<0>(coord)), n & ((1 << kRowBits) - 1), n >> kRowBits, l & (kMostGroups - 1),
            l >> kGroupBits};
  }
};

template <class Type> inline constexpr GroupedType elementOf = GroupedType::F32;
template <> inline constexpr GroupedType elementOf<cutlass::half_t> = GroupedType::F16;
template <> inline constexpr GroupedType elementOf<cutlass::bfloat16_t> = GroupedType::BF16;
template <> inline constexpr GroupedType elementOf<cutlass::float_e4m3_t> = GroupedType::F8E4M3FN;
template <> inline constexpr GroupedType elementOf<cutlass::float_e5m2_t> = GroupedType::F8E5M2;

/// A warp of the GPU, for GroupWalk.
struct GpuWarp {
  using Int = int;
  static constexpr int kLanes = 32;
  static constexpr unsigned kAll = ~0u;

  CUTLASS_DEVICE static int lane() { return cutlass::canonical_lane_idx(); }
  CUTLASS_DEVICE static int load(const int32_t *from, int at, int end) {
    return at < end ? from[at] : INT32_MIN;
  }
  CUTLASS_DEVICE static int min(int a, int b) { return ::min(a, b); }
  CUTLASS_DEVICE static int max(int a, int b) { return ::max(a, b); }
  CUTLASS_DEVICE static int scanMax(int value) {
    CUTLASS_PRAGMA_UNROLL
    for (int distance = 1; distance < kLanes; distance *= 2) // lanes below it get their own value
      value = ::max(value, __shfl_up_sync(kAll, value, distance));
    return value;
  }
  CUTLASS_DEVICE static int scanSum(int value) {
    CUTLASS_PRAGMA_UNROLL
    for (int distance = 1; distance < kLanes; distance *= 2) {
      int below = __shfl_up_sync(kAll, value, distance);
      value += lane() >= distance ? below : 0;
    }
    return value;
  }
  CUTLASS_DEVICE static int fromBelow(int value, int first) {
    int below = __shfl_up_sync(kAll, value, 1);
    return lane() ? below : first;
  }
  CUTLASS_DEVICE static int get(int value, int lane) { return __shfl_sync(kAll, value, lane); }
  CUTLASS_DEVICE static int countAtMost(int value, int x) {
    return __popc(__ballot_sync(kAll, value <= x));
  }
};

/// The types that TMA is told. Main loops of 8 bits have no other names for them.
template <class Base, class = void> struct LoadedTypes {
  using A = typename Base::ElementA;
  using B = typename Base::ElementB;
};
template <class Base> struct LoadedTypes<Base, cute::void_t<typename Base::InternalElementA>> {
  using A = typename Base::InternalElementA;
  using B = typename Base::InternalElementB;
};

/// The stock main loop, with tiles that begin at any row.
template <class Base> struct GroupedMainloop : Base {
  struct Arguments : Base::Arguments {
    int batches = 1, groups = 1;
  };
  using Params = typename Base::Params;

  template <class ProblemShape>
  static Params to_underlying_arguments(const ProblemShape &shape, const Arguments &arguments,
                                        void *) {
    using A = typename LoadedTypes<Base>::A;
    using B = typename LoadedTypes<Base>::B;
    auto k = get<2>(shape);
    auto x =
        make_tensor(reinterpret_cast<const A *>(arguments.ptr_A),
                    make_layout(make_shape(get<0>(shape), k, arguments.batches), arguments.dA));
    auto w = make_tensor(reinterpret_cast<const B *>(arguments.ptr_B),
                         make_layout(make_shape(get<1>(shape), k, arguments.groups), arguments.dB));
    using Cluster = typename Base::DispatchPolicy::ClusterShape;
    Params params;
    params.tma_load_a = make_tma_copy_A_sm90(typename Base::GmemTiledCopyA{}, x,
                                             typename Base::SmemLayoutA{}(_, _, Int<0>{}),
                                             typename Base::TileShape{}, Cluster{});
    params.tma_load_b = make_tma_copy_B_sm90(typename Base::GmemTiledCopyB{}, w,
                                             typename Base::SmemLayoutB{}(_, _, Int<0>{}),
                                             typename Base::TileShape{}, Cluster{});
    return params;
  }

  template <class Inputs, class KTiles, class Coord>
  CUTLASS_DEVICE void load(const Params &params, typename Base::MainloopPipeline pipeline,
                           typename Base::PipelineState state, const Inputs &inputs,
                           const Coord &coord, KTiles kTiles, int kTileCount, int thread,
                           uint32_t blockInCluster, typename Base::TensorStorage &storage) {
    auto tile = TileCoord::of(coord);
    // Of the tiles (BLK_M, BLK_K, m, k, l), the first one moves to the first row. Rows beyond M are
    // zeros; those before M, beyond the group, are other rows, whatever they contain.
    auto shifted =
        cute::make_tuple(domain_offset(make_coord(tile.first, 0, 0, 0, tile.batch), get<0>(inputs)),
                         domain_offset(make_coord(0, 0, 0, 0, tile.group), get<1>(inputs)));
    Base::load(params, pipeline, state, shifted, make_coord(0, tile.column, _, 0), kTiles,
               kTileCount, thread, blockInCluster, storage);
  }
};

/// What the threads need to store their sums.
struct GroupedStores {
  using ElementC = void;
  using ElementD = float; // or another one: `type` says it
  using StrideC = Stride<int64_t, _1, int64_t>;
  using StrideD = StrideC;
  struct SharedStorage {};
  struct Arguments {
    void *y = nullptr;
    int64_t stride = 0, batch = 0; ///< in elements
    GroupedType type = GroupedType::F32;
  };
  using Params = Arguments;

  template <class ProblemShape>
  static Params to_underlying_arguments(const ProblemShape &, const Arguments &arguments, void *) {
    return arguments;
  }
  template <class ProblemShape>
  static size_t get_workspace_size(const ProblemShape &, const Arguments &) {
    return 0;
  }
  CUTLASS_HOST_DEVICE explicit GroupedStores(const Params &params) : params(params) {}

  const Params &params;
};

/// The rows of a tile that are in its group go from registers to Y, 16 bytes at a time. Results are
/// f32 or one of `Narrow`: a kernel has code for each of them, because its main loop takes longer
/// to compile.
template <class... Narrow>
class GroupedEpilogue
    : public cutlass::epilogue::collective::detail::Sm90TmaWarpSpecializedAdapter<GroupedStores> {
public:
  using Base = cutlass::epilogue::collective::detail::Sm90TmaWarpSpecializedAdapter<GroupedStores>;
  using Base::Base;

  template <class LoadState, class StoreState, class Problem, class Tile, class Coord, class Engine,
            class Layout, class Mma>
  CUTLASS_DEVICE auto store(typename Base::LoadPipeline, LoadState loadState,
                            typename Base::StorePipeline, StoreState storeState,
                            const Problem &problem, Tile, const Coord &coord,
                            const cute::Tensor<Engine, Layout> &sums, Mma mma, int thread,
                            typename Base::TensorStorage &, int = -1) {
    auto tile = TileCoord::of(coord);
    if (tile.rows > 0) { // the same for all threads, as is the type
      const int n = get<1>(problem);
      if (this->params.type == GroupedType::F32)
        storeAs<float, Tile>(tile, n, sums, mma, thread);
      else
        (void)((this->params.type == elementOf<Narrow> &&
                (storeAs<Narrow, Tile>(tile, n, sums, mma, thread), true)) ||
               ...);
    }
    return cute::make_tuple(loadState, storeState);
  }

private:
  template <class Type, class Tile, class Engine, class Layout, class Mma>
  CUTLASS_DEVICE void storeAs(const TileCoord &tile, int n,
                              const cute::Tensor<Engine, Layout> &sums, Mma mma, int thread) {
    constexpr int tileM = size<0>(Tile{}), tileN = size<1>(Tile{});
    // Sums are ((2 columns, 2 rows, columns / 8), m, 1): of each 8 columns and 8 rows, a thread
    // has 2 columns of a row, the next one the next 2, and 4 threads one row.
    auto places = mma.get_thread_slice(thread).partition_C(
        make_identity_tensor(make_shape(Int<tileM>{}, Int<tileN>{})));
    static_assert(is_static<Layout>::value && rank(Layout{}) == 3 && rank<0>(Layout{}) == 3);
    static_assert(size<0, 0>(Layout{}) == 2 && size<0, 1>(Layout{}) == 2 &&
                  size<0, 2>(Layout{}) == tileN / 8 && size<2>(Layout{}) == 1);
    // Threads of a row exchange words, so that each has 16 bytes that are contiguous. Of 16 bits,
    // 32 columns: words [4] of 4 threads are transposed, so that thread q has the columns 8 q to
    // 8 q + 7. Of f32, 16 columns: thread q has 4 from 8 (q % 2) + 4 (q / 2) on.
    constexpr bool isWide = sizeof(Type) == 4;
    constexpr int step = isWide ? 2 : 4;
    const auto &params = this->params;
    const int quad = thread % 4;
    const int column = tile.column * tileN + (isWide ? 8 * (quad & 1) + 4 * (quad >> 1) : 8 * quad);
    Type *y = static_cast<Type *>(params.y) + tile.batch * params.batch +
              tile.first * params.stride + column;
    CUTLASS_PRAGMA_UNROLL
    for (int m = 0; m < size<1>(sums); ++m) {
      CUTLASS_PRAGMA_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int row = get<0>(places(make_coord(0, half, 0), m, 0));
        Type *to = y + row * params.stride;
        const int columns = row < tile.rows ? n - column : 0; // from this thread's first one on
        CUTLASS_PRAGMA_UNROLL
        for (int at = 0; at < tileN / 8; at += step) {
          uint32_t words[4];
          CUTLASS_PRAGMA_UNROLL
          for (int i = 0; i < step; ++i) {
            float low = sums(make_coord(0, half, at + i), m, 0),
                  high = sums(make_coord(1, half, at + i), m, 0);
            if constexpr (isWide) {
              words[2 * i] = __float_as_uint(low);
              words[2 * i + 1] = __float_as_uint(high);
            } else {
              words[i] = pack<Type>(low, high);
            }
          }
          if constexpr (isWide) {
            exchange(words[0], words[2], quad & 1, 1);
            exchange(words[1], words[3], quad & 1, 1);
          } else {
            transpose(words, quad);
          }
          if (8 * at < columns) // of an assignment, the compiler makes four stores
            asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to + 8 * at),
                         "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                         : "memory");
        }
      }
    }
  }

  template <class Type> CUTLASS_DEVICE static uint32_t pack(float low, float high) {
    cutlass::Array<float, 2> both;
    both[0] = low;
    both[1] = high;
    cutlass::Array<Type, 2> rounded = cutlass::NumericArrayConverter<Type, float, 2>{}(both);
    return reinterpret_cast<const uint32_t &>(rounded);
  }

  /// words[i] of thread q of 4 becomes words[q] of thread i.
  CUTLASS_DEVICE static void transpose(uint32_t (&words)[4], int quad) {
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < 4; i += 2)
      exchange(words[i], words[i + 1], quad & 1, 1);
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < 2; ++i)
      exchange(words[i], words[i + 2], quad & 2, 2);
  }
  /// The upper word of the lower thread and the lower word of the upper thread change places.
  CUTLASS_DEVICE static void exchange(uint32_t &lower, uint32_t &upper, bool isUpper,
                                      int distance) {
    uint32_t other = __shfl_xor_sync(~0u, isUpper ? lower : upper, distance);
    (isUpper ? lower : upper) = other;
  }
};

/// Takes clusters of tiles in the order of GroupWalk.
template <class TileShape, class ClusterShape>
class GroupScheduler
    : public ClusterScheduler<GroupScheduler<TileShape, ClusterShape>, ClusterShape> {
public:
  using Base = ClusterScheduler<GroupScheduler<TileShape, ClusterShape>, ClusterShape>;
  using Base::clusterM, Base::clusterN;
  using typename Base::WorkTileInfo;
  using Arguments = WalkShape; ///< columns and row group of clusters
  using Params = WalkShape;
  static constexpr int tileM = size<0>(TileShape{});

  template <class ProblemShape, class Tile>
  static Params to_underlying_arguments(ProblemShape, Tile, ClusterShape,
                                        const cutlass::KernelHardwareInfo &,
                                        const Arguments &arguments, void * = nullptr, uint32_t = 1,
                                        uint32_t = 1) {
    return arguments;
  }

  CUTLASS_DEVICE explicit GroupScheduler(const Params &params) : walk(params) {}

  CUTLASS_DEVICE WorkTileInfo get_current_work() {
    GroupTile found;
    if (!walk.find(this->next, found))
      return WorkTileInfo::invalid_work_tile();
    const int inM = int(blockIdx.x) % clusterM, inN = int(blockIdx.y) % clusterN;
    TileCoord tile;
    tile.first = found.first + inM * tileM;
    tile.rows = ::max(0, ::min(tileM, found.end - tile.first));
    tile.column = found.column * clusterN + inN;
    tile.group = found.group;
    tile.batch = found.batch;
    return {tile.m(), tile.n(), tile.l(), true};
  }

private:
  GroupWalk<GpuWarp, tileM * clusterM> walk;
};

struct GroupSchedulerTag {};

} // namespace tandem::gpu::gated

namespace cutlass::gemm::kernel::detail {
template <class TileShape, class ClusterShape, uint32_t Stages>
struct TileSchedulerSelector<tandem::gpu::gated::GroupSchedulerTag, arch::Sm90, TileShape,
                             ClusterShape, Stages> {
  using Scheduler = tandem::gpu::gated::GroupScheduler<TileShape, ClusterShape>;
};
} // namespace cutlass::gemm::kernel::detail

namespace tandem::gpu::gated {

/// The stock kernel, after rows without a group are set to 0.
template <class Gemm> struct ClearingGemm : Gemm {
  CUTLASS_DEVICE void operator()(const typename Gemm::Params &params, char *shared) {
    const WalkShape &walk = params.scheduler;
    const int64_t size = params.epilogue.type == GroupedType::F32 ? 4 : 2;
    const int pieces = int(get<1>(params.problem_shape) * size / sizeof(uint4)); // of a row
    const int block = int(blockIdx.x + gridDim.x * blockIdx.y), blocks = int(gridDim.x * gridDim.y);
    for (int batch = 0; batch < walk.batches; ++batch) {
      int end = 0;
      for (int at = GpuWarp::lane(); at < walk.groups; at += GpuWarp::kLanes)
        end = ::max(end, walk.ends[batch * walk.batchEnds + at]);
      end = ::min(__reduce_max_sync(GpuWarp::kAll, end), walk.rows);
      char *y = static_cast<char *>(params.epilogue.y) + batch * params.epilogue.batch * size;
      for (int row = end + block; row < walk.rows; row += blocks)
        for (int piece = int(threadIdx.x); piece < pieces; piece += int(blockDim.x))
          reinterpret_cast<uint4 *>(y + row * params.epilogue.stride * size)[piece] =
              make_uint4(0, 0, 0, 0);
    }
    __syncwarp();
    Gemm::operator()(params, shared);
  }
};

template <class X, class W, class LayoutW, class Tile, class Cluster, bool pingpong>
struct GroupedKernel {
  using Schedule = cute::conditional_t<pingpong, cutlass::gemm::KernelTmaWarpSpecializedPingpong,
                                       cutlass::gemm::KernelTmaWarpSpecializedCooperative>;
  static constexpr bool isOf8Bits = sizeof(X) == 1;
  static_assert(sizeof(W) == sizeof(X) && (isOf8Bits || cute::is_same_v<X, W>));
  using Epilogue =
      cute::conditional_t<isOf8Bits, GroupedEpilogue<cutlass::half_t, cutlass::bfloat16_t>,
                          GroupedEpilogue<X>>;
  static constexpr int kAligned = 16 / sizeof(X); ///< elements of 16 bytes, as TMA needs them
  // Of the shared memory, 1 KB is left for barriers other than those of the stages. Tensor cores
  // add products of 8 bits with fewer digits than f32 has: this main loop adds up their sums of
  // 128 products in other registers, so a group of warps has half as large a tile.
  using Mainloop = GroupedMainloop<typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, X, cutlass::layout::RowMajor, kAligned,
      W, LayoutW, kAligned, float, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<1024>, Schedule>::CollectiveOp>;
  using Stock = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop,
                                                     Epilogue, GroupSchedulerTag>;
  using Gemm = ClearingGemm<Stock>;

  static constexpr int tileM = size<0>(Tile{}), tileN = size<1>(Tile{}), tileK = size<2>(Tile{});
  static constexpr int clusterM = size<0>(Cluster{}), clusterN = size<1>(Cluster{});
  static_assert(tileM < 1 << TileCoord::kRowBits);
  static_assert(Stock::SharedStorageSize <= 232448, "a block has 227 KB");

  /// Rows that are worked on together: their part of X stays in the L2 cache while W streams
  /// through.
  static constexpr int kRasterRows = 2048;

  static constexpr bool transposeW = cute::is_same_v<LayoutW, cutlass::layout::ColumnMajor>;
  static_assert(transposeW || !isOf8Bits, "the tensor cores read factors of 8 bits along K");

  static int64_t columns(const GroupedMatmul &matmul) {
    return ceil_div(matmul.n, int64_t(tileN * clusterN));
  }
  /// At least as many clusters of tiles as there are, whatever the ends.
  static int64_t mostClusters(const GroupedMatmul &matmul) {
    return matmul.batches * columns(matmul) *
           (matmul.m / (tileM * clusterM) + min(matmul.m, matmul.groups));
  }

  static typename Gemm::Arguments arguments(const GroupedMatmul &matmul) {
    typename Gemm::Arguments to;
    to.mode = cutlass::gemm::GemmUniversalMode::kGemm;
    to.problem_shape = {int(matmul.m), int(matmul.n), int(matmul.k), 1};
    to.mainloop.batches = int(matmul.batches);
    to.mainloop.groups = int(matmul.groups);
    to.mainloop.ptr_A = static_cast<const X *>(matmul.x);
    to.mainloop.ptr_B = static_cast<const W *>(matmul.w);
    // The stride that is not 1. Those of no account are valid, as a descriptor has them.
    get<0>(to.mainloop.dA) = matmul.strideX;
    get<2>(to.mainloop.dA) = matmul.batches > 1 ? matmul.batchX : matmul.strideX;
    get<transposeW ? 0 : 1>(to.mainloop.dB) = matmul.strideW;
    get<2>(to.mainloop.dB) = matmul.groups > 1 ? matmul.groupW : matmul.strideW;
    to.epilogue.y = matmul.y;
    to.epilogue.type = matmul.typeY;
    to.epilogue.stride = matmul.strideY;
    to.epilogue.batch = matmul.batches > 1 ? matmul.batchY : 0;
    to.scheduler.ends = matmul.ends;
    to.scheduler.batchEnds = matmul.batches > 1 ? matmul.batchEnds : 0;
    to.scheduler.batches = int(matmul.batches);
    to.scheduler.groups = int(matmul.groups);
    to.scheduler.rows = int(matmul.m);
    to.scheduler.columns = int(columns(matmul));
    to.scheduler.groupRows = max(1, kRasterRows / (tileM * clusterM));
    to.hw_info.sm_count = clusterM * clusterN; // not used, but else CUTLASS asks the driver
    to.hw_info.max_active_clusters = 1;
    return to;
  }

  static const char *whyNot(const GroupedMatmul &matmul) {
    if (matmul.typeX != elementOf<X> || matmul.typeW != elementOf<W> ||
        matmul.transposeW != transposeW)
      return "it is of other types, or of another layout of w";
    if (matmul.typeY != GroupedType::F32 &&
        (isOf8Bits ? matmul.typeY != GroupedType::F16 && matmul.typeY != GroupedType::BF16
                   : matmul.typeY != elementOf<X>))
      return "it has no results of that type";
    constexpr int64_t most = INT32_MAX / 4, mostStride = int64_t(1) << 38; // TMA: 2^40 bytes
    if (matmul.batches < 1 || matmul.groups < 1 || matmul.m < 1 || matmul.n < 1 || matmul.k < 1)
      return "an extent is 0";
    if (matmul.m > most || matmul.n > most || matmul.k > most)
      return "an extent is too large";
    if (matmul.groups >= TileCoord::kMostGroups || matmul.batches >= TileCoord::kMostBatches)
      return "it has too many groups or problems";
    if (columns(matmul) * clusterN >= TileCoord::kMostColumns || mostClusters(matmul) > most)
      return "it has too many tiles";
    if (matmul.n % 8 != 0 || matmul.k % kAligned != 0)
      return isOf8Bits ? "N must be a multiple of 8, and K of 16"
                       : "N and K must be multiples of 8";
    const bool isOne = matmul.batches == 1, isOneGroup = matmul.groups == 1;
    for (int64_t stride : {matmul.strideX, matmul.strideW, isOne ? kAligned : matmul.batchX,
                           isOneGroup ? kAligned : matmul.groupW})
      if (stride < 1 || stride % kAligned != 0 || stride > mostStride)
        return isOf8Bits ? "strides of x and w must be multiples of 16, positive, and at most 2^38"
                         : "strides must be multiples of 8, positive, and at most 2^38";
    for (int64_t stride : {matmul.strideY, isOne ? 8 : matmul.batchY})
      if (stride < 1 || stride % 8 != 0 || stride > mostStride)
        return "strides of y must be multiples of 8, positive, and at most 2^38";
    if (matmul.strideX < matmul.k || matmul.strideY < matmul.n ||
        matmul.strideW < (transposeW ? matmul.k : matmul.n))
      return "a stride of rows is shorter than a row";
    if (matmul.sms > 0 && matmul.sms < clusterM * clusterN)
      return "there are fewer SMs than a cluster has blocks";
    return nullptr;
  }

  static const char *load() {
    cudaFuncAttributes attributes;
    cudaError_t error = allowSharedMemory<Gemm>();
    if (error == cudaSuccess)
      error = cudaFuncGetAttributes(&attributes, cutlass::device_kernel<Gemm>);
    return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
  }

  static const char *run(const GroupedMatmul &matmul, void *stream) {
    cudaError_t error = allowSharedMemory<Gemm>();
    int sms = int(matmul.sms), device = 0;
    if (error == cudaSuccess && sms == 0)
      error = cudaGetDevice(&device);
    if (error == cudaSuccess && sms == 0)
      error = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    if (error != cudaSuccess)
      return cudaGetErrorString(error);
    typename Gemm::Params params = Gemm::to_underlying_arguments(arguments(matmul), nullptr);
    // Rows without a group may need more blocks than the tiles.
    return launchClusters<Gemm, clusterM, clusterN>(params, max(1, sms / (clusterM * clusterN)),
                                                    stream);
  }
};

} // namespace tandem::gpu::gated

#endif // TANDEM_LIB_DEVICE_GPU_GATED_GROUPEDMATMUL_CUH
