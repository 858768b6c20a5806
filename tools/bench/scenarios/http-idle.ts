/** Workers that wait for work over HTTP: how soon a task begins, and the cost of waiting. */
import { setMaxListeners } from "node:events";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { connect } from "../../../src/client/connect.ts";
import { HttpConnection } from "../../../src/net/http-connection.ts";
import { newExecutionId } from "../../../src/std/id.ts";
import { systemRandom } from "../../../src/std/random.ts";
import { RondoProcess, stopAll } from "../http/rondo-process.ts";
import { quick } from "../http/workflows.ts";
import type { Bench, Figures, Scenario } from "../scenario.ts";
import { median, percentile } from "../statistics.ts";

const CAPACITY = 100;
const WORKERS = 200;
const SETTLE_MS = 2_000;
/** The first claims of a worker are short. */
const FIRST_CLAIMS_MS = 8_000;
const POLL_MS = 5;

export const httpLatency: Scenario = {
  name: "http-latency",
  about: "one worker process that waits: from a start to its code, and requests while idle",
  goals: [
    {
      figure: "startToCodeP50Ms",
      label: "ms from a start to the handler's code, p50",
      bound: "most",
      value: 5,
    },
    {
      figure: "idleRequestsPerMinute",
      // Claims of 20 seconds, for tasks and for scripts.
      label: "requests per minute of an idle worker",
      bound: "most",
      value: 8,
    },
  ],
  parts: [runLatency],
};

export const httpWorkers: Scenario = {
  name: "http-workers",
  about: "200 idle workers connected",
  goals: [{ figure: "serverCpuPercent", label: "CPU of the server in %", bound: "most", value: 5 }],
  parts: [runWorkers],
};

async function runLatency(bench: Bench): Promise<Figures> {
  const runs = bench.isShort ? 60 : 300;
  const { server, url } = await RondoProcess.server(bench);
  let worker: RondoProcess | null = null;
  try {
    worker = await RondoProcess.worker(bench, url, CAPACITY);
    // Stores the definition and warms up.
    const rondo = connect({ url });
    for (let n = 0; n < 30; n++) await rondo.run(quick, null);
    const connection = new HttpConnection({ address: url });
    const samples: number[] = [];
    for (let n = 0; n < runs; n++) samples.push(await startToCodeMs(connection));
    connection.close();
    await worker.stop();
    worker = null;
    const idle = await idleRequests(bench, url);
    return {
      runs,
      startToCodeP50Ms: median(samples),
      startToCodeP99Ms: percentile(samples, 0.99),
      ...idle,
    };
  } finally {
    await stopAll([worker, server]);
  }
}

/** The time from sending a start to the first line of the handler, including the commit of the start. */
async function startToCodeMs(connection: HttpConnection): Promise<number> {
  const id = newExecutionId(Date.now(), systemRandom);
  const body = JSON.stringify({ workflow: "quick", input: null, id });
  const from = performance.timeOrigin + performance.now();
  const answer = await connection.send({ method: "POST", path: "/v1/executions", body });
  if (answer.status !== 201) throw new Error(`a start was answered with ${answer.status}: ${answer.text}`);
  for (;;) {
    await sleep(POLL_MS);
    const { text } = await connection.send({ method: "GET", path: `/v1/executions/${id}` });
    const { status, output } = JSON.parse(text) as { status: string; output: number };
    if (status === "done") return output - from;
    if (status !== "running") throw new Error(`an execution ended as ${status}`);
  }
}

