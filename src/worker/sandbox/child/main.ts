/**
 * The program of the sandbox process. It does the runs of each attempt in order, and ends when stdin closes. Between attempts
 * it keeps only compiled WASM. It imports nothing outside this folder but QuickJS.
 */
import { spawnSync } from "node:child_process";
import { closeSync, readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { logWriter, orders, send } from "./line-pipe.ts";
import type { AttemptOrder, ProbeFindings, ProbeOrder } from "./messages.ts";
import { prepareEngine, runInEngine } from "./run-in-engine.ts";

const CONNECT_MS = 1_000;

// Closes the files that the sandbox process inherited. The parent names them in the arguments.
for (const fd of process.argv.slice(2)) closeSync(Number(fd));
await prepareEngine();
send({ kind: "ready" });
for (const order of orders()) {
  switch (order.kind) {
    case "attempt":
      await doAttempt(order);
      break;
    case "probe":
      send({ kind: "probed", findings: await probe(order) });
      break;
  }
}

/** Does the runs of an attempt in order, and stops at the first run that does not finish. */
async function doAttempt(order: AttemptOrder): Promise<void> {
  let { state } = order;
  let run = 0;
  const log = logWriter(order.limits, (level, text) => send({ kind: "log", run, level, text }));
  for (; run < order.runs.length; run++) {
    const { name, expression, timeoutMs } = order.runs[run] as AttemptOrder["runs"][number];
    const end = await runInEngine({
      name,
      expression,
      timeoutMs,
      state,
      context: `{"input":${order.input},"attempt":${order.attempt},"run":${JSON.stringify(name)}}`,
      limits: order.limits,
      started: () => send({ kind: "run_started", run }),
      log,
    });
    switch (end.kind) {
      case "finished":
        state = end.state;
        send({ ...end, kind: "run_finished", run });
        break;
      case "failed":
        send({ ...end, kind: "run_failed", run });
        return;
      case "killed":
        send({ ...end, kind: "run_killed", run });
        return;
      case "stuck": {
        const message = `run ${name} waits for a promise that nothing can settle any more`;
        send({ kind: "run_failed", run, name: "NeverSettles", message, line: null, fatal: true });
        return;
      }
    }
  }
}

/** Tries every operation that the jail must prevent, from inside the sandbox process. Returns the operations that worked. */
async function probe({ port, file, pid }: ProbeOrder): Promise<ProbeFindings> {
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
