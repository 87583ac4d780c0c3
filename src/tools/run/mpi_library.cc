#include "tools/run/mpi_library.h"

#include <elf.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tools/paths.h"

namespace longshore::tools {
namespace {

constexpr int kProgramsMax = 32;  // of a command, that are asked for their libraries

// Launchers are linked to an MPI here and there, and not always to the program's.
bool is_launcher(const std::string& path) {
    std::error_code error;
    for (const auto& one : {std::filesystem::path(path), std::filesystem::canonical(path, error)}) {
        const std::string name = one.filename().string();
        for (const std::string known : {"mpirun", "mpiexec", "orterun", "oshrun", "prterun", "prun", "srun"})
            if (name == known || (name.starts_with(known) && strchr("._-", name[known.size()]))) return true;
    }
    return false;
}

// As a launcher would look for it. Some look in the current folder, too.
std::string find_word(const std::string& word) {
    if (word.empty() || word.starts_with('-')) return "";
    const std::string found = find_program(word);
    return !found.empty() || word.find('/') != word.npos ? found : find_program("./" + word);
}

template <class Type>
bool read_at(std::ifstream& file, uint64_t offset, Type* out) {
    file.seekg(static_cast<std::streamoff>(offset));
    return static_cast<bool>(file.read(reinterpret_cast<char*>(out), sizeof *out));
}

// The dynamic loader that a program names; "" for what is no program of this machine, or needs none.
std::string loader_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary), own("/proc/self/exe", std::ios::binary);
    Elf64_Ehdr header{}, mine{};
    if (!read_at(file, 0, &header) || !read_at(own, 0, &mine) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_machine != mine.e_machine)
        return "";
    for (unsigned i = 0; i < header.e_phnum; ++i) {
        Elf64_Phdr segment{};
        if (!read_at(file, header.e_phoff + uint64_t{i} * header.e_phentsize, &segment)) return "";
        if (segment.p_type != PT_INTERP) continue;
        std::array<char, 256> name{};
        if (segment.p_filesz >= name.size()) return "";
        file.seekg(static_cast<std::streamoff>(segment.p_offset));
        return file.read(name.data(), static_cast<std::streamsize>(segment.p_filesz)) ? name.data() : "";
    }
    return "";
}

struct Library {
    std::string name, path;  // as the program names it; where it lies, as far as the loader finds it
};

// The loader itself knows best what it would load: run paths, LD_LIBRARY_PATH, its cache. It does not start
// the program.
std::vector<Library> libraries_of(const std::string& program) {
    std::vector<Library> found;
    const std::string loader = loader_of(program);
    if (loader.empty()) return found;
    std::istringstream lines(capture({loader, "--list", program}, {"LD_PRELOAD="}).text);
    for (std::string line, name, arrow, path; std::getline(lines, line);) {
        std::istringstream words(line);
        if (!line.starts_with('\t') || !(words >> name)) continue;
        if (!(words >> arrow >> path) || arrow != "=>" || !path.starts_with('/')) path.clear();
        found.push_back({name.substr(name.rfind('/') + 1), path});
    }
    return found;
}

std::optional<MpiLibrary> mpi_of(const std::string& program) {
    for (const Library& one : libraries_of(program))
        if (auto library = mpi_library(one.name)) return library;
    return {};
}

// Those with an allocator of their own.
bool is_sanitizer(const std::string& file) {
    for (const char* known : {"libasan.so", "libhwasan.so", "liblsan.so", "libtsan.so", "libclang_rt.asan",
                              "libclang_rt.hwasan", "libclang_rt.lsan", "libclang_rt.tsan"})
        if (file.starts_with(known)) return true;
    return false;
}

}  // namespace

std::optional<MpiLibrary> mpi_library(const std::string& file) {
    const auto is = [&](const std::string& name) { return file == name || file.starts_with(name + "."); };
    if (is("libmpi_abi.so.1")) return MpiLibrary{file, "the MPI ABI", "abi"};
    if (is("libmpi.so.40")) return MpiLibrary{file, "Open MPI", "openmpi"};
    if (is("libmpi.so.12") || is("libmpich.so.12")) return MpiLibrary{file, "MPICH", "mpich"};
    if (is("libmpi.so") || is("libmpich.so") || is("libmpi_abi.so")) return MpiLibrary{file, "an MPI", ""};
    return {};
}

std::optional<MpiUse> find_mpi_use(const std::vector<std::string>& words) {
    int looked = 0;
    for (const std::string& word : words) {
        const std::string path = find_word(word);
        if (path.empty() || is_launcher(path)) continue;
        if (auto library = mpi_of(path)) return MpiUse{word, *library};
        if (++looked == kProgramsMax) break;
    }
    return {};
}

std::string sanitizer_of(const std::string& word) {
    const std::string path = find_word(word);
    if (path.empty() || is_launcher(path)) return "";
    for (const Library& one : libraries_of(path))
        if (is_sanitizer(one.name))
            return one.path.find_first_of(" :") == one.path.npos ? one.path : one.name;
    return "";
}

std::optional<Launcher> find_launcher(const std::vector<std::string>& words) {
    for (size_t i = 0; i < words.size(); ++i) {
        const std::string path = find_word(words[i]);
        if (path.empty() || !is_launcher(path)) continue;
        const std::string text = capture({path, "--version"}).text;
        const auto has = [&](const char* word) { return text.find(word) != text.npos; };
        if (has("Open MPI") || has("OpenRTE") || has("PRRTE") || has("prte")) return Launcher{i, "openmpi"};
        if (has("HYDRA") || has("MPICH")) return Launcher{i, "mpich"};
        return Launcher{i, ""};
    }
    return {};
}

std::string core_file(const std::string& core) {
    return "liblongshore-" + core + ".so";
}

bool has_core(const std::string& core) {
    return !core.empty() && is_file(library_folder() + "/" + core_file(core));
}

std::string missing_core(const std::string& core) {
    return is_build_tree() ? core_file(core) + " is not built"
                           : library_folder() + "/" + core_file(core) + " is not there";
}

std::string core_advice(const std::string& core) {
    if (core.empty()) return std::string("Longshore serves ") + kServedMpis;
    if (!is_build_tree())
        return core == "abi" ? "install Longshore again, from a build that had MPICH 5 ('make mpis build')"
                             : "install Longshore again, from a build that had this MPI's headers";
    return core == "abi" ? "install MPICH 5 and build again: 'make mpis build'"
                         : "install its headers, then 'make build'";
}

}  // namespace longshore::tools
