import { hashText } from "../std/random.ts";

/** The partition of an execution, from its id: the same on every node and in every version. */
export function partitionOf(execution: string, partitions: number): number {
  return partitions === 1 ? 0 : hashText(execution) % partitions;
}