/** Counts the requests of an idle worker through a proxy. */
async function idleRequests(bench: Bench, url: string): Promise<Figures> {
  const ms = bench.isShort ? 6_000 : 120_000;
  let requests = 0;
  const { hostname, port } = new URL(url);
  const proxy = createServer((incoming, answer) => {
    requests++;
    const { method, headers, url: path } = incoming;
    const outgoing = request({
      hostname,
      port,
      method,
      path,
      headers: { ...headers, host: `${hostname}:${port}` },
    });
    outgoing.on("response", (response) => {
      answer.writeHead(response.statusCode ?? 502, response.headers);
      response.pipe(answer);
    });
    outgoing.on("error", () => answer.destroy());
    answer.on("close", () => outgoing.destroy());
    incoming.pipe(outgoing);
  });
  await new Promise<void>((resolve) => {
    proxy.listen(0, "127.0.0.1", resolve);
  });
  const worker = await RondoProcess.worker(
    bench,
    `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    CAPACITY,
  );
  try {
    await sleep(FIRST_CLAIMS_MS);
    requests = 0;
    const cpu = worker.cpuMs();
    bench.progress(`an idle worker for ${ms / 1_000} s`);
    await sleep(ms);
    return {
      idleSeconds: ms / 1_000,
      idleRequests: requests,
      idleRequestsPerMinute: (requests * 60_000) / ms,
      idleWorkerCpuPercent: ((worker.cpuMs() - cpu) * 100) / ms,
    };
  } finally {
    await worker.stop();
    proxy.closeAllConnections();
    proxy.close();
  }
}

/** Workers simulated by protocol requests: as processes they would cost this machine more than the server does. */
async function runWorkers(bench: Bench): Promise<Figures> {
  const ms = bench.isShort ? 3_000 : 60_000;
  const { server, url } = await RondoProcess.server(bench);
  const connection = new HttpConnection({ address: url });
  const stopped = new AbortController();
  setMaxListeners(0, stopped.signal);
  try {
    await sleep(SETTLE_MS);
    const alone = await cpuPercent(server, ms / 5);
    const waits = await Promise.all(
      Array.from({ length: WORKERS }, async (_, n) => {
        const id = await register(connection, `idle-${n}`);
        return () => claimForever(connection, id, stopped.signal);
      }),
    );
    const claims = Promise.all(waits.map((wait) => wait()));
    await sleep(SETTLE_MS);
    bench.progress(`${WORKERS} idle workers for ${ms / 1_000} s`);
    const serverCpuPercent = await cpuPercent(server, ms);
    const peak = server.peakRssMb();
    stopped.abort();
    const rounds = (await claims).reduce((sum, answered) => sum + answered, 0);
    return {
      workers: WORKERS,
      idleSeconds: ms / 1_000,
      serverCpuPercent,
      serverAloneCpuPercent: alone,
      emptyClaims: rounds,
      serverPeakRssMb: peak,
    };
  } finally {
    stopped.abort();
    connection.close();
    await server.stop();
  }
}

async function cpuPercent(server: RondoProcess, ms: number): Promise<number> {
  const before = server.cpuMs();
  const from = performance.now();
  await sleep(ms);
  return ((server.cpuMs() - before) * 100) / (performance.now() - from);
}

async function register(connection: HttpConnection, name: string): Promise<string> {
  const body = JSON.stringify({ name, handlers: [{ use: "idle.work" }], capacity: 10 });
  const answer = await connection.send({ method: "POST", path: "/v1/workers", body });
  if (answer.status >= 300) throw new Error(`a worker was answered with ${answer.status}: ${answer.text}`);
  return (JSON.parse(answer.text) as { worker: string }).worker;
}

/** Claims until it is stopped; returns the number of answered claims. */
async function claimForever(
  connection: HttpConnection,
  worker: string,
  signal: AbortSignal,
): Promise<number> {
  const body = JSON.stringify({ max: 10, waitMs: 60_000 });
  let answered = 0;
  while (!signal.aborted) {
    try {
      const answer = await connection.send({
        method: "POST",
        path: `/v1/workers/${worker}/claim`,
        body,
        signal,
      });
      if (answer.status !== 200)
        throw new Error(`a claim was answered with ${answer.status}: ${answer.text}`);
      answered++;
    } catch (thrown) {
      if (!signal.aborted) throw thrown;
    }
  }
  return answered;
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
