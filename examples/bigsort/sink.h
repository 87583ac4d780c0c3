// Where the sorted pages of a rank go: to its own file calls, or to its peer's.
#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

#include "file_writer.h"
#include "longshore_task.h"
#include "messages.h"

namespace bigsort {

struct Temporary;

class Sink {
  public:
    virtual ~Sink() = default;
    // The pages of these files follow, in their order.
    virtual void begin(const Stretch& stretch) = 0;
    // Room for one page. Waits until there is some.
    virtual Value* page() = 0;
    // The page that page() has given is full.
    virtual void put(std::size_t values_count) = 0;
    // Returns when all pages so far are written and their files closed.
    virtual void finish() = 0;
    // Returns when that file, which went to this sink in this cycle or the one before, is closed.
    virtual void wait_closed(int cycle, std::uint64_t file) = 0;
};

// The rank writes itself, from one page.
class DirectSink : public Sink {
  public:
    DirectSink(const std::string& folder, const Layout& layout, Temporary* temporary);
    void begin(const Stretch& stretch) override;
    Value* page() override { return page_.data(); }
    void put(std::size_t values_count) override;
    void finish() override {}
    void wait_closed(int, std::uint64_t) override {}

  private:
    FileWriter writer_;
    std::string folder_;
    Layout layout_;
    Temporary* temporary_;
    Stretch stretch_;
    std::uint64_t page_index_ = 0;
    std::vector<Value> page_;
};

// Somebody else writes, later: files are closed when the pages up to their last have been acknowledged.
class AheadSink : public Sink {
  public:
    explicit AheadSink(const Layout& layout) : layout_(layout) {}
    void begin(const Stretch& stretch) override;
    void wait_closed(int cycle, std::uint64_t file) override;
    // With --offload auto: whether files follow after the ones that were tried.
    virtual void tell_decision(bool) {}
    // What Longshore says of its tasks; all 0 where there are none.
    virtual longshore_pool_counters counters() const { return {}; }

  protected:
    // Returns when so many pages, of all since the start, are written and their files closed.
    virtual void wait_written(std::uint64_t pages) = 0;
    // The page that page() has given is on its way.
    void count_page() {
        ++page_index_;
        ++sent_;
    }
    std::uint64_t file_of_next() const { return page_index_ / layout_.span_pages(stretch_.cycle); }

    const Layout layout_;
    Stretch stretch_;
    std::uint64_t page_index_ = 0;  // in the cycle
    std::uint64_t sent_ = 0;        // pages since the start

  private:
    struct Begun {
        Stretch stretch;
        std::uint64_t sent_before = 0;
    };
    std::vector<Begun> begun_;  // in order
};

// A peer process writes: the rank sends it full pages, and may be `fan_in` pages ahead of the peer's
// acknowledgements.
class PeerSink : public AheadSink {
  public:
    // Collective with the peer. Throws FileError where the peer cannot use `folder`.
    PeerSink(MPI_Comm world, int peer, const Setup& setup, const std::string& folder, Temporary* temporary,
             double limit_s);
    ~PeerSink() override;
    Value* page() override;
    void put(std::size_t values_count) override;
    void finish() override { wait_written(sent_); }
    void tell_decision(bool goes_on) override;

  private:
    struct Page {
        int cycle = 0;
        std::uint64_t file = 0;
    };
    void wait_written(std::uint64_t pages) override;
    bool take_credit(bool wait);
    void name_oldest();

    MPI_Comm world_;
    int peer_;
    std::string folder_;
    Temporary* temporary_;
    double limit_s_;
    std::uint64_t slots_;
    std::vector<Value> ring_;  // one block
    std::vector<MPI_Request> sends_;
    std::vector<Page> pages_;  // in each slot
    Credit credit_;
    MPI_Request credit_request_ = MPI_REQUEST_NULL;
    std::uint64_t credited_ = 0;  // pages since the start
};

}  // namespace bigsort
