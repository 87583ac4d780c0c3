// Streams of the C library on files that are written behind. The C library's own streams call the system in
// ways that no preloaded library sees; one made by fopencookie calls the functions that it is given, here
// those of this library on the file's descriptor. A stream becomes the C library's own when it is opened anew
// or used for wide letters: its place in memory stays the same, so it has from the beginning what such a
// stream needs.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
#include <wchar.h>

#include "io/preload/behind.h"
#include "io/preload/next.h"
#include "io/preload/opening.h"
#include "io/preload/shown.h"
#include "io/preload/streams.h"

using namespace longshore::io;

namespace {

constexpr uint32_t kStreamsMax = kFilesMax;

struct Stream {
    bool is_taken, is_closing;
    bool calls_library;  // this one, not the system
    int fd;
    FILE* stream;
    FILE* spare;  // of the C library, with no descriptor: `stream` uses its room for wide letters
};
// Changed with a Guard alone.
constinit Stream streams[kStreamsMax] = {};
constinit longshore::Atomic<uint32_t> streams_used;  // none behind so many has ever been taken

Stream* find(const FILE* stream) {
    for (uint32_t i = 0; i < streams_used.load(); ++i) {
        Stream& one = streams[i];
        if (one.is_taken && !one.is_closing && one.stream == stream) return &one;
    }
    return nullptr;
}

// Null: there are too many.
Stream* take_stream(int fd) {
    for (uint32_t i = 0; i < kStreamsMax; ++i) {
        if (streams[i].is_taken) continue;
        streams[i] = {.is_taken = true,
                      .is_closing = false,
                      .calls_library = true,
                      .fd = fd,
                      .stream = nullptr,
                      .spare = nullptr};
        if (streams_used.load() <= i) streams_used.store(i + 1);
        return &streams[i];
    }
    return nullptr;
}

// The mode of a stream as the C library reads it: `letters` of it, and ignores what it does not know.
class Mode {
  public:
    Mode(const char* text, size_t letters) {
        if (text == nullptr || strchr("rwa", text[0]) == nullptr || text[0] == 0) return;
        kind_[0] = text[0];
        for (size_t i = 1; i < letters && text[i] != 0; ++i) take(text[i]);
        has_letters_ = strstr(text, ",ccs=") != nullptr;
    }
    // Made for this library's streams.
    bool is_plain() const { return kind_[0] != 0 && !has_letters_; }
    bool appends() const { return kind_[0] == 'a'; }
    const char* kind() const { return kind_; }  // such as "w+"
    int flags() const {
        const int access = kind_[1] == '+' ? O_RDWR : kind_[0] == 'r' ? O_RDONLY : O_WRONLY;
        const int open = kind_[0] == 'r' ? 0 : kind_[0] == 'w' ? O_CREAT | O_TRUNC : O_CREAT | O_APPEND;
        return access | open | more_;
    }

  private:
    void take(char letter) {
        if (letter == '+') kind_[1] = '+';
        if (letter == 'x') more_ |= O_EXCL;
        if (letter == 'e') more_ |= O_CLOEXEC;
    }
    char kind_[3] = {};
    int more_ = 0;
    bool has_letters_ = false;  // of another code: the C library opens it
};
constexpr size_t kOpenLetters = 7, kDescriptorLetters = 5;

// --- what a stream calls

int descriptor_of(const void* stream) {
    return static_cast<const Stream*>(stream)->fd;
}
ssize_t read_stream(void* self, char* data, size_t bytes) {
    return read(descriptor_of(self), data, bytes);
}
// All of it, unless there is an error, as the C library does. Of the position it must not remember what it
// knows from before the call: of such a stream it does not count what is written.
ssize_t write_stream(void* self, const char* data, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
        const ssize_t written = write(descriptor_of(self), data + done, bytes - done);
        if (written < 0) break;
        done += static_cast<size_t>(written);
    }
    FILE* const stream = static_cast<Stream*>(self)->stream;
    if (stream != nullptr) stream->_offset = -1;
    return static_cast<ssize_t>(done);
}
int seek_stream(void* self, off64_t* offset, int whence) {
    const off_t at = lseek(descriptor_of(self), *offset, whence);
    if (at >= 0) *offset = at;
    return at >= 0 ? 0 : -1;
}
int close_stream(void* self) {
    return close(descriptor_of(self));
}

// --- a stream's life

void end_stream(Stream& known) {
    const int error = errno;
    if (known.spare != nullptr) NEXT(fclose)(known.spare);  // closes nothing
    errno = error;
    const Guard guard;
    known = {};
}

