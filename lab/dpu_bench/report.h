// The tables and the progress on stdout, their rows as JSON. Rank 0 only.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "dpu_bench/measure.h"

namespace longshore::dpu_bench {

// Tells the command which row comes next: see kProgressMark.
class Progress {
  public:
    Progress(bool on, std::size_t rows) : on_(on), rows_(rows) {}
    void next(const std::string& what);

  private:
    bool on_;
    std::size_t rows_, row_ = 0;
};

void print_settings(const Session& session);
void print_header(const Session& session, Pattern pattern, Assignment assignment);
void print_row(const Session& session, const Row& row);
nlohmann::json to_json(const Session& session, const Row& row);

}  // namespace longshore::dpu_bench
