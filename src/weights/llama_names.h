// The names that GGUF files of language models use, in the words of the reference implementation.
#pragma once

#include <string>
#include <string_view>

namespace octavo {

// "blk.3.attn_q.weight" to "layers.3.self_attn.q_proj.weight", "token_embd.weight" to "embed_tokens.weight", "output_norm.weight" to "norm.weight".
// A name that is none of them comes back as it is.
std::string reference_name_of_llama(std::string_view name);

}  // namespace octavo
