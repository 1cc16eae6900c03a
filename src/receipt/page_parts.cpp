#include "receipt/page_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "io/png.h"
#include "receipt/base64.h"

namespace octavo::html {

std::string escape(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string bytes(std::int64_t count) {
  constexpr std::array<const char*, 4> kUnits{"bytes", "KiB", "MiB", "GiB"};
  double value = double(count);
  std::size_t unit = 0;
  for (; value >= 1000 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : value < 10 ? 2 : 1, kUnits[unit]);
}

std::string percent(double share) {
  const double value = 100 * share;
  return fmt::format("{:.{}f} %", value, value < 1 ? 2 : value < 10 ? 1 : 0);
}

std::string picture(const Image& image, std::string_view alt) {
  Image plain = image;
  plain.metadata.clear();  // the prompt stands beside it
  return fmt::format(R"(<img width="{}" height="{}" alt="{}" src="data:image/png;base64,{}">)", image.width, image.height, escape(alt),
                     base64(encode_png(plain)));
}

std::string bar(double share, std::string_view text, std::string_view css_class) {
  return fmt::format(R"(<span class="bar {}"><i style="width:{:.1f}%"></i></span><span class="num">{}</span>)", css_class, 100 * std::clamp(share, 0.0, 1.0),
                     text);
}

double heat(double relative_error) {
  constexpr double kCool = 0.003, kHot = 0.15;
  return std::clamp(std::log(std::max(relative_error, 1e-9) / kCool) / std::log(kHot / kCool), 0.0, 1.0);
}

std::string heat_color(double heat) {
  constexpr std::array<std::array<double, 3>, 4> kStops{{{190, 229, 211}, {238, 236, 170}, {250, 190, 120}, {240, 128, 118}}};
  const double place = std::clamp(heat, 0.0, 1.0) * double(kStops.size() - 1);
  const auto low = std::min(std::size_t(place), kStops.size() - 2);
  std::string text = "#";
  for (std::size_t i = 0; i < 3; ++i) {
    text += fmt::format("{:02x}", int(std::lround(kStops[low][i] + (place - double(low)) * (kStops[low + 1][i] - kStops[low][i]))));
  }
  return text;
}

std::string profile(const std::vector<double>& values) {
  if (values.empty()) return {};
  constexpr double kHeight = 20;
  const double largest = std::max(*std::max_element(values.begin(), values.end()), 1e-30);
  std::string path;
  for (std::size_t i = 0; i < values.size(); ++i) path += fmt::format("M{} {:g}v-{:.1f}", 2 * i + 1, kHeight, std::max(0.5, kHeight * values[i] / largest));
  return fmt::format(R"(<svg class="profile" viewBox="0 0 {} {:g}" aria-hidden="true"><path d="{}"/></svg>)", 2 * values.size(), kHeight, path);
}

const char* const kStyle = R"css(
:root{color-scheme:light dark;--paper:#fbfaf7;--ink:#1d2433;--soft:#667085;--line:#e4e1d8;--card:#fff;--accent:#3b5bdb;--good:#1a7f4b;--check:#a96500;--bad:#c0362c;--int8:#3b5bdb;--kept:#b7ad97}
@media (prefers-color-scheme:dark){:root{--paper:#14171f;--ink:#e8eaf0;--soft:#98a1b3;--line:#2b303d;--card:#1b1f2a;--accent:#8ea4ff;--good:#4cc38a;--check:#f0a83c;--bad:#ff7b6e;--int8:#7f96ff;--kept:#6d6656}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1240px;margin:0 auto;padding:36px 24px 72px}
h1{font-size:27px;line-height:1.25;margin:4px 0 2px;letter-spacing:-.015em;overflow-wrap:anywhere}
h2{font-size:18px;margin:44px 0 4px;letter-spacing:-.01em}
h3{font-size:14px;margin:22px 0 6px;color:var(--soft);font-weight:600}
p{margin:4px 0 12px;max-width:80ch}
.soft,.foot{color:var(--soft)}.foot{font-size:13px}
.brow{font-size:12px;letter-spacing:.09em;text-transform:uppercase;color:var(--soft)}
code{font:.92em ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace}
.verdict{display:flex;gap:22px;align-items:center;background:var(--card);border:1px solid var(--line);border-left:8px solid var(--tone);border-radius:14px;padding:20px 24px;margin:22px 0 14px}
.verdict.good{--tone:var(--good)}.verdict.check{--tone:var(--check)}.verdict.bad{--tone:var(--bad)}
.verdict b{display:flex;align-items:center;gap:12px;font-size:34px;line-height:1;color:var(--tone);letter-spacing:-.02em;text-transform:capitalize}
.verdict svg{width:42px;height:42px;flex:none}
.verdict ul{margin:0;padding:0;list-style:none}.verdict details{font-size:13px;color:var(--soft);margin-top:6px}
summary{cursor:pointer}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(240px,1fr));gap:14px}
.tile{background:var(--card);border:1px solid var(--line);border-radius:14px;padding:14px 18px}
.tile span{display:block;font-size:13px;color:var(--soft)}.tile strong{display:block;font-size:22px;white-space:nowrap;letter-spacing:-.02em;margin:2px 0}
.shots{background:var(--card);border:1px solid var(--line);border-radius:14px;padding:16px 18px;margin:12px 0}
.shots q{font-weight:600;quotes:"“" "”"}
.shots .row{display:grid;grid-template-columns:repeat(3,1fr);gap:14px;margin-top:10px}
figure{margin:0}figcaption{font-size:12.5px;color:var(--soft);margin-top:5px}
.shots img{width:100%;height:auto;display:block;border-radius:8px;background:#808080}
.flip img{cursor:pointer}
.map{overflow-x:auto}.map table{border-collapse:separate;border-spacing:2px;font-size:12px}
.map th{font-weight:500;color:var(--soft);text-align:right;padding:0 8px 0 0;white-space:nowrap}.map thead th{text-align:center;padding:0}
.map td{min-width:38px;height:26px;text-align:center;border-radius:5px;color:#1d2433;font-variant-numeric:tabular-nums}
.map td.kept{background:repeating-linear-gradient(135deg,transparent 0 4px,var(--line) 4px 6px);color:var(--soft)}.map td.none{background:none}
.scale{display:flex;align-items:center;gap:8px;font-size:12px;color:var(--soft);margin:8px 0}.scale i{width:180px;height:10px;border-radius:5px;display:inline-block}
.scroll{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:14px}
table.list{border-collapse:collapse;width:100%;font-size:13px}
.list th{position:sticky;top:0;background:var(--card);text-align:left;font-weight:600;color:var(--soft);padding:10px;border-bottom:1px solid var(--line);vertical-align:bottom;line-height:1.3}
.list th button{all:unset;cursor:pointer}.list th button:hover,.list th button:focus-visible{color:var(--ink)}
.list th[aria-sort=ascending] button::after{content:" ▲"}.list th[aria-sort=descending] button::after{content:" ▼"}
.list td{padding:6px 10px;border-bottom:1px solid var(--line);white-space:nowrap;font-variant-numeric:tabular-nums}.list tr:last-child td{border-bottom:0}
.list tr.kept td{color:var(--soft)}
.bar{display:inline-block;width:72px;height:8px;border-radius:4px;background:var(--line);margin-right:10px;vertical-align:middle;overflow:hidden}.bar i{display:block;height:100%;border-radius:4px;background:var(--int8)}
.bar.wide{width:min(46vw,460px);height:14px;border-radius:7px}.bar.wide i{border-radius:7px}.bar.kept i,.bar.before i{background:var(--kept)}
.profile{width:100px;height:20px;display:block}.profile path{stroke:var(--accent);stroke-width:1.4;fill:none}
.memory td{padding:3px 12px 3px 0}
ul.notes{padding-left:18px;margin:6px 0}ul.notes li{margin:2px 0;overflow-wrap:anywhere}
@media (max-width:640px){.verdict{flex-direction:column;align-items:flex-start}.shots .row{grid-template-columns:1fr}}
@media print{body{background:#fff}.scroll{overflow:visible}}
)css";

// Click on a heading: sort by it, again: the other way. Cells carry their number in data-v. The pointer over a picture "after": the one before.
const char* const kScript = R"js(
document.querySelectorAll('table.list').forEach(table=>{
  const heads=[...table.tHead.rows[0].cells],body=table.tBodies[0];
  heads.forEach((head,column)=>{
    const button=head.querySelector('button');
    if(!button)return;
    button.addEventListener('click',()=>{
      const down=head.getAttribute('aria-sort')!=='descending';
      heads.forEach(other=>other.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort',down?'descending':'ascending');
      const key=row=>{const cell=row.cells[column];return cell.dataset.v===undefined?cell.textContent:Number(cell.dataset.v)};
      const rows=[...body.rows].sort((a,b)=>{const x=key(a),y=key(b);return (x<y?-1:x>y?1:0)*(down?-1:1)});
      body.append(...rows);
    });
  });
});
document.querySelectorAll('.flip').forEach(figure=>{
  const image=figure.querySelector('img'),after=image.src,before=figure.parentNode.querySelector('img').src;
  const show=source=>()=>{image.src=source};
  figure.addEventListener('pointerenter',show(before));figure.addEventListener('focus',show(before));
  figure.addEventListener('pointerleave',show(after));figure.addEventListener('blur',show(after));
});
)js";

}  // namespace octavo::html
