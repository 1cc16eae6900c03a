// A BudgetReport as text and as JSON.
#pragma once

#include <string>

#include "io/json.h"
#include "pipeline/budget_bench.h"

namespace octavo {

std::string budget_text(const BudgetReport& report);
Json budget_json(const BudgetReport& report);

}  // namespace octavo
