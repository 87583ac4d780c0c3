/* Tasks that run inside the program, in longshore_submit: where there is no Longshore, or no supervisor to have task processes of. */
#ifndef LONGSHORE_TASKS_INLINE_H
#define LONGSHORE_TASKS_INLINE_H

#include "tasks/task_api.h"

extern const longshore_task_functions longshore_inline_tasks;

#endif
