/**
 * Preloaded into the survivors of a soak. On SIGUSR2 it collects the garbage of the process and its threads, and writes the memory
 * in use to the file that HEAP_PROBE names.
 */
import { renameSync, writeFileSync } from "node:fs";
import { Session } from "node:inspector";
import { isMainThread } from "node:worker_threads";

const THREADS_MS = 2_000;

if (isMainThread && process.env.HEAP_PROBE !== undefined) process.on("SIGUSR2", () => void probe());

async function probe() {
  const session = new Session();
  session.connect();
  try {
    const post = (method, params) =>
      new Promise((resolve, reject) =>
        session.post(method, params, (error, result) => (error === null ? resolve(result) : reject(error))),
      );
    const threads = await threadHeaps(session, post);
    // A second collection frees objects whose finalisers ran after the first.
    await post("HeapProfiler.collectGarbage");
    await new Promise((resolve) => setImmediate(resolve));
    await post("HeapProfiler.collectGarbage");
    const { heapUsed, external } = process.memoryUsage();
    const file = process.env.HEAP_PROBE;
    writeFileSync(`${file}.tmp`, JSON.stringify({ heapUsed, external, threads }));
    renameSync(`${file}.tmp`, file);
  } finally {
    session.disconnect();
  }
}

/** The heaps of all threads, after their garbage was collected. */
async function threadHeaps(session, post) {
  const ids = [];
  const answers = new Map();
  session.on("NodeWorker.attachedToWorker", ({ params }) => ids.push(params.sessionId));
  session.on("NodeWorker.receivedMessageFromWorker", ({ params }) => {
    const { id, result } = JSON.parse(params.message);
    answers.get(`${params.sessionId}/${id}`)?.(result);
  });
  await post("NodeWorker.enable", { waitForDebuggerOnStart: false });
  await new Promise((resolve) => setImmediate(resolve));
  const ask = (sessionId, id, method) =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`a thread does not answer to ${method}`)), THREADS_MS);
      answers.set(`${sessionId}/${id}`, (result) => {
        clearTimeout(timer);
        resolve(result);
      });
      const message = JSON.stringify({ id, method });
      post("NodeWorker.sendMessageToWorker", { sessionId, message }).catch(reject);
    });
  const heaps = await Promise.all(
    ids.map(async (sessionId) => {
      await ask(sessionId, 1, "HeapProfiler.collectGarbage");
      const { usedSize } = await ask(sessionId, 2, "Runtime.getHeapUsage");
      return usedSize;
    }),
  );
  await post("NodeWorker.disable");
  return heaps;
}
