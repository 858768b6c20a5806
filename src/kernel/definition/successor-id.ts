/** Ids of executions that follow one another under an id of a user. This is apart from names.ts, which browsers load. */
import { sha256 } from "../../std/hash.ts";
import { byteLength } from "../../std/json.ts";
import { cutToBytes, ENGINE_MARK, NAME_BYTES_MAX } from "./names.ts";

/** The bytes of a long id that the ids of its successors begin with. */
const SUCCESSOR_BYTES = 150;

/**
 * The id of the n-th execution of a user's id: the id itself, then `ID~2`, `ID~3`. No user's id has a `~`, so another execution
 * never has such an id. If it would be too long, a hash replaces the end of the user's id.
 */
export function successorId(id: string, n: number): string {
  if (n === 1) return id;
  const whole = `${id}${ENGINE_MARK}${n}`;
  if (byteLength(whole) <= NAME_BYTES_MAX) return whole;
  const begin = cutToBytes(id, SUCCESSOR_BYTES);
  return `${begin}${ENGINE_MARK}${sha256(id).slice(0, 24)}${ENGINE_MARK}${n}`;
}
