/** Type tests of `Stored`: compiled by tsc, never run. */
import type { Stored } from "../../../src/sdk/stored.ts";
import type { Json } from "../../../src/std/json.ts";
import { same, some } from "../../fixtures/sdk/same-type.ts";

interface Tree {
  readonly at: Date;
  readonly children: readonly Tree[];
}
class Money {
  readonly cents = 1n;
  toJSON(): { cents: string; at: Date } {
    return { cents: String(this.cents), at: new Date(0) };
  }
}

export function whatIsJsonStaysAsItIs(): void {
  same<{ a: string; b: (number | null)[] }>()(some<Stored<{ a: string; b: (number | null)[] }>>());
  same<"a" | 1 | true | null>()(some<Stored<"a" | 1 | true | null>>());
  same<Json>()(some<Stored<Json>>());
  same<unknown>()(some<Stored<unknown>>());
  same<readonly [string, number]>()(some<Stored<readonly [string, number]>>());
}

export function nothingIsNullAndAnUndefinedMemberIsOptional(): void {
  same<null>()(some<Stored<void>>());
  same<string | null>()(some<Stored<string | undefined>>());
  same<{ a?: string; b: number }>()(some<Stored<{ a: string | undefined; b: number }>>());
  same<{ a?: string; at: string }>()(some<Stored<{ a?: string; at: Date }>>());
}

export function toJsonIsApplied(): void {
  same<string>()(some<Stored<Date>>());
  same<{ cents: string; at: string }>()(some<Stored<Money>>());
  same<string[]>()(some<Stored<Date[]>>());
  same<[string, number]>()(some<Stored<[Date, number]>>());
  same<Record<string, string>>()(some<Stored<Record<string, Date>>>());
  const [child] = some<Stored<Tree>>().children;
  same<string | undefined>()(child?.children[0]?.at);
}

export function whatIsRefusedIsGone(): void {
  same<{ a: number }>()(
    some<Stored<{ a: number; f(): void; g: () => void; s: symbol; m: Map<string, number> }>>(),
  );
  same<never>()(some<Stored<Map<string, number>>>());
  same<never>()(some<Stored<bigint>>());
  same<never>()(some<Stored<Uint8Array>>());
  same<{ a: string }>()(some<Stored<{ a: string | bigint }>>());
}
