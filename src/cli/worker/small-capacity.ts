/** Batches that a worker cannot do in full, since it takes fewer tasks at a time. */

interface Batched {
  readonly phases?: readonly {
    readonly name: string;
    readonly handlers?: Readonly<Record<string, { readonly use?: string; readonly batch?: number }>>;
  }[];
}

/** A line for each handler whose `batch` is over the worker's capacity. */
export function smallCapacityLines(
  workflows: readonly { readonly definition: unknown }[],
  capacity: number,
): string[] {
  return workflows.flatMap(({ definition }) =>
    ((definition as Batched).phases ?? []).flatMap(({ name, handlers = {} }) =>
      Object.entries(handlers).flatMap(([handler, { use = `${name}/${handler}`, batch = 1 }]) =>
        batch <= capacity
          ? []
          : [
              `${use} asks for batches of ${batch}, and this worker takes ${capacity} tasks at a time: its batches have at most ${capacity} (--capacity ${batch} makes room)`,
            ],
      ),
    ),
  );
}
