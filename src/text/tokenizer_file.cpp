#include "text/tokenizer_file.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "io/json.h"
#include "io/utf8.h"
#include "octavo/error.h"

namespace octavo {
namespace {

// The split of Qwen2 and Qwen3, for folders that do not say it: contractions, words with one leading sign, single digits, runs of signs,
// line ends, white space.
constexpr const char* kDefaultPattern = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Reads fields of one JSON file, with messages that name the file and the field.
struct Reader {
  const std::string& who;

  [[noreturn]] void fail(const std::string& what) const { throw DataError(fmt::format("{}: {}; is it whole, and is it a tokenizer's?", who, what)); }
  [[noreturn]] void refuse(const std::string& what) const {
    throw Unsupported(fmt::format("{}: {}; supported is byte-level BPE (NFC, a split pattern, no added prefix space)", who, what));
  }
  // Null if the field is absent or null.
  const Json* find(const Json& object, const char* name) const {
    if (!object.is_object()) return nullptr;
    const auto found = object.find(name);
    return found == object.end() || found->is_null() ? nullptr : &*found;
  }
  const Json& object(const Json& parent, const char* name) const {
    const Json* found = find(parent, name);
    if (found == nullptr || !found->is_object()) fail(fmt::format("\"{}\" is missing or is not an object", name));
    return *found;
  }
  bool flag(const Json& parent, const char* name, bool otherwise) const {
    const Json* found = find(parent, name);
    if (found == nullptr) return otherwise;
    if (!found->is_boolean()) fail(fmt::format("\"{}\" is neither true nor false", name));
    return found->get<bool>();
  }
  std::string text(const Json& parent, const char* name) const {
    const Json* found = find(parent, name);
    if (found == nullptr || !found->is_string()) fail(fmt::format("\"{}\" is missing or is not a string", name));
    return found->get<std::string>();
  }
  std::int32_t id(const Json& value, std::string_view token) const {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::uint64_t(kMaxTokenId)) {
      fail(fmt::format("token '{}' has an id that is not a whole number from 0 to {}", excerpt(token), kMaxTokenId));
    }
    return value.get<std::int32_t>();
  }
};

void read_vocabulary(const Reader& reader, const Json& vocabulary, BpeDefinition& bpe) {
  if (!vocabulary.is_object() || vocabulary.empty()) reader.fail("the vocabulary is not an object of tokens and ids");
  bpe.vocabulary.reserve(vocabulary.size());
  for (const auto& [token, id] : vocabulary.get_ref<const Json::object_t&>()) bpe.vocabulary.emplace_back(token, reader.id(id, token));
}

void add_merge(const Reader& reader, std::string_view line, BpeDefinition& bpe) {
  const std::size_t space = line.find(' ');
  if (space == line.npos || space == 0 || space + 1 == line.size() || line.find(' ', space + 1) != line.npos) {
    reader.fail(fmt::format("merge {} is '{}'; two tokens with one space between were expected", bpe.merges.size(), excerpt(line)));
  }
  bpe.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
}

void read_merges(const Reader& reader, const Json& merges, BpeDefinition& bpe) {
  if (!merges.is_array()) reader.fail("\"merges\" is not a list");
  bpe.merges.reserve(merges.size());
  for (const Json& merge : merges) {
    if (merge.is_string()) {
      add_merge(reader, merge.get_ref<const std::string&>(), bpe);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      bpe.merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
    } else {
      reader.fail(fmt::format("merge {} is neither \"a b\" nor [\"a\", \"b\"]", bpe.merges.size()));
    }
  }
}

void read_model(const Reader& reader, const Json& model, BpeDefinition& bpe) {
  if (const std::string type = model.contains("type") ? reader.text(model, "type") : "BPE"; type != "BPE")
    reader.refuse(fmt::format("the model is '{}'", excerpt(type)));
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (reader.find(model, affix) != nullptr && !reader.text(model, affix).empty()) reader.refuse(fmt::format("\"{}\" is set", affix));
  }
  if (const Json* dropout = reader.find(model, "dropout"); dropout != nullptr && !(dropout->is_number() && dropout->get<double>() == 0))
    reader.refuse("\"dropout\" is set");
  if (reader.flag(model, "byte_fallback", false)) reader.refuse("\"byte_fallback\" is set");
  bpe.ignore_merges = reader.flag(model, "ignore_merges", false);
  read_vocabulary(reader, reader.object(model, "vocab"), bpe);
  const Json* merges = reader.find(model, "merges");
  if (merges == nullptr) reader.fail("\"merges\" is missing");
  read_merges(reader, *merges, bpe);
}

