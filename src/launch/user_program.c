/* A user's own program instead of a command: finds the file and the words to start it with, before any rank is
 * started. */
#include "launch_impl.h"
#include "megalith/config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PORT = 29500 }; /* default of torchrun and deepspeed */

static bool is_python_file(const char *word)
{
    const size_t n = strlen(word);
    return n > 3 && strcmp(word + n - 3, ".py") == 0;
}

static bool is_file(const char *path)
{
    struct stat it;
    return stat(path, &it) == 0 && !S_ISDIR(it.st_mode);
}

/* A path means a user's file; but a Python file with the name of a script that a command replaces means the command,
 * because such scripts lie in the folders of Megatron and transformers. A Python file with another name (run.py,
 * plot.py, config.py) means the command of that name only where no such file is. */
const char *launch_program_command(const launch_plan *p, const char *typed)
{
    if (!is_python_file(typed)) return strchr(typed, '/') == NULL ? mega_command_name(p->commands, typed) : NULL;
    if (!mega_command_replaces(p->commands, typed) && is_file(typed)) return NULL;
    return mega_command_name(p->commands, typed);
}

/* Writes a mistake and returns false if `path` cannot be started. */
static bool is_startable(launch_plan *p, const char *path)
{
    struct stat it;
    if (stat(path, &it) != 0) launch_mistake(p, "%s: %s; expected a program", path, strerror(errno));
    else if (S_ISDIR(it.st_mode))
        launch_mistake(p, "%s: is a folder; expected a program", path);
    else if (access(path, X_OK) != 0)
        launch_mistake(p, "%s: %s; make it executable: chmod +x %s", path, strerror(errno), path);
    else
        return true;
    return false;
}

/* Reports a word without a slash that is neither a command nor on PATH. */
static void unknown_program(launch_plan *p, const char *typed)
{
    const char *ours = mega_command_of_script(p->commands, typed);
    if (ours != NULL) launch_mistake(p, "\"%s\" is not a command; %s does its work here", typed, ours);
    else if (is_python_file(typed))
        launch_mistake(p, "\"%s\" is not a command, and no such file exists", typed);
    else if (is_file(typed))
        launch_mistake(p, "\"%s\" is not a command and not on PATH; the program of this folder is ./%s", typed, typed);
    else
        launch_mistake(p,
                       "\"%s\" is not a command, and no program on PATH has this name; expected pretrain_gpt, "
                       "generate_samples_gpt, tasks, or a path to a program of your own. megalith help lists the "
                       "commands",
                       typed);
}

static const char *find_own(launch_plan *p, const char *typed)
{
    if (strchr(typed, '/') != NULL) return is_startable(p, typed) ? typed : NULL;
    const char *found = launch_find_program(p, typed);
    if (found == NULL) unknown_program(p, typed);
    return found;
}

/* Accepts "train.py" and "python3 -u train.py"; torchrun too runs Python unbuffered. */
static void read_python(launch_plan *p, char **words, int python, const char *typed)
{
    const bool is_named = python > 0 && strncmp(words[0], "megalith", 8) != 0;
    if (is_python_file(typed) && !is_file(typed)) {
        unknown_program(p, typed);
        return;
    }
    p->own = find_own(p, is_named ? words[0] : "python3");
    if (p->own == NULL) return;
    launch_word(&p->own_words, &p->arena, "%s", p->own);
    for (int i = 1; is_named && i < python; i++) launch_word(&p->own_words, &p->arena, "%s", words[i]);
    if (!is_named) launch_word(&p->own_words, &p->arena, "-u");
    launch_word(&p->own_words, &p->arena, "%s", typed);
}

void launch_program_read(launch_plan *p, char **words, int python, const char *typed)
{
    const char *slash = python > 0 ? strrchr(words[0], '/') : NULL;
    const char *first = python == 0 ? "" : slash != NULL ? slash + 1 : words[0];
    const bool is_python = strncmp(first, "python", 6) == 0 || is_python_file(typed);
    p->command = typed;
    p->is_python = is_python;
    if (p->is_module && !is_python) {
        launch_mistake(p, "--module: \"%s\" is not a command; start a module of your own as python3 -m %s", typed,
                       typed);
        return;
    }
    if (is_python) {
        read_python(p, words, python, typed);
        if (p->own != NULL && p->passed.count > 0)
            launch_mistake(p,
                           "%s would become an argument of %s, which runs in Python; leave out that option of launch, "
                           "and give the script its own",
                           p->passed.word[0], typed);
    } else {
        p->own = find_own(p, typed);
        if (p->own != NULL) launch_word(&p->own_words, &p->arena, "%s", p->own);
    }
    if (p->own_words.failed) launch_mistake(p, "no memory for the words of %s", typed);
}

/* ---- the program's arguments ---- */

/* Both begin with "--"; '-' and '_' are equivalent in a name, which ends at '='. */
bool launch_is_same_option(const char *a, const char *b)
{
    for (;; a++, b++) {
        const char x = *a == '_' ? '-' : *a == '=' ? '\0' : *a, y = *b == '_' ? '-' : *b == '=' ? '\0' : *b;
        if (x != y) return false;
        if (x == '\0') return true;
    }
}

static bool program_option_is_given(const char *option, int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (strncmp(argv[i], "--", 2) == 0 && launch_is_same_option(argv[i], option)) return true;
    return false;
}

int launch_program_arguments(const launch_plan *p, int argc, char **argv, char **out)
{
    int n = 0;
    for (; n < argc; n++) out[n] = argv[n];
    for (int i = 0; i < p->passed.count;) {
        const bool is_wanted = !program_option_is_given(p->passed.word[i], argc, argv);
        do {
            if (is_wanted) out[n++] = p->passed.word[i];
        } while (++i < p->passed.count && strncmp(p->passed.word[i], "--", 2) != 0);
    }
    return n;
}

void launch_program_words(launch_plan *p, launch_words *c)
{
    mega_arena *a = &p->arena;
    char own[256] = "localhost";
    const char *first = p->hosts > 1 ? p->host[0].name : "127.0.0.1";
    /* Open MPI gives the first ranks to this host, wherever it is in the list. */
    for (int i = 0; i < p->hosts && p->hosts > 1; i++) {
        if ((i > 0 && p->kind != LAUNCH_OPENMPI) || !launch_host_is_here(&p->host[i])) continue;
        const bool is_local_name = strcmp(p->host[i].name, "localhost") == 0;
        first = is_local_name && gethostname(own, sizeof own - 1) == 0 ? own : p->host[i].name;
        break;
    }
    const char *address = p->master_addr != NULL ? p->master_addr : first;
    launch_word(c, a, "launch");
    launch_word(c, a, LAUNCH_START_RANK);
    launch_word(c, a, "MASTER_ADDR=%s", address);
    launch_word(c, a, "MASTER_PORT=%lld", (long long)(p->master_port > 0 ? p->master_port : PORT));
    launch_word(c, a, "TORCHELASTIC_RESTART_COUNT=%lld", (long long)p->attempt);
    launch_word(c, a, "TORCHELASTIC_MAX_RESTARTS=%lld", (long long)p->max_restarts);
    launch_word(c, a, "--");
    for (int i = 0; i < p->own_words.count; i++) launch_word(c, a, "%s", p->own_words.word[i]);
}
