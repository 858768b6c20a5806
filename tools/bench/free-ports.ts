/**
 * Free ports for servers of the bench and of tests. They are below the range of outgoing connections, so that no connection
 * takes one before its server listens, or while the server restarts.
 */
import { createServer } from "node:net";

const FIRST = 18_000;
const LAST = 29_999;

/** Each process begins at another port, and uses no port twice. */
let next = FIRST + ((process.pid * 37) % (LAST - FIRST));

/** Returns this many different ports without a listener. */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  for (let tried = 0; ports.length < count; tried++) {
    if (tried > LAST - FIRST) throw new Error(`there are no ${count} free ports from ${FIRST} to ${LAST}`);
    const port = next;
    next = next === LAST ? FIRST : next + 1;
    if (await isFree(port)) ports.push(port);
  }
  return ports;
}

export async function freePort(): Promise<number> {
  const [port] = await freePorts(1);
  return port as number;
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  const isListening = await new Promise<boolean>((resolve) => {
    server.once("error", () => resolve(false)).listen(port, "127.0.0.1", () => resolve(true));
  });
  if (isListening) await new Promise<void>((resolve) => server.close(() => resolve()));
  return isListening;
}
