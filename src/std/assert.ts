/** A broken invariant: nobody catches it, the process stops and ownership moves on. */
export class Bug extends Error {
  override name = "Bug";
}

/** Throws a `Bug` unless the invariant holds. For our own invariants only, never for input. */
export function assert(holds: unknown, invariant: string): asserts holds {
  if (!holds) throw new Bug(`invariant broken: ${invariant}`);
}

/** Marks a branch that the types say is impossible. */
export function unreachable(value: never): never {
  throw new Bug(`unreachable: ${JSON.stringify(value)}`);
}
