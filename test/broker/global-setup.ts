/** A folder in which the first test file that needs RabbitMQ starts it for all; at the end of the run it is stopped. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

let place = "";

/** Before the first test file. */
export function setup(): void {
  place = mkdtempSync(join(tmpdir(), "rondo-rabbitmq-"));
  process.env["RONDO_TEST_BROKER_PLACE"] = place;
}

/** After the last one. */
export function teardown(): void {
  const note = join(place, "server.json");
  if (existsSync(note)) for (const pid of pidsIn(note)) kill(pid);
  rmSync(place, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
}

function pidsIn(note: string): number[] {
  return (JSON.parse(readFileSync(note, "utf8")) as { pids: number[] }).pids;
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) throw error;
  }
}
