#include "fiber.h"
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

/* fiber_swap(save, load) stores the registers that a call keeps on the stack, the stack pointer in *save, and loads
 * the others from `load`. Of the WORDS on a stack that
 * begins, number RETURN is the address to which it returns. */
#if defined(__x86_64__) && !defined(MEGA_FIBER_UCONTEXT)
enum { RETURN = 6, WORDS = 8 };
void fiber_swap(void **save, void *load);
__asm__(".text\n.globl fiber_swap\n.hidden fiber_swap\n.type fiber_swap,@function\nfiber_swap:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
        ".size fiber_swap,.-fiber_swap\n.section .note.GNU-stack,\"\",@progbits\n.text\n");
#elif defined(__aarch64__) && !defined(MEGA_FIBER_UCONTEXT)
enum { RETURN = 11, WORDS = 20 }; /* x30, the address to return to, is the twelfth word */
void fiber_swap(void **save, void *load);
__asm__(
    ".text\n.globl fiber_swap\n.hidden fiber_swap\n.type fiber_swap,%function\nfiber_swap:\n"
    "sub sp,sp,#160\n"
    "stp x19,x20,[sp]\nstp x21,x22,[sp,#16]\nstp x23,x24,[sp,#32]\nstp x25,x26,[sp,#48]\nstp x27,x28,[sp,#64]\n"
    "stp x29,x30,[sp,#80]\nstp d8,d9,[sp,#96]\nstp d10,d11,[sp,#112]\nstp d12,d13,[sp,#128]\nstp d14,d15,[sp,#144]\n"
    "mov x2,sp\nstr x2,[x0]\nmov sp,x1\n"
    "ldp x19,x20,[sp]\nldp x21,x22,[sp,#16]\nldp x23,x24,[sp,#32]\nldp x25,x26,[sp,#48]\nldp x27,x28,[sp,#64]\n"
    "ldp x29,x30,[sp,#80]\nldp d8,d9,[sp,#96]\nldp d10,d11,[sp,#112]\nldp d12,d13,[sp,#128]\nldp d14,d15,[sp,#144]\n"
    "add sp,sp,#160\nret\n"
    ".size fiber_swap,.-fiber_swap\n.section .note.GNU-stack,\"\",%progbits\n.text\n");
#else /* any other processor: a system call for each switch, which is slow */
#include <ucontext.h>
#define FIBER_UCONTEXT 1
#endif

/* The sanitizer has to know of every change of stacks. On arrival it gives the bounds of the stack that was left: those
 * of a thread's own stack come from nowhere else. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

static _Thread_local fiber *gone;

static void leave(fiber *from, const fiber *to)
{
    gone = from;
    __sanitizer_start_switch_fiber(&from->frames, to->bottom, to->size);
}

static void arrive(void *frames)
{
    __sanitizer_finish_switch_fiber(frames, &gone->bottom, &gone->size);
}

/* A fiber may have been given up in the middle: nothing of its stack is in use any more. */
static void stack_clear(fiber *f)
{
    f->bottom = f->stack + FIBER_GUARD;
    f->size = FIBER_STACK - FIBER_GUARD;
    __asan_unpoison_memory_region(f->bottom, f->size);
}

void fiber_begun(void)
{
    arrive(NULL);
}
#define ARRIVE(f) arrive((f)->frames)
#else
void fiber_begun(void)
{
}
#define leave(from, to) (void)0
#define stack_clear(f)  (void)0
#define ARRIVE(f)       (void)0
#endif

static void fiber_stack_make(fiber *f)
{
    f->stack = mmap(NULL, FIBER_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->stack == MAP_FAILED || mprotect(f->stack, FIBER_GUARD, PROT_NONE) != 0) abort();
}

/* Whole lines of a cache, and at most a quarter of the stack. */
static size_t offset_of(unsigned number)
{
    return number % 64 * 1088;
}

#ifdef FIBER_UCONTEXT
void fiber_begin(fiber *f, unsigned number, void (*main)(void))
{
    if (f->stack == NULL) fiber_stack_make(f);
    stack_clear(f);
    if (f->position == NULL && (f->position = calloc(1, sizeof(ucontext_t))) == NULL) abort();
    ucontext_t *c = f->position;
    if (getcontext(c) != 0) abort();
    c->uc_stack.ss_sp = f->stack;
    c->uc_stack.ss_size = FIBER_STACK - offset_of(number);
    makecontext(c, main, 0);
}
void fiber_switch(fiber *from, fiber *to)
{
    if (from->position == NULL && (from->position = calloc(1, sizeof(ucontext_t))) == NULL) abort();
    leave(from, to);
    swapcontext(from->position, to->position);
    ARRIVE(from);
}
#else
void fiber_begin(fiber *f, unsigned number, void (*main)(void))
{
    if (f->stack == NULL) fiber_stack_make(f);
    stack_clear(f);
    /* Below the words that fiber_swap takes there is room that keeps the stack aligned as at the start of a
     * function. */
    void **words = (void **)(f->stack + FIBER_STACK - offset_of(number) - 64) - WORDS;
    for (int i = 0; i < WORDS; i++) words[i] = NULL;
    words[RETURN] = (void *)(uintptr_t)main;
    f->position = words;
}
void fiber_switch(fiber *from, fiber *to)
{
    leave(from, to);
    fiber_swap(&from->position, to->position);
    ARRIVE(from);
}
#endif
