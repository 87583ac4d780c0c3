/* Between the stub's two sources. */
#ifndef LONGSHORE_STUB_PMIX_H
#define LONGSHORE_STUB_PMIX_H

/* `commit` is PMIx's own PMIx_Commit, which follows: its library has the other functions, too. */
typedef void (*longshore_pmix_hook)(void* commit);

__attribute__((visibility("hidden"))) void longshore_set_pmix_hook(longshore_pmix_hook function);

#endif
