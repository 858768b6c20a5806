/** The HTTP server: listens on TCP and on the directory's socket, and closes gracefully. */
import { rmSync } from "node:fs";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { getRequestListener } from "@hono/node-server";
import { HostCheck, isLoopback } from "../net/hosts.ts";
import type { Clock } from "../std/clock.ts";
import { isRejection, RondoError, reject } from "../std/rejection.ts";
import { toError } from "../std/to-error.ts";
import { EventSender } from "../triggers/send-event.ts";
import { TargetSender } from "./alerts/alert-sender.ts";
import { Alerts } from "./alerts/alerts.ts";
import { Access, type Via } from "./auth/access.ts";
import { EndedSessions } from "./auth/ended-sessions.ts";
import { RateLimit } from "./auth/rate-limit.ts";
import { Tokens } from "./auth/tokens.ts";
import { type App, buildApp, WaitingRequests } from "./http/app.ts";
import { Cors } from "./http/cors.ts";
import { endIdle, listenSocket, listenTcp, makeServer, urlOf } from "./http/listen.ts";
import { LocalCalls } from "./http/local-calls.ts";
import { openApiDocument } from "./http/openapi.ts";
import { PageFiles } from "./http/page-files.ts";
import { PROBLEM_TYPE, problemOf, type Refusal } from "./http/problem.ts";
import { dropBody } from "./http/read-body.ts";
import { toOriginForm } from "./http/request-target.ts";
import { cutIfUnread, sendAnswer, sendProblem } from "./http/send-answer.ts";
import { MessageRequests } from "./message-requests.ts";
import { AllNodes, mergeOverviews } from "./other-nodes.ts";
import { type ApiLimits, type ApiParts, DEFAULT_API_LIMITS, type PeerPort } from "./parts.ts";
import { bindRoutes, type Route } from "./route.ts";
import { ROUTES } from "./route-table.ts";
import type { Services } from "./routes/services.ts";
import { AuditLog } from "./services/audit-log.ts";
import { DeadLetterGroups } from "./services/dead-letter-groups.ts";
import { EndedViews } from "./services/ended-views.ts";
import { IdempotencyKeys } from "./services/idempotency-keys.ts";
import { PausedQueues } from "./services/paused-queues.ts";
import { TokenSightings } from "./services/token-sightings.ts";
import { WorkflowFigures } from "./services/workflow-figures.ts";
import { FeedHub } from "./streams/feed-hub.ts";
import { LaneIndex } from "./views/lanes.ts";
import { TaskIndexes } from "./views/task-indexes.ts";

const ADMIN_TOKEN_CHARS_MIN = 16;
/** How often idle connections are closed while the server closes. */
const IDLE_MS = 50;
/** Health checks, which are answered under any host name and reveal nothing. */
const PROBES: readonly string[] = ["/healthz", "/readyz"];

export class ApiServer {
  /** Answers requests of this process. */
  readonly calls: LocalCalls;
  readonly #parts: ApiParts;
  readonly #limits: ApiLimits;
  readonly #app: App;
  readonly #hostCheck: HostCheck;
  readonly #cors: Cors;
  readonly #hub: FeedHub;
  readonly #audit: AuditLog;
  readonly #figures: WorkflowFigures;
  readonly #alerts: Alerts;
  readonly #keys: IdempotencyKeys;
  readonly #pages: PageFiles;
  readonly #access: Pick<Services, "tokens" | "endedSessions" | "pausedQueues">;
  /** Requests that wait. They are answered when the server closes. */
  readonly #waiting = new WaitingRequests();
  readonly #servers: Server[] = [];
  readonly #serveRequests: () => void;
  #stopRequests: () => Promise<void> = async () => {};
  #isClosing = false;
  #url = "";
  #socket: string | null = null;

