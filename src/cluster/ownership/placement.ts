import { assert } from "../../std/assert.ts";
import { hashText } from "../../std/random.ts";

/**
 * Assigns each partition to the node with the highest score (rendezvous hashing). Every version of Rondo must compute the same
 * assignment, or partitions stay without an owner.
 */
export function placement(partitions: number, urls: Iterable<string>): readonly string[] {
  const nodes = [...new Set(urls)].sort();
  assert(nodes.length > 0, "there must be a node to which partitions can be assigned");
  return Array.from({ length: partitions }, (_, partition) => bestFor(partition, nodes));
}

/** Returns the node with the highest score for a partition. If scores are equal, the first node wins. */
function bestFor(partition: number, nodes: readonly string[]): string {
  let best = "";
  let bestScore = -1;
  for (const url of nodes) {
    const score = hashText(`${url} ${partition}`);
    if (score <= bestScore) continue;
    best = url;
    bestScore = score;
  }
  return best;
}
