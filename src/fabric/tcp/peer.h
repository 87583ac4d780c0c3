// What a TcpFabric knows about another service process, and about what is read there and from here.
#pragma once

#include "fabric/tcp/tcp_fabric.h"

namespace longshore {

// Bytes that another service process reads here, or that are sent ahead to it.
struct TcpFabric::Request {
    uint64_t id = 0;
    RegionName region;
    uint64_t offset = 0, bytes = 0, sent = 0;
    bool ahead = false;
};

// A block that was announced to be sent ahead. Its bytes come in order.
struct TcpFabric::Coming {
    struct Kept {  // bytes that lie in `buffer`, for reads that have not been posted
        uint64_t begin = 0, end = 0;
    };
    uint64_t id = 0;
    BlockName block;
    uint64_t bytes = 0, arrived = 0, used = 0;
    uint64_t since_ns = 0;
    std::unique_ptr<std::byte[]> buffer;  // all of the block; null: nothing had to be kept
    std::vector<Kept> kept;
    std::vector<uint32_t> reads;  // that wait for more of it
};

struct TcpFabric::Peer {
    // kWelcomed: it has connected, and may have given up before it knew: until it is heard nothing is said to
    // it. kDown: its streams have ended; its successor may come within the limit.
    enum class State : uint8_t { kNone, kConnecting, kWelcomed, kConnected, kDown, kLost };
    State state = State::kNone;
    ServiceAddress at;
    uint32_t index = 0;        // in TcpFabric::by_index_
    bool marked = false;       // it is in TcpFabric::marked_
    bool watched = false;      // it is in TcpFabric::watched_
    uint32_t incarnation = 1;  // of the newest that has been met, or is in the book
    uint64_t connection = 0;   // names the stream of talk
    bool dialed = false;       // ... which was opened from here
    std::vector<TcpAddress> addresses;
    uint16_t port = 0;
    size_t next_address = 0;
    uint64_t since_ns = 0;      // in this state
    uint64_t wanted_ns = 0;     // since when it is to be connected
    uint64_t dial_at_ns = 0;    // when to try again; 0: an attempt is under way
    uint64_t dial_wait_ns = 0;  // between attempts
    int dial_error = 0;         // why the last attempt failed
    uint64_t life = 0;          // of its streams
    bool broken = false;        // to be closed at the end of the turn, because
    std::string why;            // ... it did what it may not; empty: because the streams have ended
    void set_broken(const char* because) {
        broken = true;
        if (why.empty()) why = because;
    }

    Stream talk;
    bool talk_readable = false, talk_writable = false;
    bool ended = false;  // one of its streams has: it is read to the end
    std::vector<std::byte> talk_out;
    size_t talk_sent = 0;  // of talk_out
    size_t talk_held = 0;  // so much of talk_out was there in the last turn
    std::vector<std::byte> talk_in;
    size_t talk_have = 0;  // of talk_in

    Stream data;
    bool data_readable = false, data_writable = false;

    // Data that goes out: the header and the rest of the piece that has begun, and what is to follow.
    std::deque<Request> requests;
    std::vector<Request> held_back;  // to be sent ahead, once the frame that tells of it has gone
    std::byte out_header[kDataHeaderBytes];
    size_t out_header_left = 0;
    std::span<const std::byte> out_piece;
    std::unique_ptr<std::byte[]> out_copy;  // of memory that is not mapped here

    // Of reads, what has been asked for and has not come, and whether all of it will. How much came lately:
    // bytes since then, and in how many of the nanoseconds before.
    uint64_t in_asked = 0;
    bool in_all_asked = true;
    uint64_t in_since_ns = 0, in_bytes = 0;
    double in_bytes_per_ns = 0;

    // Data that comes in: a header, then the bytes that it tells of, in parts that each go to one place.
    std::byte in_header_bytes[kDataHeaderBytes];
    size_t in_header_have = 0;
    DataHeader in_header;
    bool in_begun = false;  // the header is complete, and has been looked at
    uint64_t in_left = 0;   // of what the header tells of
    uint32_t in_read = 0;   // the read that the part is for; kNoRead: none
    size_t in_part = 0;     // bytes of the part
    size_t in_part_have = 0;
    std::byte* in_to = nullptr;
    enum class Into : uint8_t { kRank, kCopy, kKept, kNowhere };
    Into in_into = Into::kNowhere;
    std::unique_ptr<std::byte[]> in_copy;  // for memory that is not mapped here, and for what nobody wants
    static constexpr uint32_t kNoRead = UINT32_MAX;

    // Blocks sent ahead, as ahead_cost() counts them.
    uint64_t ahead_count = 0;
    uint64_t ahead_sent = 0, ahead_used = 0;  // to it: sent, and used over there
    std::vector<Coming> coming;
    uint64_t announced = 0;                        // by it: so many blocks
    uint64_t coming_cost = 0, used = 0, told = 0;  // from it: to be used; used or dropped, and it was told so
};

}  // namespace longshore