// Of a descriptor whose file is written behind: its place. Null: the C library is to make its own, or *error.
Stream* begin_stream(int fd, const Mode& mode, int* error) {
    const Guard guard;
    bool is_closed = false;
    File* const file = file_of(fd, &is_closed);
    if (is_closed) *error = EBADF;
    if (file == nullptr) return nullptr;
    Stream* const known = mode.is_plain() && !mode.appends() ? take_stream(fd) : nullptr;
    if (known != nullptr) return known;
    *error = drain(*file);
    let_go(*file, mode.appends() ? Reason::kAppend : Reason::kStdio);
    return nullptr;
}

FILE* make_stream(int fd, const char* text, const Mode& mode) {
    int error = 0;
    Stream* const known = begin_stream(fd, mode, &error);
    if (error != 0) {
        errno = error;
        return nullptr;
    }
    FILE* const spare = NEXT(fdopen)(fd, text);  // tells what is wrong with the mode
    if (known == nullptr) return spare;
    FILE* const stream =
        spare == nullptr
            ? nullptr
            : fopencookie(known, mode.kind(),
                          cookie_io_functions_t{read_stream, write_stream, seek_stream, close_stream});
    if (spare != nullptr) spare->_fileno = -1;
    known->spare = spare;
    if (stream == nullptr) {
        end_stream(*known);
        return nullptr;
    }
    stream->_fileno = fd;
    stream->_wide_data = spare->_wide_data;
    stream->_mode = 0;  // not known yet whether it is for wide letters
    const Guard guard;
    known->stream = stream;
    return stream;
}

// Before the C library makes it a stream of its own. The file is the program's from now on.
void leave_stream(FILE* stream) {
    const Guard guard;
    Stream* const known = find(stream);
    if (known != nullptr) known->calls_library = false;
    bool is_closed = false;
    File* const file = file_of(stream->_fileno, &is_closed);
    if (file != nullptr) let_go(*file, Reason::kStdio);
}

// A stream that is used for wide letters calls the system, if it has not been used for others.
void leave_wide(FILE* stream) {
    if (streams_used.load(std::memory_order_relaxed) == 0 || stream->_mode != 0) return;
    if (concerns(stream->_fileno)) leave_stream(stream);
}

}  // namespace

void longshore::io::flush_streams() {
    for (uint32_t i = 0; is_rank(); ++i) {
        FILE* stream = nullptr;
        {
            const Guard guard;
            if (i >= streams_used.load()) return;
            const Stream& one = streams[i];
            if (one.is_taken && !one.is_closing && one.calls_library) stream = one.stream;
        }
        // Without its lock: a thread that holds it may never go on.
        if (stream == nullptr || fflush_unlocked(stream) == 0) continue;
        const int error = errno;
        const Guard guard;
        say_lost(stream->_fileno, error);
    }
}

// --- open and close

SHOWN FILE* fopen(const char* path, const char* mode) {
    if (is_on.load(std::memory_order_relaxed) == 0) return NEXT(fopen)(path, mode);
    const Mode known(mode, kOpenLetters);
    if (!may_concern(AT_FDCWD, path) || !known.is_plain() || known.appends() || !is_rank()) {
        FILE* stream = nullptr;
        open_with(AT_FDCWD, path, known.flags(), Opener::kStream, [&] {
            stream = NEXT(fopen)(path, mode);
            return stream != nullptr ? stream->_fileno : -1;
        });
        return stream;
    }
    const int fd = open(path, known.flags(), 0666);
    FILE* const stream = fd >= 0 ? make_stream(fd, mode, known) : nullptr;
    if (fd >= 0 && stream == nullptr) {
        const int error = errno;
        close(fd);
        errno = error;
    }
    return stream;
}
SAME(FILE*, fopen64, fopen, (const char*, const char*), )

SHOWN FILE* fdopen(int fd, const char* mode) __THROW {
    const Mode known(mode, kDescriptorLetters);
    const bool is_known = mode != nullptr && known.kind()[0] != 0;
    return concerns(fd) && is_known ? make_stream(fd, mode, known) : NEXT(fdopen)(fd, mode);
}