// The parts of a "Sequence", or the thing itself.
std::vector<const Json*> sequence(const Reader& reader, const Json* node, const char* list) {
  if (node == nullptr) return {};
  if (reader.text(*node, "type") != "Sequence") return {node};
  const Json* parts = reader.find(*node, list);
  if (parts == nullptr || !parts->is_array()) reader.fail(fmt::format("a sequence has no \"{}\"", list));
  std::vector<const Json*> found;
  for (const Json& part : *parts) found.push_back(&part);
  return found;
}

void read_normalizer(const Reader& reader, const Json& root, TokenizerDefinition& definition) {
  definition.is_nfc = false;
  for (const Json* part : sequence(reader, reader.find(root, "normalizer"), "normalizers")) {
    if (const std::string type = reader.text(*part, "type"); type != "NFC") reader.refuse(fmt::format("the normaliser is '{}'", excerpt(type)));
    definition.is_nfc = true;
  }
}

void read_pre_tokenizer(const Reader& reader, const Json& root, TokenizerDefinition& definition) {
  const auto parts = sequence(reader, reader.find(root, "pre_tokenizer"), "pretokenizers");
  if (parts.empty()) {
    definition.pattern = kDefaultPattern;
    return;
  }
  bool is_byte_level = false;
  for (const Json* part : parts) {
    const std::string type = reader.text(*part, "type");
    if (type == "Split" && definition.pattern.empty() && !is_byte_level) {
      if (reader.text(*part, "behavior") != "Isolated" || reader.flag(*part, "invert", false)) reader.refuse("the split is not of the kind \"Isolated\"");
      definition.pattern = reader.text(reader.object(*part, "pattern"), "Regex");
      if (definition.pattern.empty()) reader.fail("the split pattern is empty");
    } else if (type == "ByteLevel" && !is_byte_level) {
      if (reader.flag(*part, "add_prefix_space", true)) reader.refuse("\"add_prefix_space\" is set");
      if (reader.flag(*part, "use_regex", true)) reader.refuse("\"use_regex\" is set");
      is_byte_level = true;
    } else {
      reader.refuse(fmt::format("the pre-tokenizer has a part '{}'", excerpt(type)));
    }
  }
  if (!is_byte_level || definition.pattern.empty()) reader.refuse("the pre-tokenizer is not a split followed by a byte level");
}

void read_post_processor(const Reader& reader, const Json& root) {
  const Json* node = reader.find(root, "post_processor");
  for (const Json* part : sequence(reader, node, "processors")) {
    const std::string type = reader.text(*part, "type");
    if (type == "ByteLevel") continue;  // moves offsets, not ids
    if (type != "TemplateProcessing") reader.refuse(fmt::format("the post-processor is '{}'", excerpt(type)));
    const Json* single = reader.find(*part, "single");
    if (single == nullptr || !single->is_array()) reader.fail("the template has no \"single\"");
    for (const Json& piece : *single) {
      if (reader.find(piece, "SpecialToken") != nullptr) reader.refuse("the post-processor adds tokens to every text");
    }
  }
}

AddedToken read_added_token(const Reader& reader, const Json& fields, std::int32_t id) {
  AddedToken token{.content = reader.text(fields, "content"), .id = id};
  token.is_single_word = reader.flag(fields, "single_word", false);
  token.strips_left = reader.flag(fields, "lstrip", false);
  token.strips_right = reader.flag(fields, "rstrip", false);
  token.is_normalized = reader.flag(fields, "normalized", false);
  return token;
}

// Ids and contents of added tokens must be one to one, with the vocabulary as well.
void check_added(const Reader& reader, const TokenizerDefinition& definition) {
  std::map<std::string_view, std::int32_t> id_of;
  std::map<std::int32_t, std::string_view> content_of;
  for (const AddedToken& token : definition.added) {
    const bool is_new_content = id_of.emplace(token.content, token.id).second;
    const bool is_new_id = content_of.emplace(token.id, token.content).second;
    if (!is_new_content || !is_new_id) reader.fail(fmt::format("the added token '{}' with id {} is listed twice", excerpt(token.content), token.id));
  }
  for (const auto& [text, id] : definition.bpe.vocabulary) {
    const auto found = content_of.find(id);
    if (found != content_of.end() && found->second != text) {
      reader.fail(fmt::format("the added token '{}' has the id {} of the token '{}'", excerpt(found->second), id, excerpt(text)));
    }
  }
}

