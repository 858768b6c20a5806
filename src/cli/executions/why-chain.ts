/** Explains why an execution waits. If the reason is a child execution, explains why the child waits. */

type WhyOf = (id: string) => Promise<string>;

/** Matches the id of a child execution in an explanation: its parent's id, `~` and a hash. */
const NAMED_CHILD = /such as (\S+~[0-9a-f]+)\.$/;
/** The most levels of children that are followed. */
const DEPTH_MAX = 16;

/**
 * Returns the sentence that explains why an execution waits. If the sentence names a child, the explanation of the last child in the
 * chain follows.
 */
export async function whyChain(id: string, whyOf: WhyOf): Promise<string> {
  const first = await whyOf(id);
  let [child, last] = [NAMED_CHILD.exec(first)?.[1], ""];
  for (let depth = 0; depth < DEPTH_MAX && child !== undefined; depth++) {
    last = await whyOf(child);
    child = NAMED_CHILD.exec(last)?.[1];
  }
  return last === "" ? first : `${first} There: ${last}`;
}
