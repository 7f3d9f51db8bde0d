/* How a program begins on every glibc from 2.17 on. Up to 2.33 the C library runs the constructors that its caller hands over; a newer one does
 * so where they are handed over, and else runs them itself, which is all that the start file of such a machine counts on. */
extern int main(int, char **, char **);
extern int __libc_start_main(int (*)(int, char **, char **), int, char **, void (*)(int, char **, char **), void (*)(void), void (*)(void), void *);

typedef void constructor(int, char **, char **);
extern constructor *__init_array_start[] __attribute__((visibility("hidden")));
extern constructor *__init_array_end[] __attribute__((visibility("hidden")));

static void construct(int count, char **arguments, char **environment) {
  for (constructor **each = __init_array_start; each < __init_array_end; each++) {
    (*each)(count, arguments, environment);
  }
}

/* `stack`: as the kernel hands it over, with the arguments; `end`: what the dynamic linker does when the program ends. */
__attribute__((visibility("hidden"), used, noreturn)) void lg_start(long *stack, void (*end)(void)) {
  __libc_start_main(main, (int)stack[0], (char **)(stack + 1), construct, 0, end, stack);
  __builtin_trap();
}

#if defined(__x86_64__)
__asm__(".globl _start\n_start:\n xor %ebp, %ebp\n mov %rsp, %rdi\n mov %rdx, %rsi\n and $-16, %rsp\n call lg_start\n");
#else
__asm__(".globl _start\n_start:\n mov x29, #0\n mov x30, #0\n mov x1, x0\n mov x0, sp\n bl lg_start\n");
#endif
