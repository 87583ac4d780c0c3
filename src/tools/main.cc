#include "tools/command.h"

int main(int argc, char** argv) {
    return longshore::tools::run_command(argc, argv);
}
