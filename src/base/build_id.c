/* The build id of this program or library, read from the ELF note that the linker wrote into it. */
#include "megalith/threads.h"
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static size_t note_padded(size_t bytes)
{
    return (bytes + 3) & ~(size_t)3;
}

/* Writes the build id found among the ELF notes in [at, at + bytes). */
static void read_notes(const char *at, size_t bytes, char out[MEGA_BUILD_ID_TEXT])
{
    ElfW(Nhdr) note;
    while (bytes >= sizeof note) {
        memcpy(&note, at, sizeof note);
        const size_t name = note_padded(note.n_namesz), text = note_padded(note.n_descsz);
        if (name > bytes - sizeof note || text > bytes - sizeof note - name) return;
        const unsigned char *id = (const unsigned char *)at + sizeof note + name;
        const bool is_id =
            note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(at + sizeof note, "GNU", 4) == 0;
        for (size_t i = 0; is_id && i < note.n_descsz && 2 * i + 2 < MEGA_BUILD_ID_TEXT; i++)
            snprintf(out + 2 * i, 3, "%02x", id[i]);
        at += sizeof note + name + text;
        bytes -= sizeof note + name + text;
    }
}

static int visit_loaded_object(struct dl_phdr_info *info, size_t size, void *user)
{
    const uintptr_t here = (uintptr_t)&mega_build_id;
    bool is_ours = false;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && here >= begin && here - begin < info->dlpi_phdr[i].p_memsz)
            is_ours = true;
    }
    for (int i = 0; is_ours && i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_NOTE)
            read_notes((const char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr), info->dlpi_phdr[i].p_memsz, user);
    return is_ours;
}

void mega_build_id(char out[MEGA_BUILD_ID_TEXT])
{
    snprintf(out, MEGA_BUILD_ID_TEXT, "unknown");
    dl_iterate_phdr(visit_loaded_object, out);
}
