/** Tries everything that the jail must prevent, from inside, and reports what worked. */
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import type { ProbeFindings, ProbeOrder } from "./messages.ts";

const CONNECT_MS = 1_000;

/** The things that this process can do outside itself. */
export async function probe({ port, file, pid }: ProbeOrder): Promise<ProbeFindings> {
  return {
    environment: Object.keys(process.env),
    connected: await canConnect(port),
    readFile: works(() => readFileSync(file)),
    wroteFile: works(() => writeFileSync("probe", "")) || works(() => writeFileSync("/tmp/probe", "")),
    sawProcess: works(() => process.kill(pid, 0)),
    startedProcess: works(() => {
      const { error } = spawnSync(process.execPath, ["--version"]);
      if (error !== undefined) throw error;
    }),
  };
}

function works(attempt: () => unknown): boolean {
  try {
    attempt();
    return true;
  } catch {
    // The operation was refused, as it must be.
    return false;
  }
}

function canConnect(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1" });
    const end = (connected: boolean): void => {
      socket.destroy();
      resolve(connected);
    };
    socket.setTimeout(CONNECT_MS, () => end(false));
    socket.on("connect", () => end(true));
    socket.on("error", () => end(false));
  });
}
