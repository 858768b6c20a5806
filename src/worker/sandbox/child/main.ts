/**
 * The sandbox child. It reads orders from stdin, does the runs of each attempt in order, reports on stdout, and ends when stdin
 * closes. Between attempts it keeps only compiled WASM. Only sandbox-child.ts starts it, and the parent checks all its reports.
 * It imports nothing outside this folder but QuickJS.
 */
import { closeSync } from "node:fs";
import { orders, send } from "./line-pipe.ts";
import { logWriter } from "./log-writer.ts";
import type { AttemptOrder } from "./messages.ts";
import { probe } from "./probe.ts";
import { prepareEngine, runInEngine } from "./run-in-engine.ts";

// Closes files that the process inherited. The parent names them.
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

/** Does the runs until one does not finish. */
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
        const message = `run ${name} waits for a promise that nothing is left to settle`;
        send({ kind: "run_failed", run, name: "NeverSettles", message, line: null, fatal: true });
        return;
      }
    }
  }
}
