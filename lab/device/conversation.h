// What the near and the far end of a measurement between machines say to each other over one TCP connection.
// The near end asks for one pattern at a time; the far end checks every field, answers, and then both carry
// it out.
#pragma once

#include <cstdint>
#include <string>

namespace longshore::device {

enum class Pattern : uint16_t {
    kEcho = 1,  // each message is sent back: latency; both ends sleep until it comes
    kToFar,     // messages one way, one word back at the end: bandwidth, message rate
    kFromFar,   // the other way
    kBoth,      // both ways at once
    kEnd,
    kEchoPolled,  // as kEcho, both ends look all the time, each on a core of its own (machine.h)
    kUcx,         // by UCX: `bytes` of the far end's memory, `count` 1 (ucx.cc)
};

// Both little-endian, as on all machines that this is built for (static_assert in conversation.cc).
struct Request {
    static constexpr uint32_t kMagic = 0x4c534456;
    static constexpr uint16_t kVersion = 4;  // 4: UCX's messages that are not sent back
    uint32_t magic = kMagic;
    uint16_t version = kVersion;
    Pattern pattern = Pattern::kEnd;
    uint64_t bytes = 0;  // of a message
    uint64_t count = 0;  // of messages
};
static_assert(sizeof(Request) == 24);

enum class Reply : uint32_t { kYes = 1, kVersion, kTooLarge, kUnknown, kNoUcx };
struct Answer {
    uint32_t magic = Request::kMagic;
    Reply reply = Reply::kYes;
};
static_assert(sizeof(Answer) == 8);

constexpr int kSilentMs = 30'000;  // then the other end is given up
constexpr uint64_t kMessageBytesMax = 64ull << 20;
constexpr uint64_t kMessagesMax = 10'000'000;
constexpr uint64_t kPatternBytesMax = 64ull << 30;

// What the far end says to a request.
Reply judge(const Request& request);

enum class Look : uint8_t { kNothing, kCame, kGone };

// A connected socket, with a limit on how long the other end may be silent. All calls are false when it has
// gone, or is.
class Connection {
  public:
    explicit Connection(int socket);
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    bool send(const void* bytes, uint64_t count);
    bool receive(void* bytes, uint64_t count);
    // The same, but the core is kept until all is there.
    bool receive_polling(void* bytes, uint64_t count);
    // Takes a few bytes if something has come, without waiting for it.
    Look look(void* bytes, uint64_t count);
    // Sends and receives so many bytes at the same time, in pieces of at most `piece`, each way through a
    // buffer so large.
    bool exchange(uint64_t bytes, uint64_t piece, const char* out, char* in);

  private:
    int socket_;
};

}  // namespace longshore::device
