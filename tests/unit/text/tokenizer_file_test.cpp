// What a tokenizer's files may and may not look like.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "io/json.h"
#include "octavo/error.h"
#include "text/tokenizer.h"
#include "unit/io/temporary_folder.h"

namespace octavo {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_files::message_of;
using testing_files::TemporaryFolder;
using Ids = std::vector<std::int32_t>;

const std::filesystem::path kDemo = std::filesystem::path(OCTAVO_SOURCE_DIR) / "models/demo/tokenizer";

const Json& demo_json() {
  static const Json root = read_json(kDemo / "tokenizer.json");
  return root;
}

Tokenizer load(const Json& root) { return Tokenizer::from_json(root.dump(), "tokenizer.json"); }

// The error class and the message that a changed demo tokenizer gives.
template <class E>
std::string complaint(const std::function<void(Json&)>& change) {
  Json root = demo_json();
  change(root);
  return message_of<E>([&] { load(root); });
}

std::vector<std::string> case_texts() {
  std::vector<std::string> texts;
  const Json file = read_json(std::filesystem::path(OCTAVO_SOURCE_DIR) / "tests/unit/text/data/tokenizer_cases.json");
  for (const Json& item : file["cases"]) texts.push_back(item["text"]);
  return texts;
}

std::string merges_txt(const Json& root, const std::string& line_end = "\n") {
  std::string text = "#version: 0.2" + line_end;
  for (const Json& merge : root["model"]["merges"]) text += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + line_end;
  return text;
}

Json added_tokens_decoder(const Json& root) {
  Json decoder = Json::object();
  for (const Json& token : root["added_tokens"]) decoder[std::to_string(token["id"].get<int>())] = token;
  return decoder;
}

TEST(TokenizerFile, vocab_and_merges_give_the_same_ids_as_tokenizer_json) {
  const Tokenizer expected(kDemo);
  for (const bool has_config : {true, false}) {
    const TemporaryFolder folder;
    folder.write("vocab.json", demo_json()["model"]["vocab"].dump());
    folder.write("merges.txt", merges_txt(demo_json(), has_config ? "\n" : "\r\n"));
    if (has_config) {
      folder.write("tokenizer_config.json", Json{{"added_tokens_decoder", added_tokens_decoder(demo_json())}}.dump());
    } else {
      Json list = Json::object();
      for (const Json& token : demo_json()["added_tokens"]) list[token["content"].get<std::string>()] = token["id"];
      folder.write("added_tokens.json", list.dump());
    }
    const Tokenizer tokenizer(folder.path());
    EXPECT_EQ(tokenizer.vocabulary_size(), expected.vocabulary_size());
    for (const std::string& text : case_texts()) EXPECT_EQ(tokenizer.encode(text), expected.encode(text)) << text;
  }
}

TEST(TokenizerFile, merges_as_strings_are_the_same) {
  Json root = demo_json();
  for (Json& merge : root["model"]["merges"]) merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  const Tokenizer expected(kDemo), tokenizer = load(root);
  for (const std::string& text : case_texts()) EXPECT_EQ(tokenizer.encode(text), expected.encode(text)) << text;
}

TEST(TokenizerFile, pattern_is_read_from_the_file) {
  Json root = demo_json();
  root["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "o";  // cuts at every o, so nothing merges with one
  const Tokenizer expected(kDemo), tokenizer = load(root);
  EXPECT_NE(tokenizer.encode("on"), expected.encode("on"));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("foo on boot")), "foo on boot");
}

TEST(TokenizerFile, pattern_that_matches_nothing_or_emptiness_loses_no_text) {
  for (const char* pattern : {"x*", "(?=o)", "(?!)", "\\b", "$", "^", "(?<=a)\\Kb|c", "."}) {
    Json root = demo_json();
    root["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = pattern;
    const Tokenizer tokenizer = load(root);
    for (const std::string text : {"foo xx on ab c\n", "世界 é x", "x"}) EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text) << pattern;
  }
}

TEST(TokenizerFile, catastrophic_pattern_is_one_clear_error) {
  Json root = demo_json();
  root["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(?:a|aa)+[bc]";
  const Tokenizer tokenizer = load(root);
  EXPECT_THAT(message_of<DataError>([&] { tokenizer.encode(std::string(5000, 'a')); }),
              AllOf(HasSubstr("tokenizer.json"), HasSubstr("the split pattern fails")));
}

TEST(TokenizerFile, without_normaliser_marks_stay_apart) {
  Json root = demo_json();
  root["normalizer"] = nullptr;
  const Tokenizer tokenizer = load(root);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("e\u0301")), "e\u0301");
  EXPECT_EQ(Tokenizer(kDemo).decode(Tokenizer(kDemo).encode("e\u0301")), "\u00e9");
}

