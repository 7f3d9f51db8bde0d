// What preloading a library adds to the life of a short process: the time from starting a program to its end, with the library in
// LD_PRELOAD and without, in turn and in a fresh random order each round.
//
// Usage: start_cost ROUNDS LIBRARY PROGRAM [ARGUMENT...]
// Prints a line a round: nanoseconds without, without once more, with.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

double now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

double life_of(char** command, char** environment, const posix_spawn_file_actions_t* actions) {
  const double begin = now_ns();
  pid_t child;
  int status = 0;
  if (posix_spawnp(&child, command[0], actions, nullptr, command, environment) != 0 || waitpid(child, &status, 0) != child) {
    std::fprintf(stderr, "start_cost: %s does not start\n", command[0]);
    std::exit(3);
  }
  const double life = now_ns() - begin;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    std::fprintf(stderr, "start_cost: %s ended with status %d\n", command[0], status);
    std::exit(4);
  }
  return life;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 3 ? std::atoi(argv[1]) : 0;
  if (rounds <= 0) {
    std::fprintf(stderr, "usage: start_cost ROUNDS LIBRARY PROGRAM [ARGUMENT...]\n");
    return 2;
  }
  std::string preload = std::string("LD_PRELOAD=") + argv[2];
  std::vector<char*> plain, preloaded;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (std::strncmp(*entry, "LD_PRELOAD=", 11) != 0) plain.push_back(*entry);
  preloaded = plain;
  // In front, so that both environments end alike.
  preloaded.insert(preloaded.begin(), preload.data());
  plain.push_back(nullptr);
  preloaded.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int descriptor : {0, 1, 2}) posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_RDWR, 0);
  char** const environments[] = {plain.data(), plain.data(), preloaded.data()};
  std::mt19937 random(20);
  std::array<int, 3> order = {0, 1, 2};
  for (const int which : order) life_of(argv + 3, environments[which], &actions);
  for (int round = 0; round < rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    double life[3];
    for (const int which : order) life[which] = life_of(argv + 3, environments[which], &actions);
    std::printf("%.0f %.0f %.0f\n", life[0], life[1], life[2]);
  }
  return 0;
}
