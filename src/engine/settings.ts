/** Settings of an engine node. */
import { DEFAULTS } from "../kernel/definition/definition.ts";
import { VOCABULARY, type Vocabulary } from "../kernel/journal/replay.ts";

export interface Settings {
  /** How long a remote worker's claim lasts if the attempt does not begin. */
  readonly claimLeaseMs: number;
  /** For how long, after a takeover, tasks are not granted that may still run elsewhere; 0 if all workers were in the ended process. */
  readonly suspectMs: number;
  /** The time without a heartbeat after which an attempt is lost, if its handler defines no heartbeat. */
  readonly heartbeatMs: number;
  /** The time after which a command at a broker that has no receipt is checked first. Later checks are less frequent. */
  readonly checkMs: number;
  /** The most executions in memory that only wait for receipts of a broker. */
  readonly sentMax: number;
  /** If an attempt is open for longer than this, a commit is made for its start. */
  readonly startAfterMs: number;
  /** How often leases are checked for silent attempts. */
  readonly sweepMs: number;
  /** The most executions with work in memory. */
  readonly windowMax: number;
  /** The most idle executions in memory. */
  readonly idleMax: number;
  /** The most commits in progress at a time. Each has other executions: one commit is written while the next is stepped. */
  readonly commitsMax: number;
  /** The most executions in one commit, and then the most messages. */
  readonly commitWritesMax: number;
  readonly commitMessagesMax: number;
  /** The most messages of one execution that are stepped in a turn. Then other executions get their turn. */
  readonly turnMessages: number;
  /** The number of payload characters at which a commit is full. */
  readonly commitCharsMax: number;
  /** The most characters of task pages in memory. */
  readonly pageCacheChars: number;
  /** The number of tasks that a worker gets from one handler before the next handler gets its turn. */
  readonly quantum: number;
  /** How many tasks before they are needed their pages are marked as opened. */
  readonly openTasksAhead: number;
  /** The number of journal rows after which a snapshot is written. After a large snapshot it can be up to 16 times as many. */
  readonly snapshotRows: number;
  /** The number of events after which the journal of a gate is compacted (kernel/relay/gate.ts). */
  readonly gateEventsMax: number;
  /** How far into the future timers are kept in memory. The next field is the most timers in memory. */
  readonly timerHorizonMs: number;
  readonly timersMax: number;
  /** For each project: the most attempts at a time, and the patterns of allowed topics (kernel/command/topic-rules.ts). */
  readonly projects: Readonly<
    Record<string, { readonly concurrency?: number; readonly topics?: readonly string[] }>
  >;
  /** The projects to which tokens are bound when the node is opened. */
  readonly boundProjects: ReadonlySet<string>;
  /** The prefix of Rondo's own names at the broker. No topic may begin with it. */
  readonly prefix: string;
  /** In a cluster: how long a quota server waits, after a node has left, for reports of other nodes that adopted its attempts. */
  readonly takeoverMs: number;
  /** The time after which an unanswered request to a quota server is repeated. */
  readonly permitPatienceMs: number;
  /** How long a permit of one limit is reserved for a task that waits at another limit. */
  readonly permitReserveMs: number;
  /** The most post-operations of one kind (persistence, broadcasts) at a time. The next field is the most for one execution. */
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
