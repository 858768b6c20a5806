/** Settings of the ring. */
export interface RingSettings {
  /** The number of nodes that watch the timers of each node, including that node. */
  readonly clockworkers: number;
  /** The shortest time between two sendings of the token while nothing is new. */
  readonly idleCycleMs: number;
  /** The shortest time between two sendings of the token while something is new. */
  readonly busyCycleMs: number;
  /**
   * After this time without a token, the first node of the ring makes a new one. Each further node waits this much longer than the one
   * before.
   */
  readonly lostMs: number;
  readonly lostStaggerMs: number;
  /** The time limit of posting the token to another node. */
  readonly postMs: number;
  readonly askMs: number;
  /** How long a node that did not answer is skipped. */
  readonly suspectMs: number;
  /** The most timers in one message. If there are more, a flag tells the watching nodes to scan the store. */
  readonly messageTimersMax: number;
  /** How far into the future timers of other nodes are watched, and how many at most. */
  readonly horizonMs: number;
  readonly timersMax: number;
  /** How often watched timers are read again, and the shortest time between two reads. */
  readonly rescanMs: number;
  readonly rescanMinMs: number;
  /** How long an overdue timer is left to its owner before the owner is notified, and how long until it is notified again. */
  readonly graceMs: number;
  readonly repeatMs: number;
  /** The most timers in one notice to an owner, and the time between two notices. */
  readonly dueMax: number;
  readonly dueEveryMs: number;
  /** The shortest time between two reads of the members from the store that the ring requests. */
  readonly readMembersMs: number;
  /** In this time before its lease ends, a node takes no hints out of the token, because clocks differ. */
  readonly leaseSlackMs: number;
}

export const DEFAULT_RING_SETTINGS: RingSettings = {
  clockworkers: 2,
  idleCycleMs: 1_000,
  busyCycleMs: 100,
  lostMs: 4_000,
  lostStaggerMs: 500,
  postMs: 1_000,
  askMs: 1_000,
  suspectMs: 5_000,
  messageTimersMax: 1_000,
  horizonMs: 60_000,
  timersMax: 10_000,
  rescanMs: 60_000,
  rescanMinMs: 5_000,
  graceMs: 2_000,
  repeatMs: 5_000,
  dueMax: 100,
  dueEveryMs: 100,
  readMembersMs: 1_000,
  leaseSlackMs: 1_000,
};
