/**
 * Opens the parts of the demo except the workers: the server with its page, the proxy before it, and the receiver of
 * broadcasts.
 */
import { join, resolve } from "node:path";
import { RemoteRondo } from "../../src/client/connect.ts";
import { openServer, type ServerOptions } from "../../src/compose/compose-server.ts";
import type { RondoServer } from "../../src/server/serve.ts";
import { RondoError } from "../../src/std/rejection.ts";
import { AuditWatch } from "./audit-watch.ts";
import { demoExtension } from "./demo-routes.ts";
import { BadNetwork } from "./harm/bad-network.ts";
import { WorkerCrew } from "./harm/worker-crew.ts";
import type { DemoOptions } from "./options.ts";
import { Deliveries } from "./parts/deliveries.ts";
import { NEWS_PROJECT } from "./parts/news.ts";
import { Receiver } from "./receiver.ts";
import { Stage } from "./stage.ts";

/** The parts of the demo. */
export interface Demo {
  readonly options: DemoOptions;
  readonly server: RondoServer;
  readonly client: RemoteRondo;
  readonly receiver: Receiver;
  readonly network: BadNetwork;
  readonly audits: AuditWatch;
  readonly stage: Stage;
  readonly deliveries: Deliveries;
  /** Starts the workers; resolves when the first of them serves. */
  hire(): Promise<void>;
  close(grace?: { readonly graceMs: number }): Promise<void>;
}

const PORT = 7_777;
const WORKERS = 3;
/** A short silence, so that tasks of a killed or frozen worker go to other workers while the user watches. */
const SILENCE_MS = 3_000;

/** Opens the demo. */
export async function openDemo(options: DemoOptions, onNews: (text: string) => void): Promise<Demo> {
  const directory = options.store.startsWith("file:") ? resolve(options.store.slice(5)) : null;
  const beside = (name: string): string | null => (directory === null ? null : join(directory, name));
  let stage: Stage | null = null;
  const receiver = await Receiver.open(beside("received.jsonl"));
  let server: RondoServer;
  try {
    server = await openAtPort(options.port, {
      store: options.store,
      heartbeatMs: SILENCE_MS,
      settings: { claimLeaseMs: 2 * SILENCE_MS, sweepMs: 500 },
      allowTargets: [receiver.target],
      webhookSecrets: [receiver.secret],
      extension: demoExtension(() => stage as Stage),
      onFault: tellOnce((text) => (stage === null ? onNews(text) : stage.report(text))),
    });
  } catch (thrown) {
    receiver.close();
    throw thrown;
  }
  receiver.remember();
  const network = await BadNetwork.open(server.url);
  const client = new RemoteRondo({ url: server.url });
  const audits = new AuditWatch(client);
  const isStaying = !options.isExiting;
  stage = new Stage({ network, receiver, audits, project: NEWS_PROJECT, isStaying, onNews });
  return demoOf({ options, server, client, receiver, network, audits, stage }, beside("deliveries"));
}

function demoOf(parts: Omit<Demo, "deliveries" | "hire" | "close">, file: string | null): Demo {
  const { server, network, receiver, audits, stage } = parts;
  return {
    ...parts,
    deliveries: new Deliveries(file),
    hire() {
      const onNews = (text: string): void => void stage.report(text);
      const onThaw = (): void => stage.harmed();
      stage.crew = new WorkerCrew({ url: network.url, size: WORKERS, deliveries: file, onNews, onThaw });
      return stage.crew.ready;
    },
    async close(grace) {
      audits.stop();
      await server.close(grace);
      await stage.crew?.close();
      network.close();
      receiver.close();
    },
  };
}

/** Opens the server at the given port; otherwise at the default port, or at any free one if that is taken. */
async function openAtPort(asked: number | null, options: ServerOptions): Promise<RondoServer> {
  if (asked !== null) return openServer({ ...options, port: asked });
  try {
    return await openServer({ ...options, port: PORT });
  } catch (thrown) {
    const cause = thrown instanceof RondoError ? (thrown.cause as { code?: unknown } | undefined) : undefined;
    if (cause?.code !== "EADDRINUSE") throw thrown;
    return openServer({ ...options, port: 0 });
  }
}

/** Reports each fault once, although faults repeat until they are fixed. */
function tellOnce(tell: (text: string) => void): (fault: Error) => void {
  const told = new Set<string>();
  return ({ message }) => {
    if (told.has(message)) return;
    told.add(message);
    tell(message);
  };
}
