/* A GPU that is open: the driver's functions, a stream, memory, and the kernels of the program's images. */
#ifndef MEGA_CUDA_GPU_H
#define MEGA_CUDA_GPU_H

#include "cublaslt_calls.h"
#include "driver.h"
#include "launch.h"
#include "megalith/cuda.h"
#include "megalith/device_exchange.h"
#include "megalith/status.h"
#include <pthread.h>

/* ---- library.c ---- */

/* Loads the driver: MEGA_CUDA_LIBRARY, or libcuda.so.1. */
mega_status mega_cuda_library_load(mega_cuda_driver *out);
/* Returns MEGA_OK for CU_OK; otherwise fails with "WHAT: what the driver says", and what can be done about it. */
mega_status mega_cuda_check(const mega_cuda_driver *cuda, cu_result result, const char *what);
/* Sets `text` to "; " and what decides which GPUs there are. */
enum { MEGA_CUDA_ADVICE = 384 };
void mega_cuda_no_device(char text[MEGA_CUDA_ADVICE]);

/* ---- libraries.c ---- */

enum { MEGA_CUDA_PATH = 512 };
/* Opens the first of these that the loader, the toolkit or a wheel has, and notes where; NULL: there is none. */
void *mega_cuda_library_find(const char *const *names, int count, char found[MEGA_CUDA_PATH]);

/* ---- devices.c ---- */

/* Finds a GPU by its number and says what it is; refuses one that the kernels cannot run on. */
mega_status mega_cuda_look_at(const mega_cuda_driver *cuda, int64_t ordinal, cu_device *id, mega_cuda_info *out);

/* ---- images.c ---- */

/* The program's kernels: the PTX, and perhaps the code of some kinds of chips. Made by the build (cmake/images.sh,
 * which says how they are packed); bytes 0: there are none. */
extern const unsigned char mega_cuda_images[];
extern const size_t mega_cuda_images_bytes;

enum { CUDA_MODULES = 128, CUDA_FUNCTIONS = 1024 /* a power of 2 */ };

typedef struct cuda_images {
    char *text; /* the part that is unpacked */
    size_t bytes;
    struct {
        const char *source;
        cu_module module;
    } module[CUDA_MODULES];
    int num_modules;
    struct {
        const char *kernel; /* NULL: free */
        cu_function function;
        unsigned shared_bytes; /* that its blocks may have */
    } function[CUDA_FUNCTIONS];
    int num_functions;
    mega_cuda_loaded loaded;
} cuda_images;

/* Fails if the program has no kernels. */
mega_status mega_cuda_images_exist(void);
/* Unpacks the code of this kind of GPU (90: 9.0), or else the PTX. Code that the driver refuses is replaced by PTX. */
mega_status mega_cuda_images_open(cuda_images *images, int capability);
void mega_cuda_images_close(cuda_images *images, const mega_cuda_driver *cuda);
/* Loads an image, unless it is loaded. */
mega_status mega_cuda_images_load(cuda_images *images, const mega_cuda_driver *cuda, const char *source);
/* Finds the function of a kernel, whose image is loaded when the first of its kernels is asked for. */
mega_status mega_cuda_images_find(cuda_images *images, const mega_cuda_driver *cuda, const char *source,
                                  const mega_cuda_launch *launch, cu_function *out);

/* ---- writes.c: in no context but the GPU's ---- */

enum { CUDA_PIECES = 64 };

typedef struct cuda_half {
    size_t used, sent;       /* bytes of it; those whose copy to the staging area was asked for */
    cu_event arrived, taken; /* that copy has run; so have those out of the staging area */
} cuda_half;

typedef struct cuda_piece {
    cu_address to;
    size_t at, bytes;   /* in the half that is being filled; bytes: of a row */
    size_t rows, pitch; /* pitch: from row to row of the device */
} cuda_piece;

typedef struct cuda_writes {
    const mega_cuda_driver *cuda;
    cu_stream computes, copies;
    mega_status (*wait)(void *user, cu_event event); /* of the host */
    void *user;
    char *pinned;
    cu_address staging;
    cuda_half half[2];
    int now; /* the half that is being filled */
    cuda_piece piece[CUDA_PIECES];
    int num_pieces; /* for which nothing was asked yet */
} cuda_writes;

/* w->wait and w->user are set. */
mega_status mega_cuda_writes_open(cuda_writes *w, const mega_cuda_driver *cuda, cu_stream computes);
void mega_cuda_writes_close(cuda_writes *w); /* also after an open that failed */
mega_status mega_cuda_writes_add(cuda_writes *w, cu_address to, const void *host, size_t bytes);
/* The same of rows that follow each other on the host and are `pitch` bytes apart on the GPU; a row is at most half of
 * the staging area. */
mega_status mega_cuda_writes_add_rows(cuda_writes *w, cu_address to, size_t pitch, const void *host, size_t rows,
                                      size_t bytes);
/* Asks for the copies of all that was written: before other work is asked for in the stream that computes. */
mega_status mega_cuda_writes_flush(cuda_writes *w);
void mega_cuda_writes_are_done(cuda_writes *w); /* the host has waited for that stream */

/* ---- products.c: matrix products by cuBLASLt, in no context but the GPU's ---- */

/* What the algorithm of a product depends on. */
typedef struct cuda_product_key {
    int64_t m, n, k, lda, ldb, ldc;
    mega_dtype dtype, c_dtype;
    bool trans_a, trans_b, has_bias;
} cuda_product_key;

