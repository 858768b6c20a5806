/**
 * Messages between nodes of a cluster about limits. The home of a limit is the node that owns the partition of the limit's
 * name. A node may have as many open attempts under the limit as its quota. The sum of all quotas never exceeds the limit,
 * except for attempts that were taken over.
 */

/**
 * A node's report to the home of a limit: how many permits it has, and how many it needs. After this report, the node holds no
 * more permits than it reported.
 */
export interface PermitAsk {
  readonly name: string;
  /** The value of the limit, and the time of the definition that sets it. The newest counts. */
  readonly max: number;
  readonly declaredAt: number;
  /** The number of the message, which grows with each message of the node. */
  readonly n: number;
  /** The permits that the node has, used or not. */
  readonly quota: number;
  /** How many more permits the node could use now. */
  readonly wants: number;
  /** How long an attempt under this limit may go on after its node has ended. */
  readonly silenceMs: number;
  /** The number of the node's permits whose attempts have moved to other nodes; undefined if it is not reported. */
  readonly moved?: number | undefined;
  /**
   * The number of the node's permits for attempts that it adopted from dead nodes; undefined if there are none, or if it is not
   * reported.
   */
  readonly adopted?: number | undefined;
  /** The highest priority among the tasks that wait for a permit at the node; undefined if it is not reported. */
  readonly priority?: number | undefined;
  /** Whether the limit belongs to a handler or a project, so that its home stores the quotas. */
  readonly isLasting?: boolean | undefined;
}

/** The home's message that tells a node its quota. */
export interface PermitGrant {
  readonly name: string;
  /**
   * The number of the newest message of the node that the home had received. The node ignores a grant that answers an older
   * message.
   */
  readonly n: number;
  readonly quota: number;
  /** Whether other nodes wait, so that the node must return permits that it does not use. */
  readonly isContended: boolean;
}
