import { contentHash } from "../../std/canonical-json.ts";
import type { Json } from "../../std/json.ts";
import type { Definition } from "./definition.ts";

/** The hash that identifies a definition. Apart from the definition itself, since hashing needs Node and browsers read definitions too. */
export function definitionHash(definition: Definition): string {
  return contentHash(definition as unknown as Json);
}
