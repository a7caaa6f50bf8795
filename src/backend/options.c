/* Options of the kernels: implementation, number types, threads. */
#include "megalith/backend_options.h"

#define ROW(name, field, kind) MEGA_OPTION(mega_backend_options, name, field, kind)

// clang-format off
static const mega_option_row precision_rows[] = {
    {ROW("fp16", fp16, MEGA_OPTION_FLAG), .json = "fp16.enabled", .resume = MEGA_RESUME_REPORTED, .help = "compute and activations in fp16, with a loss scale; gradients and master weights stay fp32"},
    {ROW("bf16", bf16, MEGA_OPTION_FLAG), .json = "bf16.enabled|bfloat16.enabled", .resume = MEGA_RESUME_REPORTED, .help = "compute and activations in bfloat16; gradients and master weights stay fp32"},
    {ROW("fp64", fp64, MEGA_OPTION_FLAG), .resume = MEGA_RESUME_REPORTED, .help = "compute in double with the plain kernels, for tests"},
};
const mega_option_section mega_backend_precision_section = MEGA_SECTION("mixed precision", precision_rows);

static const mega_option_row threads_rows[] = {
    {ROW("num-threads", num_threads, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = 1024, .alike = MEGA_ALIKE_NOT_NEEDED, .help = "threads; OMP_NUM_THREADS, else the cores this process may use"},
};
const mega_option_section mega_backend_threads_section = MEGA_SECTION("this machine", threads_rows);

static const mega_option_row kernels_rows[] = {
    {ROW("no-pack-weights", no_pack_weights, MEGA_OPTION_FLAG), .help = "pack weights again for each product of a step instead of once, which is slower and takes less memory"},
    {ROW("backend", backend, MEGA_OPTION_CHOICE), .fallback = "cpu", .choices = "cpu|plain|cuda", .resume = MEGA_RESUME_REPORTED, .help = "kernels: fast ones of the CPU, the plain ones that define each operation, or those of a GPU, which --device chooses"},
    {ROW("device", device, MEGA_OPTION_STRING), .fallback = "cpu", .alike = MEGA_ALIKE_NOT_NEEDED, .help = "what computes: cpu, cuda (a GPU for each rank of a host, shared if there are more ranks) or cuda:N; auto: as cuda where every rank has a GPU that can, else the CPU; megalith plan also takes the kind of a GPU that is elsewhere, such as h100"},
    {ROW("cuda-graph-impl", cuda_graph_impl, MEGA_OPTION_CHOICE), .fallback = "local", .choices = "local|none", .alike = MEGA_ALIKE_NOT_NEEDED, .help = "on a GPU: local records the launches of each forward and backward, and of the update on one rank, in graphs, each of which the host launches as one; none launches one by one, with the same bits"},
    {ROW("matmul-library", matmul_library, MEGA_OPTION_STRING), .fallback = "auto", .help = "on a GPU, what computes matrix products: auto is cuBLASLt where it is found, else own kernels; own, cublaslt, or the path of libcublasLt.so.13 or .12"},
};
const mega_option_section mega_backend_kernels_section = MEGA_SECTION("this machine", kernels_rows);
// clang-format on
