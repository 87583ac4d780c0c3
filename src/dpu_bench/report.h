// The tables on stdout, the JSON lines, the progress on stderr. Rank 0 only.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "dpu_bench/measure.h"

namespace longshore::dpu_bench {

// A JSON object per line; without a file name nothing is written. Throws where the file cannot be opened.
class JsonLines {
  public:
    JsonLines(const std::string& file_name, bool append);
    void write(const nlohmann::json& object);

  private:
    std::ofstream file_;
};

// One line that is overwritten: how far the run is, and at what. Without a label nothing is shown.
class Progress {
  public:
    Progress(const std::string& label, int rows) : label_(label), rows_(rows) {}
    ~Progress() { clear(); }
    void show(const std::string& what);
    void clear();  // before anything goes to stdout

  private:
    std::string label_;
    int rows_, shown_ = 0;
};

void print_settings(const Session& session);
void print_header(const Session& session, Pattern pattern, Assignment assignment);
void print_row(const Session& session, const Row& row);
nlohmann::json to_json(const Session& session, const Row& row);

}  // namespace longshore::dpu_bench
