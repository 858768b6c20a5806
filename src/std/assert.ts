/** The error for a broken invariant. No code catches it: the process stops, and another node takes over its partitions. */
export class Bug extends Error {
  override name = "Bug";
}

/** Throws a `Bug` unless the invariant holds. For our own invariants only, never for input. */
export function assert(holds: unknown, invariant: string): asserts holds {
  if (!holds) throw new Bug(`invariant broken: ${invariant}`);
}

/** Throws for a branch that cannot be reached according to its types. */
export function unreachable(value: never): never {
  throw new Bug(`unreachable: ${JSON.stringify(value)}`);
}
