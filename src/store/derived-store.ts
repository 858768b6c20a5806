/**
 * Helpers that are derived from the store port, so that a new method of the port needs no code in them:
 * 1. `DerivedStore` has every method of the port and passes each call to `answer`.
 * 2. `joinParts` makes one object of the parts of an adapter.
 * 3. `SyncStore` is the type of the port without promises.
 */
import { STORE_METHODS, type StoreMethods } from "./store.ts";

export type StoreMethod = keyof StoreMethods;

/** The store port of a synchronous store: methods return values instead of promises. */
export type SyncStore = {
  [M in StoreMethod]: (...args: Parameters<StoreMethods[M]>) => Awaited<ReturnType<StoreMethods[M]>>;
};

type Answer = (...args: readonly unknown[]) => unknown;

/** The base class behind `DerivedStore`. */
export abstract class StoreFacade {
  /** Answers a call of a method that the adapter does not define itself. */
  protected abstract answer(method: StoreMethod, args: readonly unknown[]): unknown;

  static {
    for (const method of STORE_METHODS) {
      const value = async function (this: StoreFacade, ...args: unknown[]): Promise<unknown> {
        return this.answer(method, args);
      };
      Object.defineProperty(StoreFacade.prototype, method, { value, configurable: true, writable: true });
    }
  }
}

/** A store whose methods call `answer`. An adapter overrides the methods that need more than that. */
export const DerivedStore = StoreFacade as abstract new () => StoreFacade & StoreMethods;

type Joined<Parts extends readonly object[]> = Parts extends readonly [
  infer First,
  ...infer Rest extends object[],
]
  ? First & Joined<Rest>
  : unknown;

/** Joins the parts of an adapter into one object with all their methods of the store port. `around` wraps every call. */
export function joinParts<const Parts extends readonly object[]>(
  parts: Parts,
  around: <T>(run: () => T) => T = (run) => run(),
): Joined<Parts> {
  const joined: Partial<Record<StoreMethod, Answer>> = {};
  for (const part of parts)
    for (const method of STORE_METHODS) {
      const answer = (part as Partial<Record<StoreMethod, Answer>>)[method];
      if (answer !== undefined) joined[method] = (...args) => around(() => Reflect.apply(answer, part, args));
    }
  return joined as Joined<Parts>;
}

export function callMethod(parts: object, method: StoreMethod, args: readonly unknown[]): unknown {
  return Reflect.apply((parts as Record<StoreMethod, Answer>)[method], parts, args);
}
