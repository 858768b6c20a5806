/** Why an execution waits, down to the child that holds it up: the engine's sentence names the child, not what that waits for. */

type WhyOf = (id: string) => Promise<string>;

/** A child's id is made of its parent's, so that it is known when it is seen. */
const NAMED_CHILD = /such as (\S+~[0-9a-f]+)\.$/;
/** Children of children nest no deeper. */
const DEPTH_MAX = 16;

/** The sentence; where it names a child, followed by that of the last one down. */
export async function whyChain(id: string, whyOf: WhyOf): Promise<string> {
  const first = await whyOf(id);
  let [child, last] = [NAMED_CHILD.exec(first)?.[1], ""];
  for (let depth = 0; depth < DEPTH_MAX && child !== undefined; depth++) {
    last = await whyOf(child);
    child = NAMED_CHILD.exec(last)?.[1];
  }
  return last === "" ? first : `${first} There: ${last}`;
}
