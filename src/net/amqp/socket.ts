/** The socket below a connection of the client library. */
import type { Socket } from "node:net";
import type { ChannelModel } from "amqplib";

/** Options of the socket: how many bytes it accepts before the library waits. Node's default holds about 30 messages. */
export const SOCKET_OPTIONS = { highWaterMark: 262_144 } as const;

/** Destroys the socket of a connection. */
export function hangUp(connection: ChannelModel): void {
  socketOf(connection).destroy();
}

/**
 * Writes all messages of one turn of the event loop with one system call. The library writes each message for itself, and the
 * system call of a write costs more than all the rest of a message.
 */
export function gatherWrites(connection: ChannelModel): void {
  const socket = socketOf(connection);
  const write = socket.write.bind(socket) as (...args: unknown[]) => boolean;
  let isCorked = false;
  const uncork = (): void => {
    isCorked = false;
    socket.uncork();
  };
  const gathered = (...args: unknown[]): boolean => {
    if (!isCorked) {
      isCorked = true;
      socket.cork();
      process.nextTick(uncork);
    }
    return write(...args);
  };
  socket.write = gathered;
}

function socketOf(connection: ChannelModel): Socket {
  return (connection.connection as unknown as { readonly stream: Socket }).stream;
}
