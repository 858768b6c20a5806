/**
 * A node of a cluster: engine, ownership of partitions, ring, and routes for other nodes. The caller serves `routes` at the
 * node's URL before `start`.
 */
import { Engine } from "../engine/driver.ts";
import type { ClusterOutput, EngineOptions } from "../engine/driver-options.ts";
import { membersOf } from "../engine/limits/quota-exchange.ts";
import type { Settings } from "../engine/settings.ts";
import type { Clock } from "../std/clock.ts";
import { defined } from "../std/defined.ts";
import type { Random } from "../std/random.ts";
import { isRejection, RondoError, reject } from "../std/rejection.ts";
import type { ClusterStore, Membership } from "../store/cluster-store.ts";
import { ClusterEngine } from "./cluster-engine.ts";
import { OwnershipDriver } from "./ownership/ownership-driver.ts";
import { type OwnershipView, settingsForLease } from "./ownership/ownership-io.ts";
import { MailPoster } from "./peers/mail-poster.ts";
import { NodeCheck } from "./peers/node-check.ts";
import { Owners } from "./peers/owners.ts";
import { PeerClient } from "./peers/peer-client.ts";
import { PeerKey } from "./peers/peer-key.ts";
import { checkMail, checkPermits, checkTimers, type PermitsBody } from "./peers/peer-notices.ts";
import { type PeerHook, PeerRoutes } from "./peers/peer-routes.ts";
import type { RingView } from "./ring/io.ts";
import { RingDriver } from "./ring/ring-driver.ts";
import type { RingSettings } from "./ring/settings.ts";

/** How long the node that serves a limit waits for reports about adopted attempts, as a multiple of a node's lease. */
const TAKEOVER_LEASES = 1.5;

export interface ClusterNodeOptions extends Pick<EngineOptions, "settings" | "postOps"> {
  readonly store: ClusterStore;
  /** The URL at which other nodes reach this one. It is also the node's name. */
  readonly url: string;
  /** The length of the node's lease, if it differs from the default. */
  readonly leaseMs?: number;
  readonly ring?: Partial<RingSettings>;
  /** The shared secret of all nodes; null to use the key in the store. */
  readonly secret: string | null;
  readonly clock: Clock;
  readonly random: Random;
  readonly onFault: (fault: Error) => void;
  readonly onStop: (reason: Error) => void;
}

export interface ClusterView {
  readonly ring: RingView;
  readonly ownership: OwnershipView;
}

export class ClusterNode {
  readonly url: string;
  readonly engine: ClusterEngine;
  readonly routes: PeerRoutes;
  readonly owners: Owners;
  /** The token with which the worker inside this node authenticates at the other nodes. */
  readonly workerToken: string;
  /** Called before the partitions are handed over. The function must be quick. */
  beforeLeave: (() => Promise<void>) | null = null;
  /** Called while the partitions are handed over. */
  onLeave: (() => Promise<void>) | null = null;
  readonly #local: Engine;
  readonly #key: PeerKey;
  readonly #onStop: (reason: Error) => void;
  #check: NodeCheck | null = null;
  /** Why the last renewal of the node's lease failed. */
  #storeFault: Error | null = null;
  readonly #client: PeerClient;
  readonly #ownership: OwnershipDriver;
  readonly #ring: RingDriver;
  readonly #mail: MailPoster;
  #answer: (question: unknown) => Promise<unknown> = async () => reject("not_ready", "the node is starting");

