import { hashText } from "../std/random.ts";

/** Returns the partition of an execution, which is computed from its id. The result is the same on every node and in every version. */
export function partitionOf(execution: string, partitions: number): number {
  return partitions === 1 ? 0 : hashText(execution) % partitions;
}
