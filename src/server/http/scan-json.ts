import { type Rejection, reject } from "../../std/rejection.ts";

export interface ScanLimits {
  readonly depthMax: number;
  readonly keysMax: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;

/**
 * Counts nesting and keys in the bytes of a JSON text before anything is built from them; null: within the limits.
 * It does not check that the text is JSON: the parser does.
 */
export function scanJson(bytes: Uint8Array, limits: ScanLimits): Rejection | null {
  let depth = 0;
  let keys = 0;
  for (let i = 0; i < bytes.length; i++) {
    switch (bytes[i]) {
      case QUOTE:
        for (i++; i < bytes.length && bytes[i] !== QUOTE; i++) if (bytes[i] === BACKSLASH) i++;
        break;
      case 0x7b:
      case 0x5b:
        if (++depth > limits.depthMax)
          return reject("too_deep", `the body is nested deeper than ${limits.depthMax} levels`);
        break;
      case 0x7d:
      case 0x5d:
        depth--;
        break;
      case COLON:
        if (++keys > limits.keysMax)
          return reject("too_large", `the body has more than ${limits.keysMax} keys`, {
            hint: "send it in several requests",
          });
        break;
      default:
    }
  }
  return null;
}
