// ServiceEngine: regions of other nodes' ranks. Asked for when a notification first names one, imported once
// by the fabric, kept as long as there is room.
#include <cstring>

#include "engine/service_state.h"

namespace longshore {
namespace {

constexpr uint32_t kImportAttemptsMax = 3;
constexpr uint32_t kRequestedMax = 64;  // outstanding: the other side keeps a place for each

uint64_t key(ServiceAddress origin, LocalRank owner, RegionId region, uint32_t generation) {
    // One rank's regions have one name on its node, whichever service process tells of them.
    return mix(uint64_t{origin.node.value} << 48 | uint64_t{owner.value} << 32 | region.value) ^
           mix(generation);
}

bool is(const Import& m, ServiceAddress origin, LocalRank owner, RegionId region, uint32_t generation) {
    return m.state != Import::State::kUnused && m.origin.node == origin.node && m.owner == owner &&
           m.region == region && m.generation == generation;
}

}  // namespace

// The import that a notification's block is read through, begun if need be. kNone: no room just now.
uint32_t ServiceEngine::State::import_for(const Notification& n) {
    const uint64_t hash = key(n.origin, n.owner, n.region, n.region_generation);
    uint32_t& bucket = import_buckets[hash & (import_bucket_count - 1)];
    for (uint32_t i = bucket; i != kNone; i = imports[i].next)
        if (is(imports[i], n.origin, n.owner, n.region, n.region_generation)) {
            if (imports[i].state == Import::State::kFailed && imports[i].users == 0) {
                imports[i].state = Import::State::kRequest;  // another operation, another try
                ++imports_pending;
            }
            return i;
        }

    uint32_t found = kNone;
    for (uint32_t looked = 0; looked < limits.imports_max && found == kNone; ++looked) {
        const uint32_t i = import_clock++ % limits.imports_max;
        Import& m = imports[i];
        if (m.state == Import::State::kUnused) {
            found = i;
        } else if (m.users == 0 && m.state == Import::State::kReady && !forget_pending) {
            forget = m.handle;
            forget_pending = true;
            found = i;
        } else if (m.users == 0 && m.state == Import::State::kFailed) {
            found = i;
        }
    }
    if (found == kNone) {
        ++counters->pool_full;
        return kNone;
    }
    Import& m = imports[found];
    if (m.state != Import::State::kUnused) {
        uint32_t* link =
            &import_buckets[key(m.origin, m.owner, m.region, m.generation) & (import_bucket_count - 1)];
        while (*link != found) link = &imports[*link].next;
        *link = m.next;
    }
    m = Import{};
    m.state = Import::State::kRequest;
    m.origin = n.origin;
    m.owner = n.owner;
    m.region = n.region;
    m.generation = n.region_generation;
    m.next = bucket;
    bucket = found;
    ++imports_pending;
    return found;
}

// Requests for descriptors into frames; the first descriptor that has come as an action.
bool ServiceEngine::State::next_import(Action* out) {
    if (imports_pending == 0) return false;
    for (uint32_t i = 0; i < limits.imports_max; ++i) {
        Import& m = imports[i];
        if (m.state == Import::State::kRequest) {
            Message request;
            request.kind = MessageKind::kRegionRequest;
            request.region.owner = m.owner;
            request.region.region = m.region;
            request.region.generation = m.generation;
            if (imports_requested >= kRequestedMax || !add(m.origin, request)) continue;
            m.state = Import::State::kRequested;
            ++imports_requested;
            m.attempts = 0;
            --imports_pending;
        } else if (m.state == Import::State::kArrived) {
            m.state = Import::State::kImporting;
            --imports_pending;
            *out = Action{};
            out->kind = Action::Kind::kImport;
            out->id = i;
            out->peer = m.origin;
            out->data = {m.descriptor, m.descriptor_bytes};
            return true;
        }
    }
    return false;
}

void ServiceEngine::State::on_region(ServiceAddress from, const RegionMessage& r) {
    const uint64_t hash = key(from, r.owner, r.region, r.generation);
    for (uint32_t i = import_buckets[hash & (import_bucket_count - 1)]; i != kNone; i = imports[i].next) {
        Import& m = imports[i];
        if (!is(m, from, r.owner, r.region, r.generation)) continue;
        if (m.state != Import::State::kRequested && m.state != Import::State::kRequest) return;
        if (r.descriptor.size() > kDescriptorBytesMax) return;
        for (size_t k = 0; k < r.descriptor.size(); ++k) m.descriptor[k] = r.descriptor[k];
        m.descriptor_bytes = static_cast<uint16_t>(r.descriptor.size());
        if (m.state == Import::State::kRequested) {
            --imports_requested;
            ++imports_pending;
        }
        m.state = Import::State::kArrived;
        m.attempts = 0;
        return;
    }
}

void ServiceEngine::State::import_done(uint32_t i, ImportHandle region, bool ok, WakeSet* wake) {
    LONGSHORE_CHECK(i < limits.imports_max && imports[i].state == Import::State::kImporting);
    Import& m = imports[i];
    if (!ok && ++m.attempts < kImportAttemptsMax) {
        m.state = Import::State::kArrived;
        ++imports_pending;
        return;
    }
    if (!ok) {
        fail_import(i, wake);
        return;
    }
    m.state = Import::State::kReady;
    m.handle = region;
    while (m.waiting.count != 0) {
        const uint32_t q = pop_front(queue.items, &m.waiting);
        queue[q].place = QueuedRead::Place::kReady;
        push_back(queue.items, &ready, q);
    }
}

// What waits for it will not be read.
void ServiceEngine::State::fail_import(uint32_t i, WakeSet* wake) {
    Import& m = imports[i];
    m.state = Import::State::kFailed;
    while (m.waiting.count != 0) {
        const uint32_t q = pop_front(queue.items, &m.waiting);
        if (!queue[q].cancelled) {
            fail_queued(q, OperationError::kUnreadable, wake);
            continue;
        }
        queue[q].place = QueuedRead::Place::kReady;
        push_back(queue.items, &ready, q);
    }
}

void ServiceEngine::State::lose_imports(ServiceAddress lost, WakeSet* wake) {
    for (uint32_t i = 0; i < limits.imports_max; ++i) {
        Import& m = imports[i];
        if (m.origin != lost) continue;
        if (m.state == Import::State::kRequest) {
            --imports_pending;
        } else if (m.state == Import::State::kRequested) {
            --imports_requested;
        } else {
            continue;
        }
        fail_import(i, wake);
    }
}

// A place for a small block that came with its notification. Without one it is read like any other.
uint32_t ServiceEngine::State::keep_eager(std::span<const std::byte> bytes) {
    const uint32_t e = bytes.empty() ? kNone : eager.take();
    if (e != kNone) memcpy(eager[e].bytes, bytes.data(), bytes.size());
    return e;
}

void ServiceEngine::State::drop_eager(uint32_t* e) {
    if (*e != kNone) eager.give(*e);
    *e = kNone;
}

void ServiceEngine::State::unuse_import(uint32_t i) {
    LONGSHORE_CHECK(imports[i].users > 0);
    if (--imports[i].users == 0) --imports_used;
}

}  // namespace longshore
