/* A loader that loads nothing. As some do, it ends a program with something to preload that it cannot load. A program that names it as its
 * interpreter starts here. Without any library, for 64 and for 32 bits. */
#ifdef __x86_64__
__asm__(".globl _start\n_start: mov %rsp, %rdi\n and $-16, %rsp\n call begin\n");
static long system_call(long number, long a, long b, long c) {
    __asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return number;
}
enum { WRITE = 1, EXIT = 231 };
#else
__asm__(".globl _start\n_start: mov %esp, %eax\n and $-16, %esp\n sub $12, %esp\n push %eax\n call begin\n");
static long system_call(long number, long a, long b, long c) {
    __asm__ volatile("int $0x80" : "+a"(number) : "b"(a), "c"(b), "d"(c) : "memory");
    return number;
}
enum { WRITE = 4, EXIT = 252 };
#endif

static void ends(const char *line, long length, long code) {
    system_call(WRITE, 1, (long)line, length);
    system_call(EXIT, code, 0, 0);
}

__attribute__((used)) static void begin(long *stack) {
    for (char **entry = (char **)(stack + 1 + *stack + 1); *entry; entry++) {
        const char *name = "LD_PRELOAD=", *at = *entry;
        for (; *name && *name == *at; name++, at++) {
        }
        if (!*name && *at) {
            ends("cannot load\n", 12, 127);
        }
    }
    ends("it ran\n", 7, 0);
}
