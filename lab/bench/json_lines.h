// Results as JSON, an object per line, each in the file before the next is measured. dpu_bench writes them
// so, too.
#pragma once

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace longshore::bench {

class JsonLines {
  public:
    // Without a file name nothing is written. With `append` lines follow those that are there. Throws where
    // the file cannot be opened.
    JsonLines(const std::string& file_name, bool append);
    void write(const nlohmann::json& object);

  private:
    struct Close {
        void operator()(FILE* file) const { fclose(file); }
    };
    std::unique_ptr<FILE, Close> file_;
};

}  // namespace longshore::bench