TEST(TokenizerFile, longest_added_token_wins) {
  Json root = demo_json();
  const auto add = [&](int id, const char* content) { root["added_tokens"].push_back(Json{{"id", id}, {"content", content}, {"special", false}}); };
  add(700, "<a>");
  add(701, "<a><b>");
  add(702, "<b>");
  const Tokenizer tokenizer = load(root);
  EXPECT_EQ(tokenizer.encode("<a><b>"), (Ids{701}));
  EXPECT_EQ(tokenizer.encode("<a><a><b><b>"), (Ids{700, 701, 702}));
  EXPECT_EQ(tokenizer.vocabulary_size(), 703);
  EXPECT_EQ(tokenizer.decode({701}), "<a><b>");
}

TEST(TokenizerFile, flags_of_added_tokens) {
  Json root = demo_json();
  const auto add = [&](int id, const char* content, const char* flag) { root["added_tokens"].push_back(Json{{"id", id}, {"content", content}, {flag, true}}); };
  add(700, "WORD", "single_word");
  add(701, "<left>", "lstrip");
  add(702, "<right>", "rstrip");
  add(703, "\u212b", "normalized");  // the Ångström sign; its normal form is Å
  const Tokenizer tokenizer = load(root);
  EXPECT_EQ(tokenizer.encode("WORD"), (Ids{700}));
  EXPECT_EQ(tokenizer.encode("WORD!")[0], 700);
  EXPECT_THAT(tokenizer.encode("SWORD"), testing::Not(testing::Contains(700)));
  EXPECT_THAT(tokenizer.encode("WORDé"), testing::Not(testing::Contains(700)));
  EXPECT_EQ(tokenizer.encode(" \n\u3000<left>"), (Ids{701}));
  EXPECT_EQ(tokenizer.encode("<right> \t\u2003"), (Ids{702}));
  EXPECT_EQ(tokenizer.encode("<right>  <left>"), (Ids{702, 701}));
  EXPECT_EQ(tokenizer.encode("\u00c5"), (Ids{703}));
  EXPECT_EQ(tokenizer.encode("A\u030a"), (Ids{703}));
}

TEST(TokenizerFile, folder_without_a_tokenizer) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of<InvalidArgument>([&] { Tokenizer tokenizer(folder.path()); }), HasSubstr("neither tokenizer.json nor vocab.json"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { Tokenizer tokenizer(folder.path() / "absent"); }), HasSubstr("no such folder"));
  folder.write("vocab.json", demo_json()["model"]["vocab"].dump());  // merges.txt is missing
  EXPECT_THROW(Tokenizer{folder.path()}, InvalidArgument);
}

TEST(TokenizerFile, tokenizer_json_that_is_something_else) {
  const TemporaryFolder folder;
  const auto with = [&](std::string_view text) {
    folder.write("tokenizer.json", text);
    return message_of<DataError>([&] { Tokenizer tokenizer(folder.path()); });
  };
  EXPECT_THAT(with(""), AllOf(HasSubstr("tokenizer.json"), HasSubstr("is empty")));
  EXPECT_THAT(with("<!doctype html>"), HasSubstr("HTML"));
  EXPECT_THAT(with("version https://git-lfs"), HasSubstr("Git LFS pointer"));
  EXPECT_THAT(with("{\"model\":"), AllOf(HasSubstr("tokenizer.json"), HasSubstr("is not JSON"), HasSubstr("at byte 9")));
  EXPECT_THAT(with("[]"), HasSubstr("root"));
  EXPECT_THAT(with("{}"), HasSubstr("\"model\""));
}

TEST(TokenizerFile, merges_txt_that_is_damaged) {
  const TemporaryFolder folder;
  folder.write("vocab.json", demo_json()["model"]["vocab"].dump());
  const auto with = [&](std::string_view text) {
    folder.write("merges.txt", text);
    return message_of<DataError>([&] { Tokenizer tokenizer(folder.path()); });
  };
  EXPECT_THAT(with(""), AllOf(HasSubstr("merges.txt"), HasSubstr("is empty")));
  EXPECT_THAT(with("#version: 0.2\ne s\nabc\n"), AllOf(HasSubstr("merge 1"), HasSubstr("'abc'")));
  EXPECT_THAT(with("e s t\n"), HasSubstr("merge 0"));
  EXPECT_THAT(with("e \n"), HasSubstr("merge 0"));
  EXPECT_THAT(with("q \xff\n"), HasSubstr("at byte 2"));
  EXPECT_THAT(with("q qqq\n"), HasSubstr("vocabulary"));
  EXPECT_THAT(with("#version: 0.2\n# #\n"), HasSubstr("'#' + '#'"));  // a merge of two such signs is no comment
}