  private constructor(parts: ApiParts, opened: Pick<Services, "tokens" | "endedSessions" | "pausedQueues">) {
    const { tokens, endedSessions, pausedQueues } = opened;
    const { clock, store, engine, metrics, config, onFault, random } = parts;
    this.#access = opened;
    const limits = { ...DEFAULT_API_LIMITS, ...config.limits };
    this.#parts = parts;
    this.#limits = limits;
    this.#hostCheck = new HostCheck(config);
    this.#cors = new Cors(config.cors);
    this.#hub = new FeedHub({
      clock,
      metrics,
      limits,
      onFault,
      isKnown: (token) => tokens.get(token) !== null,
    });
    this.#audit = new AuditLog({ store, clock, random, onFault });
    this.#figures = new WorkflowFigures({
      ...{ store, clock, onFault, isPeriodic: isReached(config) },
      take: () => engine.takeFigures(),
    });
    this.#keys = new IdempotencyKeys({ store, clock, onFault, isShared: isShared(parts) });
    this.#pages = new PageFiles(config.pages, parts.extension?.pages);
    const allNodes = new AllNodes(parts, parts.routes);
    let document: ReturnType<typeof openApiDocument> | null = null;
    const views = new EndedViews(engine, store);
    const deadLetterGroups = new DeadLetterGroups(store);
    this.#alerts = this.#openAlerts({ views, deadLetterGroups, allNodes });
    const services: Services = {
      ...parts,
      tokens,
      endedSessions,
      pausedQueues,
      audit: this.#audit,
      hub: this.#hub,
      tasks: new TaskIndexes(store),
      lanes: new LaneIndex(),
      views,
      deadLetterGroups,
      tokenSightings: new TokenSightings(allNodes),
      figures: this.#figures,
      alerts: this.#alerts,
      events: new EventSender({ ...parts, newest: (workflow) => parts.starts.triggered(workflow) }),
      alertTargets: parts.alerts.targets,
      allNodes,
      isClosing: () => this.#isClosing,
      url: () => this.#url,
      callsOf: (caller) => this.calls.as(caller),
      document: () =>
        (document ??= openApiDocument(this.#app as never, { version: config.version, url: this.#url })),
    };
    const routes = [
      ...bindRoutes(ROUTES, services),
      ...allNodes.routes(),
      ...(parts.extension?.routes ?? []),
    ];
    const access = new Access({
      tokens,
      endedSessions,
      clock,
      key: engine.info.key,
      nodeToken: parts.nodeToken,
      isLocal: isLoopback(config.host),
    });
    this.calls = this.#callsOver(routes, access);
    this.#app = buildApp({
      routes,
      access,
      rateLimit: new RateLimit(clock, limits.requestsPerSecond),
      audit: this.#audit,
      keys: this.#keys,
      metrics,
      clock,
      limits,
      onFault,
      storeFault: () => engine.commitFault,
      waiting: this.#waiting,
    });
    metrics.watchEngine(() => engine.overview());
    this.#watchTokens(tokens);
    const { broker } = parts;
    if (broker) metrics.watchBroker(() => broker.view);
    const { brokerRequests: mode } = config;
    this.#serveRequests = () => {
      if (broker && mode !== "off")
        this.#stopRequests = broker.serveRequests(new MessageRequests(services, mode));
    };
  }

  #watchTokens(tokens: Tokens): void {
    const { topics, engine } = this.#parts;
    tokens.onRevoked = (token) => {
      this.#hub.cut(token);
      this.#waiting.end(token);
    };
    tokens.onBound = (projects) => {
      topics.bind(projects);
      engine.bindProjects(projects);
    };
  }

  #callsOver(routes: readonly Route[], access: Access): LocalCalls {
    return new LocalCalls({
      routes,
      audit: this.#audit,
      refuse: (caller, route, execution) => access.allow(caller, route, execution),
      throwIfClosing: () => {
        if (this.#isClosing) throw new RondoError(reject("not_ready", "Rondo is closing"));
      },
    });
  }

  /** Opens the server. It refuses to listen on an address that other machines can reach while there is no token. */
  static async open(parts: ApiParts): Promise<ApiServer> {
    const { config, store, clock, random, onFault } = parts;
    const { adminToken, host } = config;
    if (adminToken !== null && adminToken.length < ADMIN_TOKEN_CHARS_MIN)
      throw new RondoError(
        reject("invalid_input", `RONDO_ADMIN_TOKEN has fewer than ${ADMIN_TOKEN_CHARS_MIN} characters`, {
          path: "adminToken",
          hint: "make one with: openssl rand -hex 32",
        }),
      );
    const shared = { isShared: isShared(parts), onFault };
    const tokens = await Tokens.open({ store, clock, random, adminToken, ...shared });
    if (!isLoopback(host) && !tokens.any) {
      tokens.close();
      throw new RondoError(
        reject("forbidden", `listening on ${host} without a token would let every client in`, {
          path: "host",
          hint: "set RONDO_ADMIN_TOKEN, or make a token first with `rondo token create --role admin`, which needs no server",
        }),
      );
    }
    const endedSessions = await EndedSessions.open({ store, clock, ...shared });
    const pausedQueues = await PausedQueues.open({
      ...{ store, clock, ...shared },
      apply: (paused) => parts.engine.pauseQueues(paused),
    });
    const server = new ApiServer(parts, { tokens, endedSessions, pausedQueues });
    try {
      await server.#listen();
      server.#serveRequests();
    } catch (thrown) {
      await server.close({ graceMs: 0 });
      throw thrown;
    }
    return server;
  }

  /** The TCP address of the server; the path of its socket if it does not listen on TCP. */
  get url(): string {
    return this.#url;
  }

  /** The path of the unix socket; null if the server has none. */
  get socket(): string | null {
    return this.#socket;
  }

  /** Accepts no new requests and lets open requests finish within the grace time. The engine stays open. */
  async close(options: { readonly graceMs?: number } = {}): Promise<void> {
    if (this.#isClosing) return;
    this.#isClosing = true;
    await this.#stopRequests();
    this.#access.tokens.close();
    this.#access.endedSessions.close();
    this.#access.pausedQueues.close();
    this.#waiting.end();
    await this.#hub.close();
    const closed = this.#servers.map((server) => closeServer(server, this.#parts.clock));
    const cancel = this.#parts.clock.after(options.graceMs ?? 10_000, () => {
      for (const server of this.#servers) server.closeAllConnections();
    });
    await Promise.all(closed);
    cancel();
    if (this.#socket !== null) rmSync(this.#socket, { force: true });
    await this.#audit.close();
    await this.#figures.close();
    await this.#alerts.close();
    await this.#keys.close();
    this.#parts.metrics.close();
  }

  #openAlerts({
    views,
    deadLetterGroups,
    allNodes,
  }: Pick<Services, "views" | "deadLetterGroups" | "allNodes">): Alerts {
    const { store, clock, config, onFault, ring, alerts } = this.#parts;
    const { guard, secrets, targets, rules } = alerts;
    return new Alerts({
      ...{ store, clock, rules, onFault, isPeriodic: isReached(config) },
      sender: new TargetSender({
        ...{ targets, clock },
        broadcast: { guard, secrets, clock, version: config.version },
        url: () => config.advertise ?? this.#url,
      }),
      failed: async (id) => {
        const found = await views.inspect(id);
        if (isRejection(found) || found.view.status !== "failed" || found.view.finishedAt === null)
          return null;
        const { workflow, project, finishedAt, error } = found.view;
        return { id, workflow, project, finishedAt, error: error?.message ?? null };
      },
      groups: async () => (await deadLetterGroups.list({})).groups,
      queues: async () => {
        const { nodes } = await allNodes.ask({});
        const { ready } = mergeOverviews(nodes.map(({ overview }) => overview));
        return ready.flatMap(({ use, tasks, since }) => (since === undefined ? [] : [{ use, tasks, since }]));
      },
      ring: () => ring?.() ?? null,
    });
  }

  async #listen(): Promise<void> {
    const { config, announce, onFault } = this.#parts;
    const { host, directory } = config;
    if (config.port !== null) {
      const tcp = makeServer(this.#limits, this.#listener("tcp"));
      this.#servers.push(tcp);
      this.#url = urlOf(host, await listenTcp(tcp, host, config.port));
    }
    if (directory !== null) {
      const local = makeServer(this.#limits, this.#listener("socket"));
      this.#servers.push(local);
      this.#socket = await listenSocket(local, directory);
      if (this.#socket === null && config.port !== null)
        onFault(new Error(`the path of ${directory} is too long for a socket in it; use ${this.#url}`));
      if (config.port === null) this.#url = `unix:${this.#socket ?? ""}`;
    }
    await announce?.(this.#url);
  }

  #listener(via: Via): (incoming: IncomingMessage, outgoing: ServerResponse) => void {
    const listen = getRequestListener(
      (request, { incoming, outgoing }) =>
        this.#app.fetch(request, {
          incoming: incoming as IncomingMessage,
          outgoing: outgoing as ServerResponse,
          via,
        }),
      {
        // The process may belong to a user's program, so Hono must not replace global objects.
        overrideGlobalObjects: false,
        autoCleanupIncoming: false,
        errorHandler: (thrown) => this.#unreadable(thrown),
      },
    );
    return (incoming, outgoing) => {
      toOriginForm(incoming);
      const refusal = this.#refuse(incoming, via);
      if (refusal === null && via === "tcp" && this.#cors.answer(incoming, outgoing)) return;
      const { peers } = this.#parts;
      if (refusal === null && peers !== undefined && incoming.url?.startsWith(peers.path) === true) {
        this.#answerPeer(peers, incoming, outgoing).catch((thrown: unknown) => this.#fault(thrown));
        return;
      }
      if (refusal === null && this.#pages.answer(incoming, outgoing)) return;
      if (refusal === null) {
        listen(incoming, outgoing).catch((thrown: unknown) => this.#fault(thrown));
        return;
      }
      sendProblem(outgoing, refusal, this.#isClosing ? { connection: "close" } : {});
      dropBody(incoming);
      cutIfUnread(outgoing, { clock: this.#parts.clock, stallMs: this.#limits.streamStallMs });
    };
  }

  /**
   * Handles a request of another node. Nodes authenticate by signatures; client metrics and rate limits do not apply to them.
   */
  async #answerPeer(peers: PeerPort, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const answer = await peers.answer(incoming, outgoing);
    dropBody(incoming);
    if (answer.kind === "json") sendAnswer(outgoing, answer, undefined);
    else if (answer.kind === "rejection") sendProblem(outgoing, answer);
  }

  #refuse({ headers, rawHeaders, socket, url }: IncomingMessage, via: Via): Refusal | null {
    if (this.#isClosing) return reject("not_ready", "the server is closing");
    // A request with two Host headers is refused: a proxy may have checked the other header.
    if (rawHeaders.filter((text, i) => i % 2 === 0 && text.toLowerCase() === "host").length > 1)
      return { code: "bad_request", message: "a request has one Host header" } as const;
    if (via === "socket" || PROBES.includes(url ?? "")) return null;
    return this.#hostCheck.check(headers, socket.localAddress, (origin) => this.#cors.allows(origin, url));
  }

  /** The answer to a request line without a valid URL. */
  #unreadable(thrown: unknown): Response {
    const isTheirs = thrown instanceof Error && thrown.name === "RequestError";
    if (!isTheirs) this.#fault(thrown);
    const problem = problemOf(
      isTheirs
        ? { code: "bad_request", message: "the address of the request cannot be read" }
        : { code: "internal", message: "the server failed to answer" },
    );
    return new Response(JSON.stringify(problem), {
      status: problem.status,
      headers: { "content-type": PROBLEM_TYPE },
    });
  }

  #fault(thrown: unknown): void {
    this.#parts.onFault(toError(thrown));
  }
}

/** Whether clients can reach the server. A program's own API has no address, and nothing happens in its background. */
function isReached({ port, directory }: ApiParts["config"]): boolean {
  return port !== null || directory !== null;
}

/** Whether other nodes use the same store: an embedded store has a single partition, a shared one has more. */
function isShared({ engine }: ApiParts): boolean {
  return engine.info.partitions > 1;
}

function closeServer(server: Server, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    let cancel = (): void => {};
    // The check repeats, because a connection becomes idle only after its last answer is written.
    const look = (): void => {
      endIdle(server);
      cancel = clock.after(IDLE_MS, look);
    };
    look();
    // A server that never listened counts as closed already.
    server.close(() => {
      cancel();
      resolve();
    });
  });
}
