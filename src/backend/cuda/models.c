/* GPUs that a plan can be made for without having one. All numbers are published by NVIDIA, none is measured: data
 * sheets count a GB as 10^9 bytes or 2^30, so that the memory here is the least that it can mean; products are without
 * sparsity, in 16 bits by tensor cores with sums in fp32. */
#include "megalith/cuda.h"

#include <string.h>

static const mega_gpu_model model[] = {
    /* name, name in words, names that the driver reports; GB, TFLOP/s in fp32 and in 16 bits, GB/s, capability */
    {"a10", "NVIDIA A10", {"NVIDIA A10"}, 24, 31.2, 125, 600, 86},
    {"a100", "NVIDIA A100 SXM", {"NVIDIA A100-SXM4-80GB"}, 80, 19.5, 312, 2039, 80},
    {"a100-40", "NVIDIA A100 40GB", {"NVIDIA A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB"}, 40, 19.5, 312, 1555, 80},
    {"a100-pcie", "NVIDIA A100 PCIe", {"NVIDIA A100 80GB PCIe"}, 80, 19.5, 312, 1935, 80},
    {"a30", "NVIDIA A30", {"NVIDIA A30"}, 24, 10.3, 165, 933, 80},
    {"a40", "NVIDIA A40", {"NVIDIA A40"}, 48, 37.4, 149.7, 696, 86},
    {"a6000", "NVIDIA RTX A6000", {"NVIDIA RTX A6000"}, 48, 38.7, 154.8, 768, 86},
    {"b200", "NVIDIA B200", {"NVIDIA B200"}, 180, 75, 2250, 7700, 100},
    {"h100", "NVIDIA H100 SXM", {"NVIDIA H100 80GB HBM3"}, 80, 67, 989, 3350, 90},
    {"h100-nvl", "NVIDIA H100 NVL", {"NVIDIA H100 NVL"}, 94, 60, 835, 3900, 90},
    {"h100-pcie", "NVIDIA H100 PCIe", {"NVIDIA H100 PCIe"}, 80, 51, 756, 2000, 90},
    {"h200", "NVIDIA H200 SXM", {"NVIDIA H200"}, 141, 67, 989, 4800, 90},
    {"l4", "NVIDIA L4", {"NVIDIA L4"}, 24, 30.3, 121, 300, 89},
    {"l40", "NVIDIA L40", {"NVIDIA L40"}, 48, 90.5, 181, 864, 89},
    {"l40s", "NVIDIA L40S", {"NVIDIA L40S"}, 48, 91.6, 362, 864, 89},
    {"rtx3090", "NVIDIA RTX 3090", {"NVIDIA GeForce RTX 3090"}, 24, 35.6, 71, 936, 86},
    {"rtx4090", "NVIDIA RTX 4090", {"NVIDIA GeForce RTX 4090"}, 24, 82.6, 165.2, 1008, 89},
    {"rtx5090", "NVIDIA RTX 5090", {"NVIDIA GeForce RTX 5090"}, 32, 104.8, 209.5, 1792, 120},
};
enum { MODELS = sizeof model / sizeof *model };

const mega_gpu_model *mega_gpu_model_named(const char *name)
{
    for (int i = 0; name != NULL && i < MODELS; i++)
        if (strcmp(model[i].name, name) == 0) return &model[i];
    return NULL;
}

/* An instance of MIG has another name, and a part of the numbers. */
const mega_gpu_model *mega_gpu_model_reported(const char *name)
{
    for (int i = 0; i < MODELS; i++)
        for (int k = 0; k < MEGA_GPU_REPORTED && model[i].reported[k] != NULL; k++)
            if (strcmp(model[i].reported[k], name) == 0) return &model[i];
    return NULL;
}

const mega_gpu_model *mega_gpu_model_at(int i)
{
    return i < MODELS ? &model[i] : NULL;
}

double mega_gpu_model_flops(const mega_gpu_model *m, mega_dtype type)
{
    return type == MEGA_BF16 || type == MEGA_F16 ? m->tflops_16 * 1e12 : type == MEGA_F32 ? m->tflops_32 * 1e12 : 0;
}
