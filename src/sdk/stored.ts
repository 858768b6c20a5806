import type { Json } from "../std/json.ts";

/**
 * The type of a value after it was stored and read back: `toJSON` is applied, undefined becomes null, and a member that may be
 * undefined is optional. Values that cannot be stored (functions, symbols, BigInt, Map, Set, bytes) are `never`, and members of
 * such types are removed.
 */
export type Stored<T> = 0 extends 1 & T
  ? T
  : unknown extends T
    ? T
    : T extends Json
      ? T
      : T extends undefined | void
        ? null
        : T extends Refused
          ? never
          : T extends { toJSON(key?: never): infer Replaced }
            ? Stored<Replaced>
            : T extends readonly unknown[]
              ? { [Index in keyof T]: Stored<Exclude<T[Index], undefined>> }
              : T extends object
                ? StoredObject<T>
                : T;

type Refused =
  | ((...given: never) => unknown)
  | (abstract new (
      ...given: never
    ) => unknown)
  | symbol
  | bigint
  | ReadonlyMap<unknown, unknown>
  | ReadonlySet<unknown>
  | ArrayBufferLike
  | ArrayBufferView;

type StoredObject<T> = Flat<
  { [Key in keyof T as KeptKey<T, Key, "required">]: Stored<T[Key]> } & {
    [Key in keyof T as KeptKey<T, Key, "optional">]?: Stored<Exclude<T[Key], undefined>>;
  }
>;

type Flat<T> = { [Key in keyof T]: T[Key] };

type KeptKey<T, Key extends keyof T, Wanted extends "required" | "optional"> = Key extends symbol
  ? never
  : unknown extends T[Key]
    ? Wanted extends "optional"
      ? Key
      : never
    : [Exclude<T[Key], Refused | undefined>] extends [never]
      ? never
      : undefined extends T[Key]
        ? Wanted extends "optional"
          ? Key
          : never
        : Wanted extends "required"
          ? Key
          : never;
