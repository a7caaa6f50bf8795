/* megalith measure-device: measures copies, products, attention and a training step of a device, prints a table, and
 * writes a record of the form of `make bench`. */
#include "cli.h"
#include "commands.h"
#include "megalith/cuda.h"
#include "megalith/file.h"
#include "megalith/measure.h"
#include "megalith/memory.h"
#include "megalith/threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: megalith measure-device [--device cpu|cuda|cuda:N] [--output FILE] [--quick]\n"
    "\n"
    "measures a device in about a minute: copies between host and device and within it, matrix products and attention\n"
    "by shape, a training step of a small GPT; each with its share of the peak where that is known: measured for a\n"
    "CPU, published for a GPU (docs/gpu.md)\n"
    "\n"
    "  --device DEVICE      what is measured (default: auto, a GPU where there is one that can, else the CPU)\n"
    "  --output FILE        also write a record: a JSON list of name, value, unit, detail, as make bench does\n"
    "  --quick              small shapes, once each, which says whether all of it runs and nothing about speed\n"
    "\n"
    "example\n"
    "  megalith measure-device --device cuda --output h100.json\n";

typedef struct measuring {
    const char *device, *output;
    bool is_quick;
    mega_buffer record;
    int count;
} measuring;

static void measure_show(void *user, const mega_measured *m)
{
    measuring *s = user;
    char share[32] = "";
    if (m->share > 0) snprintf(share, sizeof share, "%.1f %% of peak", 100 * m->share);
    printf("  %-32s %10.4g %-9s %-16s %s\n", m->name, m->value, m->unit, share, m->text);
    fflush(stdout);
    mega_buffer_printf(&s->record, "%s\n {\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", \"detail\": {",
                       s->count++ > 0 ? "," : "", m->name, m->value, m->unit);
    mega_buffer_printf(&s->record, "\"text\": \"%s%s%s\", \"low\": %.6g, \"high\": %.6g}}", m->text,
                       share[0] != '\0' ? "; " : "", share, m->low, m->high);
}

static mega_status measure_read_words(measuring *s, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        const bool is_device = strcmp(argv[i], "--device") == 0;
        if (strcmp(argv[i], "--quick") == 0) {
            s->is_quick = true;
        } else if (is_device || strcmp(argv[i], "--output") == 0) {
            if (next == NULL)
                return MEGA_MISTAKE("%s: found nothing, expected a %s", argv[i], is_device ? "device" : "file");
            *(is_device ? &s->device : &s->output) = next;
            i++;
        } else {
            return MEGA_MISTAKE("found %s, expected --device, --output or --quick", argv[i]);
        }
    }
    return MEGA_OK;
}

/* Says what is measured, and that a device in software has no speed. */
static void say_device(const mega_backend_options *b, mega_team *team, mega_buffer *record)
{
    char text[MEGA_CUDA_TEXT], model[128];
    if (b->backend != MEGA_BACKEND_CUDA)
        snprintf(text, sizeof text, "cpu: %s, %d threads, %s", mega_cpu_model(model, sizeof model),
                 mega_team_size(team), mega_isa_name(mega_cpu_isa()));
    else if (mega_cuda_describe(b->gpu, text) != MEGA_OK)
        snprintf(text, sizeof text, "cuda:%lld", (long long)b->gpu);
    printf("%s\n", text);
    const bool is_software = strncmp(text, "software device", 15) == 0;
    if (is_software) printf("a device in software: these figures mean nothing\n");
    mega_buffer_printf(record,
                       "\n {\"name\": \"device\", \"value\": null, \"unit\": \"\", \"detail\": {\"text\": \"%s%s\"}}",
                       text, is_software ? "; its figures mean nothing" : "");
}

/* Chooses as --device of a training does. */
static mega_status choose(mega_command_options *cfg, const char *device)
{
    char *argv[] = {"plan", "--device", (char *)(uintptr_t)device, "--preset", "tiny", "--micro-batch-size", "1"};
    MEGA_TRY(mega_command_options_init(cfg));
    if (mega_gpu_model_named(device) != NULL)
        return MEGA_MISTAKE("--device %s: only a device that is here can be measured; give cpu, cuda or "
                            "cuda:N",
                            device);
    return mega_options_parse(cfg->train.engine.options, "plan", 7, argv);
}

static mega_status measure_device(measuring *s)
{
    mega_command_options cfg;
    mega_team *team = NULL;
    mega_status st = choose(&cfg, s->device);
    if (st == MEGA_OK) st = mega_cli_team(&cfg, &team);
    if (st == MEGA_OK) {
        mega_buffer_puts(&s->record, "[");
        say_device(&cfg.train.engine.backend, team, &s->record);
        s->count = 1;
        st = mega_measure_device(&(mega_measure_options){
            .cfg = &cfg.train, .team = team, .is_quick = s->is_quick, .each = measure_show, .user = s});
        mega_buffer_puts(&s->record, "\n]\n");
    }
    if (st == MEGA_OK) st = mega_buffer_check(&s->record, "the record");
    if (st == MEGA_OK && s->output != NULL) st = mega_file_write_atomic(s->output, s->record.data, s->record.size);
    mega_team_destroy(team);
    mega_command_options_fini(&cfg);
    return st;
}

int mega_command_measure_device(int argc, char **argv)
{
    measuring s = {.device = "auto"};
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(help, stdout);
            return 0;
        }
    mega_status st = measure_read_words(&s, argc, argv);
    if (st == MEGA_OK) st = measure_device(&s);
    mega_buffer_fini(&s.record);
    return st == MEGA_OK ? 0 : mega_cli_fail("measure-device", st);
}
