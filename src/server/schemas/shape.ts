/** Types of JSON, inferred from the schemas of the API. The client, the CLI and the dashboard import them as types only. */
import type { z } from "@hono/zod-openapi";

/** The type of a JSON body as clients read it. */
export type Shape<S extends z.ZodType> = ReadOnly<z.output<S>>;

/** The type of a JSON body as the server may send it: a loose object can have fields that its schema does not name. */
export type Sent<S extends z.ZodType> = Named<z.output<S>>;

type ReadOnly<T> = T extends readonly (infer Item)[]
  ? readonly ReadOnly<Item>[]
  : T extends object
    ? { readonly [K in keyof T]: ReadOnly<T[K]> }
    : T;

type Named<T> = T extends readonly (infer Item)[]
  ? readonly Named<Item>[]
  : T extends object
    ? { readonly [K in keyof T as string extends K ? (unknown extends T[K] ? never : K) : K]: Named<T[K]> }
    : T;
