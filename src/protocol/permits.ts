/**
 * What nodes of a cluster say to each other about limits. A limit lives at its home, the owner of the partition that its
 * name falls into. A node may have as many attempts open under it as its quota says; the quotas of all nodes together
 * are never more than the limit, but for attempts that were taken over.
 */

/** A node tells a home what it has of a limit, and what it lacks. It holds no more than this from when it says so. */
export interface PermitAsk {
  readonly name: string;
  /** The limit's value, and the time of the definition that says so: the newest counts. */
  readonly max: number;
  readonly declaredAt: number;
  /** Grows with each word of the node. */
  readonly n: number;
  /** Permits that the node has, in use or not. */
  readonly quota: number;
  /** How many more it could use now. */
  readonly wants: number;
  /** How long an attempt under this limit may go on after its node has gone. */
  readonly silenceMs: number;
  /** How many of its permits are of attempts that have moved on to other nodes; undefined: it does not say. */
  readonly moved?: number | undefined;
  /** The highest priority among those that wait for a permit there; undefined: it does not say. */
  readonly priority?: number | undefined;
  /** It is the limit of a handler or a project: its home stores what nodes may have. */
  readonly isLasting?: boolean | undefined;
}

/** A home tells a node what it has. */
export interface PermitGrant {
  readonly name: string;
  /** The newest word of the node that the home had heard: of a word that came before another was said, nothing holds. */
  readonly n: number;
  readonly quota: number;
  /** Others wait: what is not in use any more is to be given back. */
  readonly isContended: boolean;
}
