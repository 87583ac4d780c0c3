// The table on stdout, its rows as JSON, the progress on stderr. Rank 0 only.
#pragma once

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/json_lines.h"
#include "bench/options.h"
#include "bench/protocol.h"

namespace longshore::bench {

// What stands in a table where nobody took a time; in JSON: null.
inline constexpr const char* kNotTaken = "–";
std::string median_or_dash(const std::vector<double>& samples);
nlohmann::json median_or_null(const std::vector<double>& samples);
nlohmann::json samples_or_null(const std::vector<double>& samples);

// Of the column of the contenders' names.
int name_width(const Options& options);

// ", 40 s left" by the rows done so far; "" before the first is done.
std::string time_left(double elapsed_s, int done, int total);

class Progress {
  public:
    Progress(ProgressStyle style, int rows_total);
    ~Progress();
    void start_row(const std::string& what);
    void end_row(double seconds);
    void clear();  // before anything goes to stdout

  private:
    bool is_bar() const;
    FILE* stream() const;

    ProgressStyle style_;
    int rows_total_, rows_done_ = 0;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
    std::string what_;
};

void print_header(const Collective& collective, const Options& options, int ranks);
void print_row(const Row& row, const Options& options);
void write_row(const Row& row, const Options& options, JsonLines& json);

}  // namespace longshore::bench
