// From requests of ours to their operations. The caller locks.
#pragma once

#include <cstring>
#include <vector>

#include "mpi/requests/operation.h"

namespace longshore::mpi {

// Open addressing, a power of two, grown when half full. Erasing moves later entries of the run back, so
// there are no tombstones.
class RequestTable {
  public:
    Operation* find(MPI_Request request) const {
        if (slots_.empty()) return nullptr;
        for (size_t i = place(request);; i = (i + 1) & mask()) {
            if (!slots_[i]) return nullptr;
            if (slots_[i]->request == request) return slots_[i];
        }
    }
    void insert(Operation* operation) {
        if (2 * (count_ + 1) > slots_.size()) grow();
        put(operation);
        ++count_;
    }
    void erase(Operation* operation) {
        size_t hole = place(operation->request);
        while (slots_[hole] != operation) {
            if (!slots_[hole]) return;
            hole = (hole + 1) & mask();
        }
        --count_;
        for (size_t i = (hole + 1) & mask(); slots_[i]; i = (i + 1) & mask()) {
            size_t home = place(slots_[i]->request);
            if (((i - home) & mask()) < ((i - hole) & mask())) continue;  // its home lies after the hole
            slots_[hole] = slots_[i];
            hole = i;
        }
        slots_[hole] = nullptr;
    }

  private:
    size_t mask() const { return slots_.size() - 1; }
    size_t place(MPI_Request request) const {
        uint64_t bits = 0;
        memcpy(&bits, &request, sizeof request);
        return (bits * 0x9E3779B97F4A7C15u >> 32) & mask();
    }
    void put(Operation* operation) {
        size_t i = place(operation->request);
        while (slots_[i]) i = (i + 1) & mask();
        slots_[i] = operation;
    }
    void grow() {
        std::vector<Operation*> old = std::move(slots_);
        slots_.assign(old.empty() ? 64 : 2 * old.size(), nullptr);
        for (Operation* operation : old)
            if (operation) put(operation);
    }

    std::vector<Operation*> slots_;
    size_t count_ = 0;
};

}  // namespace longshore::mpi
