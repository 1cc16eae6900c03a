// attention in blocks of queries: scores of a block against all keys, softmax in place, weighted sum of the values, both products by the
// float kernels of cpu/panel_kernel.h. Keys and values of a head are packed once and shared by all its query blocks.
// Every element is one chain in key order, so a row of y depends on its query alone.
#include <algorithm>
#include <cstring>
#include <limits>

#include "base/checked_math.h"
#include "cpu/convert.h"
#include "cpu/panel_kernel.h"
#include "cpu/row_math.h"
#include "cpu/slots.h"
#include "ops/attention/attention_backend.h"

namespace octavo {
namespace {

constexpr std::int64_t kTilesPerBlock = 4;       // a block of 56 queries × 4352 keys of scores is 0.97 MiB: half of an L2 of 2 MiB
constexpr std::size_t kPackedBytes = 64u << 20;  // heads are packed together up to this size

class Attention {
 public:
  Attention(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionArgs& args, const TensorView& y,
            const cpu::PanelKernel<float>& kernel)
      : q_(q),
        k_(k),
        v_(v),
        y_(y),
        args_(args),
        kernel_(kernel),
        head_dim_(q.columns() / args.heads),
        keys_(k.rows()),
        width_(kernel.columns),
        key_panels_(ceil_div(keys_, width_)),
        value_panels_(ceil_div(head_dim_, width_)),
        block_rows_(kTilesPerBlock * kernel.rows),
        query_blocks_(ceil_div(q.rows(), block_rows_)) {}

  void run(ThreadPool& pool, Arena& scratch) {
    const std::int64_t keys_size = key_panels_ * width_ * head_dim_ + cpu::kPackSlack;
    const std::int64_t values_size = value_panels_ * width_ * keys_;
    const std::size_t head_bytes = std::size_t(keys_size + values_size) * 4;
    const auto batch = std::clamp<std::int64_t>(std::int64_t(kPackedBytes / head_bytes), 1, args_.kv_heads);
    const std::int64_t queries_per_head = args_.heads / args_.kv_heads;
    for (std::int64_t first = 0; first < args_.kv_heads; first += batch) {
      ArenaScope scope(scratch);
      const std::int64_t heads = std::min<std::int64_t>(batch, args_.kv_heads - first);
      auto* packed = static_cast<float*>(scratch.take(std::size_t(heads) * head_bytes, "attention keys and values"));
      const auto keys_of = [&](std::int64_t head) { return packed + (head - first) * (keys_size + values_size); };
      const std::int64_t pack_tasks = heads * key_panels_;
      const std::int64_t tasks = heads * queries_per_head * query_blocks_;
      const std::int64_t slots = std::min<std::int64_t>(pool.size(), std::max(pack_tasks, tasks));
      const std::int64_t slot_size = std::max(scratch_size(), width_ * head_dim_);
      auto* rooms = static_cast<float*>(scratch.take(std::size_t(slots * slot_size) * 4, "attention scores"));
      cpu::for_each_in_slots(pool, slots, pack_tasks, [&](std::int64_t task, std::int64_t slot) {
        const std::int64_t head = first + task / key_panels_;
        pack(head, task % key_panels_, rooms + slot * slot_size, keys_of(head), keys_of(head) + keys_size);
      });
      cpu::for_each_in_slots(pool, slots, tasks, [&](std::int64_t task, std::int64_t slot) {
        // Long blocks first: with a causal mask the last queries see the most keys.
        const std::int64_t block = query_blocks_ - 1 - task / (heads * queries_per_head);
        const std::int64_t head = first * queries_per_head + task % (heads * queries_per_head);
        const std::int64_t kv_head = head / queries_per_head;
        run_block(head, block, rooms + slot * slot_size, keys_of(kv_head), keys_of(kv_head) + keys_size);
      });
    }
  }

