// What a rank does when: computing or in which MPI call, of each timed transform, for --trace.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

class Trace {
  public:
    // CLOCK_MONOTONIC, which all processes of a machine have in common.
    static std::int64_t now_ns();

    // A repeat's transform there and back. Only calls between both are kept.
    void begin();
    void end();
    // An MPI call that began then and has just returned; the rank has computed since the call before. The
    // name is borrowed for good.
    void call(const char* name, std::int64_t begin_ns);

    // All ranks' intervals into one file, a Chrome trace. Collective; the first rank writes. False: it
    // cannot.
    bool write(const std::string& path, MPI_Comm world) const;

  private:
    struct Interval {
        const char* name;  // of the MPI call; null: computing
        int repeat;
        std::int64_t begin_ns, end_ns;
    };

    void add(const char* name, std::int64_t begin_ns, std::int64_t end_ns);
    std::string lines(int rank) const;

    std::vector<Interval> intervals_;
    std::int64_t last_ns_ = 0;  // where the latest interval ends
    int repeat_ = -1;
    bool open_ = false;
    std::size_t left_out_ = 0;
};
