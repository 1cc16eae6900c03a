#include "receipt/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <optional>

#include "receipt/page_parts.h"

namespace octavo {
namespace {

using html::bytes;
using html::escape;
using html::percent;

std::string name_only(const std::string& path) {
  const std::filesystem::path whole = std::filesystem::path(path).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

std::string psnr_text(double psnr) { return psnr == kIdenticalPsnr ? "identical" : fmt::format("{:.1f} dB", psnr); }

// Shape as well as colour: a tick, a question, a cross.
std::string_view icon(Verdict verdict) {
  switch (verdict) {
    case Verdict::good:
      return "M12 22l7 7 13-15";
    case Verdict::check:
      return "M15 17a6 6 0 1 1 8.5 5.4c-2 1-2.5 1.8-2.5 3.6M21 31v.5";
    case Verdict::bad:
      return "M13 13l16 16M29 13l-16 16";
  }
  return "";
}

std::string banner(const Judgement& judgement) {
  std::string reasons;
  for (const std::string& reason : judgement.reasons) reasons += fmt::format("<li>{}</li>", escape(reason));
  return fmt::format(
      R"(<div class="verdict {0}"><b><svg viewBox="0 0 42 42" fill="none" stroke="currentColor" stroke-width="3.4" stroke-linecap="round" aria-hidden="true"><circle cx="21" cy="21" r="18.5"/><path d="{1}"/></svg>{0}</b><div><ul>{2}</ul><details><summary>The rule</summary>{3}</details></div></div>)"
      "\n",
      name_of(judgement.verdict), icon(judgement.verdict), reasons, escape(VerdictRule().text()));
}

std::string tile(std::string_view what, const std::string& value, const std::string& remark) {
  return fmt::format(R"(<div class="tile"><span>{}</span><strong>{}</strong><span>{}</span></div>)", what, value, escape(remark));
}

std::string tiles(const Receipt& receipt) {
  std::int64_t before = 0, after = 0;
  std::size_t kept = 0, all = 0;
  for (const ReceiptFile& file : receipt.files) {
    before += file.report.bytes_before;
    after += file.report.bytes_after;
    all += file.report.layers.size();
    kept += std::size_t(std::count_if(file.report.layers.begin(), file.report.layers.end(), [](const QuantizedLayer& layer) { return !layer.is_quantized; }));
  }
  std::string text = tile("Weights", fmt::format("{} → {}", bytes(before), bytes(after)),
                          fmt::format("{:.0f} % of what they were", 100 * double(after) / double(std::max<std::int64_t>(before, 1))));
  if (const QuantizedLayer* worst = receipt.worst_layer()) {
    text += tile("Worst layer's output error", percent(worst->output_error), fmt::format("{:.1f} dB · {}", snr_db(worst->output_error), worst->module));
  }
  if (!receipt.pictures.empty()) {
    double ssim = 0, psnr = 0;
    for (const ReceiptPicture& picture : receipt.pictures) {
      ssim += picture.difference.ssim / double(receipt.pictures.size());
      psnr += std::min(picture.difference.psnr_db, 99.0) / double(receipt.pictures.size());
    }
    text += tile("Pictures, mean SSIM", fmt::format("{:.3f}", ssim), fmt::format("mean PSNR {:.1f} dB over {}", psnr, receipt.pictures.size()));
  }
  text += tile("Layers in int8", fmt::format("{} of {}", all - kept, all), fmt::format("{} kept in floats", kept));
  return fmt::format("<div class=\"tiles\">{}</div>\n", text);
}

std::string pictures(const Receipt& receipt) {
  if (receipt.pictures.empty()) return fmt::format("<h2>Pictures</h2><p>None: {}.</p>\n", escape(receipt.calibration));
  std::string text = fmt::format(
      "<h2>Pictures, before and after</h2><p class=\"soft\">The same prompt, seed and settings, drawn by the source in float32 and by the result in int8. "
      "Hold the pointer over the second picture to see the first in its place. The third shows the difference {} times amplified: grey is none.</p>\n",
      kDifferenceFactor);
  for (const ReceiptPicture& picture : receipt.pictures) {
    const PictureDifference& d = picture.difference;
    text += fmt::format(
        R"(<div class="shots"><q>{}</q> <span class="soft">seed {} · {}×{}</span><div class="row"><figure>{}<figcaption>before · float32</figcaption></figure>)"
        R"(<figure class="flip" tabindex="0">{}<figcaption>after · int8 · SSIM {:.3f} · PSNR {}</figcaption></figure>)"
        R"(<figure>{}<figcaption>difference × {} · largest {} of 255 · {:.2f} % of the pixels by more than 8</figcaption></figure></div></div>)"
        "\n",
        escape(picture.prompt), picture.seed, picture.before.width, picture.before.height, html::picture(picture.before, "before: " + picture.prompt),
        html::picture(picture.after, "after: " + picture.prompt), d.ssim, psnr_text(d.psnr_db),
        html::picture(amplified_difference(picture.before, picture.after, kDifferenceFactor), "difference"), kDifferenceFactor, d.largest,
        100 * d.share_over_8);
  }
  return text;
}

// "layers.12.attention.o" is number 12 of the kind "attention.o".
struct Place {
  std::string kind{};
  std::optional<int> number{};
};

Place place_of(const std::string& module) {
  for (std::size_t begin = 0; begin < module.size();) {
    const std::size_t end = std::min(module.find('.', begin), module.size());
    const std::string part = module.substr(begin, end - begin);
    const bool is_number = !part.empty() && part.size() < 6 && std::all_of(part.begin(), part.end(), [](char c) { return std::isdigit(std::uint8_t(c)) != 0; });
    if (is_number && end < module.size()) return {module.substr(end + 1), std::stoi(part)};
    begin = end + 1;
  }
  return {module, {}};
}

// Every numbered layer as a cell: columns are the blocks, rows the projections in them.
std::string heat_map(const ReceiptFile& file) {
  std::vector<std::string> kinds;
  std::map<std::string, std::map<int, const QuantizedLayer*>> cells;
  int blocks = 0;
  for (const QuantizedLayer& layer : file.report.layers) {
    const Place place = place_of(layer.module);
    if (!place.number || *place.number > 999) continue;
    if (!cells.contains(place.kind)) kinds.push_back(place.kind);
    cells[place.kind][*place.number] = &layer;
    blocks = std::max(blocks, *place.number + 1);
  }
  if (kinds.empty()) return {};
  std::string text = "<div class=\"map\"><table><thead><tr><th></th>";
  for (int block = 0; block < blocks; ++block) text += fmt::format("<th>{}</th>", block);
  text += "</tr></thead><tbody>";
  for (const std::string& kind : kinds) {
    text += fmt::format("<tr><th>{}</th>", escape(kind));
    for (int block = 0; block < blocks; ++block) {
      const auto found = cells[kind].find(block);
      if (found == cells[kind].end()) {
        text += "<td class=\"none\"></td>";
        continue;
      }
      const QuantizedLayer& layer = *found->second;
      if (!layer.is_quantized) {
        text += fmt::format("<td class=\"kept\" title=\"{}: {}\">kept</td>", escape(layer.module), escape(layer.after));
      } else if (layer.was_measured()) {
        text += fmt::format("<td style=\"background:{}\" title=\"{}: {}, {:.1f} dB\">{:.{}f}</td>", html::heat_color(html::heat(layer.output_error)),
                            escape(layer.module), percent(layer.output_error), snr_db(layer.output_error), 100 * layer.output_error,
                            layer.output_error < 0.1 ? 1 : 0);
      } else {
        text += fmt::format("<td class=\"none\" title=\"{}: not measured\">–</td>", escape(layer.module));
      }
    }
    text += "</tr>";
  }
  return text + "</tbody></table></div>\n";
}

std::string maps(const Receipt& receipt) {
  if (!receipt.was_measured()) return {};
  std::string text =
      "<h2>Where the error is</h2><p class=\"soft\">Relative error of every layer's output, in percent, on rows that it read while drawing. "
      "Columns are the blocks from first to last.</p>\n";
  for (const ReceiptFile& file : receipt.files) text += fmt::format("<h3>{}</h3>{}", escape(file.component), heat_map(file));
  std::string stops;
  for (int i = 0; i <= 6; ++i) {  // appended in two steps: g++ 12 sees an overlap in "literal + string"
    if (i > 0) stops += ",";
    stops += html::heat_color(i / 6.0);
  }
  return text + fmt::format("<div class=\"scale\">0.3 % <i style=\"background:linear-gradient(90deg,{})\"></i> 15 %, logarithmic</div>\n", stops);
}

std::string memory(const Receipt& receipt) {
  std::int64_t before = receipt.other_bytes, after = receipt.other_bytes, largest = 1;
  for (const ReceiptFile& file : receipt.files) {
    before += file.report.bytes_before;
    after += file.report.bytes_after;
  }
  largest = std::max({before, after, largest});
  std::string rows;
  const auto row = [&](const std::string& what, std::int64_t was, std::int64_t is) {
    rows += fmt::format("<tr><td rowspan=\"2\">{}</td><td>{}</td></tr><tr><td>{}</td></tr>", escape(what),
                        html::bar(double(was) / double(largest), bytes(was), "wide before"), html::bar(double(is) / double(largest), bytes(is), "wide"));
  };
  for (const ReceiptFile& file : receipt.files) row(file.component, file.report.bytes_before, file.report.bytes_after);
  if (receipt.other_bytes > 0) row("other components", receipt.other_bytes, receipt.other_bytes);
  if (receipt.files.size() > 1 || receipt.other_bytes > 0) row("whole model", before, after);
  return fmt::format(
      "<h2>Memory, before and after</h2><p class=\"soft\">Weights as they are stored, which is what a device must hold to run them as they are. "
      "Upper bar: before.</p>\n<table class=\"memory\">{}</table>\n",
      rows);
}

std::string protection(const Receipt& receipt) {
  std::string rows;
  for (const ReceiptFile& file : receipt.files) {
    for (const QuantizedLayer& layer : file.report.layers) {
      if (layer.is_quantized) continue;
      rows += fmt::format("<tr><td>{}</td><td><code>{}</code></td><td>{}</td><td data-v=\"{}\">{}</td><td data-v=\"{}\">{}</td></tr>", escape(file.component),
                          escape(layer.module), escape(layer.after), layer.output_error, layer.was_measured() ? percent(layer.output_error) : "not measured",
                          layer.bytes_after, bytes(layer.bytes_after));
    }
  }
  if (rows.empty()) return "<h2>Kept in floats</h2><p>Nothing: every layer is int8.</p>\n";
  return fmt::format(
      "<h2>Kept in floats, and why</h2><p class=\"soft\">“sensitive”: the model's makers and the common converters leave it alone. “as asked”: a pattern of "
      "--protect. “worst output”: measured, among the worst that fit the budget. “an embedding”: not a product.</p>\n"
      "<div class=\"scroll\"><table class=\"list\"><thead><tr><th><button>component</button></th><th><button>layer</button></th><th><button>why</button></th>"
      "<th><button>int8 would cost</button></th><th><button>bytes</button></th></tr></thead><tbody>{}</tbody></table></div>\n",
      rows);
}

std::string layer_row(const ReceiptFile& file, const QuantizedLayer& layer) {
  const auto input = file.inputs.find(layer.module);
  const bool has_input = input != file.inputs.end();
  const auto cell = [](double value, const std::string& text) { return fmt::format("<td data-v=\"{:.6g}\">{}</td>", value, text); };
  std::string text = fmt::format("<tr{}><td><code>{}</code></td>", layer.is_quantized ? "" : " class=\"kept\"", escape(layer.module));
  text += cell(double(layer.shape[0]) * double(layer.shape[1]), escape(layer.shape.text()));
  text += fmt::format("<td>{}</td>", escape(layer.after));
  text += cell(layer.output_error,
               layer.was_measured() ? html::bar(html::heat(layer.output_error), percent(layer.output_error), layer.is_quantized ? "" : "kept") : "–");
  text += cell(layer.output_error > 0 ? snr_db(layer.output_error) : 999, layer.output_error > 0 ? fmt::format("{:.1f}", snr_db(layer.output_error)) : "–");
  text += cell(layer.relative_error, layer.relative_error > 0 ? percent(layer.relative_error) : "–");
  text += cell(layer.outlier_ratio, layer.outlier_ratio > 0 ? fmt::format("{:.1f}", layer.outlier_ratio) : "–");
  if (!has_input) return text + "<td data-v=\"0\">–</td><td data-v=\"0\">–</td><td data-v=\"0\">–</td><td data-v=\"0\"></td></tr>\n";
  const InputSummary& summary = input->second;
  text += cell(summary.outlier_ratio, fmt::format("{:.1f}", summary.outlier_ratio));
  text += cell(summary.channel_ratio, fmt::format("{:.1f} × <span class=\"soft\">no. {}</span>", summary.channel_ratio, summary.worst_channel));
  text += cell(summary.outlier_channels, fmt::format("{}", summary.outlier_channels));
  return text + cell(summary.channel_ratio, html::profile(summary.profile)) + "</tr>\n";
}

std::string layers(const Receipt& receipt) {
  std::string text =
      "<h2>Every layer</h2><p class=\"soft\">Worst first; a heading sorts. <b>Output</b>: ‖ŷ − y‖ / ‖y‖ on rows read in calibration, y with the source's "
      "weights "
      "in floats, ŷ as the int8 layer computes it; pale bars are layers that were kept, and what int8 would have cost them. <b>Weight</b>: the same of the "
      "matrix "
      "alone. <b>max/RMS</b>: of the weight, and of the layer's input (a Gaussian has about 5). <b>Worst channel</b>: the input channel with the largest "
      "value, against the median channel's largest. <b>Over 6 ×</b>: channels that far out. <b>Channels</b>: largest value of neighbouring input "
      "channels.</p>\n";
  for (const ReceiptFile& file : receipt.files) {
    std::vector<const QuantizedLayer*> order;
    for (const QuantizedLayer& layer : file.report.layers) order.push_back(&layer);
    std::stable_sort(order.begin(), order.end(), [](const QuantizedLayer* a, const QuantizedLayer* b) {
      if (a->is_quantized != b->is_quantized) return a->is_quantized;
      if (a->output_error != b->output_error) return a->output_error > b->output_error;
      return a->relative_error > b->relative_error;
    });
    text += fmt::format("<h3>{} <span class=\"foot\">{}</span></h3><div class=\"scroll\"><table class=\"list\"><thead><tr>", escape(file.component),
                        escape(file.report.recipe));
    for (const char* head :
         {"layer", "shape", "became", "output error", "SNR dB", "weight error", "weight max/RMS", "input max/RMS", "worst channel", "over 6 ×", "channels"}) {
      text += fmt::format("<th><button>{}</button></th>", head);
    }
    text += "</tr></thead><tbody>\n";
    for (const QuantizedLayer* layer : order) text += layer_row(file, *layer);
    text += "</tbody></table></div>\n";
  }
  return text;
}

std::string notes(const Receipt& receipt) {
  std::string items = fmt::format("<li>Calibration: {}.</li>", escape(receipt.calibration));
  for (const ReceiptFile& file : receipt.files) {
    items += fmt::format("<li>{}: <code>{}</code>, hash of the source {}</li>", escape(file.component), escape(file.path), escape(file.report.source_hash));
    for (const std::string& remark : file.report.remarks) items += fmt::format("<li>{}: {}</li>", escape(file.component), escape(remark));
  }
  return fmt::format(
      "<h2>Notes</h2><ul class=\"notes\">{}</ul><p class=\"foot\">SSIM: luma, 11 × 11 Gaussian window (σ 1.5), K1 0.01, K2 0.03, mean over whole windows. PSNR "
      "over "
      "all bytes. Errors are measured before the bias and the rounding of the result. Written by {}.</p>\n",
      items, escape(receipt.version));
}

}  // namespace

std::string receipt_page(const Receipt& receipt) {
  const std::string from = escape(name_only(receipt.source)), to = escape(name_only(receipt.output));
  return fmt::format(
             "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
             "<title>{} → {}: quantisation receipt</title>\n<style>{}</style></head>\n<body><main>\n"
             "<div class=\"brow\">octavo quantize · receipt</div><h1>{} → {}</h1><div class=\"soft\">{}</div>\n",
             from, to, html::kStyle, from, to, escape(receipt.recipe)) +
         banner(receipt.judge()) + tiles(receipt) + pictures(receipt) + maps(receipt) + memory(receipt) + protection(receipt) + layers(receipt) +
         notes(receipt) + fmt::format("</main><script>{}</script></body></html>\n", html::kScript);
}

}  // namespace octavo
