#include "sink.h"

#include <cstring>

#include "patience.h"
#include "temporary.h"

namespace bigsort {

DirectSink::DirectSink(const std::string& folder, const Layout& layout, Temporary* temporary)
    : writer_(folder, layout, 1),
      folder_(folder),
      layout_(layout),
      temporary_(temporary),
      page_(layout.page_values) {}

void DirectSink::begin(const Stretch& stretch) {
    stretch_ = stretch;
    page_index_ = layout_.first_page(stretch.cycle, stretch.begin);
    temporary_->name(file_path(folder_, stretch.cycle, stretch.begin));
    writer_.begin(stretch);
}

void DirectSink::put(std::size_t values_count) {
    const std::uint64_t span = layout_.span_pages(stretch_.cycle);
    if (page_index_ % span == 0) temporary_->name(file_path(folder_, stretch_.cycle, page_index_ / span));
    ++page_index_;
    writer_.write(page_.data(), values_count);
}

void AheadSink::begin(const Stretch& stretch) {
    stretch_ = stretch;
    page_index_ = layout_.first_page(stretch.cycle, stretch.begin);
    begun_.push_back({stretch, sent_});
}

void AheadSink::wait_closed(int cycle, std::uint64_t file) {
    for (auto begun = begun_.rbegin(); begun != begun_.rend(); ++begun) {
        const Stretch& stretch = begun->stretch;
        if (stretch.cycle != cycle || file < stretch.begin || file >= stretch.end) continue;
        const std::uint64_t begin = layout_.first_page(cycle, stretch.begin);
        return wait_written(begun->sent_before + layout_.first_page(cycle, file + 1) - begin);
    }
}

PeerSink::PeerSink(MPI_Comm world, int peer, const Setup& setup, const std::string& folder,
                   Temporary* temporary, double limit_s)
    : AheadSink(setup.layout),
      world_(world),
      peer_(peer),
      folder_(folder),
      temporary_(temporary),
      limit_s_(limit_s),
      slots_(setup.layout.fan_in),
      ring_(slots_ * setup.layout.page_values),
      sends_(slots_, MPI_REQUEST_NULL),
      pages_(slots_) {
    MPI_Send(&setup, sizeof(setup), MPI_BYTE, peer_, kTagSetup, world_);
    MPI_Request answered = MPI_REQUEST_NULL;
    MPI_Irecv(&credit_, sizeof(credit_), MPI_BYTE, peer_, kTagReady, world_, &answered);
    const double limit = std::max(limit_s, 30.0);  // it may still be starting
    if (!wait_patiently(&answered, limit))
        throw std::runtime_error("the peer has not answered for " + std::to_string(int(limit)) + " s");
    if (credit_.error != 0)
        throw FileError(std::string("use (on the peer's side)"), setup.folder, credit_.error);
}

// The peer has acknowledged all pages, so that this does not wait.
PeerSink::~PeerSink() {
    MPI_Waitall(int(sends_.size()), sends_.data(), MPI_STATUSES_IGNORE);
}

Value* PeerSink::page() {
    if (sent_ >= slots_) wait_written(sent_ - slots_ + 1);
    const std::uint64_t slot = sent_ % slots_;
    // Its page has been acknowledged, so that this does not wait.
    MPI_Wait(&sends_[slot], MPI_STATUS_IGNORE);
    return &ring_[slot * layout_.page_values];
}

void PeerSink::put(std::size_t values_count) {
    const std::uint64_t slot = sent_ % slots_;
    pages_[slot] = {stretch_.cycle, file_of_next()};
    MPI_Isend(&ring_[slot * layout_.page_values], int(values_count), MPI_UINT64_T, peer_, kTagPage, world_,
              &sends_[slot]);
    count_page();
    if (sent_ == credited_ + 1) name_oldest();
    while (credited_ < sent_ && take_credit(false)) {
    }
}

// For the message that is printed if one of the two processes dies.
void PeerSink::name_oldest() {
    if (credited_ == sent_) return;
    const Page& page = pages_[credited_ % slots_];
    temporary_->name(file_path(folder_, page.cycle, page.file));
}

bool PeerSink::take_credit(bool wait) {
    if (credit_request_ == MPI_REQUEST_NULL)
        MPI_Irecv(&credit_, sizeof(credit_), MPI_BYTE, peer_, kTagCredit, world_, &credit_request_);
    const Page page = pages_[credited_ % slots_];
    if (wait) {
        if (!wait_patiently(&credit_request_, limit_s_))
            throw std::runtime_error("the peer has not acknowledged a page of " +
                                     file_path(folder_, page.cycle, page.file) + " for " +
                                     std::to_string(int(limit_s_)) + " s");
    } else {
        int done = 0;
        MPI_Test(&credit_request_, &done, MPI_STATUS_IGNORE);
        if (!done) return false;
    }
    if (credit_.error != 0)
        throw FileError(std::string(credit_.call) + " (on the peer's side)", folder_ + "/" + credit_.file,
                        credit_.error);
    ++credited_;
    const Page& next = pages_[credited_ % slots_];
    if (next.file != page.file || next.cycle != page.cycle) name_oldest();
    return true;
}

void PeerSink::wait_written(std::uint64_t pages) {
    while (credited_ < pages) take_credit(true);
}

void PeerSink::tell_decision(bool goes_on) {
    const int word = goes_on;
    MPI_Send(&word, 1, MPI_INT, peer_, kTagDecision, world_);
}

}  // namespace bigsort
