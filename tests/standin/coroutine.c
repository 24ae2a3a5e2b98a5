// Switches between coroutines: in assembly on x86-64 and aarch64, elsewhere by ucontext.
#include "tests/standin/coroutine.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)

// standin_switch(void **save, void *load): pushes the registers that a call preserves, stores the
// stack pointer in *save, takes `load` as stack pointer, and pops what was pushed there.
// standin_enter: what a new coroutine "returns" to; rbx has its argument, rbp its function.
__asm__(".text\n"
        ".hidden standin_switch\n.globl standin_switch\n.type standin_switch, @function\n"
        "standin_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  ret\n"
        ".size standin_switch, .-standin_switch\n"
        ".hidden standin_enter\n.globl standin_enter\n.type standin_enter, @function\n"
        "standin_enter:\n"
        "  movq %rbx, %rdi\n  callq *%rbp\n  ud2\n"
        ".size standin_enter, .-standin_enter\n");
// Words from the stack pointer on. With 9 of them the stack is aligned to 16 bytes at the call
// above.
enum { SAVED = 9, ARGUMENT = 4, FUNCTION = 5, RETURN = 6 };

#elif defined(__aarch64__)

// As above. x19 has the argument of a new coroutine, x20 its function, x30 where it "returns" to.
__asm__(".text\n"
        ".hidden standin_switch\n.globl standin_switch\n.type standin_switch, %function\n"
        "standin_switch:\n"
        "  sub sp, sp, #160\n"
        "  stp x19, x20, [sp]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
        "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n"
        "  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
        "  mov x9, sp\n  str x9, [x0]\n"
        "  mov sp, x1\n"
        "  ldp x19, x20, [sp]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
        "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
        "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n"
        "  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
        "  add sp, sp, #160\n"
        "  ret\n"
        ".size standin_switch, .-standin_switch\n"
        ".hidden standin_enter\n.globl standin_enter\n.type standin_enter, %function\n"
        "standin_enter:\n"
        "  mov x0, x19\n  blr x20\n  brk #0\n"
        ".size standin_enter, .-standin_enter\n");
enum { SAVED = 20, ARGUMENT = 0, FUNCTION = 1, RETURN = 11 };

#endif

#if defined(__x86_64__) || defined(__aarch64__)

void standin_switch(void **save, void *load);
void standin_enter(void);

void coroutine_prepare(Coroutine *c, char *from, size_t bytes, void (*enter)(void *),
                       void *argument) {
  uintptr_t top = ((uintptr_t)from + bytes) & ~(uintptr_t)15;
  uintptr_t *saved = (uintptr_t *)top - SAVED;
  memset(saved, 0, SAVED * sizeof *saved);
  saved[ARGUMENT] = (uintptr_t)argument;
  saved[FUNCTION] = (uintptr_t)enter;
  saved[RETURN] = (uintptr_t)standin_enter;
  c->stack = saved;
}

void coroutine_switch(Coroutine *from, const Coroutine *to) {
  standin_switch(&from->stack, to->stack);
}

#else

// makecontext passes numbers of type int: the pointer travels in two halves.
static void begin(unsigned high, unsigned low) {
  Coroutine *c = (Coroutine *)((uintptr_t)high << 16 << 16 | low);
  c->enter(c->argument);
}

void coroutine_prepare(Coroutine *c, char *from, size_t bytes, void (*enter)(void *),
                       void *argument) {
  getcontext(&c->context);
  c->enter = enter;
  c->argument = argument;
  c->context.uc_stack.ss_sp = from;
  c->context.uc_stack.ss_size = bytes;
  uintptr_t self = (uintptr_t)c;
  makecontext(&c->context, (void (*)(void))begin, 2, (unsigned)(self >> 16 >> 16), (unsigned)self);
}

void coroutine_switch(Coroutine *from, const Coroutine *to) {
  swapcontext(&from->context, &to->context);
}

#endif