SHOWN int fclose(FILE* stream) {
    // The C library closes a descriptor of its own streams by itself.
    const int fd = stream->_fileno;
    Stream* known = nullptr;
    uint64_t number = 0;
    if (concerns(fd) || streams_used.load(std::memory_order_relaxed) != 0) {
        const Guard guard;
        known = find(stream);
        if (known != nullptr) known->is_closing = true;
        if (known == nullptr || !known->calls_library) number = number_of(fd);
    }
    const int result = NEXT(fclose)(stream);
    if (number != 0) {
        const Guard guard;
        if (number_of(fd) == number) forget_descriptor(fd);
    }
    if (known != nullptr) end_stream(*known);
    return result;
}

// The number of the descriptor stays, and leads to another file, or by another way to the same.
SHOWN FILE* freopen(const char* path, const char* mode, FILE* stream) {
    if (is_on.load(std::memory_order_relaxed) == 0 || !is_rank()) return NEXT(freopen)(path, mode, stream);
    const int fd = stream->_fileno;
    fflush(stream);
    leave_stream(stream);
    const auto forget = [&] {
        const Guard guard;
        forget_descriptor(fd);
    };
    if (path != nullptr) forget();
    FILE* again = nullptr;
    const Mode known(mode, kOpenLetters);
    open_with(AT_FDCWD, path, known.flags(), Opener::kStreamAgain, [&] {
        again = NEXT(freopen)(path, mode, stream);
        return again != nullptr ? again->_fileno : -1;
    });
    if (again == nullptr) forget();
    return again;
}
SAME(FILE*, freopen64, freopen, (const char*, const char*, FILE*), )

// --- wide letters

SHOWN int fwide(FILE* stream, int mode) __THROW {
    if (mode > 0) leave_wide(stream);
    return NEXT(fwide)(stream, mode);
}

#define WIDE(type, name, arguments, words, attributes) \
    extern "C" type name arguments attributes;         \
    SHOWN type name arguments attributes {             \
        leave_wide(stream);                            \
        return NEXT(name) words;                       \
    }
WIDE(wint_t, fgetwc, (FILE * stream), (stream), )
WIDE(wint_t, getwc, (FILE * stream), (stream), )
WIDE(wint_t, fgetwc_unlocked, (FILE * stream), (stream), )
WIDE(wint_t, getwc_unlocked, (FILE * stream), (stream), )
WIDE(wint_t, ungetwc, (wint_t letter, FILE* stream), (letter, stream), )
WIDE(wchar_t*, fgetws, (wchar_t * to, int room, FILE* stream), (to, room, stream), )
WIDE(wchar_t*, fgetws_unlocked, (wchar_t * to, int room, FILE* stream), (to, room, stream), )
WIDE(wchar_t*, __fgetws_chk, (wchar_t * to, size_t size, int room, FILE* stream), (to, size, room, stream), )
WIDE(wchar_t*, __fgetws_unlocked_chk, (wchar_t * to, size_t size, int room, FILE* stream),
     (to, size, room, stream), )
WIDE(wint_t, fputwc, (wchar_t letter, FILE* stream), (letter, stream), )
WIDE(wint_t, putwc, (wchar_t letter, FILE* stream), (letter, stream), )
WIDE(wint_t, fputwc_unlocked, (wchar_t letter, FILE* stream), (letter, stream), )
WIDE(wint_t, putwc_unlocked, (wchar_t letter, FILE* stream), (letter, stream), )
WIDE(int, fputws, (const wchar_t* text, FILE* stream), (text, stream), )
WIDE(int, fputws_unlocked, (const wchar_t* text, FILE* stream), (text, stream), )
WIDE(int, vfwprintf, (FILE * stream, const wchar_t* format, va_list more), (stream, format, more), )
WIDE(int, __vfwprintf_chk, (FILE * stream, int flag, const wchar_t* format, va_list more),
     (stream, flag, format, more), )
// By the name that the header gives them.
WIDE(int, vfwscanf, (FILE * stream, const wchar_t* format, va_list more), (stream, format, more), )

#define WIDE_LIST(name, by)                                    \
    SHOWN int name(FILE* stream, const wchar_t* format, ...) { \
        va_list more;                                          \
        va_start(more, format);                                \
        const int result = by(stream, format, more);           \
        va_end(more);                                          \
        return result;                                         \
    }
WIDE_LIST(fwprintf, vfwprintf)
WIDE_LIST(fwscanf, vfwscanf)
extern "C" int __fwprintf_chk(FILE*, int, const wchar_t*, ...);
SHOWN int __fwprintf_chk(FILE* stream, int flag, const wchar_t* format, ...) {
    va_list more;
    va_start(more, format);
    const int result = __vfwprintf_chk(stream, flag, format, more);
    va_end(more);
    return result;
}