TEST(TokenizerFile, damaged_parts_have_clear_errors) {
  EXPECT_THAT(complaint<DataError>([](Json& root) { root["model"].erase("vocab"); }), HasSubstr("\"vocab\""));
  EXPECT_THAT(complaint<DataError>([](Json& root) { root["model"].erase("merges"); }), HasSubstr("\"merges\""));
  EXPECT_THAT(complaint<DataError>([](Json& root) { root["model"]["vocab"]["!"] = -1; }), HasSubstr("'!'"));
  EXPECT_THAT(complaint<DataError>([](Json& root) { root["model"]["vocab"]["!"] = 1.5; }), HasSubstr("'!'"));
  EXPECT_THAT(complaint<DataError>([](Json& root) { root["model"]["vocab"]["!"] = 1ull << 40; }), HasSubstr("'!'"));
  EXPECT_THAT(complaint<DataError>([](Json& root) { root["model"]["vocab"]["!"] = 5; }), HasSubstr("two tokens have the id 5"));
  EXPECT_THAT(complaint<DataError>([](Json& root) { root["model"]["vocab"].erase("!"); }), HasSubstr("0x21"));
  EXPECT_THAT(complaint<DataError>([](Json& root) { root["model"]["merges"].push_back("nospace"); }), HasSubstr("'nospace'"));
  EXPECT_THAT(complaint<DataError>([](Json& root) { root["model"]["merges"].push_back(Json{"a", 1}); }), HasSubstr("merge 346"));
  EXPECT_THAT(complaint<DataError>([](Json& root) { root["model"]["merges"].push_back(Json{"!", "\""}); }), HasSubstr("lacks"));
  EXPECT_THAT(complaint<DataError>([](Json& root) { root["added_tokens"].push_back(root["added_tokens"][0]); }), HasSubstr("listed twice"));
  EXPECT_THAT(complaint<DataError>([](Json& root) { root["added_tokens"][0]["id"] = 3; }), HasSubstr("has the id 3"));
  EXPECT_THAT(complaint<DataError>([](Json& root) { root["added_tokens"][0].erase("id"); }), HasSubstr("\"id\""));
  EXPECT_THAT(complaint<DataError>([](Json& root) { root["added_tokens"][0]["lstrip"] = "no"; }), HasSubstr("\"lstrip\""));
  EXPECT_THAT(complaint<DataError>([](Json& root) { root["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a"; }), HasSubstr("regular expression"));
}

TEST(TokenizerFile, other_kinds_of_tokenizer_are_unsupported) {
  EXPECT_THAT(complaint<Unsupported>([](Json& root) { root["model"]["type"] = "Unigram"; }), HasSubstr("'Unigram'"));
  EXPECT_THAT(complaint<Unsupported>([](Json& root) { root["model"]["byte_fallback"] = true; }), HasSubstr("byte_fallback"));
  EXPECT_THAT(complaint<Unsupported>([](Json& root) { root["model"]["dropout"] = 0.1; }), HasSubstr("dropout"));
  EXPECT_THAT(complaint<Unsupported>([](Json& root) { root["model"]["end_of_word_suffix"] = "</w>"; }), HasSubstr("end_of_word_suffix"));
  EXPECT_THAT(complaint<Unsupported>([](Json& root) { root["normalizer"] = Json{{"type", "NFKC"}}; }), HasSubstr("'NFKC'"));
  EXPECT_THAT(complaint<Unsupported>([](Json& root) { root["pre_tokenizer"] = Json{{"type", "Whitespace"}}; }), HasSubstr("'Whitespace'"));
  EXPECT_THAT(complaint<Unsupported>([](Json& root) { root["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true; }), HasSubstr("add_prefix_space"));
  EXPECT_THAT(complaint<Unsupported>([](Json& root) { root["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed"; }), HasSubstr("Isolated"));
  EXPECT_THAT(complaint<Unsupported>([](Json& root) {
                root["post_processor"] =
                    Json{{"type", "TemplateProcessing"}, {"single", Json::array({Json{{"SpecialToken", Json{{"id", "x"}, {"type_id", 0}}}}})}};
              }),
              HasSubstr("post-processor"));
}

TEST(TokenizerFile, vocabulary_of_full_size_opens_fast) {
  Json root = demo_json();
  Json& vocabulary = root["model"]["vocab"];
  std::string text = vocabulary.dump();
  text.pop_back();
  std::string merges = "[\"Z Z\"";
  text += ",\"ZZ\":1000";
  std::vector<std::string> known = {"ZZ"};  // every new token is a known one and a letter
  int id = 1001;
  for (std::size_t i = 0; id < 150'000; ++i) {
    for (char c = 'a'; c <= 'z' && id < 150'000; ++c) {
      known.push_back(known[i] + c);
      merges += ",\"" + known[i] + " " + c + "\"";
      text += ",\"" + known.back() + "\":" + std::to_string(id++);
    }
  }
  root["model"]["vocab"] = "VOCAB";
  root["model"]["merges"] = "MERGES";
  std::string file = root.dump();
  file.replace(file.find("\"VOCAB\""), 7, text + "}");
  file.replace(file.find("\"MERGES\""), 8, merges + "]");
  const auto start = std::chrono::steady_clock::now();
  const Tokenizer tokenizer = Tokenizer::from_json(file, "large tokenizer.json");
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  RecordProperty("open_ms", int(seconds * 1000));
  EXPECT_LT(seconds, 20);  // measured 0.3 s; a quadratic reader needs minutes
  EXPECT_EQ(tokenizer.encode("ZZabc").size(), 1u);
  EXPECT_EQ(tokenizer.vocabulary_size(), 150'000);
}

}  // namespace
}  // namespace octavo
