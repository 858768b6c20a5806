/**
 * The child's two pipes: stdin brings orders, stdout takes reports, one JSON line each. Both block. A report has left the
 * process when `send` returns, so log lines arrive while the script still runs, and a parent that does not read slows the
 * script down instead of filling memory.
 */
import { readSync, writeSync } from "node:fs";
import type { ChildReport, Order } from "./messages.ts";

const CHUNK_BYTES = 65_536;
const NEWLINE = 10;

/** Sends one report; returns when the pipe has taken it. */
export function send(report: ChildReport): void {
  const bytes = Buffer.from(`${JSON.stringify(report)}\n`);
  for (let at = 0; at < bytes.length; ) at += writeSync(1, bytes, at);
}

/** Yields orders until the parent closes the pipe. */
export function* orders(): Generator<Order> {
  let parts: Buffer[] = [];
  for (;;) {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    const size = readSync(0, chunk);
    if (size === 0) return;
    let rest = chunk.subarray(0, size);
    for (let end = rest.indexOf(NEWLINE); end >= 0; end = rest.indexOf(NEWLINE)) {
      const line = Buffer.concat([...parts, rest.subarray(0, end)]).toString();
      parts = [];
      rest = rest.subarray(end + 1);
      yield JSON.parse(line) as Order;
    }
    if (rest.length > 0) parts.push(rest);
  }
}
