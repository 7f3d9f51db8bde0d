/* Starts a program with an environment that no shell makes: a name twice, entries without a name or without a `=`, an empty one, bytes
 * that are no text, an empty value. Without arguments it starts itself with `show`, which prints the environment, but for what the guard
 * needs.
 *
 * bare and guarded: prints the same list, exit 0. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static int show(void) {
    for (char **entry = environ; *entry; entry++) {
        if (strncmp(*entry, "LAZYGUARD_", 10) != 0 && strncmp(*entry, "LD_PRELOAD=", 11) != 0) {
            printf("[%s]\n", *entry);
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "show") == 0) {
        return show();
    }
    char *odd[] = {"TWICE=first", "PATH=/usr/bin:/bin", "WITHOUT",     "TWICE=second",       "=C:=hidden", "",
                   "BYTES=\377\1", "PATH=/elsewhere",    "EMPTY=",      "LAST_WITHOUT",       NULL};
    char *own[] = {argv[0], "show", NULL};
    char **words = argc > 1 ? argv + 1 : own;
    execve(argc > 1 ? words[0] : "/proc/self/exe", words, odd);
    perror(words[0]);
    return 9;
}
