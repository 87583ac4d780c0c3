// One executable for each MPI holds most programs of this folder, as each would take longer to link than to
// run. Links to it have the programs' names, mpi_NAME_MPI: the one that it is started by says which to run.
// One that holds a single program runs that.
#include <cstring>
#include <string>

#include "check.h"

namespace {

const Program* programs = nullptr;

// NAME of .../mpi_NAME_MPI.
std::string name_of(const std::string& path) {
    const std::string file = path.substr(path.rfind('/') + 1);
    const size_t begin = file.find('_') + 1, end = file.rfind('_');
    return begin < end ? file.substr(begin, end - begin) : file;
}

}  // namespace

Program::Program(const char* its_name, int (*its_run)(int argc, char** argv))
    : name(its_name), run(its_run), next(programs) {
    programs = this;
}

int main(int argc, char** argv) {
    const std::string wanted = name_of(argv[0]);
    for (const Program* one = programs; one; one = one->next)
        if (one->name == wanted || (one == programs && !one->next)) return one->run(argc, argv);
    fprintf(stderr, "%s: there is no program '%s' here\n", argv[0], wanted.c_str());
    return 1;
}
