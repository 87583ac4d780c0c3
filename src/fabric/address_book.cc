#include "fabric/address_book.h"

#include <string.h>

#include <algorithm>

#include "base/little_endian.h"
#include "fabric/shm/control.h"

namespace longshore {
namespace {

constexpr uint8_t kEntryVersion = 2;
// In place of a length: the address is that of the service process before. With TCP all of a node have one.
constexpr uint16_t kSameAsBefore = UINT16_MAX;

// Appends fields to bytes that grow.
class Appender {
  public:
    template <class T>
    void put(T value) {
        std::byte bytes[sizeof(T)];
        Writer(bytes, sizeof bytes).put(value);
        out_.insert(out_.end(), bytes, bytes + sizeof bytes);
    }
    void put_bytes(std::span<const std::byte> bytes) { out_.insert(out_.end(), bytes.begin(), bytes.end()); }
    std::vector<std::byte> take() { return std::move(out_); }

  private:
    std::vector<std::byte> out_;
};

}  // namespace

// version 8 | bytes of the host's name 8 | service processes 16 | those with an address 16 | name 12 bytes |
// token 16 bytes | the host's name | length 16 and address of each service process | length 16 and address of
// the agent | length 16 and address for tasks
std::vector<std::byte> encode_entry(const NodeEntry& entry) {
    NameBytes name;
    if (!pack_name(entry.address.name, &name)) return {};
    const size_t host_bytes = strnlen(entry.address.host, sizeof entry.address.host - 1);
    Appender out;
    out.put(kEntryVersion);
    out.put(static_cast<uint8_t>(host_bytes));
    out.put(entry.address.services);
    out.put(static_cast<uint16_t>(entry.services.size()));
    out.put_bytes(std::as_bytes(std::span(name)));
    out.put_bytes(std::as_bytes(std::span(entry.address.token)));
    out.put_bytes(std::as_bytes(std::span(entry.address.host, host_bytes)));
    for (size_t s = 0; s < entry.services.size(); ++s) {
        const std::vector<std::byte>& address = entry.services[s];
        if (address.size() > kAddressBytesMax) return {};
        const bool same = s != 0 && address == entry.services[s - 1];
        out.put(same ? kSameAsBefore : static_cast<uint16_t>(address.size()));
        if (!same) out.put_bytes(address);
    }
    for (const auto* address : {&entry.agent, &entry.tasks}) {
        if (address->size() > kAddressBytesMax) return {};
        out.put(static_cast<uint16_t>(address->size()));
        out.put_bytes(*address);
    }
    std::vector<std::byte> bytes = out.take();
    if (bytes.size() > kEntryBytesMax) bytes.clear();
    return bytes;
}

bool decode_entry(std::span<const std::byte> bytes, NodeEntry* out) {
    *out = {};
    Reader r(bytes);
    const auto version = r.get<uint8_t>();
    const size_t host_bytes = r.get<uint8_t>();
    out->address.services = r.get<uint16_t>();
    const size_t services = r.get<uint16_t>();
    if (bytes.size() > kEntryBytesMax || version != kEntryVersion || host_bytes >= sizeof out->address.host ||
        services > kServicesPerNodeMax)
        return false;
    NameBytes name;
    const auto name_bytes = r.get_bytes(sizeof name);
    const auto token = r.get_bytes(sizeof out->address.token);
    const auto host = r.get_bytes(host_bytes);
    if (!r.ok() || std::find(host.begin(), host.end(), std::byte{0}) != host.end()) return false;
    memcpy(name.data(), name_bytes.data(), sizeof name);
    out->address.name = unpack_name(name);
    memcpy(out->address.token.data(), token.data(), token.size());
    if (!host.empty()) memcpy(out->address.host, host.data(), host.size());
    for (size_t s = 0; s < services; ++s) {
        const auto length = r.get<uint16_t>();
        if (length == kSameAsBefore) {
            if (s == 0) return false;
            out->services.push_back(out->services.back());
            continue;
        }
        const auto address = r.get_bytes(length);
        if (!r.ok() || length > kAddressBytesMax) return false;
        out->services.emplace_back(address.begin(), address.end());
        if (s != 0 && out->services[s] == out->services[s - 1]) return false;
    }
    for (auto* address : {&out->agent, &out->tasks}) {
        const auto length = r.get<uint16_t>();
        const auto told = r.get_bytes(length);
        if (length > kAddressBytesMax) return false;
        address->assign(told.begin(), told.end());
    }
    return r.ok() && r.rest().empty();
}

bool AddressBook::is_of_job(std::span<const std::byte> bytes) const {
    NodeEntry entry;
    return decode_entry(bytes, &entry) && entry.address.services == shape_.services &&
           entry.services.size() == (shape_.network ? shape_.services : 0u) &&
           entry.agent.empty() == !shape_.agents;
}

bool AddressBook::add(std::span<const std::byte> bytes) {
    if (is_whole() || !is_of_job(bytes)) return false;
    entries_.emplace_back(bytes.begin(), bytes.end());
    return true;
}

std::vector<std::vector<std::byte>> AddressBook::packets() const {
    std::vector<std::vector<std::byte>> packets;
    AddressBookPiece piece;
    std::vector<std::byte> entries;
    const auto end_packet = [&] {
        piece.total = shape_.nodes;
        piece.aliases = aliases;
        std::vector<std::byte> packet(sizeof piece + entries.size());
        memcpy(packet.data(), &piece, sizeof piece);
        memcpy(packet.data() + sizeof piece, entries.data(), entries.size());
        packets.push_back(std::move(packet));
        piece.first += piece.count;
        piece.count = 0;
        entries.clear();
    };
    for (const std::vector<std::byte>& entry : entries_) {
        if (piece.count != 0 &&
            sizeof piece + entries.size() + sizeof(uint16_t) + entry.size() > kControlBytesMax)
            end_packet();
        Appender length;
        length.put(static_cast<uint16_t>(entry.size()));
        const std::vector<std::byte> head = length.take();
        entries.insert(entries.end(), head.begin(), head.end());
        entries.insert(entries.end(), entry.begin(), entry.end());
        ++piece.count;
    }
    if (piece.count != 0) end_packet();
    return packets;
}

bool AddressBook::take(std::span<const std::byte> packet) {
    AddressBookPiece piece;
    if (packet.size() < sizeof piece) return false;
    memcpy(&piece, packet.data(), sizeof piece);
    // One that says nothing would have the whole book sent to every service process again.
    if (piece.header.kind != ControlKind::kAddressBook || piece.count == 0 || piece.total != shape_.nodes ||
        piece.first != entries_.size() || piece.count > piece.total - piece.first)
        return false;
    Reader r(packet.subspan(sizeof piece));
    std::vector<std::vector<std::byte>> told;
    while (told.size() < piece.count) {
        const auto bytes = r.get_bytes(r.get<uint16_t>());
        if (!r.ok() || !is_of_job(bytes)) return false;
        told.emplace_back(bytes.begin(), bytes.end());
    }
    if (!r.rest().empty()) return false;
    std::move(told.begin(), told.end(), std::back_inserter(entries_));
    aliases = piece.aliases != 0;
    return true;
}

// What is in the book has been decoded before.
NodeEntry AddressBook::entry(size_t node) const {
    NodeEntry entry;
    decode_entry(entries_[node], &entry);
    return entry;
}

std::vector<NodeAddress> AddressBook::nodes() const {
    std::vector<NodeAddress> out;
    for (size_t node = 0; node < entries_.size(); ++node) out.push_back(entry(node).address);
    return out;
}

ServiceBook AddressBook::services() const {
    ServiceBook out;
    for (size_t node = 0; node < entries_.size(); ++node) out.push_back(entry(node).services);
    return out;
}

std::vector<std::vector<std::byte>> AddressBook::agents() const {
    std::vector<std::vector<std::byte>> out;
    for (size_t node = 0; shape_.agents && node < entries_.size(); ++node) out.push_back(entry(node).agent);
    return out;
}

}  // namespace longshore
