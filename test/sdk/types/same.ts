/** Exact equality of types, where assignability would let too much pass. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

/** Compiles only if the value's type is exactly `Expected`: `same<string>()(value)`. */
export function same<Expected>() {
  return <Given>(
    _value: Given,
    ..._mismatch: Same<Expected, Given> extends true ? [] : [expected: Expected, given: Given]
  ): void => {};
}

/** A value of a type, for tests that never run. */
export declare function some<T>(): T;
