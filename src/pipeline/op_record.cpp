#include "pipeline/op_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "octavo/error.h"
#include "ops/op_limit.h"

namespace octavo {

std::string without_numbers(const std::string& name) {
  std::string result;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('.', at), name.size());
    const std::string element = name.substr(at, end - at);
    const bool is_number = !element.empty() && element.find_first_not_of("0123456789") == std::string::npos;
    result += is_number ? "*" : element;
    if (end < name.size()) result += '.';
    at = end + 1;
  }
  return result;
}

std::vector<OpRow> rows_of(const std::string& part, std::span<const std::vector<TimedOp>> passes, double clock_seconds, const DeviceCaps& caps) {
  std::vector<OpRow> rows;
  if (passes.empty()) return rows;
  std::map<std::tuple<std::string, std::string, std::string, std::string, std::string, std::int64_t, std::int64_t, std::int64_t>, std::size_t> known;
  for (std::size_t i = 0; i < passes[0].size(); ++i) {
    std::vector<double> seconds;
    const TimedOp& op = passes[0][i];
    for (const std::vector<TimedOp>& pass : passes) {
      if (pass.size() != passes[0].size() || pass[i].work.op != op.work.op)
        throw InternalError(fmt::format("bench model: two passes of the {} ran different ops", part));
      seconds.push_back(pass[i].seconds);
    }
    std::nth_element(seconds.begin(), seconds.begin() + std::ptrdiff_t(seconds.size() / 2), seconds.end());
    const double median = std::max(0.0, seconds[seconds.size() / 2] - clock_seconds);
    const OpWork& work = op.work;
    const std::string name = without_numbers(work.name), math(name_of(work.math)), out(name_of(work.out));
    const auto [place, is_new] = known.try_emplace({work.op, name, op.kernel, math, out, work.m, work.n, work.k}, rows.size());
    if (is_new) {
      const OpLimit limit = limit_of(work, caps);
      rows.push_back({.part = part,
                      .op = work.op,
                      .name = name,
                      .kernel = op.kernel,
                      .math = math,
                      .out = out,
                      .m = work.m,
                      .n = work.n,
                      .k = work.k,
                      .macs = work.macs,
                      .bytes = work.bytes,
                      .limit_seconds = limit.seconds,
                      .limit = limit.what});
    }
    OpRow& row = rows[place->second];
    row.seconds += (median - row.seconds) / ++row.count;
  }
  return rows;
}

}  // namespace octavo
