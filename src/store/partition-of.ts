import { hashText } from "../std/random.ts";

/** Where an execution lives, by its id: the same on every node and for ever. */
export function partitionOf(execution: string, partitions: number): number {
  return partitions === 1 ? 0 : hashText(execution) % partitions;
}
