#include "base/output_file.h"
#include "statistics/json.h"

namespace longshore::statistics {

void write_file(const std::string& path, const std::string& text) {
    std::string error;
    if (!write_output_file(path, text, &error)) fprintf(stderr, "longshore: cannot write %s\n", error.c_str());
}

}  // namespace longshore::statistics
