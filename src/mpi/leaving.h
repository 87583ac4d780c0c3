// How a thread leaves the shim other than by a return: by an exception or the end of the thread, out of the
// program's code that the MPI calls while it works for the shim (error handlers; in MPI's progress also
// reductions, and functions of generalized requests). Destructors put everything into order on the way;
// docs/decisions/0053 says what holds then.
#pragma once

#include <pthread.h>

namespace longshore::mpi {

// Runs `work`, which can be run again where it was left: what has been begun with other ranks is brought to
// its end before the exception goes on to the program. A second exception ends the process, as in any
// destructor.
template <class Work>
void run_to_the_end(const Work& work) {
    struct Rest {
        const Work& work;
        bool is_done = false;
        ~Rest() {
            if (!is_done) work();
        }
    } rest{work};
    work();
    rest.is_done = true;
}

// While one lives, its thread is not cancelled: pthread_cancel takes effect at the thread's next cancellation
// point after the call. Cancelled within, it would leave what it shares with other processes half changed.
// None lives where an error handler is called that may jump out of the call.
class Uncancelled {
  public:
    Uncancelled() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
    ~Uncancelled() { pthread_setcancelstate(before_, nullptr); }
    Uncancelled(const Uncancelled&) = delete;
    Uncancelled& operator=(const Uncancelled&) = delete;

  private:
    int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace longshore::mpi
