/** The numbers a ring runs by. */
export interface RingSettings {
  /** Nodes that watch each executor's timers, itself among them. */
  readonly clockworkers: number;
  /** A node sends the token on no sooner than this after it last did, with nothing to carry. */
  readonly idleCycleMs: number;
  /** The same while there is something new to carry. */
  readonly busyCycleMs: number;
  /** Without a token for so long, it is made anew: by the first in order, the next ones each so much later. */
  readonly lostMs: number;
  readonly lostStaggerMs: number;
  /** How long a peer may take to answer. */
  readonly postMs: number;
  readonly askMs: number;
  /** How long a peer that did not answer is skipped before it is tried again. */
  readonly suspectMs: number;
  /** New or ended timers in one parcel; more become a flag to scan. */
  readonly messageTimersMax: number;
  /** How far ahead timers are watched, and how many. */
  readonly horizonMs: number;
  readonly timersMax: number;
  /** How often watched timers are read again, and how soon after the last reading at the earliest. */
  readonly rescanMs: number;
  readonly rescanMinMs: number;
  /** How long past its due time a timer is left to its owner, and when the owner is told once more. */
  readonly graceMs: number;
  readonly repeatMs: number;
  /** Timers told at a time, and the time between two such tellings. */
  readonly dueMax: number;
  readonly dueEveryMs: number;
  /** How often at most the store is asked for the members because of what the ring noticed. */
  readonly readMembersMs: number;
  /** How long before its lease ends a node takes no hints any more: clocks may differ by so much. */
  readonly leaseSlackMs: number;
}

/** What a ring runs by unless told otherwise. */
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
