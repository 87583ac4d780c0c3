// What stress.cc sends and receives: random datatypes of a given signature, and buffers that know every byte
// that must be in them, the gaps and the red zones around too. Nothing here asks the MPI where bytes lie.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "check.h"

namespace stress {

using Random = std::mt19937_64;

inline uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}
inline uint64_t mix(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    return mix(mix(mix(mix(a) + b) + c) + d);
}
inline int below(Random* random, int n) {
    return static_cast<int>((*random)() % static_cast<uint64_t>(n));
}

// Bytes [from, from + n) of the endless text that `key` stands for.
inline void write_text(uint64_t key, uint64_t from, unsigned char* to, size_t n) {
    while (n > 0) {
        const uint64_t word = mix(key + from / 8);
        const size_t skip = from % 8, bytes = std::min(n, 8 - skip);
        memcpy(to, reinterpret_cast<const unsigned char*>(&word) + skip, bytes);
        from += bytes, to += bytes, n -= bytes;
    }
}

// What a block consists of: so many units; both sides of a call agree on that, not on how they lie in memory.
enum class Unit { kByte, kInt, kDouble, kMixed };
constexpr int kUnits = 4;

// A datatype, and where the bytes of one element of it lie, in the order in which they are sent.
class Type {
  public:
    struct Piece {
        std::ptrdiff_t at;
        size_t bytes;
    };

    static Type plain(Unit unit) {
        if (unit == Unit::kMixed) return mixed();
        Type type;
        type.handle_ = unit == Unit::kByte ? MPI_BYTE : unit == Unit::kInt ? MPI_INT : MPI_DOUBLE;
        type.bytes_ = unit == Unit::kByte ? 1 : unit == Unit::kInt ? 4 : 8;
        type.upper_ = static_cast<std::ptrdiff_t>(type.bytes_);
        type.pieces_ = {{0, type.bytes_}};
        return type;
    }

    // `units` units in one element, in any shape.
    static Type random(Unit unit, int units, Random* random) {
        Type type = plain(unit);
        for (int left = units; left > 1;) {
            int some = left;
            for (int n = 2; n < left; ++n)
                if (left % n == 0 && below(random, 2)) some = n;
            type = type.several(some, random);
            left /= some;
        }
        if (below(random, 4) == 0) type = type.resized(random);
        if (type.owned_) MPI_Type_commit(&type.handle_);
        type.check_measures();
        return type;
    }

    // The same elements as seen from MPI_BOTTOM.
    Type absolute(const void* buffer) const {
        MPI_Aint address = 0;
        MPI_Get_address(buffer, &address);
        Type type = *this;
        type.owned_ = true;
        int one = 1;
        MPI_Datatype inner = handle_;
        MPI_Type_create_struct(1, &one, &address, &inner, &type.handle_);
        MPI_Type_commit(&type.handle_);
        return type;
    }

    void free() {
        if (owned_) MPI_Type_free(&handle_);
        owned_ = false;
    }

    MPI_Datatype handle() const { return handle_; }
    const std::vector<Piece>& pieces() const { return pieces_; }
    size_t bytes() const { return bytes_; }
    std::ptrdiff_t extent() const { return upper_ - lower_; }
    // Of the bytes of one element.
    std::ptrdiff_t first() const {
        std::ptrdiff_t first = PTRDIFF_MAX;
        for (const Piece& piece : pieces_) first = std::min(first, piece.at);
        return first;
    }
    std::ptrdiff_t last() const {
        std::ptrdiff_t last = PTRDIFF_MIN;
        for (const Piece& piece : pieces_)
            last = std::max(last, piece.at + static_cast<std::ptrdiff_t>(piece.bytes));
        return last;
    }

  private:
    // Four members; the order of their addresses is not that in which they are sent.
    static Type mixed() {
        Type type;
        int lengths[4] = {1, 1, 1, 1};
        MPI_Aint at[4] = {16, 4, 0, 9};
        MPI_Datatype types[4] = {MPI_DOUBLE, MPI_INT, MPI_SHORT, MPI_BYTE}, bare;
        MPI_Type_create_struct(4, lengths, at, types, &bare);
        MPI_Type_create_resized(bare, 0, 24, &type.handle_);
        MPI_Type_free(&bare);
        MPI_Type_commit(&type.handle_);
        type.owned_ = true;
        type.pieces_ = {{16, 8}, {4, 4}, {0, 2}, {9, 1}};
        type.bytes_ = 15;
        type.upper_ = 24;
        return type;
    }

