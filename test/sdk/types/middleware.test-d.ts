/** Type tests: fields that middleware adds, and handlers that are shared or wrapped. Compiled by tsc, never run. */
import {
  type Handler,
  type HandlerSpec,
  handler,
  handlerFor,
  type Middleware,
  type TaskContext,
  workflow,
} from "rondo";
import { same, some } from "../../fixtures/sdk/same-type.ts";

declare module "rondo" {
  interface ContextExtensions {
    /** Declared by this test only. */
    readonly tenantOfTypeTest?: { readonly id: string };
  }
}

const tenant: Middleware<{ readonly tenantOfTypeTest: { readonly id: string } }> = (context, next) => {
  same<"enumerate" | "process" | "compensate" | "next" | "returns" | "step">()(context.kind);
  return next({ tenantOfTypeTest: { id: "acme" } });
};

const extended = workflow<{ n: number }>({ name: "extended", use: [tenant] })
  .phase("a", {
    *enumerate({ input, tenantOfTypeTest }) {
      yield { n: input.n, tenant: tenantOfTypeTest?.id };
    },
    process: ({ task, tenantOfTypeTest }) => `${task.n} ${tenantOfTypeTest?.id}`,
  })
  .returns(({ phases, tenantOfTypeTest }) => [phases.a.count, tenantOfTypeTest?.id ?? null] as const);
same<readonly [number, string | null]>()(some<NonNullable<(typeof extended)["~types"]>["output"]>());

// A handler for several workflows, by the type of its input: the result is inferred.
const length = handlerFor<{ email: string }>()({ process: ({ task }) => task.email.length });
same<Handler<{ email: string }, unknown, number, true>>()(length);
workflow<{ email: string; other: boolean }>({ name: "one" })
  .phase("length", length)
  .returns(async ({ phases }) => {
    same<number>()(await phases.length.only());
    return null;
  });

// A wrapper of a spec keeps its types, inside of handler().
function traced<Input, Phases, Item, Result>(
  spec: HandlerSpec<Input, Phases, Item, Result>,
): HandlerSpec<Input, Phases, Item, Result> {
  return spec;
}
workflow<{ n: number }>({ name: "two" })
  .phase("a", { both: handler(traced(handlerSpec())) })
  .returns(() => null);
function handlerSpec(): HandlerSpec<{ n: number }, unknown, { x: number }, string> {
  return { enumerate: ({ input }) => [{ x: input.n }], process: ({ task }) => String(task.x) };
}

// A wrapper of `process` gets the type of its context.
function timed<C, R>(run: (context: C) => R): (context: C) => R {
  return (context) => run(context);
}
workflow<{ n: number }>({ name: "three" })
  .phase("a", {
    enumerate: ({ input }) => [{ x: input.n }],
    process: timed(({ task }: TaskContext<{ x: number }, { n: number }, unknown>) => task.x),
  })
  .returns(async ({ phases }) => {
    same<number>()(await phases.a.reduce((a, b) => a + b, 0));
    return null;
  });
