#include "api/model_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "octavo/error.h"
#include "octavo/version.h"
#include "receipt/page_parts.h"

namespace octavo {
namespace {

// Every field once: written and read by the same list.
template <class Run, class Visit>
void visit_run(Run& run, const Visit& visit) {
  visit("model", run.model);
  visit("precision", run.precision);
  visit("gpu", run.caps.name);
  visit("sm", run.caps.sm);
  visit("sm_count", run.caps.sm_count);
  visit("memory_bytes", run.caps.memory_bytes);
  visit("shared_per_sm_bytes", run.caps.shared_per_sm_bytes);
  visit("shared_per_block_bytes", run.caps.shared_per_block_bytes);
  visit("l2_bytes", run.caps.l2_bytes);
  visit("clock_khz", run.caps.clock_khz);
  visit("memory_clock_khz", run.caps.memory_clock_khz);
  visit("memory_bus_bits", run.caps.memory_bus_bits);
  visit("size", run.size);
  visit("text", run.text);
  visit("steps", run.steps);
  visit("load_text_s", run.load_text_seconds);
  visit("load_denoisers_s", run.load_denoisers_seconds);
  visit("load_vae_s", run.load_vae_seconds);
  visit("encode", run.encode);
  visit("prepare_s", run.prepare_seconds);
  visit("conditional", run.conditional);
  visit("unconditional", run.unconditional);
  visit("step", run.step);
  visit("steps_measured", run.steps_measured);
  visit("decode", run.decode);
  visit("allocations_in_a_step", run.allocations);
  visit("waits_in_a_step", run.waits);
  visit("host_copies_in_a_step", run.host_copies);
  visit("graph_launches_in_a_step", run.graph_launches);
  visit("kernels_recorded", run.kernels_recorded);
  visit("op_clock_s", run.op_clock_seconds);
  visit("used_before_bytes", run.used_before_bytes);
  visit("peak_text_bytes", run.peak_text_bytes);
  visit("peak_image_bytes", run.peak_image_bytes);
  visit("state_before", run.state_before);
  visit("state_after", run.state_after);
}

template <class Row, class Visit>
void visit_row(Row& row, const Visit& visit) {
  visit("part", row.part);
  visit("op", row.op);
  visit("name", row.name);
  visit("kernel", row.kernel);
  visit("math", row.math);
  visit("out", row.out);
  visit("m", row.m);
  visit("n", row.n);
  visit("k", row.k);
  visit("count", row.count);
  visit("macs", row.macs);
  visit("bytes", row.bytes);
  visit("seconds", row.seconds);
  visit("limit_s", row.limit_seconds);
  visit("limit", row.limit);
}

struct Writer {
  Json& json;
  template <class Value>
  void operator()(const char* name, const Value& value) const {
    if constexpr (std::is_same_v<Value, TimeSpread>) {
      json[name] = {{"median_s", value.median}, {"p10_s", value.p10}, {"p90_s", value.p90}};
    } else {
      json[name] = value;
    }
  }
};

struct Reader {
  const Json& json;
  template <class Value>
  void operator()(const char* name, Value& value) const {
    if constexpr (std::is_same_v<Value, TimeSpread>) {
      const Json& spread = json.at(name);
      value = {spread.at("median_s").get<double>(), spread.at("p10_s").get<double>(), spread.at("p90_s").get<double>()};
    } else {
      json.at(name).get_to(value);
    }
  }
};

std::string shape_of(const OpRow& row) { return row.n > 0 ? fmt::format("{}x{}x{}", row.m, row.n, row.k) : fmt::format("{}x{}", row.m, row.k); }

double percent_of_limit(const OpRow& row) { return row.seconds > 0 ? 100 * row.limit_seconds / row.seconds : 0; }

std::vector<OpRow> rows_by_time(const ModelRun& run, bool of_step) {
  std::vector<OpRow> rows;
  std::copy_if(run.rows.begin(), run.rows.end(), std::back_inserter(rows), [&](const OpRow& row) { return is_of_step(row) == of_step; });
  std::stable_sort(rows.begin(), rows.end(), [](const OpRow& a, const OpRow& b) { return a.count * a.seconds > b.count * b.seconds; });
  return rows;
}

std::string milliseconds(const TimeSpread& time) { return fmt::format("{:.2f} ms [{:.2f}-{:.2f}]", time.median * 1e3, time.p10 * 1e3, time.p90 * 1e3); }

std::string title_of(const ModelRun& run) {
  return fmt::format("{}, random weights, {}, {}x{}, {} text tokens, on {} (sm_{}, boost {} MHz)", run.model, run.precision, run.size, run.size, run.text,
                     run.caps.name, run.caps.sm, run.caps.clock_khz / 1000);
}

// What stands above the table, one line each: label and text.
std::vector<std::pair<std::string, std::string>> facts_of(const ModelRun& run) {
  constexpr double kGB = 1e9;
  return {
      {"forward with text", milliseconds(run.conditional)},
      {"forward without", milliseconds(run.unconditional)},
      {"step", milliseconds(run.step) + ", both branches and guidance"},
      {"image",
       fmt::format("{:.2f} s = text encoder {:.3f} + preparation {:.3f} + {} steps {:.2f} (measured on {} and multiplied) + decoder {:.3f}; no PNG",
                   run.image_seconds(), run.encode.median, run.prepare_seconds, run.steps, run.steps * run.step.median, run.steps_measured, run.decode.median)},
      {"in a step", fmt::format("{} allocations, {} waits, {} host copies, {} graph launches; {} kernels recorded", run.allocations, run.waits, run.host_copies,
                                run.graph_launches, run.kernels_recorded)},
      {"gaps",
       fmt::format(
           "{:.1f} % of the step, with elementwise ops {:.1f} %: launches, copies, idle time (ops were timed one by one, {:.1f} us of clock taken off each)",
           100 * run.gap_share(), 100 * run.overhead_share(), run.op_clock_seconds * 1e6)},
      {"load", fmt::format("text encoder {:.2f} s, both denoisers {:.2f} s, autoencoder {:.2f} s; weights are drawn on the GPU, not read",
                           run.load_text_seconds, run.load_denoisers_seconds, run.load_vae_seconds)},
      {"peak memory", fmt::format("text encoder {:.2f} GB, then both denoisers and the autoencoder {:.2f} GB; of these {:.2f} GB were in use before",
                                  double(run.peak_text_bytes) / kGB, double(run.peak_image_bytes) / kGB, double(run.used_before_bytes) / kGB)},
      {"GPU", fmt::format("before: {}; after: {}", run.state_before, run.state_after)}};
}

std::string table_text(const ModelRun& run, bool of_step, double whole) {
  std::string text = fmt::format("  {:>6} {:>9} {:>5} {:>10} {:>8}  {:<14} op\n", "share", "ms", "count", "us each", "of limit", "limit");
  for (const OpRow& row : rows_by_time(run, of_step)) {
    const double all = row.count * row.seconds;
    text += fmt::format("  {:5.1f}% {:9.3f} {:5} {:10.1f} {:7.1f}%  {:<14} {}: {} {}{}{} {}{}{}\n", whole > 0 ? 100 * all / whole : 0, all * 1e3, row.count,
                        row.seconds * 1e6, percent_of_limit(row), row.limit, row.part, row.op, row.name, row.name.empty() ? "" : " ", shape_of(row), row.math,
                        row.kernel.empty() ? "" : " · ", row.kernel);
  }
  return text;
}

// Colours of ops, readable on white and told apart by people who see red and green alike (Okabe and Ito 2008).
std::string_view color_of(std::string_view op) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kColors{{{"linear", "#0072b2"},
                                                                                  {"attention", "#d55e00"},
                                                                                  {"gated_residual_norm", "#009e73"},
                                                                                  {"head_norm_rope", "#cc79a7"},
                                                                                  {"quantize_rows", "#e69f00"},
                                                                                  {"conv2d", "#56b4e9"}}};
  for (const auto& [name, color] : kColors) {
    if (name == op) return color;
  }
  return "#777777";
}

struct Piece {
  double seconds = 0;
  std::string label{}, title{};
  std::string_view color{};
};

// Pieces side by side, as wide as they are long; a tooltip each, and a word where there is room.
std::string bar_svg(const std::vector<Piece>& pieces, double whole) {
  constexpr double kWidth = 1000, kHeight = 46, kPixelsPerLetter = 7;
  std::string svg = fmt::format(R"(<svg viewBox="0 0 {} {}" role="img" preserveAspectRatio="none">)", kWidth, kHeight);
  double x = 0;
  for (const Piece& piece : pieces) {
    const double width = whole > 0 ? std::max(0.0, piece.seconds) / whole * kWidth : 0;
    svg += fmt::format(R"(<g><title>{}</title><rect x="{:.2f}" y="0" width="{:.2f}" height="{}" fill="{}"/>)", html::escape(piece.title), x, width, kHeight,
                       piece.color);
    if (width > kPixelsPerLetter * double(piece.label.size()))
      svg += fmt::format(R"(<text x="{:.2f}" y="28" text-anchor="middle">{}</text>)", x + width / 2, html::escape(piece.label));
    svg += "</g>";
    x += width;
  }
  return svg + "</svg>\n";
}

std::string bars_of(const ModelRun& run) {
  const auto piece = [&](std::string label, double seconds, std::string_view color) {
    return Piece{seconds, label, fmt::format("{}: {:.3f} s, {:.1f} % of the image", label, seconds, 100 * seconds / run.image_seconds()), color};
  };
  std::string text = fmt::format("<h3>Image, {:.2f} s</h3>\n", run.image_seconds());
  text += bar_svg({piece("text encoder", run.encode.median, "#009e73"), piece("preparation", run.prepare_seconds, "#777777"),
                   piece(fmt::format("{} steps", run.steps), run.steps * run.step.median, "#0072b2"), piece("decoder", run.decode.median, "#56b4e9")},
                  run.image_seconds());
  std::vector<Piece> pieces;
  const double whole = std::max(run.step.median, run.step_ops_seconds());
  for (const OpRow& row : rows_by_time(run, true)) {
    const double all = row.count * row.seconds;
    pieces.push_back(
        {all, row.name.empty() ? row.op : row.name.substr(row.name.rfind('.') + 1),
         fmt::format("{}: {} {} {} {} {}\n{} x {:.1f} us = {:.3f} ms, {:.1f} % of the step\n{:.1f} % of its limit ({})", row.part, row.op, row.name,
                     shape_of(row), row.math, row.kernel, row.count, row.seconds * 1e6, all * 1e3, 100 * all / whole, percent_of_limit(row), row.limit),
         color_of(row.op)});
  }
  const double gaps = whole - run.step_ops_seconds();
  if (gaps > 0) pieces.push_back({gaps, "gaps", fmt::format("gaps and launches: {:.3f} ms, {:.1f} % of the step", gaps * 1e3, 100 * gaps / whole), "#dddddd"});
  return text + fmt::format("<h3>Step, {:.2f} ms</h3>\n", run.step.median * 1e3) + bar_svg(pieces, whole);
}

std::string table_html(const ModelRun& run, bool of_step, double whole) {
  std::string text =
      "<table><tr><th>share</th><th>ms</th><th>count</th><th>µs each</th><th>of limit</th><th>limit</th><th>part</th><th>op</th><th>weight</th>"
      "<th>shape</th><th>math</th><th>kernel</th></tr>\n";
  for (const OpRow& row : rows_by_time(run, of_step)) {
    const double all = row.count * row.seconds;
    text += fmt::format(
        "<tr><td>{:.1f} %</td><td>{:.3f}</td><td>{}</td><td>{:.1f}</td><td>{:.1f} %</td><td class=\"w\">{}</td><td class=\"w\">{}</td><td class=\"w\">{}</td>"
        "<td class=\"w\">{}</td><td class=\"w\">{}</td><td class=\"w\">{}</td><td class=\"w\">{}</td></tr>\n",
        whole > 0 ? 100 * all / whole : 0, all * 1e3, row.count, row.seconds * 1e6, percent_of_limit(row), html::escape(row.limit), html::escape(row.part),
        html::escape(row.op), html::escape(row.name), shape_of(row), html::escape(row.math), html::escape(row.kernel));
  }
  return text + "</table>\n";
}

constexpr const char* kPageStyle = R"(<style>
body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:78em;padding:0 1em;color:#222}
svg{width:100%;height:46px}svg text{font:12px system-ui,sans-serif;fill:#fff}svg rect{stroke:#fff;stroke-width:.6}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}td,th{padding:.15em .6em;text-align:right;border-bottom:1px solid #ddd}
td.w,dt{text-align:left}dl{display:grid;grid-template-columns:max-content 1fr;gap:0 1em}dd{margin:0}dt{font-weight:600}
</style>
)";

}  // namespace