    Type several(int n, Random* random) {
        std::vector<int> places(static_cast<size_t>(n)), lengths(places.size(), 1);
        Type type;
        type.owned_ = true;
        const MPI_Datatype inner = handle_;
        switch (below(random, 4)) {
            case 0:
                MPI_Type_contiguous(n, inner, &type.handle_);
                for (int i = 0; i < n; ++i) places[static_cast<size_t>(i)] = i;
                break;
            case 1: {
                // Not -1: Open MPI 4.1.4 takes that for 1 when it says what the lower bound is.
                const int stride = below(random, 4) == 0 ? -2 - below(random, 3) : 1 + below(random, 4);
                MPI_Type_vector(n, 1, stride, inner, &type.handle_);
                for (int i = 0; i < n; ++i) places[static_cast<size_t>(i)] = i * stride;
                break;
            }
            case 2: {
                scatter(&places, random);
                MPI_Type_indexed(n, lengths.data(), places.data(), inner, &type.handle_);
                break;
            }
            default: {
                scatter(&places, random);
                std::vector<MPI_Aint> at;
                for (int place : places) at.push_back(place * extent());
                std::vector<MPI_Datatype> types(places.size(), inner);
                MPI_Datatype bare;
                MPI_Type_create_struct(n, lengths.data(), at.data(), types.data(), &bare);
                const auto [low, high] = std::minmax_element(places.begin(), places.end());
                MPI_Type_create_resized(bare, *low * extent() + lower_, (*high - *low + 1) * extent(),
                                        &type.handle_);
                MPI_Type_free(&bare);
            }
        }
        const auto [low, high] = std::minmax_element(places.begin(), places.end());
        type.lower_ = *low * extent() + lower_;
        type.upper_ = *high * extent() + upper_;
        type.bytes_ = bytes_ * static_cast<size_t>(n);
        for (int place : places)
            for (const Piece& piece : pieces_) type.add({piece.at + place * extent(), piece.bytes});
        free();
        return type;
    }

    // Room before and behind each element.
    Type resized(Random* random) {
        Type type = *this;
        type.owned_ = true;
        type.lower_ = lower_ - 8 * below(random, 5);
        type.upper_ = upper_ + 8 * below(random, 3);
        MPI_Type_create_resized(handle_, type.lower_, type.extent(), &type.handle_);
        free();
        return type;
    }

    // Different places in any order, also before the buffer's address.
    static void scatter(std::vector<int>* places, Random* random) {
        int place = -below(random, 4);
        for (int& one : *places) {
            one = place;
            place += 1 + below(random, 3);
        }
        std::shuffle(places->begin(), places->end(), *random);
    }

    void add(const Piece& piece) {
        if (!pieces_.empty() &&
            pieces_.back().at + static_cast<std::ptrdiff_t>(pieces_.back().bytes) == piece.at)
            pieces_.back().bytes += piece.bytes;
        else
            pieces_.push_back(piece);
    }

    void check_measures() const {
        MPI_Aint lower = 0, extent_found = 0;
        int bytes_found = 0;
        MPI_Type_get_extent(handle_, &lower, &extent_found);
        MPI_Type_size(handle_, &bytes_found);
        CHECK(lower == lower_ && extent_found == extent() && static_cast<size_t>(bytes_found) == bytes_);
    }

    MPI_Datatype handle_ = MPI_DATATYPE_NULL;
    bool owned_ = false;
    std::vector<Piece> pieces_;
    size_t bytes_ = 0;
    std::ptrdiff_t lower_ = 0, upper_ = 0;
};

// One side of a call: blocks of a datatype in a buffer with red zones around.
class Side {
  public:
    struct Block {
        int place, count;  // elements
    };

    // `bottom`: the buffer is MPI_BOTTOM, and the type has the addresses.
    void make(const Type& type, std::vector<Block> blocks, bool bottom) {
        type_ = type;
        blocks_ = std::move(blocks);
        std::ptrdiff_t first = 0, last = 0;
        for (const Block& block : blocks_) {
            if (block.count == 0) continue;
            first = std::min(first, block.place * type.extent() + type.first());
            last = std::max(last, (block.place + block.count - 1) * type.extent() + type.last());
        }
        base_ = (kRedZone - first + 15) / 16 * 16;
        memory_.assign(static_cast<size_t>(base_ + last + kRedZone), kGap);
        expected_ = memory_;
        if (!bottom) return;
        type_ = type.absolute(memory_.data() + base_);
        Type(type).free();
        bottom_ = true;
    }

    void* buffer() { return bottom_ ? MPI_BOTTOM : memory_.data() + base_; }
    MPI_Datatype type() const { return type_.handle(); }
    void free_type() { type_.free(); }
    size_t blocks() const { return blocks_.size(); }
    int count(size_t block) const { return blocks_[block].count; }

    // Text that is there before the call; it stays, unless something else is expected.
    void put(size_t block, uint64_t key) {
        write(block, key, &memory_);
        write(block, key, &expected_);
    }
    void expect(size_t block, uint64_t key) { write(block, key, &expected_); }
    bool is_right() const { return memory_ == expected_; }

    // For the v-collectives.
    std::vector<int> counts() const { return list(&Block::count); }
    std::vector<int> places() const { return list(&Block::place); }

    // Of the first byte that is wrong, from the buffer's address on.
    std::ptrdiff_t first_wrong() const {
        const auto at = std::mismatch(memory_.begin(), memory_.end(), expected_.begin()).first;
        return at - memory_.begin() - base_;
    }

  private:
    static constexpr std::ptrdiff_t kRedZone = 64;
    static constexpr unsigned char kGap = 0xEE;

    std::vector<int> list(int Block::*member) const {
        std::vector<int> out;
        for (const Block& block : blocks_) out.push_back(block.*member);
        return out;
    }

    void write(size_t block, uint64_t key, std::vector<unsigned char>* to) const {
        uint64_t from = 0;
        for (int i = 0; i < blocks_[block].count; ++i) {
            unsigned char* element = to->data() + base_ + (blocks_[block].place + i) * type_.extent();
            for (const Type::Piece& piece : type_.pieces()) {
                write_text(key, from, element + piece.at, piece.bytes);
                from += piece.bytes;
            }
        }
    }

    Type type_;
    std::vector<Block> blocks_;
    std::vector<unsigned char> memory_, expected_;
    std::ptrdiff_t base_ = 0;
    bool bottom_ = false;
};

}  // namespace stress
