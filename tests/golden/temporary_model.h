// Folders with changed copies of small models, gone when the test ends.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/safetensors.h"

namespace octavo::golden {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "octavo-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// The tensors of a component in memory, to be renamed, reshaped, dropped and written elsewhere.
class EditableCheckpoint {
 public:
  explicit EditableCheckpoint(const std::filesystem::path& file) : file_(file) {
    for (const SafetensorsEntry& entry : file_.entries()) {
      if (entry.dtype) tensors_[entry.name] = file_.tensor(entry.name);
    }
  }

  std::map<std::string, TensorView>& tensors() { return tensors_; }
  void rename(const std::function<std::string(const std::string&)>& to) {
    std::map<std::string, TensorView> renamed;
    for (const auto& [name, view] : tensors_) renamed[to(name)] = view;
    tensors_ = std::move(renamed);
  }
  // Stacks tensors of equal width along their rows; the parts are removed.
  void fuse(const std::vector<std::string>& parts, const std::string& whole) {
    std::int64_t rows = 0;
    for (const std::string& part : parts) rows += tensors_.at(part).rows();
    const TensorView first = tensors_.at(parts[0]);
    Tensor fused(first.dtype, {rows, first.columns()});
    std::byte* to = fused.as<std::byte>();
    for (const std::string& part : parts) {
      const TensorView view = tensors_.at(part);
      std::memcpy(to, view.data, view.bytes());
      to += view.bytes();
      tensors_.erase(part);
    }
    tensors_[whole] = fused;
    owned_.push_back(std::move(fused));
  }
  // Stores every float tensor in another dtype.
  void convert(DType dtype) {
    for (auto& [name, view] : tensors_) {
      if (!is_float(view.dtype)) continue;
      const Tensor floats = to_float_tensor(view);
      Tensor stored(dtype, view.shape);
      store_from_float(floats.as<float>(), view.shape.elements(), dtype, stored.as<void>());
      view = stored;
      owned_.push_back(std::move(stored));
    }
  }
  TensorView add(const std::string& name, DType dtype, Shape shape) {
    Tensor zeros = Tensor::zeros(dtype, shape);
    tensors_[name] = zeros;
    owned_.push_back(std::move(zeros));
    return tensors_[name];
  }
  void write(const std::filesystem::path& path) const {
    std::vector<NamedTensor> list;
    for (const auto& [name, view] : tensors_) list.push_back({name, view});
    std::filesystem::create_directories(path.parent_path());
    write_safetensors(path, list);
  }

 private:
  SafetensorsFile file_;
  std::map<std::string, TensorView> tensors_{};
  std::vector<Tensor> owned_{};
};

// config.json of `from`, changed, into folder `to`.
inline void write_config(const std::filesystem::path& from, const std::filesystem::path& to, const std::function<void(nlohmann::json&)>& change) {
  std::ifstream in(from / "config.json");
  nlohmann::json config = nlohmann::json::parse(in);
  change(config);
  write_text(to / "config.json", config.dump(2));
}

inline constexpr const char* kDiffusersFile = "diffusion_pytorch_model.safetensors";

}  // namespace octavo::golden