 private:
  std::int64_t score_stride() const { return key_panels_ * width_; }
  std::int64_t out_stride() const { return value_panels_ * width_; }
  std::int64_t tile_size() const { return round_up(std::max(head_dim_, std::int64_t(kernel_.block_units)) * kernel_.rows + cpu::kPackSlack, 16); }
  // Queries as rows, packed queries or packed probabilities, scores, sums.
  std::int64_t scratch_size() const {
    return round_up(block_rows_ * head_dim_, 16) + kTilesPerBlock * tile_size() + block_rows_ * score_stride() + block_rows_ * out_stride();
  }

  // Key panel `panel` of a head as [D][width], and the same rows of its values into the panels [keys][width].
  void pack(std::int64_t head, std::int64_t panel, float* room, float* keys, float* values) const {
    const std::int64_t first = panel * width_;
    const std::int64_t rows = std::min<std::int64_t>(width_, keys_ - first);
    const std::int64_t column = head * head_dim_;
    load(k_, first, rows, column, room);
    interleave(reinterpret_cast<const std::uint32_t*>(room), rows, head_dim_, width_, keys + panel * width_ * head_dim_);
    load(v_, first, rows, column, room);
    for (std::int64_t d = 0; d < head_dim_; d += width_) {
      const std::int64_t here = std::min<std::int64_t>(width_, head_dim_ - d);
      for (std::int64_t row = 0; row < rows; ++row) {
        float* to = values + (d / width_ * keys_ + first + row) * width_;
        std::copy_n(room + row * head_dim_ + d, here, to);
        std::fill(to + here, to + width_, 0.0f);
      }
    }
  }

  void load(const TensorView& from, std::int64_t first, std::int64_t rows, std::int64_t column, float* to) const {
    for (std::int64_t row = 0; row < rows; ++row) {
      cpu::load_floats(static_cast<const std::byte*>(from.row_bytes(first + row)) + std::size_t(column) * bytes_of(from.dtype), from.dtype, head_dim_,
                       to + row * head_dim_);
    }
  }

  void interleave(const std::uint32_t* from, std::int64_t rows, std::int64_t stride_and_units, std::int64_t width, float* to) const {
    cpu::interleave(kernel_.isa, from, stride_and_units, int(rows), stride_and_units, int(width), reinterpret_cast<std::uint32_t*>(to));
  }

  void run_block(std::int64_t head, std::int64_t block, float* room, const float* keys, const float* values) const {
    const std::int64_t first = block * block_rows_;
    const std::int64_t rows = std::min(block_rows_, q_.rows() - first);
    float* queries = room;
    float* tiles = queries + round_up(block_rows_ * head_dim_, 16);
    float* scores = tiles + kTilesPerBlock * tile_size();
    float* sums = scores + block_rows_ * score_stride();
    float totals[kTilesPerBlock * kMaxTileRows];
    load(q_, first, rows, head * head_dim_, queries);
    multiply_keys(queries, rows, args_.causal ? first + rows : keys_, tiles, keys, scores);
    for (std::int64_t row = 0; row < rows; ++row) totals[row] = softmax(scores + row * score_stride(), args_.causal ? first + row + 1 : keys_);
    multiply_values(scores, rows, first, tiles, values, sums);
    for (std::int64_t row = 0; row < rows; ++row) {
      float* out = sums + row * out_stride();
      for (std::int64_t d = 0; d < head_dim_; ++d) out[d] /= totals[row];
      cpu::store_floats(out, head_dim_, y_.dtype, static_cast<std::byte*>(y_.row_bytes(first + row)) + std::size_t(head * head_dim_) * bytes_of(y_.dtype));
    }
  }

  // p = e^(softmax_scale p - max); returns the sum. Runs to a whole register over scores of -infinity, which add 0: a tail element by element
  // cost as much as the row of a short sequence.
  float softmax(float* p, std::int64_t seen) const {
    const std::int64_t whole = std::min(round_up(seen, 16), score_stride());
    cpu::scale(p, seen, args_.softmax_scale);
    std::fill(p + seen, p + whole, -std::numeric_limits<float>::infinity());
    return cpu::exp_and_sum(p, whole, cpu::max_of(p, whole));
  }

