/** Decoders for the smallest parts of definitions. Definitions, their options and the SDK's builder share them. */
import {
  type Decode,
  decode,
  type Fields,
  isObject,
  KEPT,
  type ObjectOf,
  object,
  show,
  text,
  Undecodable,
  where,
} from "../../std/decode.ts";
import { isRejection, type Rejection } from "../../std/rejection.ts";
import { USE_PATTERN } from "./definition.ts";
import { writtenName } from "./names.ts";

/** Decodes a definition or a part of one. Every rejection has the code `invalid_definition`. */
export function decodeDefinition<T>(read: Decode<T>, data: unknown, path = ""): T | Rejection {
  const found = decode(read, data, { path });
  return isRejection(found) ? { ...found, code: "invalid_definition" } : found;
}

/** Makes an error for a path of a definition, with a reason and a hint. */
export function wrong(path: string, why: string, hint?: string): Undecodable {
  return new Undecodable(why, { path, hint });
}

/** Makes a decoder for objects that may have only fields with these names. `example` shows how the object is written. */
export function known(names: readonly string[], example?: string): Decode<Fields> {
  return (data) => {
    if (!isObject(data))
      throw wrong("", `${show(data)} is not an object`, example && `write it as ${example}`);
    const unknown = Object.keys(data).find((name) => !names.includes(name));
    if (unknown === undefined) return data;
    throw wrong("", `has the unknown field "${unknown.slice(0, 60)}"`, `known are: ${names.join(", ")}`);
  };
}

/** Makes a decoder for objects with these fields and no others. The error about an unknown field names the object, not the field. */
export function strict<const F extends Readonly<Record<string, Decode<unknown>>>>(
  fields: F,
  example?: string,
): Decode<ObjectOf<F>> {
  const checkNames = known(Object.keys(fields), example);
  const read = object(fields, KEPT);
  return (data) => read(checkNames(data));
}

/** Decodes the name of a workflow, phase, handler or signal. */
export const parseName: Decode<string> = writtenName("a name");

/** Decodes the wire name of a handler. */
export const parseUse: Decode<string> = text({
  pattern: USE_PATTERN,
  what: "a handler's name",
  hint: "a letter, then up to 149 letters, digits, dots, _ or -",
});

/** Decodes an object that names a handler's code. */
export const reference = strict({ use: parseUse }, '{ "use": "resize" }');

/** Decodes a text of limited length. */
export const shortText: Decode<string> = text({ min: 1, max: 200 });

/** Decodes a JSON Pointer. */
export const pointer: Decode<string> = where(
  "a JSON Pointer",
  (data) => typeof data === "string" && (data === "" || data.startsWith("/")),
  'write "/customer"',
);