typedef struct cuda_product {
    cuda_product_key key;
    bool is_own; /* the library has no algorithm for it */
    cublaslt_product how;
    cublaslt_matrix matrix[3]; /* b, a and c of mega_gemm_args */
    cublaslt_algorithm algorithm;
} cuda_product;

typedef struct cuda_products {
    bool is_open;
    mega_cublaslt library;
    char path[MEGA_CUDA_PATH];
    cublaslt_handle handle;
    cublaslt_preference preference;
    cu_address workspace;
    cuda_product *product; /* of the shapes that were asked for */
    int count;
} cuda_products;

/* Loads cuBLASLt: `wanted` is auto, which may find none, cublaslt, or its path. */
mega_status mega_cuda_products_open(cuda_products *p, const mega_cuda_driver *cuda, const char *wanted);
void mega_cuda_products_close(cuda_products *p, const mega_cuda_driver *cuda); /* also after an open that failed */
/* Chooses the algorithm of a call, so that no step waits for it. */
mega_status mega_cuda_products_load(cuda_products *p, const mega_gemm_args *a);
/* Queues the product of a call, without its row sums. Sets *is_done to false, and queues nothing, where our own kernel
 * computes it. */
mega_status mega_cuda_products_run(cuda_products *p, const mega_gemm_args *a, bool first_micro_batch, cu_stream stream,
                                   bool *is_done);

/* ---- nccl.c: exchanges with the GPUs of other ranks ---- */

struct mega_cuda_gpu;
typedef struct cuda_exchanges cuda_exchanges;
extern const mega_device_exchanges mega_cuda_exchanges;
/* Ends them: what is on its way stops, on this rank. */
void mega_cuda_exchanges_abort(struct mega_cuda_gpu *g);
/* Waits for the event, or, if it is NULL, for the stream, as long as the watch of the exchanges allows; also asks NCCL
 * for what failed on its own. Returns false after a failure. Only with exchanges. */
bool mega_cuda_exchanges_wait(struct mega_cuda_gpu *g, cu_stream stream, cu_event event, const char *what);

/* ---- gpu.c ---- */

struct mega_recording {
    cu_graph_exec exec;
    const char *last; /* its last kernel */
    int64_t launches;
    size_t bytes;
};

typedef struct mega_cuda_gpu {
    mega_device device; /* first: what others see */
    mega_cuda_driver cuda;
    cu_device id;
    bool has_context;
    cu_context context;
    cu_stream stream;
    pthread_mutex_t lock; /* of all below */
    bool is_entered;      /* its context is current in the thread that has the lock */
    cuda_writes writes;
    char *received;    /* pinned memory for what is copied from the device */
    char *answers;     /* in it, for what mega_device_ask asked for */
    cu_event answered; /* which has arrived */
    cuda_images images;
    cuda_products products;
    cuda_exchanges *exchanges; /* NULL: none */
    size_t left;               /* memory that was free when it was opened */
    cu_event *mark;            /* those that were made, of which num_marks are in use */
    int64_t made_marks, num_marks;
    bool has_work;             /* since the host has waited last */
    bool has_more;             /* since the host has asked last (answers.c) */
    const char *last;          /* the kernel that was queued last; NULL: none since the last wait */
    mega_recording *recording; /* into which work is recorded; NULL: it is queued */
    bool lacks_graphs;         /* there was no memory for one, and a warning said so */
    mega_error_record failed;  /* code MEGA_OK: nothing */
    char name[128];            /* "cuda:0" */
    char bus_id[32];           /* "0000:81:00.0" */
} mega_cuda_gpu;

/* Around work in its context, after all that the host has written; false, after a failure, and where bytes is 0:
 * nothing is to be done. */
bool mega_cuda_gpu_enter(mega_cuda_gpu *g, size_t bytes);
bool mega_cuda_gpu_enter_to_end(mega_cuda_gpu *g); /* also after a failure: to give back what it has */
void mega_cuda_gpu_leave(mega_cuda_gpu *g);
/* Note the first failure; return whether there was none. */
bool mega_cuda_gpu_keep(mega_cuda_gpu *g, mega_status st);
bool mega_cuda_gpu_is_done(mega_cuda_gpu *g, cu_result result, const char *what);
/* Waits for an event that comes in any case: of copies and marks. */
mega_status mega_cuda_gpu_wait(mega_cuda_gpu *g, cu_event event);
/* Returns that failure. */
mega_status mega_cuda_gpu_status(const mega_cuda_gpu *g);

/* ---- answers.c ---- */

void mega_cuda_ask(mega_device *device, const mega_device_part *part, int count);
void mega_cuda_answer(mega_device *device, const mega_device_part *part, int count);

/* ---- marks.c ---- */

void mega_cuda_marks_begin(mega_device *device);
int64_t mega_cuda_mark(mega_device *device);
double mega_cuda_seconds(mega_device *device, int64_t from, int64_t to);

/* Queues a launch; a failure is kept until the device is finished. */
void mega_cuda_gpu_launch(mega_device *device, const char *source, const mega_cuda_launch *launch, const void *args);
/* Queues a matrix product by a library. Returns false if our own kernel is to compute it. */
bool mega_cuda_gpu_multiply(mega_device *device, const mega_gemm_args *args, bool first_micro_batch);

#endif
