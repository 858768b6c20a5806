/** Ids of executions that continue one another under an id of a user. They are not in names.ts, because browsers load that file. */
import { sha256 } from "../../std/hash.ts";
import { byteLength } from "../../std/json.ts";
import { cutToBytes, ENGINE_MARK, NAME_BYTES_MAX } from "./names.ts";

/** If the id of a user is long, the ids of its successors begin with this many bytes of it. */
const SUCCESSOR_BYTES = 150;

/**
 * Returns the id of the n-th execution of a user's id: the id itself, then `ID~2`, `ID~3`. Users' ids cannot contain a `~`, so no
 * other execution has such an id. If the result were too long, a hash replaces the end of the user's id.
 */
export function successorId(id: string, n: number): string {
  if (n === 1) return id;
  const whole = `${id}${ENGINE_MARK}${n}`;
  if (byteLength(whole) <= NAME_BYTES_MAX) return whole;
  const begin = cutToBytes(id, SUCCESSOR_BYTES);
  return `${begin}${ENGINE_MARK}${sha256(id).slice(0, 24)}${ENGINE_MARK}${n}`;
}
