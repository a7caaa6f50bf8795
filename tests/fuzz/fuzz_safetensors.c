/* A safetensors file: header and tensors. If it is accepted, all tensors must be inside the file. */
#include "fuzz.h"
#include "megalith/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_watch(size);
    mega_safetensors *s = NULL;
    const mega_status st = mega_safetensors_parse(data, size, "fuzz", &s);
    fuzz_answer(st);
    if (st != MEGA_OK) return 0;
    for (size_t i = 0; i < mega_safetensors_count(s); i++) {
        const mega_safetensor *t = mega_safetensors_get(s, i);
        fuzz_require(mega_safetensors_find(s, t->name) != NULL, "a tensor is found by its name");
        const uint8_t *bytes = t->data;
        volatile uint8_t sum = 0;
        for (uint64_t at = 0; at < t->end - t->begin; at++) sum = (uint8_t)(sum + bytes[at]);
    }
    mega_safetensors_close(s);
    return 0;
}
