// The temporary folder of a rank, and the process that removes it if the rank dies.
#pragma once

#include <sys/types.h>

#include <string>

namespace bigsort {

// Made before MPI_Init, because it forks. The child lives in a session of its own until its parent has ended,
// so that it outlives a job that is killed. If the parent ended without let_go(), the child says which file
// was being written and removes what the parent has named.
class Temporary {
  public:
    explicit Temporary(const char* who);
    ~Temporary();
    Temporary(const Temporary&) = delete;
    Temporary& operator=(const Temporary&) = delete;

    // Creates that folder, of which the path is made absolute. Throws FileError.
    void make_folder(const std::string& path);
    const std::string& folder() const { return folder_; }
    // A further file that is removed unless the run succeeds; empty: none.
    void set_unfinished(const std::string& path);
    // The file that is being written, and the rank, for the message.
    void name(const std::string& path);
    void set_rank(int rank);
    // Removes everything, without a word. What is still open somewhere may keep a name until its process ends
    // (.fuse_hidden, .nfs): then the child does it once more.
    void remove();
    // Nothing is to be said or removed when this process ends.
    void let_go();

  private:
    struct Shared;
    [[noreturn]] static void guard(int pipe, Shared* shared);

    Shared* shared_ = nullptr;
    int pipe_ = -1;
    std::string folder_;
};

// Removes a folder and all in it. Returns false if something is left after so many tries.
bool remove_folder(const std::string& path, int tries_max);

}  // namespace bigsort