  // scores[row, j] = q[row] · k[j] for j < limit (rounded up to whole panels).
  void multiply_keys(const float* queries, std::int64_t rows, std::int64_t limit, float* tiles, const float* keys, float* scores) const {
    for (std::int64_t start = 0; start < rows; start += kernel_.rows) {
      const std::int64_t here = std::min<std::int64_t>(kernel_.rows, rows - start);
      interleave(reinterpret_cast<const std::uint32_t*>(queries + start * head_dim_), here, head_dim_, here, tiles + start / kernel_.rows * tile_size());
    }
    for (std::int64_t panel = 0; panel * width_ < limit; ++panel) {
      for (std::int64_t start = 0; start < rows; start += kernel_.rows) {
        const auto here = int(std::min<std::int64_t>(kernel_.rows, rows - start));
        multiply(tiles + start / kernel_.rows * tile_size(), here, keys + panel * width_ * head_dim_, head_dim_,
                 scores + start * score_stride() + panel * width_, score_stride(), false);
      }
    }
  }

  // sums[row] = Σ_j p[row, j] v[j]. With a causal mask the keys before the block are common to its rows; the rest is added row by row,
  // so that a row never touches a later key (0 · NaN would be NaN).
  void multiply_values(const float* p, std::int64_t rows, std::int64_t first_query, float* tile, const float* values, float* sums) const {
    std::memset(sums, 0, std::size_t(rows * out_stride()) * sizeof(float));
    const std::int64_t common = args_.causal ? first_query : keys_;
    for (std::int64_t j = 0; j < common; j += kernel_.block_units) {
      const std::int64_t count = std::min<std::int64_t>(kernel_.block_units, common - j);
      for (std::int64_t start = 0; start < rows; start += kernel_.rows) {
        const auto here = int(std::min<std::int64_t>(kernel_.rows, rows - start));
        cpu::interleave(kernel_.isa, reinterpret_cast<const std::uint32_t*>(p + start * score_stride() + j), score_stride(), here, count, here,
                        reinterpret_cast<std::uint32_t*>(tile));
        add_values(tile, here, values, j, count, sums + start * out_stride());
      }
    }
    for (std::int64_t row = 0; args_.causal && row < rows; ++row)
      add_values(p + row * score_stride() + common, 1, values, common, row + 1, sums + row * out_stride());
  }

  void add_values(const float* tile, int rows, const float* values, std::int64_t first_key, std::int64_t count, float* sums) const {
    for (std::int64_t panel = 0; panel < value_panels_; ++panel) {
      multiply(tile, rows, values + (panel * keys_ + first_key) * width_, count, sums + panel * width_, out_stride(), true);
    }
  }

  void multiply(const float* a, int rows, const float* b, std::int64_t units, float* c, std::int64_t c_stride, bool accumulate) const {
    kernel_.multiply(reinterpret_cast<const std::uint32_t*>(a), rows, reinterpret_cast<const std::uint32_t*>(b), units, c, c_stride, accumulate);
  }

  static constexpr int kMaxTileRows = 16;

  const TensorView &q_, &k_, &v_, &y_;
  AttentionArgs args_;
  const cpu::PanelKernel<float>& kernel_;
  std::int64_t head_dim_, keys_, width_, key_panels_, value_panels_, block_rows_, query_blocks_;
};

}  // namespace

void attention_cpu_fast(ExecContext& ctx, const TensorView& q, const TensorView& k, const TensorView& v, const AttentionArgs& args, const TensorView& y,
                        cpu::Isa isa) {
  Attention(q, k, v, args, y, cpu::f32_kernel(isa)).run(*ctx.pool, *ctx.scratch);
}

}  // namespace octavo
