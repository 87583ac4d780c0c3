// What the subcommands that draw pictures share: the scripts, their Python, and the results between.
#pragma once

#include <string>

namespace longshore::tools {

// The virtual environment's, which has matplotlib, if it is there.
std::string find_python();

// Of the script of that name, beside the build or the installation.
std::string script_path(const std::string& name);

// To be asked before anything is measured. Returns kOk, or says what is missing and returns kNotReady.
int can_draw(const std::string& subcommand, const std::string& script);

// Where results lie: the user's file, or one that goes away.
class ResultsFile {
  public:
    explicit ResultsFile(const std::string& wanted);
    ~ResultsFile();
    ResultsFile(const ResultsFile&) = delete;
    ResultsFile& operator=(const ResultsFile&) = delete;
    const std::string& name() const { return name_; }
    bool is_temporary() const { return is_temporary_; }

  private:
    std::string name_;
    bool is_temporary_;
};

}  // namespace longshore::tools