// `added_tokens_decoder` of tokenizer_config.json: {"151644": {"content": "<|im_start|>", …}, …}
bool read_added_from_config(const std::filesystem::path& path, TokenizerDefinition& definition) {
  const std::string who = fmt::format("file '{}'", path.string());
  const Reader reader{who};
  const Json config = read_json(path);
  const Json* decoder = reader.find(config, "added_tokens_decoder");
  if (decoder == nullptr) return false;
  if (!decoder->is_object()) reader.fail("\"added_tokens_decoder\" is not an object");
  for (const auto& [number, fields] : decoder->items()) {
    const bool is_number = !number.empty() && number.size() <= 9 && number.find_first_not_of("0123456789") == number.npos;
    if (!is_number) reader.fail(fmt::format("'{}' in \"added_tokens_decoder\" is not a token id", excerpt(number)));
    definition.added.push_back(read_added_token(reader, fields, reader.id(Json(std::stoul(number)), number)));
  }
  return true;
}

// added_tokens.json: {"<|im_start|>": 151644, …}
void read_added_from_list(const std::filesystem::path& path, TokenizerDefinition& definition) {
  const std::string who = fmt::format("file '{}'", path.string());
  const Reader reader{who};
  const Json list = read_json(path);
  if (!list.is_object()) reader.fail("added tokens are not an object of tokens and ids");
  for (const auto& [content, id] : list.items()) definition.added.push_back({.content = content, .id = reader.id(id, content)});
}

TokenizerDefinition read_vocabulary_and_merges(const std::filesystem::path& folder) {
  TokenizerDefinition definition{.who = fmt::format("tokenizer '{}'", folder.string()), .pattern = kDefaultPattern};
  const std::string vocabulary_who = fmt::format("file '{}'", (folder / "vocab.json").string());
  read_vocabulary(Reader{vocabulary_who}, read_json(folder / "vocab.json"), definition.bpe);

  const std::string merges_who = fmt::format("file '{}'", (folder / "merges.txt").string());
  const Reader merges_reader{merges_who};
  const std::string merges = read_text(folder / "merges.txt", kMaxJsonBytes);
  if (merges.empty()) throw DataError(fmt::format("{}: is empty; copy or download it again", merges_who));
  if (const std::size_t bad = first_invalid_byte(merges); bad != merges.npos) merges_reader.fail(fmt::format("NUL or invalid UTF-8 at byte {}", bad));
  for (std::size_t at = 0; at < merges.size();) {
    const std::size_t end = std::min(merges.find('\n', at), merges.size());
    std::string_view line = std::string_view(merges).substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty() && !line.starts_with("#version")) add_merge(merges_reader, line, definition.bpe);
    at = end + 1;
  }

  const bool has_decoder = std::filesystem::exists(folder / "tokenizer_config.json") && read_added_from_config(folder / "tokenizer_config.json", definition);
  if (!has_decoder && std::filesystem::exists(folder / "added_tokens.json")) read_added_from_list(folder / "added_tokens.json", definition);
  check_added(Reader{definition.who}, definition);
  return definition;
}

TokenizerDefinition read_tokenizer(const Json& root, const std::string& who) {
  TokenizerDefinition definition{.who = who};
  const Reader reader{definition.who};
  if (!root.is_object()) reader.fail("the root is not an object");
  read_normalizer(reader, root, definition);
  read_pre_tokenizer(reader, root, definition);
  read_post_processor(reader, root);
  read_model(reader, reader.object(root, "model"), definition.bpe);
  if (const Json* added = reader.find(root, "added_tokens")) {
    if (!added->is_array()) reader.fail("\"added_tokens\" is not a list");
    for (const Json& fields : *added) {
      const Json* id = reader.find(fields, "id");
      if (id == nullptr) reader.fail("an added token has no \"id\"");
      definition.added.push_back(read_added_token(reader, fields, reader.id(*id, reader.text(fields, "content"))));
    }
  }
  check_added(reader, definition);
  return definition;
}

}  // namespace

TokenizerDefinition read_tokenizer_json(std::string_view text, const std::string& who) { return read_tokenizer(parse_json(text, who), who); }

TokenizerDefinition read_tokenizer_folder(const std::filesystem::path& folder) {
  const auto exists = [&](const char* name) { return std::filesystem::exists(folder / name); };
  if (exists("tokenizer.json")) {
    const std::filesystem::path path = folder / "tokenizer.json";
    return read_tokenizer(read_json(path), fmt::format("file '{}'", path.string()));
  }
  if (exists("vocab.json") && exists("merges.txt")) return read_vocabulary_and_merges(folder);
  if (!std::filesystem::is_directory(folder))
    throw InvalidArgument(fmt::format("tokenizer '{}': there is no such folder; check the model's path", folder.string()));
  throw InvalidArgument(
      fmt::format("tokenizer '{}': holds neither tokenizer.json nor vocab.json with merges.txt; copy the tokenizer's files there", folder.string()));
}

}  // namespace octavo