Json report_json(const ModelRun& run) {
  Json json = Json::object();
  visit_run(run, Writer{json});
  json["image_s"] = run.image_seconds();
  json["gap_share"] = run.gap_share();
  json["overhead_share"] = run.overhead_share();
  json["ops"] = Json::array();
  for (const OpRow& row : run.rows) {
    Json op = Json::object();
    visit_row(row, Writer{op});
    op["percent_of_limit"] = percent_of_limit(row);
    if (is_of_step(row) && run.step.median > 0) op["share_of_step"] = row.count * row.seconds / run.step.median;
    json["ops"].push_back(std::move(op));
  }
  return json;
}

ModelRun run_from_json(const Json& json, const std::string& who) {
  ModelRun run;
  try {
    visit_run(run, Reader{json});
    for (const Json& op : json.at("ops")) {
      OpRow row;
      visit_row(row, Reader{op});
      run.rows.push_back(std::move(row));
    }
  } catch (const nlohmann::json::exception& failure) {
    throw DataError(fmt::format("{}: is not what 'octavo bench model --json' of this version writes ({})", who, failure.what()));
  }
  return run;
}

std::string report_text(const ModelRun& run) {
  std::string text = title_of(run) + "\n";
  for (const auto& [label, value] : facts_of(run)) text += fmt::format("  {:<18} {}\n", label, value);
  text += "\n  One step, shares of its measured time:\n" + table_text(run, true, run.step.median);
  text += "\n  Text encoder and decoder, shares of one image:\n" + table_text(run, false, run.image_seconds());
  return text;
}

std::string report_page(std::span<const ModelRun> runs) {
  std::string page = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Octavo: where the time goes</title>\n";
  page += kPageStyle;
  page += "</head><body>\n<h1>Where the time goes</h1>\n<p>Numbers of one machine with random weights. Point at a bar to read it.</p>\n";
  for (const ModelRun& run : runs) {
    page += fmt::format("<h2>{}</h2>\n{}<dl>\n", html::escape(title_of(run)), bars_of(run));
    for (const auto& [label, value] : facts_of(run)) page += fmt::format("<dt>{}</dt><dd>{}</dd>\n", html::escape(label), html::escape(value));
    page += "</dl>\n<h3>Ops of a step</h3>\n" + table_html(run, true, run.step.median);
    page += "<h3>Text encoder and decoder, shares of one image</h3>\n" + table_html(run, false, run.image_seconds());
  }
  return page + fmt::format("<p>{}</p>\n</body></html>\n", html::escape(fmt::format("octavo {}", version())));
}

}  // namespace octavo
