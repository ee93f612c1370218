/* A small service: lines on a socket, or on the TCP port that its argument says; `put KEY VALUE`, `get KEY`,
 * `end`; it ends by SIGTERM. */
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define KEYS 64
#define CLIENTS 8
#define LINE 256

static char values[KEYS][LINE];
static char kept[CLIENTS][LINE];
static size_t kept_bytes[CLIENTS];
static volatile sig_atomic_t over;

static void end(int number) {
  (void)number;
  over = 1;
}

static void answer(int client, const char *line) {
  char text[LINE + 8];
  unsigned key = 0;
  if (sscanf(line, "put %u %248s", &key, text) == 2 && key < KEYS) {
    strcpy(values[key], text);
    strcpy(text, "stored\n");
  } else if (sscanf(line, "get %u", &key) == 1 && key < KEYS) {
    snprintf(text, sizeof text, values[key][0] ? "value %s\n" : "none\n", values[key]);
  } else {
    strcpy(text, strcmp(line, "end") == 0 ? "ended\n" : "error\n");
  }
  if (write(client, text, strlen(text)) < 0)
    exit(2);
}

static int serve(int client, size_t place) {
  const ssize_t more = read(client, kept[place] + kept_bytes[place], LINE - kept_bytes[place] - 1);
  if (more <= 0)
    return 0;
  kept_bytes[place] += (size_t)more;
  kept[place][kept_bytes[place]] = 0;
  for (char *stop; (stop = strchr(kept[place], '\n'));) {
    *stop = 0;
    answer(client, kept[place]);
    memmove(kept[place], stop + 1, strlen(stop + 1) + 1);
    kept_bytes[place] = strlen(kept[place]);
  }
  return 1;
}

static int bound(const char *port) {
  const struct sockaddr_un here = {.sun_family = AF_UNIX, .sun_path = "socket"};
  const struct sockaddr_in there = {
      .sin_family = AF_INET, .sin_port = htons(port ? atoi(port) : 0), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  const int found = socket(port ? AF_INET : AF_UNIX, SOCK_STREAM, 0), yes = 1;
  setsockopt(found, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const int failed = port ? bind(found, (const struct sockaddr *)&there, sizeof there)
                          : bind(found, (const struct sockaddr *)&here, sizeof here);
  return failed ? -1 : found;
}

int main(int arguments, char **argument) {
  struct pollfd open[CLIENTS + 1] = {{.fd = bound(arguments > 1 ? argument[1] : NULL), .events = POLLIN}};
  nfds_t count = 1;
  signal(SIGTERM, end);
  if (open[0].fd < 0 || listen(open[0].fd, CLIENTS))
    return 1;
  while (!over) {
    if (poll(open, count, -1) < 0)
      continue;
    for (nfds_t place = 1; place < count; place++)
      if (open[place].revents && !serve(open[place].fd, place - 1))
        open[place].fd = -1;
    if (open[0].revents && count <= CLIENTS)
      open[count++] = (struct pollfd){.fd = accept(open[0].fd, NULL, NULL), .events = POLLIN};
  }
  return 0;
}
