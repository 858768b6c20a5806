/**
 * Messages between nodes of a cluster about limits. The home of a limit is the owner of the partition of its name. A node may
 * have as many open attempts under the limit as its quota. The sum of all quotas never exceeds the limit, except for attempts
 * that were taken over.
 */

/** A node reports to a home how much of a limit it has, and how much it needs. From then on it holds no more than this. */
export interface PermitAsk {
  readonly name: string;
  /** The value of the limit, and the time of the definition that sets it. The newest counts. */
  readonly max: number;
  readonly declaredAt: number;
  /** Grows with each message of the node. */
  readonly n: number;
  /** The permits that the node has, used or not. */
  readonly quota: number;
  /** The number of further permits that it could use now. */
  readonly wants: number;
  /** How long an attempt under this limit may go on after its node is gone. */
  readonly silenceMs: number;
  /** The number of its permits whose attempts have moved to other nodes; undefined: not reported. */
  readonly moved?: number | undefined;
  /** How many of its permits belong to attempts that it adopted from dead nodes; undefined: none, or not reported. */
  readonly adopted?: number | undefined;
  /** The highest priority among the tasks that wait for a permit there; undefined: not reported. */
  readonly priority?: number | undefined;
  /** The limit belongs to a handler or a project, so its home stores the quotas. */
  readonly isLasting?: boolean | undefined;
}

/** A home tells a node its quota. */
export interface PermitGrant {
  readonly name: string;
  /** The newest message of the node that the home had received. The node ignores a grant that answers an older message. */
  readonly n: number;
  readonly quota: number;
  /** Whether other nodes wait, so that the node must return permits that it does not use. */
  readonly isContended: boolean;
}
