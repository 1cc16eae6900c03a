#include <cmath>
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "receipt/page.h"

namespace octavo {
namespace {

Json json_of(const InputSummary& input) {
  return {{"largest", input.largest},
          {"rms", input.rms},
          {"outlier_ratio", input.outlier_ratio},
          {"worst_channel", input.worst_channel},
          {"channel_ratio", input.channel_ratio},
          {"outlier_channels", input.outlier_channels},
          {"profile", input.profile}};
}

Json json_of(const QuantizedLayer& layer, const ReceiptFile& file) {
  Json json = {{"module", layer.module},
               {"shape", {layer.shape[0], layer.shape[1]}},
               {"was", layer.before},
               {"became", layer.after},
               {"quantized", layer.is_quantized},
               {"group", layer.rotation_group},
               {"weight_error", layer.relative_error},
               {"output_error", layer.was_measured() ? Json(layer.output_error) : Json()},
               {"output_snr_db", layer.output_error > 0 ? Json(snr_db(layer.output_error)) : Json()},
               {"bytes_before", layer.bytes_before},
               {"bytes_after", layer.bytes_after}};
  if (const auto input = file.inputs.find(layer.module); input != file.inputs.end()) json["input"] = json_of(input->second);
  return json;
}

}  // namespace

std::string receipt_json(const Receipt& receipt) {
  const Judgement judgement = receipt.judge();
  Json files = Json::array(), pictures = Json::array();
  for (const ReceiptFile& file : receipt.files) {
    Json layers = Json::array();
    for (const QuantizedLayer& layer : file.report.layers) layers.push_back(json_of(layer, file));
    files.push_back({{"component", file.component},
                     {"path", file.path},
                     {"recipe", file.report.recipe},
                     {"source_hash", file.report.source_hash},
                     {"bytes_before", file.report.bytes_before},
                     {"bytes_after", file.report.bytes_after},
                     {"remarks", file.report.remarks},
                     {"layers", layers}});
  }
  for (const ReceiptPicture& picture : receipt.pictures) {
    const PictureDifference& difference = picture.difference;
    pictures.push_back({{"prompt", picture.prompt},
                        {"seed", picture.seed},
                        {"width", picture.before.width},
                        {"height", picture.before.height},
                        {"psnr_db", difference.psnr_db == kIdenticalPsnr ? Json() : Json(difference.psnr_db)},  // null: no difference
                        {"ssim", difference.ssim},
                        {"largest_difference", difference.largest},
                        {"mean_difference", difference.mean},
                        {"share_of_pixels_over_8", difference.share_over_8}});
  }
  return Json{{"verdict", name_of(judgement.verdict)},
              {"reasons", judgement.reasons},
              {"rule", VerdictRule().text()},
              {"source", receipt.source},
              {"output", receipt.output},
              {"recipe", receipt.recipe},
              {"version", receipt.version},
              {"calibration", receipt.calibration},
              {"other_bytes", receipt.other_bytes},
              {"files", files},
              {"pictures", pictures}}
             .dump(1) +
         "\n";
}

}  // namespace octavo
