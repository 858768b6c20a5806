/** The numbers an engine node runs by. */
import { DEFAULTS } from "../kernel/definition/definition.ts";
import { VOCABULARY, type Vocabulary } from "../kernel/journal/replay.ts";

export interface Settings {
  /** How long an unstarted claim of a remote worker lives. */
  readonly claimLeaseMs: number;
  /** How long tasks that may still run elsewhere are left alone after a takeover; 0: only in-process workers existed. */
  readonly suspectMs: number;
  /** The silence after which an attempt is lost, where its handler does not say. */
  readonly heartbeatMs: number;
  /** A command at a broker without a receipt is looked after when it has waited so long, then later each time. */
  readonly checkMs: number;
  /** Executions kept in memory that only wait for receipts out of a broker. */
  readonly sentMax: number;
  /** How often silent attempts are looked for. */
  readonly sweepMs: number;
  /** Executions with work kept in memory. */
  readonly windowMax: number;
  /** Idle executions kept in memory. */
  readonly idleMax: number;
  /** Commits under way at the same time, over different executions: one is written while the next is stepped. */
  readonly commitsMax: number;
  /** Most executions written, and messages stepped, in one commit. */
  readonly commitWritesMax: number;
  readonly commitMessagesMax: number;
  /** Payload characters after which a commit is full. */
  readonly commitCharsMax: number;
  /** Characters of task pages kept in memory. */
  readonly pageCacheChars: number;
  /** Tasks given to a worker from one handler before the next has its turn. */
  readonly quantum: number;
  /** How many tasks ahead of need pages are opened for leases. */
  readonly openTasksAhead: number;
  /** Rows after which a snapshot is written. */
  readonly snapshotRows: number;
  /** How far ahead timers are kept in memory, and how many. */
  readonly timerHorizonMs: number;
  readonly timersMax: number;
  /** By project: attempts at a time, and patterns of the topics that it may use (kernel/command/topic-rules.ts). */
  readonly projects: Readonly<
    Record<string, { readonly concurrency?: number; readonly topics?: readonly string[] }>
  >;
  /** Projects that a token is bound to, when the node is opened. */
  readonly boundProjects: ReadonlySet<string>;
  /** The prefix of Rondo's own names at the broker: no topic begins like this. */
  readonly prefix: string;
  /**
   * In a cluster: how long after a node was seen to have gone the home of a limit waits for those who have its partitions to
   * say which of its attempts they have taken over. More than a lease: a node that cannot say so for that long gives out nothing.
   */
  readonly takeoverMs: number;
  /** When a word to the home of a limit is said again, if it is not answered. */
  readonly permitPatienceMs: number;
  /** How long room under one limit is kept for what waits at another. */
  readonly permitReserveMs: number;
  /** Post-operations of one kind (persistence, broadcasts) under way at a time, and of one execution. */
  readonly postOpsMax: number;
  readonly postOpsEach: number;
  /** Events are published by somebody, who says how far. */
  readonly outbox: boolean;
  /** How long a worker that is asked about a silent attempt may take to vouch for it. */
  readonly askMs: number;
  /** What the node reads. */
  readonly vocabulary: Vocabulary;
}

export const DEFAULT_SETTINGS: Settings = {
  claimLeaseMs: 30_000,
  suspectMs: 0,
  heartbeatMs: DEFAULTS.heartbeatMs,
  checkMs: 300_000,
  sentMax: 512,
  sweepMs: 5_000,
  windowMax: 1_024,
  idleMax: 512,
  commitsMax: 2,
  commitWritesMax: 500,
  commitMessagesMax: 2_000,
  commitCharsMax: 4_194_304,
  pageCacheChars: 4_194_304,
  quantum: 64,
  openTasksAhead: 8_000,
  snapshotRows: 256,
  timerHorizonMs: 60_000,
  timersMax: 10_000,
  projects: {},
  boundProjects: new Set(),
  prefix: "rondo",
  takeoverMs: 15_000,
  permitPatienceMs: 1_000,
  permitReserveMs: 10_000,
  postOpsMax: 128,
  postOpsEach: 8,
  askMs: 3_000,
  outbox: false,
  vocabulary: VOCABULARY,
};