  private constructor(options: ClusterNodeOptions, local: Engine) {
    const { store, url, secret, clock, random, onFault, onStop } = options;
    const { info } = local;
    this.url = url;
    this.#local = local;
    const key = new PeerKey(secret, info);
    this.#key = key;
    this.#onStop = onStop;
    this.workerToken = key.workerToken;
    this.owners = new Owners({
      url,
      partitions: info.partitions,
      refresh: () => this.#ownership.refresh(),
    });
    this.#client = new PeerClient({ url, key, onFault });
    this.#ring = new RingDriver({
      url,
      client: this.#client,
      store,
      clock,
      readMembers: () => this.#ownership.refresh(),
      scanMail: () => local.cluster.notify({ kind: "mail-stored" }),
      timersDue: (timers) => local.cluster.notify({ kind: "timers-due", timers }),
      onFault,
      ...defined({ settings: options.ring }),
    });
    this.#mail = new MailPoster({
      owners: this.owners,
      client: this.#client,
      scan: () => local.cluster.notify({ kind: "mail-stored" }),
      hint: (partition) => this.#ring.input({ kind: "hint", partition, count: 1 }),
    });
    this.engine = new ClusterEngine({
      engine: local,
      owners: this.owners,
      client: this.#client,
      clock,
      random,
      storeFault: () => this.#storeFault,
      ...defined({ leaseMs: options.leaseMs }),
      beforeClose: () => this.#leave(),
    });
    this.routes = new PeerRoutes({
      engine: local,
      store,
      owners: this.owners,
      key,
      clock,
      onFault,
      hooks: { ...this.#ring.hooks, ...this.#hooks() },
    });
    this.#ownership = new OwnershipDriver({
      store,
      clock,
      random,
      engine: {
        taken: (owned) => this.#taken(owned),
        yield: (partitions) => this.#yield(partitions),
        lost: (partitions) => this.#lost(partitions),
      },
      onMembership: (membership) => this.#renewed(membership),
      onMail: () => local.cluster.notify({ kind: "mail-stored" }),
      onFault: (fault) => {
        this.#storeFault = fault;
        onFault(fault);
      },
      onStop,
      ...(options.leaseMs === undefined ? {} : { settings: settingsForLease(options.leaseMs) }),
    });
  }

  /** Opens the store and the engine. The node owns no partition yet. */
  static async open(options: ClusterNodeOptions): Promise<ClusterNode> {
    const { store, clock, leaseMs, postOps, onFault, onStop } = options;
    const settings: Partial<Settings> = {
      ...(leaseMs === undefined ? {} : { takeoverMs: leaseMs * TAKEOVER_LEASES }),
      ...options.settings,
    };
    let node: ClusterNode | null = null;
    const local = await Engine.open({
      store,
      clock,
      onFault,
      onStop,
      settings,
      ...defined({ postOps }),
      onCluster: (output) => {
        if (node !== null) node.#onOutput(output);
      },
      mayAct: () => node === null || node.#ownership.mayAct(),
    });
    node = new ClusterNode(options, local);
    const { generation } = local.info;
    const { check } = node.#key;
    const isRefusedBy = (url: string): Promise<boolean> => node.#client.isRefusedBy(url);
    const { url } = options;
    node.#check = await NodeCheck.open({ store, generation, url, check, isRefusedBy, onFault });
    return node;
  }

  /** What the server uses to ask the other nodes, to answer their questions, and to make requests at the owner of an execution. */
  get others(): {
    ask<T>(question: unknown): Promise<readonly { readonly url: string; readonly facts: T | null }[]>;
    serve(answer: (question: unknown) => Promise<unknown>): void;
    atOwner: ClusterEngine["atOwner"];
  } {
    return {
      atOwner: (execution, request) => this.engine.atOwner(execution, request),
      ask: (question) =>
        Promise.all(
          this.owners.peers.map(async ({ url }) => {
            const answer = await this.#client.call<never>(url, "overview", question, { timeoutMs: 2_000 });
            return { url, facts: answer.kind === "answered" ? answer.value : null };
          }),
        ),
      serve: (answer) => {
        this.#answer = answer;
      },
    };
  }

  start(): void {
    this.#ownership.start();
  }

  view(): ClusterView {
    return { ring: this.#ring.view(), ownership: this.#ownership.view() };
  }

  async #taken(owned: Parameters<Owners["taken"]>[0]): Promise<void> {
    await this.#local.cluster.taken(owned);
    this.owners.taken(owned);
    this.#updateRing();
  }

  async #yield(partitions: readonly number[]): Promise<boolean> {
    const isClean = await this.#local.cluster.yield(partitions);
    this.owners.lost(partitions);
    this.#updateRing();
    return isClean;
  }

  #lost(partitions: readonly number[]): void {
    this.#local.cluster.notify({ kind: "lost", partitions });
    this.owners.lost(partitions);
    this.#updateRing();
  }

  /** Informs the ring about the partitions of this node. */
  #updateRing(): void {
    const partitions = this.#ownership.view().owned.map(({ partition }) => partition);
    this.#ring.input({ kind: "owned", partitions });
  }

  #renewed(membership: Membership): void {
    this.#storeFault = null;
    const wrong = this.#check?.check(membership) ?? null;
    if (wrong !== null) return this.#onStop(new RondoError(reject("conflict", wrong)));
    this.owners.update(membership);
    this.#ring.input({ kind: "members", membership });
    this.#local.cluster.notify({ kind: "members", ...membersOf(membership) });
    // Mail may have been stored for this node while it had no hint about it, so its mailbox is scanned.
    this.#local.cluster.notify({ kind: "mail-stored" });
  }

  /** Sends the engine's messages to other nodes. If a message is lost, the engine sends it again. */
  #onOutput(output: ClusterOutput): void {
    switch (output.kind) {
      case "fenced":
        return this.#ownership.fenced(output.partitions);
      case "unreadable":
        return this.#ownership.unreadable(output.partition);
      case "ask-permits": {
        const { partition, asks, declares } = output;
        const owner = this.owners.ownerAt(partition);
        const node = this.#ownership.view().incarnation;
        // A node without a lease has no incarnation, so it does not ask for permits.
        if (node === null) return;
        const body: PermitsBody = {
          kind: "asks",
          node,
          asks: [...asks],
          declares: declares === true ? [partition] : [],
        };
        if (owner.kind === "peer") this.#send(owner.url, "permits", body);
        return;
      }
      case "grant-permits":
        return this.#sendToNode(output.node, { kind: "grants", grants: [...output.grants] });
      case "call-permits":
        return this.#sendToNode(output.node, { kind: "calls", partitions: [...output.partitions] });
      case "timers-changed":
        if (output.set.length > 0) this.#ring.input({ kind: "timers-set", timers: output.set });
        if (output.ended.length > 0) this.#ring.input({ kind: "timers-ended", timers: output.ended });
        return;
      case "mail-sent":
        return this.#mail.stored(output.partitions);
    }
  }

  #sendToNode(incarnation: string, body: PermitsBody): void {
    const peer = this.owners.peers.find((one) => one.incarnation === incarnation);
    if (peer !== undefined) this.#send(peer.url, "permits", body);
  }

  #send(url: string, name: string, body: unknown): void {
    void this.#client.call(url, name, body, { timeoutMs: 5_000 });
  }

  #hooks(): Readonly<Record<string, PeerHook>> {
    return {
      overview: (body) => this.#answer(body),
      permits: (body) => {
        const notice = checkPermits(body);
        if (isRejection(notice)) return notice;
        const { cluster } = this.#local;
        if (notice.kind === "asks") cluster.notify({ ...notice, kind: "permits-asked" });
        else if (notice.kind === "grants") cluster.notify({ kind: "permits-granted", grants: notice.grants });
        else cluster.notify({ kind: "permits-called", partitions: notice.partitions });
        return {};
      },
      mail: (body) => {
        const notice = checkMail(body);
        if (isRejection(notice)) return notice;
        const isOwn = notice.partitions.some((partition) => this.owners.ownerAt(partition).kind === "me");
        // After this refusal the sender puts a hint about the mail on the ring's token.
        if (!isOwn) return reject("not_owner", "this node owns none of the partitions in the notice");
        this.#local.cluster.notify({ kind: "mail-stored" });
        return {};
      },
      "timer-due": (body) => {
        const notice = checkTimers(body);
        if (isRejection(notice)) return notice;
        this.#local.cluster.notify({ kind: "timers-due", timers: notice.timers });
        return {};
      },
    };
  }

  /** Hands over all partitions and leaves the cluster, without waiting for open requests of clients. */
  async #leave(): Promise<void> {
    await this.beforeLeave?.();
    const served = this.onLeave?.();
    await this.#ownership.leave();
    this.engine.hasLeft();
    this.#ring.stop();
    this.routes.close();
    await served;
    this.#client.close();
  }
}
