/** Assembles a server over an engine (worker sessions, schedules, API), and closes it. */

import { SUBMISSION_NAMES } from "../commands/submission-definition.ts";
import type { EnginePort } from "../engine/engine-port.ts";
import { awaitNewest, EndOfNewest } from "../engine/newest.ts";
import { PLACE_FORM } from "../engine/signal-place.ts";
import { type ExecutionView, hasEnded } from "../kernel/view.ts";
import { ExpiredDocuments } from "../retention/expired-documents.ts";
import { Retention } from "../retention/retention.ts";
import type { Rondo } from "../rondo/rondo.ts";
import { Schedules } from "../schedule/schedules.ts";
import type { CloseOptions } from "../sdk/handle.ts";
import { defined } from "../std/defined.ts";
import { isRejection, RondoError } from "../std/rejection.ts";
import { toError } from "../std/to-error.ts";
import type { ApiParts } from "./parts.ts";
import { rememberRemote } from "./remote-mark.ts";
import { bindRoutes } from "./route.ts";
import { ApiServer } from "./server.ts";
import { Definitions } from "./services/definitions.ts";
import { KEY_FORM } from "./services/idempotency-keys.ts";
import { SchemaChecker } from "./services/schema-checker.ts";
import { ExecutionStarter } from "./services/start-executions.ts";
import { workerRoutes } from "./worker-protocol/worker-routes.ts";
import { WorkerSessions } from "./worker-protocol/worker-sessions.ts";

/** A node with its HTTP API. */
export interface RondoServer {
  readonly url: string;
  /** The path of the unix socket; null if the store has no directory. */
  readonly socket: string | null;
  readonly rondo: Rondo;
  readonly engine: EnginePort;
  /** Grants no more work to workers. Resolves when all work that no worker has received is handed back. */
  quiesce(): Promise<void>;
  /** Closes gracefully: streams and requests first, then the engine. */
  close(options?: CloseOptions): Promise<void>;
}

export interface ServeParts extends Omit<ApiParts, "definitions" | "starts" | "schedules" | "routes"> {
  readonly heartbeatMs: number;
  readonly leaseMs: number;
  /** How long ended executions are kept; 0 keeps them for ever. */
  readonly retentionMs: number;
  /** How long ids of events are remembered; 7 days by default. */
  readonly eventsKeptMs?: number | undefined;
  /** In a cluster: calls `listener` after executions have moved to another node. */
  readonly onMoved?: (listener: () => void) => () => void;
  /** In a cluster: the URLs of its nodes, which workers get. */
  readonly nodes?: () => readonly string[];
}

/** Returns the view of the newest execution of an id; null if there is none. */
async function viewOf(engine: EnginePort, execution: string): Promise<ExecutionView | null> {
  const found = await awaitNewest(engine, execution);
  if (!isRejection(found)) return found.view;
  if (found.code === "not_found") return null;
  throw new RondoError(found);
}

export async function serveApi(parts: ServeParts): Promise<RondoServer> {
  const { engine, store, clock, random, rondo, heartbeatMs, leaseMs, onFault } = parts;
  const { onMoved, topics } = parts;
  const own = onMoved === undefined ? {} : { isMine: (id: string) => engine.isOwn(id) };
  const schemas = new SchemaChecker({ clock });
  const definitions = new Definitions({ store, schemas, postOps: parts.postOps, topics, clock });
  const starts = new ExecutionStarter({ engine, store, definitions, clock, random, topics });
  const sessions = new WorkerSessions({
    engine,
    store,
    clock,
    random,
    heartbeatMs,
    leaseMs,
    reserved: (topic) => topics.reserved(topic),
    ...(parts.nodes === undefined ? {} : { nodes: parts.nodes }),
    onFault: (fault) => onFault(toError(fault)),
  });
  const unlisten = onMoved?.(() => sessions.nodesChanged());
  const schedules = await Schedules.open({
    clock,
    store,
    check: (request) => starts.check(request),
    start: (request) => starts.start({ ...request, trace: null, isAdmitted: true }),
    isOpen: async (execution) => {
      const view = await viewOf(engine, execution);
      return view !== null && !hasEnded(view);
    },
    exists: async (execution) => (await viewOf(engine, execution)) !== null,
    onEnd: (execution, ended) => {
      const watch = new EndOfNewest(engine, execution, (end) => {
        if (end !== "stopped") ended();
      });
      // The execution may already have been continued by another one, so the newest execution of the id is looked up.
      void watch.inspect();
      return () => watch.stop();
    },
    onFault,
    ...own,
    ...(onMoved === undefined ? {} : { onMoved, random }),
  });
  const retention = new Retention({
    ...own,
    clock,
    store,
    purge: (ids) => engine.purge(ids),
    generated: SUBMISSION_NAMES,
    retentionMs: parts.retentionMs,
    ...defined({ eventsKeptMs: parts.eventsKeptMs }),
    onFault,
  });
  const expired = new ExpiredDocuments({ clock, store, forms: [KEY_FORM, PLACE_FORM], onFault });
  const quiesce = (): Promise<void> => {
    engine.quiesce();
    return sessions.quiesce();
  };
  const end = async (): Promise<void> => {
    unlisten?.();
    await retention.close();
    await expired.close();
    await schedules.close();
    sessions.close();
    await schemas.close();
  };
  try {
    const routes = rememberRemote(bindRoutes(workerRoutes, sessions), store, engine.info);
    let ended: Promise<void> | null = null;
    const api = await ApiServer.open({ ...parts, definitions, starts, schedules, routes });
    const shut = (options: CloseOptions): Promise<void> => {
      ended ??= quiesce()
        .then(() => api.close(options))
        .then(end);
      return ended;
    };
    const url = api.url === "" ? null : api.url;
    // A node of a cluster leaves the cluster before its API ends.
    rondo.attach({ calls: api.calls, url, shut: parts.peers === undefined ? shut : async () => {} });
    return {
      url: api.url,
      socket: api.socket,
      rondo,
      engine,
      quiesce,
      close: (options = {}) => shut(options).then(() => rondo.close(options)),
    };
  } catch (thrown) {
    await end();
    throw thrown;
  }
}
