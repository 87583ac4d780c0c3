#include "bench/json_lines.h"

#include <stdexcept>

#include "base/output_file.h"

namespace longshore::bench {

JsonLines::JsonLines(const std::string& file_name, bool append) {
    if (file_name.empty()) return;
    std::string error;
    file_.reset(open_output_file(file_name, append, &error));
    if (!file_) throw std::runtime_error("cannot write " + error);
}

void JsonLines::write(const nlohmann::json& object) {
    if (!file_) return;
    fputs((object.dump() + "\n").c_str(), file_.get());
    fflush(file_.get());  // a run may be stopped half way
}

}  // namespace longshore::bench
