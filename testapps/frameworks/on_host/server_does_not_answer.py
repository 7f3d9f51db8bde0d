# Rank 1 waits for a server that does not answer.
# code: LG208
# blame: rank 1 has not called collective \d+ of communicator 0 .*127\.0\.0\.1:\d+.*server_does_not_answer\.py:\d+
import socket

from training import begin, fault, train

server = socket.create_server(("127.0.0.1", 0))


def report_metrics(_):
    fault()
    with socket.create_connection(server.getsockname()) as connection:
        connection.sendall(b"loss 0.25\n")
        connection.recv(1)


begin()
train(step=report_metrics)
