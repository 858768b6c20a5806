/** Settings of an engine node. */
import { DEFAULTS } from "../kernel/definition/definition.ts";
import { VOCABULARY, type Vocabulary } from "../kernel/journal/replay.ts";

export interface Settings {
  /** How long a claim of a remote worker that was not begun lasts. */
  readonly claimLeaseMs: number;
  /** How long tasks that may still run elsewhere are left alone after a takeover; 0 if all workers were in the process. */
  readonly suspectMs: number;
  /** The silence after which an attempt is lost, if its handler has no heartbeat. */
  readonly heartbeatMs: number;
  /** When a command at a broker without a receipt is checked for the first time; later checks are less frequent. */
  readonly checkMs: number;
  /** The most executions in memory that only wait for receipts of a broker. */
  readonly sentMax: number;
  /** The start of an attempt that is open for longer than this is journaled on its own. */
  readonly startAfterMs: number;
  /** How often silent attempts are swept. */
  readonly sweepMs: number;
  /** The most executions with work in memory. */
  readonly windowMax: number;
  /** The most idle executions in memory. */
  readonly idleMax: number;
  /** The most commits in progress, of different executions: one is written while the next is stepped. */
  readonly commitsMax: number;
  /** The most executions and messages in one commit. */
  readonly commitWritesMax: number;
  readonly commitMessagesMax: number;
  /** The most messages of one execution in a turn; then other executions get their turn. */
  readonly turnMessages: number;
  /** The number of payload characters at which a commit is full. */
  readonly commitCharsMax: number;
  /** The most characters of task pages in memory. */
  readonly pageCacheChars: number;
  /** The number of tasks that a worker gets from one handler before the next handler gets its turn. */
  readonly quantum: number;
  /** How many tasks in advance pages are opened. */
  readonly openTasksAhead: number;
  /** The number of rows after which a snapshot is written. */
  readonly snapshotRows: number;
  /** The number of events after which the journal of a gate is compacted (kernel/relay/gate.ts). */
  readonly gateEventsMax: number;
  /** How far into the future timers are kept in memory, and how many. */
  readonly timerHorizonMs: number;
  readonly timersMax: number;
  /** By project: the most attempts at a time, and patterns of allowed topics (kernel/command/topic-rules.ts). */
  readonly projects: Readonly<
    Record<string, { readonly concurrency?: number; readonly topics?: readonly string[] }>
  >;
  /** Projects that tokens are bound to, when the node is opened. */
  readonly boundProjects: ReadonlySet<string>;
  /** The prefix of Rondo's own names at the broker. No topic may begin with it. */
  readonly prefix: string;
  /** In a cluster: how long the quota server of a node that has left waits for reports of adopted attempts. */
  readonly takeoverMs: number;
  /** When an unanswered request to a quota server is repeated. */
  readonly permitPatienceMs: number;
  /** How long a permit of one limit is reserved for a task that waits at another limit. */
  readonly permitReserveMs: number;
  /** The most post-operations of one kind (persistence, broadcasts) at a time, and the most of one execution. */
  readonly postOpsMax: number;
  readonly postOpsEach: number;
  /** Whether events are published and the publisher reports its progress. */
  readonly outbox: boolean;
  /** How long a worker may take to answer about a silent attempt. */
  readonly askMs: number;
  /** The versions of events and snapshots that the node reads. */
  readonly vocabulary: Vocabulary;
}

export const DEFAULT_SETTINGS: Settings = {
  claimLeaseMs: 30_000,
  suspectMs: 0,
  heartbeatMs: DEFAULTS.heartbeatMs,
  checkMs: 300_000,
  sentMax: 512,
  startAfterMs: 250,
  sweepMs: 5_000,
  windowMax: 1_024,
  idleMax: 512,
  commitsMax: 2,
  commitWritesMax: 256,
  commitMessagesMax: 2_000,
  turnMessages: 256,
  commitCharsMax: 4_194_304,
  pageCacheChars: 4_194_304,
  quantum: 64,
  openTasksAhead: 8_000,
  snapshotRows: 256,
  gateEventsMax: 1_000,
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
