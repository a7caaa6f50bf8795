/* Whether an engine, and what it uses, may be called or destroyed. Its calls run functions of the caller: a data set's
 * read, custom ops, an optimizer, a schedule. Such a function that calls the engine again would use the batch, the
 * programs and the counters of the call that runs it, or exchange messages in the middle of that call's. So a call is
 * refused while another is running, on any thread; only queries of numbers are not. */
#include "engine_calls.h"
#include "megalith/comm_users.h"
#include "megalith/device_memory.h"

/* A schedule's lr may run without a call of the engine: when the program itself asks for the learning rate. */
static const char *call_of_schedule(const mega_engine *e)
{
    return atomic_load(&e->calls.lr_thread) == mega_thread_id() ? "mega_engine_lr" : NULL;
}

/* running: the call that is running; NULL: none. The thread that reads ahead also reads while no call is running. */
static mega_status refuse_busy(const mega_engine *e, const char *call, const char *running)
{
    if (mega_reader_is_this_thread(e->data.reader))
        return MEGA_MISTAKE(
            "%s: called on the thread that reads the training data ahead; the callbacks of a data set can "
            "only query numbers of the engine: make this call on the thread that trains",
            call);
    if (running == NULL) running = call_of_schedule(e);
    return running == NULL
               ? MEGA_OK
               : MEGA_MISTAKE(
                     "%s: the engine is busy with %s; a callback (of a data set, an op, an optimizer or a "
                     "schedule) or another thread can only query numbers of it: make this call after that one has "
                     "returned",
                     call, running);
}

mega_status engine_check_free(const mega_engine *e, const char *call)
{
    MEGA_TRY(engine_check_given(e, call, "e", e));
    return refuse_busy(e, call, atomic_load(&e->calls.running));
}

mega_status engine_enter_ahead(mega_engine *e, const char *call)
{
    const char *running = NULL;
    MEGA_TRY(engine_check_given(e, call, "e", e));
    MEGA_TRY(refuse_busy(e, call, atomic_load(&e->calls.running)));
    return atomic_compare_exchange_strong(&e->calls.running, &running, call) ? MEGA_OK : refuse_busy(e, call, running);
}

mega_status engine_enter(mega_engine *e, const char *call)
{
    MEGA_TRY(engine_enter_ahead(e, call));
    const mega_status st = engine_settle(e);
    return st == MEGA_OK ? MEGA_OK : engine_leave(e, st);
}

static void change_use(const mega_engine *e, int change)
{
    const mega_dataset *d = &e->data.set;
    mega_users_add(mega_world_users(e->options.world), change);
    mega_users_add(mega_team_users(e->options.team), change);
    if (d->use != NULL) d->use(d->user, change);
}

void engine_use_borrowed(mega_engine *e)
{
    e->owned.uses = true;
    change_use(e, 1);
}

void engine_return_borrowed(mega_engine *e)
{
    if (e->owned.uses) change_use(e, -1);
    e->owned.uses = false;
}

bool mega_engine_is_busy(const mega_engine *e)
{
    if (engine_check_given(e, "mega_engine_is_busy", "e", e) != MEGA_OK) return false;
    return atomic_load(&e->calls.running) != NULL || call_of_schedule(e) != NULL ||
           mega_reader_is_this_thread(e->data.reader);
}

mega_status engine_take_failure(const mega_engine *e, mega_status st)
{
    mega_error_record of_call;
    if (e->memory.device == NULL || e->late.is_awaited) return st; /* the step that is awaited finds its failure */
    if (st == MEGA_OK) return mega_device_finish(e->memory.device);
    mega_error_get_of(st, &of_call);
    MEGA_TRY(mega_device_finish(e->memory.device));
    return mega_error_restore(&of_call);
}

/* What the ranks have agreed on is returned by all. If one alone learns here that its device has failed, the next call
 * tells all. */
mega_status engine_leave(mega_engine *e, mega_status st)
{
    const bool is_agreed = e->layout->world.size > 1 && (st == MEGA_OK || mega_world_failed(e->options.world));
    if (!is_agreed) st = engine_take_failure(e, st);
    atomic_store(&e->calls.running, NULL);
    return st;
}
