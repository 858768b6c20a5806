/**
 * Ports for servers that figures and tests start: below those that the system gives to outgoing connections, so that nobody
 * takes one before its server listens, nor between two of its lives.
 */
import { createServer } from "node:net";

const FIRST = 18_000;
const LAST = 29_999;

/** Each process begins elsewhere, and gives no port twice. */
let next = FIRST + ((process.pid * 37) % (LAST - FIRST));

/** So many ports that nobody listens at, all of them different. */
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

/** One of them. */
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
